#!/usr/bin/env python3
"""What boards from wgmma on draw in kernels that are no GEMMs, out of readings: power.hbm_active_idle_pj_per_byte, pass_pj_per_byte, busy_cycle_pj.

    tests/validation/kernel_power.py DATA [PROFILE]

Waiting: the least reading of a board, over its idle power, by the rate of its pins: all tables of DATA/modern (B200), our own rows of a
second and more (H200, calibrate/measured). Passes: 8-bit quantisation of 4 MB and more, which streams (DATA/modern/quantize.csv): what is
left of a reading after what GEMMs draw beside arithmetic and after HBM's bytes, by byte. Busy SMs: 16-bit attention of prompts without a
window, of 50 us and more and two blocks an SM at least: what is left after arithmetic and bytes as well, by SM cycle beyond those at the
peak, where the limit leaves room to see it (100 to 600 TFLOP/s). Medians: a reading is a mean over 100 ms and more, which also holds what
ran before (data/modern/README.md). PROFILE (the shipped one) gives what GEMMs draw and is compared with. Fits nothing by itself: the
values stand in hwspecs/cost/prior.textproto.
"""
import csv
import gzip
import math
import pathlib
import re
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLES = ("gemm.csv.gz", "attention_prefill.csv.gz", "attention_decode.csv.gz", "moe.csv.gz", "mla_prefill.csv", "mla_decode.csv",
          "quantize.csv")
TENSOR_MEMORY_STEPS = 2  # generations of instructions after the first that copies asynchronously


def rows(path):
    with (gzip.open(path, "rt") if path.suffix == ".gz" else path.open()) as table:
        yield from csv.DictReader(table)


def spec(gpu):
    text = (ROOT / f"hwspecs/gpu/{gpu}.textproto").read_text()
    return {name: float(value) for name, value in re.findall(r"^(\w+) \{ value: ([\d.]+) source", text, re.M)}


def parameters(profile):
    found = dict(re.findall(r'^parameter \{ name: "([\w.]+)" value: (\S+) ', profile.read_text(), re.M))
    return {name: float(value) for name, value in found.items()}


def missed(size, l2):
    return 1 / (1 + (l2 / size) ** 2)


def main(data, profile):
    modern, p, b200 = data / "modern", parameters(profile), spec("b200")
    read = {name: [row for row in rows(modern / name) if row.get("power_w")] for name in TABLES}
    idle, clock, l2 = b200["idle_w"], b200["boost_clock_mhz"] * 1e6, b200["l2_kib"] * 1024

    h200 = spec("h200")
    own = [float(row["power_w"]) for path in sorted((ROOT / "calibrate/measured/h200_2026_11").glob("*.csv.gz")) for row in rows(path)
           if row.get("power_w") and float(row["time_us"]) * float(row["repetitions"]) >= 1e6]
    least = {"b200": min(float(row["power_w"]) for table in read.values() for row in table), "h200": min(own)}
    waiting = [1e3 * (least["b200"] - idle) / b200["dram_gb_per_s"], 1e3 * (least["h200"] - h200["idle_w"]) / h200["dram_gb_per_s"]]

    base = idle + p["tensor_gemm.base_share"] * (b200["tdp_w"] - idle)
    hbm = p["tensor_gemm.hbm_pj_per_byte"] * 1e-12
    passes = []
    for row in read["quantize.csv"]:
        size = 3.0 * int(row["m"]) * int(row["k"])
        if size >= 4e6:
            seconds = float(row["time_us"]) * 1e-6
            passes.append(1e12 * ((float(row["power_w"]) - base) * seconds / size - hbm * missed(size, l2)))

    flop = (1e-12 * p["tensor_gemm.flop_pj"] * p["tensor_gemm.energy_step"] ** TENSOR_MEMORY_STEPS * p["tensor_gemm.energy_of.tensor_memory"] *
            (b200["process_nm"] / 7) ** p["tensor_gemm.node_exponent"] * (clock / 1.41e9) ** (p["tensor_gemm.clock_exponent"] - 1) *
            p["attention.prefill.energy"])
    peak, sms, busy = 2250e12, b200["sm_count"], []
    for row in read["attention_prefill.csv.gz"]:
        batch, heads, tokens, width = (int(row[c]) for c in ("batch_size", "num_heads", "isl", "head_dim"))
        seconds = float(row["time_us"]) * 1e-6
        rate = 2.0 * batch * heads * tokens * tokens * width / seconds
        is_full = batch * heads * math.ceil(tokens / 128) >= 2 * sms and tokens >= 128 and seconds >= 50e-6
        if row["attn_dtype"] != "bfloat16" or row["window_size"] != "0" or not is_full or not 1e14 <= rate <= 6e14:
            continue
        size = 4.0 * batch * tokens * width * (heads + 2 * int(row["num_key_value_heads"]))
        bytes_w = size / seconds * (hbm * missed(size, l2) + 1e-12 * p["power.pass_pj_per_byte"])
        left = float(row["power_w"]) - base - bytes_w - flop * rate
        busy.append(1e12 * left / (1 - rate / peak) / (sms * clock))

    print(f"{'':28}{'rows':>6}{'quarter':>9}{'median':>9}{'quarter':>9}{'profile':>9}")
    for name, values in (("hbm_active_idle_pj_per_byte", waiting), ("pass_pj_per_byte", passes), ("busy_cycle_pj", busy)):
        low, middle, high = statistics.quantiles(values, n=4) if len(values) > 2 else (min(values), statistics.mean(values), max(values))
        print(f"{'power.' + name:28}{len(values):6}{low:9.1f}{middle:9.1f}{high:9.1f}{p['power.' + name]:9.1f}")
    print(f"least readings: B200 {least['b200']:.0f} W, H200 {least['h200']:.0f} W")


main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "hwspecs/cost/default.textproto")
