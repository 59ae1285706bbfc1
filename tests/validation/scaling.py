#!/usr/bin/env python3
"""Scaling efficiency, predicted and measured: scaling.py PROGRAM DATA [--rows]

A series is what differs in the number of GPUs and nodes alone: same source, GPU, network, framework, precision, data and
batch (core.csv), or same series_id (mlperf.csv, where the batch per GPU shrinks with scale as submitted). Efficiency is
the throughput per GPU over that of the series' smallest number of GPUs, both predicted or both measured; rows of that
number are averaged. Error: |predicted - measured| in points (percent of the ideal). Prints a line per source, and the
macro average over sources. Needs Python 3 alone.
"""
import collections
import csv
import json
import os
import re
import subprocess
import sys

TENSORFLOW_PAGE = "tensorflow.org performance/benchmarks (May 2017)"


def predictions(program, path, only=()):
    command = [program, "validate", path, "--format", "json"]
    for condition in only:
        command += ["--only", condition]
    rows = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rows"]
    return {row["id"]: row for row in rows}


def core_series(row):
    """What stays when the number of GPUs changes; remarks on single rows are left out."""
    notes = re.sub(r'row ".*?"|std [\d.]+|GPUs per node \d+|spread over the nodes[^;]*|'
                   r"of which gradient synchronisation [\d.e-]+ s|published as total batch [\d*]+", "", row["notes"])
    framework = row["framework_name"].replace(", single GPU", "")
    if row["source"].startswith("Horovod"):
        notes = notes.split(";", 1)[-1]  # the first words name the communication: one GPU has none
    if row["source"].startswith("HKBU"):
        framework = framework.split(",")[0]
    fields = ("source", "gpu", "framework_version", "precision", "xla", "network", "data", "phase", "batch_per_gpu")
    return tuple(row[field] for field in fields) + (framework, re.sub(r"[\s;,]+", " ", notes).strip())


def efficiencies(rows, predicted, series_of, rate, gpus_of):
    """(row, gpus, measured, predicted efficiency, predicted / measured throughput) of rows above the smallest."""
    series = collections.defaultdict(list)
    for key, row in rows:
        report = predicted.get(key)
        if report is None or report.get("skipped"):
            continue
        series[series_of(row)].append((gpus_of(row), rate(row), report["predicted"], row))
    for members in series.values():
        smallest = min(member[0] for member in members)
        base = [member for member in members if member[0] == smallest]
        measured = sum(member[1] for member in base) / len(base) / smallest
        expected = sum(member[2] for member in base) / len(base) / smallest
        for gpus, value, prediction, row in members:
            if gpus > smallest:
                yield row, gpus, value / gpus / measured, prediction / gpus / expected, prediction / value


def report(title, results, group_of, with_rows):
    groups = collections.defaultdict(list)
    for result in results:
        groups[group_of(result[0])].append(result)
    print(f"{title:<52}{'rows':>5}{'measured':>9}{'predicted':>10}{'points':>7}{'rate':>7}")
    errors = {}
    for group, members in sorted(groups.items()):
        count = len(members)
        error = sum(abs(m[2] - m[3]) for m in members) / count * 100
        errors[group] = error
        print(f"{group[:51]:<52}{count:>5}{sum(m[2] for m in members) / count:>9.3f}"
              f"{sum(m[3] for m in members) / count:>10.3f}{error:>7.1f}{sum(m[4] for m in members) / count:>7.2f}")
        if with_rows:
            for row, gpus, measured, expected, ratio in sorted(members, key=lambda m: (str(m[0]), m[1])):
                text = " ".join(row.get(f, "") for f in
                                ("gpu", "gpu_id", "nodes", "network", "benchmark", "precision", "data", "phase",
                                 "batch_per_gpu", "framework_name"))
                print(f"    {gpus:>4} {measured:>6.3f} {expected:>6.3f} {ratio:>5.2f}  {text} | {row.get('interconnect', '')[:20]} "
                      f"| {row.get('notes', row.get('series_id', ''))[:60]}")
    return errors


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, data = sys.argv[1:3]
    with_rows = "--rows" in sys.argv
    core = os.path.join(data, "published", "core.csv")
    with open(core, newline="", encoding="utf-8") as file:
        rows = [(row["id"], row) for row in csv.DictReader(file)]
    results = list(efficiencies(rows, predictions(program, core), core_series,
                                lambda row: float(row["samples_per_s"]), lambda row: int(row["gpus"])))
    errors = report("core.csv", results, lambda row: row["source"], with_rows)
    others = [error for source, error in errors.items() if source != TENSORFLOW_PAGE]
    print(f"TensorFlow page {errors.get(TENSORFLOW_PAGE, float('nan')):.2f} points; "
          f"others, mean over {len(others)} sources {sum(others) / len(others):.2f} points")

    mlperf = os.path.join(data, "published", "mlperf.csv")
    with open(mlperf, newline="", encoding="utf-8") as file:
        rows = [(str(line), row) for line, row in enumerate(csv.DictReader(file), start=2)
                if not row["duplicate_of"] and row["throughput"]]
    results = list(efficiencies(rows, predictions(program, mlperf), lambda row: row["series_id"],
                                lambda row: float(row["throughput"]), lambda row: int(float(row["gpus"]))))
    print()
    report("mlperf.csv, by GPU and benchmark", results, lambda row: row["split_group"], with_rows)
    print()
    errors = report("mlperf.csv, by GPU", results, lambda row: row["split_group"].split("/")[0], False)
    print(", ".join(f"{gpu} {error:.2f} points" for gpu, error in errors.items()))


if __name__ == "__main__":
    main()
