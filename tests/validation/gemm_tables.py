#!/usr/bin/env python3
"""GEMMs on tensor cores beside two rooflines: tests/validation/gemm_tables.py PROGRAM DATA [--out FOLDER] [--fitted-only] [--profile FILE]

For each GPU, number format and engine of the tables of DATA/modern: our error with the shipped profile, which was fitted to a
sample of these rows, and with that GPU and every board of its generation out of the fit; beside it the plain roofline (greater of
arithmetic at the peak and compulsory bytes at the bandwidth) and one with three constants (0.75 of the peak, 0.8 of the bandwidth,
3 us more). Rows of 3 us and more; flagged rows (l2, peak, eager, w8a8) are told apart. Exit code 1 when a bar is missed. A fit
without a generation takes some minutes; its profile is kept in the folder and not made twice.
"""
import argparse
import collections
import pathlib
import sys

import table_errors
from table_errors import Errors, read, spec, validate

GPUS = ("a100_sxm4_80gb", "l40s", "h100_sxm5_80gb", "b200")
# Bytes of an activation and of a weight, tensor-core peak: what sim/cost/GEMM.hpp counts.
FORMATS = {
    "bfloat16": (2, 2, "FP16"), "fp16": (2, 2, "FP16"), "fp8": (1, 1, "FP8"), "fp8_static": (1, 1, "FP8"),
    "fp8_block": (1, 1, "FP8"), "nvfp4": (0.5625, 0.5625, "FP4"), "int8_wo": (2, 1, "FP16"),
    "int4_wo": (2, 0.516, "FP16"), "sq": (1, 1, "INT8"),
}
# Tables of the fit.
FITTED = ("gemm.csv.gz", "vidur_linear.csv", "v100_gemm_fp16.csv", "fp8_gemm_pipeweave.csv")
# Bars: fitted, left out, in percent.
BARS = {"bfloat16": (10, 18), "fp8": (12, 22), "fp8_static": (12, 22), "fp8_block": (20, 30), "nvfp4": (12, None),
        "int8_wo": (15, 30), "int4_wo": (15, 30), "sq": (15, 30)}
missed = []


def rooflines(row, gpu_spec, fmt):
    a, b, math_format = FORMATS[fmt]
    m, n, k = (float(row[c]) for c in "mnk")
    peak, width = gpu_spec[0][math_format], gpu_spec[1]
    arithmetic, traffic = 2 * m * n * k / peak * 1e-6, (m * k * a + n * k * b + 2 * m * n) / width * 1e-3
    return table_errors.rooflines(arithmetic, traffic)


HEAD = f"  {'':<34} {'n':>6} {'plain':>6} {'three':>6} | {'mean':>6} {'median':>6} {'bias':>6} {'in90':>5} {'+-%':>5}"


