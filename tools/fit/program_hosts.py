#!/usr/bin/env python3
"""Learns what training programs add on the host to each step (hwspecs/host/programs.textproto).

For every program (a source and framework of core.csv on one GPU, a job of gavel_throughputs.csv, a model and
machine of sia_step_times.csv) all rows are predicted as a bare loop of the framework. A program's added time x and its
kernels' common factor e^k are the most likely under
    measured = e^k predicted + x,    ln of the rest: Laplace of 0.1, k: normal of 0.15, x >= 0.
--write FILE    writes what was found
--check         leaves one program out after the other: share of rows inside the 90 % interval, and errors before
                and after one of the program's rows of the same network, at another batch or on another GPU, is given
"""
import argparse
import csv
import gzip
import json
import math
import os
import re
import subprocess
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

Z = 1.6448536269514722
BANDWIDTH, KNOWN_SD = 0.6, 0.5
SHARED = 0.7  # of a row's variance, what the rows of a program on all GPUs have in common

GAVEL = {
    "resnet18_cifar10": ["resnet18_cifar10", "--data", "cifar10", "--workers", "2"],
    "resnet50_imagenet": ["resnet50", "--data", "imagenet", "--workers", "8"],
    "transformer_multi30k": ["job:transformer_multi30k"],
    "lstm_wikitext2": ["job:lstm_wikitext2"],
}
SIA = {
    "bert_squad": ["bert_base_squad", "--optimizer", "adamw", "--precision", "fp32"],
    "resnet18_cifar10": ["resnet18_cifar10", "--data", "cifar10", "--workers", "2", "--cudnn-benchmark"],
    "resnet50_imagenet": ["resnet50", "--data", "imagenet", "--workers", "4", "--precision", "amp", "--cudnn-benchmark"],
    "yolov3_voc": ["yolov3", "--precision", "fp32"],
}
# Sources that have a script of its own for each network.
SCRIPT_PER_NETWORK = {"NVIDIA/DeepLearningExamples", "Oneflow-Inc/DLPerf"}
MACHINES = {"ND40rs_v2": "dgx1_v100", "g4dn.12xlarge": "aws_g4dn_12xlarge"}


class Row:
    def __init__(self, program, network, measured, predicted, low, high, infers):
        self.program, self.network, self.measured, self.predicted, self.infers = program, network, measured, predicted, infers
        self.sd = max(math.log(high / low) / (2 * Z), 1e-3)


def slug(text):
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def name_of(row, infers):
    name = slug(re.split(r"[ ,(]", row["source"].split("/")[-1])[0] + "_" + row["framework_name"].split(" (")[0])
    if row["source"] in SCRIPT_PER_NETWORK:
        name += "_" + row["network"]
    return name + ("_infer" if infers else "")


def rows_of_core(program, data):
    table = data + "/published/core.csv"
    described = {r["id"]: r for r in csv.DictReader(open(table))}
    with tempfile.TemporaryDirectory() as folder:  # where no program adds anything
        os.mkdir(folder + "/host")
        with open(folder + "/host/programs.textproto", "w") as out:
            out.write('data: "none" bandwidth: 1 known_log_sd: 1\n')
            for name in sorted({name_of(r, i) for r in described.values() for i in (False, True)} | {"adaptdl_" + m for m in SIA}):
                out.write('program { name: "%s" added_ms: 0 rows: 1 }\n' % name)
        out = subprocess.run([program, "validate", table, "--only", "gpus=1", "--format", "json", "--hwspecs", folder], capture_output=True, text=True, check=True)
    for r in json.loads(out.stdout)["rows"]:
        row = described[r["id"]]
        if r["predicted"] is None or "AdaptDL" in row["framework_name"]:
            continue
        batch = float(row["batch_per_gpu"])
        infers = row["phase"] in ("infer", "forward")
        name = name_of(row, infers)
        yield Row(name, row["network"] + row["precision"], batch / r["measured"], batch / r["predicted"], batch / r["high"], batch / r["low"], infers)


def predict(program, flags):
    out = subprocess.run([program, "predict", *flags, "--format", "json"], capture_output=True, text=True)
    return json.loads(out.stdout)["step_time_s"] if out.stdout else None


def asked(data):
    """(name, seconds, flags) of the tables whose programs are told by name."""
    for r in csv.DictReader(open(data + "/jobs/gavel_throughputs.csv")):
        if r["gpus"] == "1" and r["job"] in GAVEL and not r["suspect"]:
            flags = GAVEL[r["job"]]
            if not flags[0].startswith("job:"):
                flags = flags + ["--framework", "pytorch", "--framework-version", "1.4"]
            yield "gavel_" + r["job"], float(r["batch"]) / float(r["samples_per_s"]), flags + ["--gpu", r["gpu"].lower(), "--batch", r["batch"], "--machine", "gavel_cloud"]
    for r in csv.DictReader(gzip.open(data + "/cluster/sia_step_times.csv.gz", "rt")):
        if r["gpus"] == "1" and r["model"] in SIA:
            flags = SIA[r["model"]] + ["--framework", "pytorch", "--framework-version", "1.7", "--gpu", r["gpu"], "--batch", r["local_batch"]]
            yield "adaptdl_" + r["model"] + "@" + r["machine"], float(r["step_s"]), flags + ["--machine", MACHINES[r["machine"]]]


def read_rows(program, data):
    rows = list(rows_of_core(program, data))
    questions = list(asked(data))
    with ThreadPoolExecutor(2) as pool:
        steps = list(pool.map(lambda q: predict(program, q[2]), questions))
    for (name, seconds, _), step in zip(questions, steps):
        if step:
            rows.append(Row(name, name, seconds, step["value"], step["low"], step["high"], False))
    return rows


