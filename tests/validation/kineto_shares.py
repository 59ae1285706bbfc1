#!/usr/bin/env python3
"""Prints the predicted kernel-class shares and GPU-busy share of a training step beside those of recorded steps.

usage: kineto_shares.py TRACECAST NETWORK GPU BATCH TRACE.json.gz...

A trace is a PyTorch profiler (Kineto) JSON file with ProfilerStep marks, of the same network, GPU and batch, fp32
training in PyTorch. Time is GPU kernel time per step (sum of kernel durations; copies and idle left out).

Busy share: kernel time over step time. Recorded: `trace replay --as-recorded --without-input`, in which loading takes no
time. Predicted twice: as it is, and on a host that is as slow as the recorded one, since a profiler (with stacks above
all) makes every op several times as dear: the host times of forward pass, backward pass and optimizer are read from the
trace (calls that wait for the GPU or for room in its queue left out) and set with --set framework.*. When copies from
pageable memory held the host in the recorded steps, the host waits for the GPU in each step and then as long as they took.

Ends with exit code 1 when the predicted kernel time is further than 25 % from the range that the traces span, or a class
share or the busy share on the recorded host is more than 5 points off a trace.
"""
import collections
import gzip
import json
import pathlib
import re
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


ROOT = pathlib.Path(__file__).resolve().parents[2]
POINTS = 0.05
BLOCKED_US = 20  # a runtime call of this length waits


def load(path):
    with gzip.open(path) as stream:
        return [e for e in json.load(stream)["traceEvents"] if e.get("ph") == "X"]


def is_of(event, *categories):
    return event.get("cat", "").lower() in categories


def recorded(path, events):
    """Milliseconds per step by class."""
    steps = {e["name"] for e in events if e["name"].startswith("ProfilerStep")}
    if not steps:
        sys.exit(f"{path}: found no ProfilerStep marks; expected a trace of whole steps")
    times = collections.Counter()
    for event in events:
        if event.get("cat", "").lower() == "kernel":
            times[classify(event["name"])] += event["dur"] / 1e3 / len(steps)
    return times


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def predict(binary, network, gpu, batch, *more):
    return run(binary, "predict", network, "--gpu", gpu, "--batch", batch, "--phase", "train", "--framework", "pytorch",
               *more)


def busy_share(report):
    step = report["step_time_s"]["value"]
    kernels = sum(row["time_s"] for row in report["breakdown"] if row["class"] not in ("idle", "copy"))
    return min(kernels / step, 1.0), step * 1e3


def recorded_busy(binary, path):
    report = json.loads(run(binary, "trace", "replay", path, "--as-recorded", "--without-input", "--format", "json"))
    step = report["predicted_step_s"]
    return report["predicted_busy_s"] / len(report["steps"]) / step, step * 1e3


def host_time(events, begin, end, threads):
    """Microseconds of a window less the calls of these threads that wait in it."""
    waits = sum(e["dur"] for e in events if is_of(e, "runtime", "cuda_runtime") and e["tid"] in threads and
                begin <= e["ts"] < end and e["dur"] > BLOCKED_US)
    return end - begin - waits


