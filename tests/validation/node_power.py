#!/usr/bin/env python3
"""Wall power of a node with eight B200 in MLPerf training v5.0 beside ours: tests/validation/node_power.py PROGRAM DATA

data/cluster/mlperf_v5_b200_power.csv: mean of a run between its start and its end, AC. Ours: boards' mean times what a node draws
beside its GPUs (sim/plan/notes/0001). The table states the benchmark alone: batch and parallel layout are assumed. Exit code 1 over the bar.
"""
import collections
import csv
import json
import pathlib
import statistics
import subprocess
import sys

BEYOND_BOARDS = 1.2
BAR = 15
JOBS = {
    "llama2_70b_lora": "llama2_70b --lora 16 --tp 2 --sequence-parallel --micro-batch 1 --global-batch 8 --seq-len 8192 --precision fp8 --software megatron",
    "retinanet": "retinanet_resnext50 --batch 32 --precision amp --channels-last --cuda-graphs --framework pytorch",
}


def predicted(program, job):
    """Mean W of all boards."""
    command = [program, "predict", *job.split(), "--gpu", "b200", "--gpus", "8", "--phase", "train", "--format", "json"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(text)["board_power_total_w"]


def main():
    program, data = sys.argv[1], pathlib.Path(sys.argv[2])
    measured = collections.defaultdict(list)
    for row in csv.DictReader((data / "cluster/mlperf_v5_b200_power.csv").open()):
        measured[row["benchmark"]].append(float(row["mean_node_w"]))
    missed = False
    print("node, W                 runs  measured      ours  error %")
    for name, job in JOBS.items():
        mean, ours = statistics.mean(measured[name]), BEYOND_BOARDS * predicted(program, job)
        error = 100 * (ours / mean - 1)
        missed = missed or abs(error) > BAR
        print(f"{name:24}{len(measured[name]):4}{mean:10.0f}{ours:10.0f}{error:+9.1f}")
    print("missed" if missed else f"within {BAR} %")
    return int(missed)


sys.exit(main())