def added(rows):
    """The most likely added time of a program's rows."""
    best = None
    for x in [0.0] + [1e-4 * 1.15**i for i in range(62)]:
        for j in range(-16, 17):
            k = 0.025 * j
            rest = sum(min(abs(math.log(r.measured / (math.exp(k) * r.predicted + x))) / 0.1, 3) for r in rows)
            loss = rest / max(1.0, len(rows) / 8) + (k / 0.15) ** 2 / 2
            if best is None or loss < best[0]:
                best = (loss, x)
    return best[1]


def distribution(times, sd):
    """As AddedHost: weights of 0 and of times in equal steps of the logarithm."""
    grid = [5e-5 * (1e5 ** (i / 71)) for i in range(72)]
    weights = [0.0] * 73
    for t in times:
        if t < 1e-4:
            weights[0] += 1 / len(times)
            continue
        share = [math.exp(-0.5 * (math.log(g / t) / sd) ** 2) for g in grid]
        total = sum(share)
        for i, s in enumerate(share):
            weights[i + 1] += s / total / len(times)
    return list(zip([0.0] + grid, weights))


def normal(z):
    return 0.5 * math.erfc(-z / math.sqrt(2))


def median_of(normals):
    sum_ = 0.0
    for x, w in normals:
        sum_ += w
        if sum_ >= 0.5:
            return x
    return normals[-1][0]


def quantile(parts, p):
    """Of normals, each (weight, x, base, mean, sd): base e^(mean + sd z) + x."""
    low, high = 1e-6, 1e4
    for _ in range(50):
        t = math.sqrt(low * high)
        below = sum(w * normal((math.log((t - x) / b) - m) / s) for w, x, b, m, s in parts if t > x)
        low, high = (t, high) if below < p else (low, t)
    return high


def predicted(row, normals, given=None):
    """Low, median, high of a row's time; `given`: another row of its program whose time is known."""
    parts = []
    for x, w in normals:
        if w <= 0:
            continue
        if given is None:
            parts.append((w, x, row.predicted, 0.0, row.sd))
            continue
        rest = given.measured - x
        if rest <= 0:
            continue
        error = math.log(rest / given.predicted)
        weight = w * math.exp(-0.5 * (error / given.sd) ** 2) / rest
        mean = SHARED * error * row.sd / given.sd
        parts.append((weight, x, row.predicted, mean, row.sd * math.sqrt(max(1 - SHARED**2, 0.05))))
    total = sum(p[0] for p in parts)
    if total <= 0:
        return None
    parts = [(p[0] / total, *p[1:]) for p in parts]
    if given is None:
        middle = row.predicted + median_of(normals)
    else:
        middle = quantile(parts, 0.5)
    return quantile(parts, 0.05), middle, quantile(parts, 0.95)


def check(programs, found):
    inside, before, after, cases = [], [], [], []
    for name, rows in sorted(programs.items()):
        others = [x for other, x in found.items() if other.split("@")[0] != name.split("@")[0] and programs[other][0].infers == rows[0].infers]
        normals = distribution(others, BANDWIDTH)
        hits, first, second = [], [], []
        for i, row in enumerate(rows[:60]):
            low, middle, high = predicted(row, normals)
            hits.append(low <= row.measured <= high)
            first.append(abs(row.measured / middle - 1))
            others_rows = [r for r in rows[:i] + rows[i + 1:] if r.network == row.network]
            if others_rows:
                known = predicted(row, normals, min(others_rows, key=lambda r: abs(math.log(r.measured / row.measured * 2))))
                if known:
                    second.append(abs(row.measured / known[1] - 1))
                    before.append(first[-1])
        inside += hits
        after += second
        cases.append((name, len(rows), 100 * sum(hits) / len(hits), 100 * sum(first) / len(first), 100 * sum(second) / max(1, len(second)), 1e3 * found[name]))
    for case in cases:
        print("%-64s rows %4d inside %3.0f %% error %5.1f %% given one %5.1f %%  added %.1f ms" % case)
    print("all: rows %d, inside %.1f %%, error %.1f %%, with one run given %.1f %%; programs alike: inside %.1f %%, error %.1f %%, given one %.1f %%"
          % (len(inside), 100 * sum(inside) / len(inside), 100 * sum(before) / len(before), 100 * sum(after) / len(after),
             *(sum(c[i] for c in cases) / len(cases) for i in (2, 3, 4))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the tracecast binary")
    parser.add_argument("data", help="folder of the measured data")
    parser.add_argument("--write")
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    programs = defaultdict(list)
    for row in read_rows(args.program, args.data):
        programs[row.program].append(row)
    found = {name: added(rows) for name, rows in programs.items()}
    if args.write:
        with open(args.write, "w") as out:
            out.write("# Written by tools/fit/program_hosts.py: what programs add to a step beside their framework's bare loop.\n")
            out.write('data: "core.csv on one GPU, gavel_throughputs.csv on one GPU, sia_step_times.csv on one GPU: %d rows"\n' % sum(map(len, programs.values())))
            out.write("bandwidth: %g\nknown_log_sd: %g\n" % (BANDWIDTH, KNOWN_SD))
            for name in sorted(found):
                infers = " infers: true" if programs[name][0].infers else ""
                out.write('program { name: "%s" added_ms: %.3g rows: %d%s }\n' % (name.split("@")[0], 1e3 * found[name], len(programs[name]), infers))
    if args.check:
        check(programs, found)


if __name__ == "__main__":
    main()