def judge(args, left_out, title, table, only, fmt, gpu_of, flags=(), profile=None, bar=None, least_us=3.0, bias_bar=None):
    rows, out = read(table), collections.OrderedDict()
    flags = list(flags) + (["--profile", str(profile)] if profile else [])
    for report in validate(args.program, table, only, *flags):
        row = rows[report["line"]]
        if report["measured"] < least_us:
            continue
        key = report["flag"] or ""
        ours, plain, three = out.setdefault(key, (Errors(), Errors(), Errors()))
        ours.add(report["measured"], report["predicted"], report["low"], report["high"])
        if "--power" not in flags:
            p, t = rooflines(row, gpu_of, fmt)
            plain.add(report["measured"], p)
            three.add(report["measured"], t)
    for key, (ours, plain, three) in out.items():
        name = title + (f" flag {key}" if key else "")
        beside = f"{plain.mean():>6.1f} {three.mean():>6.1f}" if plain.rows else f"{'':>6} {'':>6}"
        print(f"  {name:<34} {len(ours.rows):>6} {beside} | {ours.mean():>6.1f} {ours.median():>6.1f} {ours.bias():>+6.1f} "
              f"{ours.inside():>5.0f} {ours.width():>5.0f}", flush=True)
        if not key and bar is not None and ours.mean() > bar:
            missed.append(f"{name}: mean {ours.mean():.1f} over {bar}")
        if not key and bias_bar is not None and abs(ours.bias()) > bias_bar:
            missed.append(f"{name}: bias {ours.bias():+.1f} beyond {bias_bar}")
        if not key and left_out and plain.rows and fmt == "bfloat16" and ours.mean() > three.mean() + 3:
            missed.append(f"{name}: more than 3 points above the roofline of three constants, {three.mean():.1f}")
        if not key and left_out and not 85 <= ours.inside() <= 95:
            missed.append(f"{name}: {ours.inside():.0f} % inside the interval")
        if not key and left_out and ours.width() > 30:
            missed.append(f"{name}: half-width {ours.width():.0f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("build/gemm_tables"))
    parser.add_argument("--profile", help="judged in place of the shipped one")
    parser.add_argument("--fitted-only", action="store_true", help="no refits")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    root = pathlib.Path(__file__).resolve().parents[2]
    modern = args.data / "modern"
    gemm = modern / "gemm.csv.gz"
    have = collections.Counter()
    for row in read(gemm).values():
        for column in ("trtllm_us", "sglang_us", "vllm_us"):
            if row[column]:
                have[row["gpu"], row["gemm_dtype"], column[:-3]] += 1
    specs = {gpu: spec(root, gpu) for gpu in GPUS + ("v100_pcie_16gb", "a100_pcie_80gb")}
    for left_out in (False,) if args.fitted_only else (False, True):
        print("\nGenerations left out of the fit" if left_out else "The shipped profile, fitted to a sample of these rows")
        print(HEAD)
        for gpu in GPUS:
            profile = table_errors.profile_without(args, gpu, FITTED, "--errors") if left_out else args.profile
            which = 1 if left_out else 0
            only = [f"gpu={gpu}", "gemm_dtype=bfloat16"]
            judge(args, left_out, f"{gpu} bfloat16", gemm, only, "bfloat16", specs[gpu], profile=profile, bar=BARS["bfloat16"][which],
                  bias_bar=(6, 12)[which])
            for fmt in FORMATS:
                for engine in ("trtllm", "sglang", "vllm"):
                    if fmt not in BARS or fmt == "bfloat16" or have[gpu, fmt, engine] < 100:
                        continue
                    judge(args, left_out, f"{gpu} {fmt} {engine}", gemm, [f"gpu={gpu}", f"gemm_dtype={fmt}"], fmt, specs[gpu],
                          ["--engine", engine], profile, BARS[fmt][which])
            if gpu == "h100_sxm5_80gb":
                judge(args, left_out, "h100 fp8 of PipeWeave", modern / "fp8_gemm_pipeweave.csv", [], "fp8", specs[gpu], profile=profile,
                      bar=None if left_out else 15)
                judge(args, left_out, "h100 PyTorch linear layers", modern / "vidur_linear.csv", ["gpu=h100_sxm5_80gb"], "fp16", specs[gpu],
                      profile=profile, bar=None if left_out else 8)
            if gpu == "a100_sxm4_80gb":
                judge(args, left_out, "a100 PCIe PyTorch linear layers", modern / "vidur_linear.csv", ["gpu=a100"], "fp16",
                      specs["a100_pcie_80gb"], profile=profile, bar=None if left_out else 8)
            if gpu == "b200":
                judge(args, left_out, "b200 board power, bfloat16", gemm, only, "bfloat16", specs[gpu], ["--power"], profile,
                      None if left_out else 10)
        if not left_out:
            judge(args, left_out, "v100 PCIe PyTorch fp16", modern / "v100_gemm_fp16.csv", [], "fp16", specs["v100_pcie_16gb"], profile=args.profile, bar=12)
    print(f"\n{len(missed)} bars missed" + "".join(f"\n  {text}" for text in missed))
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