def recorded_host(events):
    """Median host microseconds of (forward, backward, optimizer) in a step, and those of copies that hold the host."""
    ops = [e for e in events if is_of(e, "operator", "cpu_op")]
    rows, waits = [], []
    for step in (e for e in events if e["name"].startswith("ProfilerStep") and not is_of(e, "gpu_user_annotation")):
        begin, end, main = step["ts"], step["ts"] + step["dur"], step["tid"]
        inside = [e for e in events if begin <= e["ts"] < end and not is_of(e, "kernel")]
        loaded = [e["ts"] + e["dur"] for e in inside if e["tid"] == main and
                  ("DataLoader" in e["name"] or e["name"] == "aten::to" and e["dur"] > 1000)]
        gradients = [e for e in ops if begin <= e["ts"] < end and e["tid"] != main]
        marks = [e for e in inside if e["name"].startswith("Optimizer.") and not is_of(e, "gpu_user_annotation")]
        if not gradients or not marks:
            continue
        first = min(e["ts"] for e in gradients)
        last = max(e["ts"] + e["dur"] for e in gradients)
        zeroing = sum(e["dur"] for e in marks if e["ts"] < first)
        threads = {main} | {e["tid"] for e in gradients}
        rows.append((host_time(events, max(loaded, default=begin), first, threads) - zeroing,
                     host_time(events, first, last, threads),
                     sum(host_time(events, e["ts"], e["ts"] + e["dur"], threads) for e in marks)))
        waits.append(sum(e["dur"] for e in inside if is_of(e, "memcpy", "gpu_memcpy") and "Pageable -> Device" in e["name"]))
    if not rows:
        return None, 0.0
    return [sorted(column)[len(rows) // 2] for column in zip(*rows)], sorted(waits)[len(rows) // 2]


def host_settings(binary, network, gpu, batch, host, waits):
    """--set flags that give the predicted host these microseconds of (forward, backward, optimizer)."""
    passes, current = {"forward": 0, "backward": 1, "update": 2}, 0
    ops, dispatch, kernels = [0] * 3, [0.0] * 3, [0] * 3
    launch = 0.0
    for line in predict(binary, network, gpu, batch, "--dump", "program").splitlines():
        words = line.split()
        if words[:1] == ["step_overhead"]:
            launch = float(words[3])
        if words[:1] == ["dispatch"]:
            current = next(i for word, i in passes.items() if words[-1].startswith(word))
            ops[current] += 1
            dispatch[current] += float(words[1])
        if words[:1] == ["kernel"]:
            kernels[current] += 1
    print(f"  host, ms: forward {host[0] / 1e3:.1f}, backward {host[1] / 1e3:.1f}, optimizer {host[2] / 1e3:.1f} recorded; "
          + ", ".join(f"{(d + k * launch) / 1e3:.1f}" for d, k in zip(dispatch, kernels)) + " by default; "
          + (f"waits for the GPU and copies for {waits / 1e3:.1f} ms" if waits > 0 else "never waits for the GPU"))
    names = ("dispatch_us", "backward_dispatch_us", "optimizer_dispatch_us")
    # What an op that calls a library costs more grows like the rest: it is several ops within one another, and a profiler
    # makes each of them dearer.
    slower = (host[0] + host[1] - (kernels[0] + kernels[1]) * launch) / (dispatch[0] + dispatch[1])
    flags = ["--set", f"framework.library_call_us={max(slower, 1) * host_cost('dispatch_per_library_call_us'):.3f}"]
    cheapest = [host_cost(f"dispatch_per_{op}_us") for op in ("op", "backward_op", "optimizer_op")]  # calls no library
    for i, name in enumerate(names):
        least = min((dispatch[i] + 1e-9) / ops[i], cheapest[i])
        more = (dispatch[i] - ops[i] * least) * max(slower, 1)
        flags += ["--set", f"framework.{name}={max((host[i] - more - kernels[i] * launch) / ops[i], 0):.3f}"]
    if waits > 0:  # for the input, which is copied from pageable memory
        flags += ["--set", "framework.synchronizes_each_step=1", "--set", f"framework.step_overhead_us={waits:.3f}"]
    return flags


def host_cost(name):
    """Microseconds of profile pytorch."""
    text = (ROOT / "hwspecs/framework/pytorch.textproto").read_text()
    return float(re.search(rf"^{name} {{ value: ([0-9.]+)", text, re.MULTILINE)[1])



def predicted(report):
    times = collections.Counter()
    for row in report["breakdown"]:
        times[row["class"]] += row["time_s"] * 1e3
    # In a trace the last layer's GEMMs and the optimizer's eager kernels cannot be told from others.
    times["convolution"] += times.pop("gemm", 0) + times.pop("transpose", 0)
    for class_name in ("idle", "copy", "memset"):
        times.pop(class_name, None)
    return times


def compare_busy(binary, job, path, events, default):
    """Prints a line per trace; True when it holds."""
    share, step = recorded_busy(binary, path)
    host, waits = recorded_host(events)
    more = host_settings(binary, *job, host, waits) if host else []
    limited, limited_step = busy_share(json.loads(predict(binary, *job, "--format", "json", *more)))
    plain, plain_step = busy_share(default)
    print(f"  GPU busy: recorded {share:.1%} of {step:.1f} ms; predicted {paced:.1%} of {limited_step:.1f} ms on that host "
          f"({(paced - share) * 100:+.1f} points), {plain:.1%} of {plain_step:.1f} ms by default")
    return abs(limited - share) <= POINTS


def main():
    if len(sys.argv) < 6:
        sys.exit(__doc__)
    binary, *job = sys.argv[1:5]
    traces = sys.argv[5:]
    default = json.loads(predict(binary, *job, "--format", "json"))
    columns = [("predicted", predicted(default))]
    holds = True
    for i, path in enumerate(traces):
        print(f"trace {i + 1}: {path.rsplit('/', 1)[-1]}")
        events = load(path)
        columns.append((f"trace {i + 1}", recorded(path, events)))
        holds &= compare_busy(binary, job, path, events, default)
    for _, times in columns:
        # PyTorch's eager optimizer is made of the same elementwise kernels as everything else.
        times["elementwise+optimizer"] = times.pop("elementwise", 0) + times.pop("optimizer", 0)
        times.pop("copy", None)
    totals = [sum(times.values()) for _, times in columns]
    print(f"{'class':24s}" + "".join(f"{label:>20s}" for label, _ in columns))
    for name in sorted({n for _, t in columns for n in t}, key=lambda n: -columns[0][1][n]):
        shares = [t[name] / total for (_, t), total in zip(columns, totals)]
        print(f"{name:24s}" + "".join(f"{t[name]:11.2f} ms {s:5.1%}" for (_, t), s in zip(columns, shares)))
        holds &= all(abs(share - shares[0]) <= POINTS for share in shares[1:])
    print(f"{'kernel time':24s}" + "".join(f"{total:11.2f} ms {'':5s} " for total in totals))
    low, high = min(totals[1:]), max(totals[1:])
    error = totals[0] / low - 1 if totals[0] < low else totals[0] / high - 1 if totals[0] > high else 0.0
    print(f"predicted kernel time is {error:+.1%} from the recorded range {low:.1f} to {high:.1f} ms")
    print(f"all shares within {POINTS * 100:.0f} points: {'yes' if holds else 'no'}")
    return 0 if holds and abs(error) <= 0.25 else 1


if __name__ == "__main__":
    sys.exit(main())
