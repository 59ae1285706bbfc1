#!/usr/bin/env python3
"""What a scheduler gains that knows each job's speed on each GPU type: aware_blind.py PROGRAM DATA [--seeds 25] [--only NAME]

Max-min fairness that knows the speeds (max_min) against the same blind to them (max_min_blind), each alone and with two
jobs to a GPU where the measured pairs say that gains (--space-sharing); on a fleet of as many K80, P100 and V100, at 80 %
load over 30 days. Speeds and pairs: data/jobs, set sim2020, the programs that were measured on all three types. Rules of
Gavel's simulator (rounds of six minutes, moving is free).

  poisson   Poisson arrivals; sizes 1, 2, 4, 8 with probability 0.70, 0.10, 0.15, 0.05; run time on the fastest type 10^u
            minutes, u uniform in [1.5, 3] (0.8) or [3, 4] (0.2); 108 GPUs
  itp       the first 30 days of cluster07 of data/cluster/itp_jobs: its arrivals, sizes and run times
  philly    the same of virtual cluster 6c71a0 of data/cluster/philly_jobs

A seed draws each job's program among those of its size and, of `poisson`, everything else. Recorded jobs of other sizes
than 1, 2, 4 and 8 are left out. The recorded run time is taken for that on the fastest type. Load: GPU time of all jobs
at their mean speed over the types, over that of the fleet in 30 days; of the recorded ones the fleet is as large as
that asks. Prints mean completion times and, paired by seed, the mean differences with their 95 % interval (Student's t).
Needs Python 3 alone. 25 seeds take some 20 minutes.
"""
import argparse
import collections
import csv
import gzip
import json
import math
import pathlib
import random
import subprocess
import tempfile

TYPES = ("v100", "p100", "k80")
SIZES = (1, 2, 4, 8)
DAYS, LOAD = 30, 0.8
SPAN_S = DAYS * 86400.0
RUNS = {"aware": ["max_min"], "blind": ["max_min_blind"], "aware_shared": ["max_min", "--space-sharing"],
        "blind_shared": ["max_min_blind", "--space-sharing"]}
DIFFERENCES = (("aware", "blind"), ("aware_shared", "blind_shared"), ("aware_shared", "aware"),
               ("blind_shared", "blind"))


def write_tables(data, folder):
    """Rates and pairs of sim2020 as files for --throughputs; the rates {gpus: [(model, batch, {type: steps/s})]}."""
    rates = collections.defaultdict(dict)
    with open(data / "jobs/gavel_throughputs.csv") as source:
        for row in csv.DictReader(source):
            if row["set"] == "sim2020" and row["placement"] in ("single", "consolidated"):
                rates[int(row["gpus"]), row["job"], row["batch"]][row["gpu"].lower()] = float(row["steps_per_s"])
    programs = collections.defaultdict(list)
    with open(folder / "rates.csv", "w") as out:
        out.write("model,batch,gpus," + ",".join(f"{t}_steps_per_s" for t in TYPES) + "\n")
        for (gpus, model, batch), of_type in sorted(rates.items()):
            if len(of_type) == len(TYPES):
                programs[gpus].append((model, batch, of_type))
                out.write(f"{model},{batch},{gpus}," + ",".join(str(of_type[t]) for t in TYPES) + "\n")
    with open(data / "jobs/gavel_colocation.csv") as source, open(folder / "pairs.csv", "w") as out:
        columns = ("gpu", "job_a", "batch_a", "job_b", "batch_b", "steps_per_s_a", "steps_per_s_b")
        out.write(",".join(columns) + "\n")
        for row in csv.DictReader(source):
            if row["set"] == "sim2020" and row["status"] == "ok":
                out.write(",".join(row[column] for column in columns) + "\n")
    return programs


def invented(rng, programs):
    """(arrival, gpus, seconds on the fastest type), without end; arrivals are set later."""
    while True:
        gpus = rng.choices(SIZES, (0.70, 0.10, 0.15, 0.05))[0]
        exponent = rng.uniform(1.5, 3) if rng.random() < 0.8 else rng.uniform(3, 4)
        yield None, gpus, 60 * 10 ** exponent


