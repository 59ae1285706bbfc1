#!/usr/bin/env python3
"""Prints the predicted kernel-class shares of one training step beside those of recorded steps.

usage: kineto_shares.py TRACECAST NETWORK GPU BATCH TRACE.json.gz...

A trace is a PyTorch profiler (Kineto) JSON file with ProfilerStep marks, of the same network, GPU and batch, fp32
training in PyTorch. Time is GPU kernel time per step (sum of kernel durations; copies and idle left out). Ends with
exit code 1 when the predicted kernel time is further than 25 % from the range that the traces span.
"""
import collections
import gzip
import json
import subprocess
import sys

# First match wins; words of cuDNN's, cuBLAS's and PyTorch's kernel names in lower case. A GEMM kernel in a
# convolutional network serves a convolution, except for the last layer's, which is three small kernels a step.
CLASSES = [
    ("copy", ("memcpy", "memset", "copy_device")),
    ("convolution", ("winograd", "scudnn", "convolve", "dgrad", "wgrad", "cgemm", "fft", "gemm", "implicit_con",
                     "cudnn::ops::scalepacked", "nchwtonhwc", "nhwctonchw")),
    ("normalization", ("bn_fw", "bn_bw", "batch_norm")),
    ("pooling", ("pool",)),
    ("softmax", ("softmax", "nll_loss")),
    ("optimizer", ("multi_tensor",)),
    ("reduction", ("reduce",)),
    ("elementwise", ("elementwise", "distribution")),
]


def classify(name):
    low = name.lower()
    return next((label for label, words in CLASSES if any(word in low for word in words)), "other")


def recorded(path):
    """Milliseconds per step by class."""
    with gzip.open(path) as stream:
        events = [e for e in json.load(stream)["traceEvents"] if e.get("ph") == "X"]
    steps = {e["name"] for e in events if e["name"].startswith("ProfilerStep")}
    if not steps:
        sys.exit(f"{path}: found no ProfilerStep marks; expected a trace of whole steps")
    times = collections.Counter()
    for event in events:
        if event.get("cat", "").lower() == "kernel":
            times[classify(event["name"])] += event["dur"] / 1e3 / len(steps)
    return times


def predicted(binary, network, gpu, batch):
    command = [binary, "predict", network, "--gpu", gpu, "--batch", batch, "--phase", "train", "--framework",
               "pytorch", "--format", "json"]
    answer = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    times = collections.Counter()
    for row in answer["breakdown"]:
        times[row["class"]] += row["time_s"] * 1e3
    # In a trace the last layer's products and the optimizer's eager kernels cannot be told from others.
    times["convolution"] += times.pop("gemm", 0) + times.pop("transpose", 0)
    for class_name in ("idle", "copy", "memset"):
        times.pop(class_name, None)
    return times


def main():
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    binary, network, gpu, batch, *traces = sys.argv[1:]
    columns = [("predicted", predicted(binary, network, gpu, batch))]
    columns += [(f"trace {i + 1}", recorded(path)) for i, path in enumerate(traces)]
    for _, times in columns:
        # PyTorch's eager optimizer is made of the same elementwise kernels as everything else.
        times["elementwise+optimizer"] = times.pop("elementwise", 0) + times.pop("optimizer", 0)
        times.pop("copy", None)
    for i, path in enumerate(traces):
        print(f"trace {i + 1}: {path.rsplit('/', 1)[-1]}")
    totals = [sum(times.values()) for _, times in columns]
    print(f"{'class':24s}" + "".join(f"{label:>20s}" for label, _ in columns))
    for name in sorted({n for _, t in columns for n in t}, key=lambda n: -columns[0][1][n]):
        print(f"{name:24s}" + "".join(f"{t[name]:11.2f} ms {t[name] / total:5.1%}" for (_, t), total in zip(columns, totals)))
    print(f"{'kernel time':24s}" + "".join(f"{total:11.2f} ms {'':5s} " for total in totals))
    low, high = min(totals[1:]), max(totals[1:])
    error = totals[0] / low - 1 if totals[0] < low else totals[0] / high - 1 if totals[0] > high else 0.0
    print(f"predicted kernel time is {error:+.1%} from the recorded range {low:.1f} to {high:.1f} ms")
    return 1 if abs(error) > 0.25 else 0


if __name__ == "__main__":
    sys.exit(main())
