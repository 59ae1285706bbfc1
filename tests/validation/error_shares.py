#!/usr/bin/env python3
"""How errors of predictions hang together, and what a run on one GPU says of another: tests/validation/error_shares.py [PROGRAM] [DATA]

From every pair of GPUs measured on the same job in published/core.csv and jobs/gavel_throughputs.csv. Networks whose name's SHA-256 is even
were used to fit (sim/plan/errors/), the others judge. Prints
- the shares: correlation of ln(measured / predicted) / sd over GPUs of a job, over jobs of a GPU (other sources);
- the second GPU's error with the first one's run, as sim/plan/purchase/error_model.hpp has it, and without; coverage of 90 % intervals;
- Brier scores of "GPU A is faster than GPU B on this job": the stated probability, the order of the point predictions (0 or 1), 50 %.
Only the standard library; two runs of `validate`, about two minutes.
"""
import bisect
import collections
import csv
import hashlib
import itertools
import json
import math
import pathlib
import random
import statistics
import subprocess
import sys

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/tracecast"
DATA = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "../shared/data")
K90 = 1.6448536
T95 = {2: 2.9200, 3: 2.3534, 4: 2.1318, 5: 2.0150, 6: 1.9432, 7: 1.8946}  # of Student's t, by degrees of freedom

Row = collections.namedtuple("Row", "table job gpu network error sd measured predicted")


def validated(table):
    out = subprocess.run([PROGRAM, "validate", str(table), "--format", "json"], stdout=subprocess.PIPE, check=True).stdout
    return [row for row in json.loads(out)["rows"] if not row["skipped"] and not row["flag"]]


def load():
    rows = []
    core = {row["id"]: row for row in csv.DictReader(open(DATA / "published/core.csv"))}
    keys = ("source", "framework", "framework_version", "precision", "xla", "network", "data", "phase", "batch_per_gpu", "gpus", "nodes")
    gavel = list(csv.DictReader(open(DATA / "jobs/gavel_throughputs.csv")))
    for report in validated(DATA / "published/core.csv"):
        row = core[report["id"]]
        rows.append(("core", tuple(row[k] for k in keys), row["gpu"], row["network"], report))
    for report in validated(DATA / "jobs/gavel_throughputs.csv"):
        row = gavel[report["line"] - 2]
        rows.append(("gavel", tuple(row[k] for k in ("set", "job", "batch", "gpus", "placement")), row["gpu"], row["job"], report))
    return [Row(table, job, gpu, network, math.log(a["measured"] / a["predicted"]), math.log(a["high"] / a["low"]) / 2 / K90,
                a["measured"], a["predicted"]) for table, job, gpu, network, a in rows]


def is_judge(row):
    return int(hashlib.sha256(row.network.encode()).hexdigest(), 16) % 2 == 1


def pairs_of(rows):
    by_job = collections.defaultdict(list)
    for row in rows:
        by_job[(row.table, row.job)].append(row)
    return [(a, b) for same in by_job.values() for a, b in itertools.permutations(same, 2) if a.gpu != b.gpu]


def log_likelihood(pairs, share, freedom):
    """Of the second's error given the first's: Student's t with one degree of freedom more."""
    total = 0
    for a, b in pairs:
        mean, half = corrected(a, b, share, freedom)
        scale, nu = half / T95[freedom + 1], freedom + 1
        total += (math.lgamma((nu + 1) / 2) - math.lgamma(nu / 2) - math.log(nu * math.pi) / 2 - math.log(scale) -
                  (nu + 1) / 2 * math.log1p(((b.error - mean) / scale) ** 2 / nu))
    return total