def recorded(path, column, value):
    with gzip.open(path, "rt") as source:
        rows = [(float(r["submit_s"]), int(r["num_gpu"]), float(r["duration_s"])) for r in csv.DictReader(source)
                if r[column] == value]
    first = rows[0][0]
    return [(at - first, gpus, seconds) for at, gpus, seconds in rows
            if at - first < SPAN_S and gpus in SIZES and seconds > 0]


def with_program(rng, programs, job):
    """A job of a program: (arrival, gpus, model, batch, steps, GPU seconds at the mean speed)."""
    at, gpus, seconds = job
    model, batch, rates = rng.choice(programs[gpus])
    steps = seconds * max(rates.values())
    return at, gpus, model, batch, steps, gpus * steps / (sum(rates.values()) / len(TYPES))


def make_jobs(name, data, rng, programs):
    """Jobs in the order of arrival, and GPUs of each type."""
    if name != "poisson":
        source = {"itp": ("itp_jobs.csv.gz", "cluster", "cluster07"),
                  "philly": ("philly_jobs.csv.gz", "vc", "6c71a0")}[name]
        jobs = [with_program(rng, programs, job) for job in recorded(data / "cluster" / source[0], *source[1:])]
        return jobs, max(8, math.ceil(sum(job[-1] for job in jobs) / (LOAD * SPAN_S * len(TYPES))))
    per_type, jobs, work = 36, [], 0.0
    for job in invented(rng, programs):
        jobs.append(with_program(rng, programs, job))
        work += jobs[-1][-1]
        if work >= LOAD * SPAN_S * per_type * len(TYPES):
            break
    arrivals = sorted(rng.uniform(0, SPAN_S) for _ in jobs)
    return [(at,) + job[1:] for at, job in zip(arrivals, jobs)], per_type


def run(program, folder, policy):
    command = [program, "schedule", str(folder / "jobs.csv"), "--fleet", str(folder / "fleet.textproto"), "--rules",
               "gavel", "--throughputs", str(folder / "rates.csv"), "--throughputs", str(folder / "pairs.csv"),
               "--policy", *policy, "--format", "json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def interval(values):
    """Mean and half its 95 % interval."""
    t = {25: 2.064, 10: 2.262, 5: 2.776, 3: 4.303, 2: 12.706}.get(len(values), 2.0)
    mean = sum(values) / len(values)
    sd = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    return mean, t * sd / math.sqrt(len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--only", choices=("poisson", "itp", "philly"))
    args = parser.parse_args()
    for name in ("poisson", "itp", "philly") if args.only is None else (args.only,):
        mean_h = collections.defaultdict(list)
        with tempfile.TemporaryDirectory() as path:
            folder = pathlib.Path(path)
            programs = write_tables(args.data, folder)
            for seed in range(args.seeds):
                jobs, per_type = make_jobs(name, args.data, random.Random(seed), programs)
                with open(folder / "jobs.csv", "w") as out:
                    out.write("job_id,submit_s,num_gpu,model,batch,steps\n")
                    for j, (at, gpus, model, batch, steps, _) in enumerate(jobs):
                        out.write(f"{j},{at:.3f},{gpus},{model},{batch},{steps:.6g}\n")
                (folder / "fleet.textproto").write_text(
                    "".join(f"group {{ count: {per_type} gpus: 1 gpu: '{t}' }}\n" for t in TYPES))
                for what, policy in RUNS.items():
                    mean_h[what].append(run(args.program, folder, policy)["avg_jct_s"] / 3600)
        print(f"{name}: {len(jobs)} jobs, 3 x {per_type} GPUs (last seed), {args.seeds} seeds; mean completion time, h")
        for what, values in mean_h.items():
            print("  {:<28} {:8.2f} +- {:.2f}".format(what, *interval(values)))
        for better, other in DIFFERENCES:
            changes = [100 * (a / b - 1) for a, b in zip(mean_h[better], mean_h[other])]
            print("  {:<28} {:+8.2f} +- {:.2f} %".format(f"{better} over {other}", *interval(changes)), flush=True)


if __name__ == "__main__":
    main()
