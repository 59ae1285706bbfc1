#!/usr/bin/env python3
"""Power of a GPU that serves a language network, beside ML.ENERGY's: tests/validation/mlenergy_power.py PROGRAM DATA [STEP]

data/market/mlenergy_llm.csv: GPU energy over the steady state of vLLM on H100 and B200. Ours: `serve` of one batch of the average
batch that the row reached, its outputs as long as the row's. Prompts are not published; their lengths are those that data/market's
README gives, some 1,000 and 3,000 tokens with a picture or a video. Every STEP-th row (1: all). Rows whose network the zoo lacks, or
that do not fit, are left out. Exit code 1 over the bars.
"""
import collections
import csv
import json
import pathlib
import statistics
import subprocess
import sys

MEAN_BAR, BIAS_BAR = 10, 5
PROMPTS = {"gpqa": 250, "lm-arena-chat": 200, "sourcegraph-fim": 1500, "image-chat": 1000, "video-chat": 3000}
PRECISIONS = {"bfloat16": "bf16"}


def predicted(program, row):
    """Mean W of one GPU; None where the job has no prediction."""
    gpus, tp, dp = int(row["gpus"]), int(row["tp"]), int(row["dp"])
    if tp == 1 and dp == 1:
        tp = gpus  # mixtures say tp 1; attention was divided, too
    command = [program, "serve", row["network"], "--gpu", row["gpu"], "--engine", "vllm", "--format", "json", "--gpus", str(gpus),
               "--tp", str(tp), "--batch", str(max(1, round(float(row["average_batch"]) / dp))), "--input", str(PROMPTS.get(row["task"], 500)),
               "--output", str(max(2, int(float(row["average_output_tokens"])))),
               "--precision", PRECISIONS.get(row["precision"], row["precision"])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    report = json.loads(done.stdout) if done.stdout else {}
    return report["power_w"]["avg"] if "power_w" in report else None


def main():
    program, data = sys.argv[1], pathlib.Path(sys.argv[2])
    step = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    errors = collections.defaultdict(list)
    rows = [row for row in csv.DictReader((data / "market/mlenergy_llm.csv").open()) if row["network"]]
    for row in rows[::step]:
        ours = predicted(program, row)
        if ours is None:
            continue
        error = 100 * (ours * int(row["gpus"]) / float(row["power_w_all_gpus"]) - 1)
        for group in ("all", row["gpu"], f"{row['gpu']}, {row['precision']}", f"{row['gpu']}, {row['gpus']} GPUs"):
            errors[group].append(error)
    print("power of a GPU, %                 rows   mean   bias")
    for group, each in sorted(errors.items()):
        print(f"{group:32}{len(each):6}{statistics.mean(map(abs, each)):7.1f}{statistics.mean(each):+7.1f}")
    missed = statistics.mean(map(abs, errors["all"])) > MEAN_BAR or abs(statistics.mean(errors["all"])) > BIAS_BAR
    print("missed" if missed else f"within {MEAN_BAR} %, bias within {BIAS_BAR}")
    return int(missed)


sys.exit(main())
