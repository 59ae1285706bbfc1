#!/usr/bin/env python3
"""Errors of collectives within a node, fitted and left out: tests/validation/collectives.py COLLECTIVE_FIT DATA [--csv FILE]

Runs `collective_fit DATA DATE --check FILE`, which refits without each GPU in turn, and prints per table, GPU and size: our
mean error and bias with the GPU's rows in the fit and without, how many left-out rows are inside their 90 % interval, the
interval's median half-width, and the error of a roofline (10 us and 0.8 of the data sheet's link). Rows of Vidur, and of
apex_collectives on H100, are in no fit. Exit code 1 when a bar of step 9 is missed. Takes a minute.
"""
import argparse
import csv
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile

MIB = 1 << 20
NORMAL90 = 1.6449
# Of rows in the fit, mean error in percent: NCCL from 1 MiB and below, engines, a PCIe box without peer access.
BARS = {"large": 10, "small": 20, "engine": 20, "pcie": 25}
PCIE = ("l40s", "v100_pcie_16gb")


def mean(values):
    return 100 * sum(values) / len(values) if values else float("nan")


def judge(rows):
    fitted = [r["fitted_us"] / r["measured_us"] - 1 for r in rows]
    left = [(r["left_out_us"] or r["fitted_us"]) / r["measured_us"] - 1 for r in rows]
    roof = [r["roofline_us"] / r["measured_us"] - 1 for r in rows]
    inside = [abs(math.log(1 + e)) <= NORMAL90 * r["log_sd"] for e, r in zip(left, rows)]
    # Half of the interval over its middle value, in the linear scale.
    widths = [math.sinh(NORMAL90 * r["log_sd"]) for r in rows]
    return {"n": len(rows), "fitted": mean([abs(e) for e in fitted]), "bias": mean(fitted),
            "left": mean([abs(e) for e in left]), "left_bias": mean(left), "inside": mean(inside),
            "width": 100 * statistics.median(widths), "roof": mean([abs(e) for e in roof])}


def size_of(row):
    return "1 MiB and more" if row["bytes"] >= MIB else "below 1 MiB"


def bar_of(table, gpu, size):
    if gpu in PCIE:
        return BARS["pcie"]
    if table == "custom_all_reduce":
        return BARS["engine"]
    return BARS["large"] if size.startswith("1") else BARS["small"]


def print_row(name, s, bar=None):
    verdict = "" if bar is None else f"  bar {bar}: {'pass' if s['fitted'] <= bar else 'MISSED'}"
    print(f"{name:48} {s['n']:5} {s['fitted']:6.1f} {s['bias']:+6.1f} {s['left']:8.1f} {s['left_bias']:+6.1f} "
          f"{s['inside']:7.0f} {s['width']:6.0f} {s['roof']:9.1f}{verdict}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="build/release/bin/collective_fit")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--csv", type=pathlib.Path, help="keep the rows here, or take them from here")
    args = parser.parse_args()
    path = args.csv or pathlib.Path(tempfile.mkdtemp()) / "check.csv"
    if not path.exists():
        subprocess.run([args.program, args.data, "check", "--check", path], check=True)
    rows = list(csv.DictReader(path.open()))
    for row in rows:
        for key in ("bytes", "measured_us", "fitted_us", "left_out_us", "roofline_us", "log_sd"):
            row[key] = float(row[key])
    groups = {}
    for row in rows:
        groups.setdefault((row["table"], row["gpu"], size_of(row)), []).append(row)
    print(f"{'mean error and bias in percent':48} {'rows':>5} {'fitted':>6} {'bias':>6} {'left out':>8} {'bias':>6} "
          f"{'in 90%':>7} {'+-':>6} {'roofline':>9}")
    missed = 0
    for (table, gpu, size), group in groups.items():
        s, bar = judge(group), bar_of(table, gpu, size)
        missed += s["fitted"] > bar
        print_row(f"{table} {gpu} {size}", s, bar)
    print()
    for table in dict.fromkeys(r["table"] for r in rows):
        of_table = [r for r in rows if r["table"] == table]
        used = [r for r in of_table if r["used_for"]]
        print_row(f"{table}, all", judge(of_table))
        if used and len(used) < len(of_table):
            print_row(f"{table}, in no fit", judge([r for r in of_table if not r["used_for"]]))
    for what in dict.fromkeys(r["what"] for r in rows):
        print_row(f"{what}", judge([r for r in rows if r["what"] == what]))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
