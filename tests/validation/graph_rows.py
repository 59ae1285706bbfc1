#!/usr/bin/env python3
"""Rows of a graph network in published/mlperf.csv beside ours: tests/validation/graph_rows.py PROGRAM DATA

They state a time to train and no throughput. That time times our throughput is the samples which training took, if we are right: a
figure that we do not know, and the same for all rows of one global batch whatever ran them. So rows are judged against each other:
spread of those samples within a batch, and the error of predicted ratios of time between machines (geometric means of their rows).
Evaluations lie within the time; they are left out, alike for all. Nothing is fitted to these rows.
"""
import collections
import csv
import itertools
import json
import math
import pathlib
import subprocess
import sys

NETWORK = "rgat_fp8_features"
PROGRAM = "--precision amp --optimizer adam --framework pytorch_nvidia --strategy wholegraph"
CAPTURED_SINCE = "v4.1"  # hwspecs/mlperf


def predicted(program, gpu, gpus, batch, captured):
    """Samples a second, its interval, the step in ms and where the features are."""
    command = [program, "predict", NETWORK, "--gpu", gpu, "--gpus", str(gpus), "--batch", str(batch),
               "--phase", "train", "--format", "json", *PROGRAM.split()]
    if captured:
        command.append("--cuda-graphs")
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout
    return json.loads(text)


def mean(values):
    """Geometric."""
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    program, data = sys.argv[1], pathlib.Path(sys.argv[2])
    with (data / "published/mlperf.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["benchmark"] == "rgat"]
    reports = {}
    groups = collections.defaultdict(list)
    print("batch    GPUs                   round  submitter                  min    step ms  samples/s   fits  million samples")
    for row in sorted(rows, key=lambda r: (int(r["global_batch"]), r["gpu_id"], int(r["gpus"]), r["round"])):
        gpus, batch = int(row["gpus"]), int(float(row["batch_per_gpu"]))
        job = (row["gpu_id"], gpus, batch, row["round"] >= CAPTURED_SINCE)
        if job not in reports:
            reports[job] = predicted(program, *job)
        report = reports[job]
        rate = report["throughput_samples_per_s"]["value"]
        minutes = float(row["ttt_min_median"])
        samples = 60 * minutes * rate
        machine = f"{gpus:4} x {row['gpu_id']}"
        print(f"{row['global_batch']:>6}  {machine:22} {row['round']}   {row['submitter'][:24]:24}{minutes:7.2f} "
              f"{1e3 * answer['step_time_s']['value']:9.1f} {rate:10.0f} {str(answer['memory']['fits']):>6} {1e-6 * samples:10.1f}")
        groups[int(row["global_batch"]), machine, row["round"]].append((minutes, rate, samples))

    print("\nbatch    rows  million samples  worst row %   of one global batch")
    by_batch = collections.defaultdict(list)
    for (batch, _, _), found in groups.items():
        by_batch[batch] += [samples for _, _, samples in found]
    for batch, samples in sorted(by_batch.items()):
        worst = max((value / mean(samples) - 1 for value in samples), key=abs)
        print(f"{batch:6} {len(samples):6} {1e-6 * mean(samples):15.1f} {100 * worst:+12.1f}")

    print("\nratio of times to train       measured   ours  error %   machines of one global batch")
    errors = []
    for one, other in itertools.combinations(sorted(groups), 2):
        if one[0] != other[0]:
            continue
        times = [mean([minutes for minutes, _, _ in groups[key]]) for key in (one, other)]
        rates = [mean([rate for _, rate, _ in groups[key]]) for key in (one, other)]
        measured, ours = times[0] / times[1], rates[1] / rates[0]
        errors.append(ours / measured - 1)
        print(f"{one[0]:6}  {one[1].strip()} {one[2]} : {other[1].strip()} {other[2]:5} {measured:8.3f} {ours:8.3f} {100 * errors[-1]:+8.1f}")
    print(f"mean error {100 * sum(map(abs, errors)) / len(errors):.1f} % of {len(errors)} ratios")

    print("\nmillion samples by batch, of one GPU and round")
    series = collections.defaultdict(list)
    for (batch, machine, round_id), found in sorted(groups.items()):
        gpu = machine.split(" x ")[1]
        series[gpu, round_id].append(f"{batch}: {1e-6 * mean([samples for _, _, samples in found]):.1f}")
    for (gpu, round_id), texts in series.items():
        print(f"{gpu:16} {round_id}   " + "   ".join(texts))
    return 0


sys.exit(main())
