#!/usr/bin/env python3
"""Calls of inference engines beside two rooflines: tests/validation/engine_tables.py PROGRAM DATA [--out FOLDER] [--fitted-only] [--left-out-only] [--profile FILE] [--only TABLE]

Attention of new tokens and over a cache, latent attention, MoE networks and quantisation of DATA/modern, engine by engine and GPU
by GPU: our error with the shipped profile, which was fitted to a sample of these rows, and with that GPU and every board of its
generation out of the fit; beside it the plain roofline (greater of arithmetic at the peak and compulsory bytes at the bandwidth) and one
with three constants (0.75 of the peak, 0.8 of the bandwidth, 3 us more). Rows of 3 us and more; flagged rows (l2, peak, eager,
fp8_compute) are left out. Bars hold for all rows of a table and engine. Exit code 1 when one is missed. A fit without a generation takes a
minute; its profile is kept in the folder and not made twice.
"""
import argparse
import collections
import pathlib
import re
import sys

import table_errors
from table_errors import Errors, read, spec, validate

GPUS = ("a100_sxm4_80gb", "l40s", "h100_sxm5_80gb", "b200")
ENGINES = ("trtllm", "sglang", "vllm")
TABLES = collections.OrderedDict(
    prefill="attention_prefill.csv.gz", decode="attention_decode.csv.gz", mla_prefill="mla_prefill.csv", mla_decode="mla_decode.csv",
    moe="moe.csv.gz", quantize="quantize.csv")
# Issue 22, "Done when" 1 and 2: mean error fitted and left out, in percent; the two tables of latent attention together.
BARS = {"prefill": (15, 25), "decode": (15, 25), "mla": (18, 30), "moe": (22, 35), "quantize": (15, 25)}
INSIDE, HALF_WIDTH = (85, 95), 40
# Bytes of a weight and of an activation, peak of the GEMMs.
EXPERTS = {"bfloat16": (2, 2, "FP16"), "fp8": (1, 1, "FP8"), "fp8_block": (1, 1, "FP8"), "nvfp4": (0.5625, 0.5625, "FP4"),
           "int4_wo": (0.516, 2, "FP16"), "w4a16_mxfp4": (0.531, 2, "FP16"), "w4a8_mxfp4_mxfp8": (0.531, 1, "FP8"), "w4afp8": (0.516, 1, "FP8")}
missed = []


def work(table, row):
    """Operations, compulsory bytes and the peak they run at."""
    number = {k: float(v) for k, v in row.items() if re.fullmatch(r"[\d.]+", v or "")}
    if table == "quantize":
        return 0, 3 * number["m"] * number["k"], "FP16"
    if table == "moe":
        b, a, peak = EXPERTS[row["moe_dtype"]]
        pairs = max(1, number["num_tokens"] * number["topk"] / number["moe_ep_size"])
        own = number["num_experts"] / number["moe_ep_size"]
        size = number["hidden_size"] * number["inter_size"] / number["moe_tp_size"] * (3 if row["gated"] == "1" else 2)
        return 2 * pairs * size, min(own, pairs) * size * b + pairs * number["hidden_size"] * (a + 2), peak
    cache = 1 if row["kv_cache_dtype"] == "fp8" else 2
    batch, heads = number["batch_size"], number["num_heads"]
    if table.startswith("mla"):
        if table == "mla_decode":
            keys = number["step"] + 1
            return 2 * batch * heads * keys * 1088, batch * (keys * 576 * cache + heads * 1088 * 2), "FP16"
        widths = 320 if row["form"] == "projected" else 1088
        tokens = number["isl"]
        seen = tokens * (tokens + 1) / 2
        return 2 * batch * heads * seen * widths, batch * tokens * (heads * widths * 2 + 576 * cache), "FP16"
    width, kv, window = number["head_dim"], number["num_key_value_heads"], number["window_size"]
    if table == "decode":
        keys = number["step"] + 1
        keys = min(keys, window) if window else keys
        return 4 * batch * heads * keys * width, 2 * batch * width * (keys * kv * cache + heads * 2), "FP16"
    tokens = number["isl"]
    seen = window * tokens - window * (window - 1) / 2 if 0 < window < tokens else tokens * (tokens + 1) / 2
    peak = "FP8" if row["attn_dtype"] == "fp8" else "FP16"
    return 4 * batch * heads * seen * width, batch * tokens * width * (heads * 4 + kv * (4 + 2 * cache)), peak