def fit(rows):
    """A job's share and degrees of freedom by greatest likelihood of each second GPU given the first; a GPU's share by moments."""
    pairs = pairs_of(rows)
    share, freedom = max(((s / 20, f) for s in range(20) for f in (2, 3, 4, 5, 6)), key=lambda x: log_likelihood(pairs, *x))
    by_gpu = collections.defaultdict(list)
    for row in rows:
        if row.table == "core":
            by_gpu[row.gpu].append(row)
    others = [(a, b) for same in by_gpu.values() for a, b in itertools.combinations(same, 2)
              if a.network != b.network and a.job[0] != b.job[0]]
    z = lambda row: row.error / row.sd
    gpu = statistics.mean(z(a) * z(b) for a, b in others) / statistics.mean(z(r) ** 2 for r in rows)
    return share, round(min(max(0, gpu), 1 - share), 2), freedom


def corrected(first, second, share, freedom):
    """Mean and half of the 90 % interval of the second's error, given the first's."""
    low_precision = K90 / T95[freedom]
    mean = share * first.error / first.sd * second.sd
    scale = math.sqrt((freedom + (first.error / first.sd / low_precision) ** 2) / (freedom + 1))
    return mean, T95[freedom + 1] * low_precision * scale * math.sqrt(1 - share * share) * second.sd


def errors(pairs, share, freedom):
    without = [abs(math.exp(-b.error) - 1) for _, b in pairs]
    moved = [(b, *corrected(a, b, share, freedom)) for a, b in pairs]
    given = [abs(math.exp(mean - b.error) - 1) for b, mean, _ in moved]
    covered = statistics.mean(abs(b.error - mean) <= half for b, mean, half in moved)
    before = statistics.mean(abs(b.error) <= K90 * b.sd for _, b in pairs)
    width = statistics.median(half / (K90 * b.sd) for b, _, half in moved)
    return len(pairs), statistics.median(without), statistics.median(given), statistics.mean(without), statistics.mean(given), before, covered, width


def brier(pairs, share, freedom):
    """(stated, point order, 50 %) of "the first is faster"; the difference of two t errors by draws."""
    draw = random.Random(3)
    low_precision = K90 / T95[freedom]
    slice = []
    for _ in range(4000):
        chi2 = sum(draw.gauss(0, 1) ** 2 for _ in range(freedom))
        slice.append(low_precision * math.sqrt(freedom / chi2) * draw.gauss(0, 1))
    slice.sort()
    scores = [0, 0, 0]
    for a, b in pairs:
        sd = math.sqrt(a.sd ** 2 + b.sd ** 2 - 2 * share * a.sd * b.sd)
        lead = math.log(a.predicted / b.predicted) / sd
        p = bisect.bisect_left(slice, lead) / len(slice)
        is_faster = a.measured > b.measured
        for i, stated in enumerate((p, float(lead > 0), 0.5)):
            scores[i] += (stated - is_faster) ** 2 / len(pairs)
    return scores


def main():
    rows = load()
    fitted, judges = [r for r in rows if not is_judge(r)], [r for r in rows if is_judge(r)]
    share, gpu, freedom = fit(fitted)
    print(f"fit on {len(fitted)} rows: job_share {share}, gpu_share {gpu}, freedom {freedom}")
    print(f"{'rows':<24} {'pairs':>5} {'median':>7} {'with':>6} {'mean':>6} {'with':>6} {'cover':>6} {'with':>6} {'width':>6}   Brier: stated, order, 50 %")
    for name, some in (("fitted", fitted), ("judge", judges), ("judge core", [r for r in judges if r.table == "core"]),
                       ("judge gavel", [r for r in judges if r.table == "gavel"]), ("all", rows)):
        pairs = pairs_of(some)
        n, m0, m1, e0, e1, c0, c1, width = errors(pairs, share, freedom)
        scores = brier(pairs[:4000], share, freedom)
        print(f"{name:<24} {n:>5} {m0:>7.3f} {m1:>6.3f} {e0:>6.3f} {e1:>6.3f} {c0:>6.3f} {c1:>6.3f} {width:>6.2f}   " +
              ", ".join(f"{s:.4f}" for s in scores))


if __name__ == "__main__":
    main()
