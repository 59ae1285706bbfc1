#!/usr/bin/env python3
"""Energy of tensor cores in long runs on random data, over that of the fit's short ones: tensor_gemm.sustained_of.

    tests/validation/sustained_energy.py PROGRAM DATA PROFILE

bf16 GEMMs of data/modern/gemm.csv.gz by TensorRT-LLM and SGLang, whose data are standard normal numbers (vLLM's weights are
constant), of 6.4 ms and more: 6 replays of up to 6 calls last as long as a power controller needs. Per GPU and framework: the
factor on tensor_gemm.flop_pj of PROFILE (its sustained_of plays no part in tables of kernels) at which the median prediction is
right; at least 1, since a board with power to spare tells nothing. Per instruction generation: their geometric mean.
"""
import csv
import gzip
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile

KINDS = {"a100_sxm4_80gb": "async_warp", "l40s": "async_warp", "h100_sxm5_80gb": "warp_group", "b200": "tensor_memory"}
LONG_US = 6400
FACTORS = [1 + 0.1 * i for i in range(8)]


def long_rows(data):
    with gzip.open(f"{data}/modern/gemm.csv.gz", "rt") as table:
        for row in csv.DictReader(table):
            times = [float(row[f]) for f in ("trtllm_us", "sglang_us") if row[f]]
            large = min(float(row[c]) for c in "mnk") >= 1024
            if row["gemm_dtype"] == "bfloat16" and large and times and min(times) >= LONG_US:
                yield row


def main(program, data, profile):
    rows = list(long_rows(data))
    text = open(profile, encoding="utf-8").read()
    energy = float(re.search(r'"tensor_gemm.flop_pj" value: ([\d.]+)', text).group(1))
    bias = {}
    with tempfile.TemporaryDirectory() as folder:
        table = f"{folder}/gemm.csv"
        with open(table, "w", encoding="utf-8") as out:
            writer = csv.DictWriter(out, rows[0].keys())
            writer.writeheader()
            writer.writerows(rows)
        for factor in FACTORS:
            changed = f"{folder}/profile.textproto"
            with open(changed, "w", encoding="utf-8") as out:
                out.write(re.sub(r'("tensor_gemm.flop_pj" value: )[\d.]+', rf"\g<1>{energy * factor:g}", text))
            report = subprocess.run([program, "validate", table, "--profile", changed, "--format", "json"],
                                    capture_output=True, text=True, check=True)
            errors = {}
            for row, reported in zip(rows, json.loads(report.stdout)["rows"]):
                for framework in ("trtllm_us", "sglang_us"):
                    if row[framework] and reported["error"] is not None:
                        key = row["gpu"], framework[:-3]
                        errors.setdefault(key, []).append(reported["predicted"] / float(row[framework]) - 1)
            for key, values in errors.items():
                bias.setdefault(key, []).append((statistics.median(values), len(values)))
    by_kind = {}
    print("GPU              framework    rows  median error  factor")
    for (gpu, framework), found in sorted(bias.items()):
        right = 1.0
        for i in range(1, len(FACTORS)):
            low, high = found[i - 1][0], found[i][0]
            if low < 0 <= high:
                right = FACTORS[i - 1] - low / (high - low) * (FACTORS[i] - FACTORS[i - 1])
        print(f"{gpu:16} {framework:10} {found[0][1]:6} {100 * found[0][0]:12.1f} % {right:7.3f}")
        by_kind.setdefault(KINDS[gpu], []).append(math.log(right))
    for kind, logs in sorted(by_kind.items()):
        print(f"tensor_gemm.sustained_of.{kind:14} {math.exp(statistics.mean(logs)):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:4])
