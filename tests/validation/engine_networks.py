#!/usr/bin/env python3
"""Asks an inference engine for every network of the zoo: a prediction, or one line of what it cannot build.

    tests/validation/engine_networks.py [--program build/release/bin/tracecast] [--framework tensorrt] [--only WORD]

Networks of `tracecast networks` in three precisions and three batches on T4, L4, A100 and H100. Prints one line for each refusal
and a count of both. Exit code 1: a run that neither gave a prediction nor refused in one line (a crash, several lines).
"""

import argparse
import collections
import json
import subprocess
import sys

GPUS = ["t4", "l4", "a100_sxm4_80gb", "h100_sxm5_80gb"]
PRECISIONS = ["fp16", "int8", "fp8"]
BATCHES = [1, 8, 64]
GRID = [(precision, batch, gpu) for precision in PRECISIONS for batch in BATCHES for gpu in GPUS]
DOES_NOT_FIT, WRONG_INPUT = 1, 2


def networks_of(program):
    listed = subprocess.run([program, "networks", "--format", "json"], capture_output=True, text=True, check=True)
    found = json.loads(listed.stdout)
    rows = found["networks"] if isinstance(found, dict) else found
    return [row["network"] if "network" in row else row["name"] for row in rows]


def ask(program, framework, network, gpu, precision, batch):
    words = [program, "predict", network, "--gpu", gpu, "--framework", framework, "--phase", "infer",
             "--precision", precision, "--batch", str(batch), "--format", "json"]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", default="build/release/bin/tracecast")
    parser.add_argument("--framework", default="tensorrt")
    parser.add_argument("--only", default="", help="networks whose name holds this word")
    asked = parser.parse_args()
    count = collections.Counter()
    for network in networks_of(asked.program):
        if asked.only not in network:
            continue
        for precision, batch, gpu in GRID:
            run = ask(asked.program, asked.framework, network, gpu, precision, batch)
            what = f"{network} {precision} batch {batch} on {gpu}"
            lines = run.stderr.strip().splitlines()
            if run.returncode in (0, DOES_NOT_FIT):
                rate = json.loads(run.stdout)["throughput_samples_per_s"]["value"]
                sound = rate > 0
                count["predicted" if sound else "unsound"] += 1
                if not sound:
                    print(f"UNSOUND  {what}: {rate} samples/s")
            elif run.returncode == WRONG_INPUT and len(lines) == 1:
                count["refused"] += 1
                print(f"refused  {what}: {lines[0]}")
            else:
                count["failed"] += 1
                print(f"FAILED   {what}: exit code {run.returncode}, {len(lines)} lines")
    print(", ".join(f"{count[word]} {word}" for word in ("predicted", "refused", "unsound", "failed")))
    return 1 if count["failed"] or count["unsound"] else 0


if __name__ == "__main__":
    sys.exit(main())