def rooflines(table, row, gpu):
    operations, traffic, peak = work(table, row)
    return table_errors.rooflines(operations / gpu[0].get(peak, gpu[0]["FP16"]) * 1e-6, traffic / gpu[1] * 1e-3)


def line(name, ours, plain, three):
    print(f"  {name:<38} {len(ours.rows):>6} {plain.mean():>6.1f} {three.mean():>6.1f} | {ours.mean():>6.1f} {ours.median():>6.1f} "
          f"{ours.bias():>+6.1f} {ours.inside():>5.0f} {ours.median(2):>5.0f}", flush=True)


def judge(args, table, specs, left_out):
    path = args.data / "modern" / TABLES[table]
    rows = read(path)
    totals = {engine: [Errors() for _ in range(3)] for engine in ENGINES}
    everything = [Errors() for _ in range(3)]
    for gpu in GPUS:
        profile = table_errors.profile_without(args, gpu, TABLES.values(), "--errors") if left_out else args.profile
        for engine in ENGINES:
            latent = table.startswith("mla")
            only = [f"gpu={gpu}"] + ([f"framework={engine}"] if latent else [])
            flags = ([] if latent else ["--engine", engine]) + (["--profile", str(profile)] if profile else [])
            own = [Errors() for _ in range(3)]
            if not any(r["gpu"] == gpu and (r["framework"] == engine if latent else r[engine + "_us"]) for r in rows.values()):
                continue
            for report in validate(args.program, path, only, *flags):
                if report["measured"] < 3 or report["flag"]:
                    continue
                p, t = rooflines(table, rows[report["line"]], specs[gpu])
                for errors in (own, totals[engine], everything):
                    errors[0].add(report["measured"], report["predicted"], report["low"], report["high"])
                    errors[1].add(report["measured"], p)
                    errors[2].add(report["measured"], t)
            if own[0].rows:
                line(f"{table} {gpu} {engine}", *own)
    return totals, everything


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/engine_tables"))
    parser.add_argument("--profile", help="judged in place of the shipped one")
    parser.add_argument("--fitted-only", action="store_true", help="no refits")
    parser.add_argument("--left-out-only", action="store_true")
    parser.add_argument("--only", action="append", choices=list(TABLES), help="these tables")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path(__file__).resolve().parents[2]
    specs = {gpu: spec(root, gpu) for gpu in GPUS}
    for left_out in (False, True):
        if (left_out and args.fitted_only) or (not left_out and args.left_out_only):
            continue
        print("\nGenerations left out of the fit" if left_out else "The shipped profile, fitted to a sample of these rows")
        print(f"  {'':<38} {'n':>6} {'plain':>6} {'three':>6} | {'mean':>6} {'median':>6} {'bias':>6} {'in90':>5} {'+-%':>5}")
        families = collections.OrderedDict()
        for table in args.only or TABLES:
            totals, everything = judge(args, table, specs, left_out)
            family = families.setdefault("mla" if table.startswith("mla") else table,
                                         ({engine: [Errors() for _ in range(3)] for engine in ENGINES}, [Errors() for _ in range(3)]))
            for engine in ENGINES:
                for kept, new in zip(family[0][engine], totals[engine]):
                    kept.rows += new.rows
            for kept, new in zip(family[1], everything):
                kept.rows += new.rows
        for family, (totals, everything) in families.items():
            for engine in ENGINES:
                ours, plain, three = totals[engine]
                if not ours.rows:
                    continue
                line(f"all of {family} {engine}", ours, plain, three)
                bar = BARS[family][1 if left_out else 0]
                if ours.mean() > bar:
                    missed.append(f"{family} {engine}{' left out' if left_out else ''}: mean {ours.mean():.1f} over {bar}")
            line(f"all of {family}", *everything)
            if left_out:
                if not INSIDE[0] <= everything[0].inside() <= INSIDE[1]:
                    missed.append(f"{family}: {everything[0].inside():.0f} % inside the interval")
                if everything[0].median(2) > HALF_WIDTH:
                    missed.append(f"{family}: half-width {everything[0].median(2):.0f} %")
    print(f"\n{len(missed)} bars missed" + "".join(f"\n  {text}" for text in missed))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
