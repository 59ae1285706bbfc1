#!/usr/bin/env python3
"""What one measured run of a server says of other loads: tests/validation/served_runs.py PROGRAM DATA [--most N]

data/serving/aic_silicon.csv, aggregated rows without a flag on H100 and B200, at most 64 in flight. Of each configuration (network, GPU, engine,
precision, lengths, sharing) measured at two concurrencies or more, the run in the middle is given as `serve --measured` and the lowest and highest of
the others are predicted, with it and without: mean absolute error and share of rows inside the 90 % interval. Networks whose name's SHA-256 is
even were used to fit load_share (hwspecs/engine): printed apart, with the slope of one error on another that it is. Every N-th configuration
is taken so that there are at most --most of them.
"""
import argparse
import collections
import hashlib
import json
import math
import pathlib
import statistics
import subprocess
import tempfile

import serving_tables as tables

MOST_IN_FLIGHT = 64


def is_fitted(network):
    return int(hashlib.sha256(network.encode()).hexdigest(), 16) % 2 == 0


def configurations(data):
    """By all but the concurrency: rows, the concurrency rising."""
    found = collections.defaultdict(list)
    for r in tables.rows_of(data, "aic_silicon.csv"):
        if r["mode"] != "agg" or r["gpu"] not in ("h100_sxm5_80gb", "b200") or not r["concurrency"] or "Qwen3.5" in r["model"]:
            continue
        if int(r["concurrency"]) <= MOST_IN_FLIGHT and int(r["dp"] or 1) == 1:
            found[tuple(r[k] for k in ("model", "gpu", "backend", "version", "precision", "isl", "osl", "tp", "pp", "moe_ep", "campaign"))].append(r)
    for rows in found.values():
        rows.sort(key=lambda r: int(r["concurrency"]))
    return [rows for _, rows in sorted(found.items()) if len({r["concurrency"] for r in rows}) > 1]


def words_of(r):
    version = tables.version_of(r)
    words = [tables.NETWORKS[r["model"]], "--gpu", r["gpu"], "--gpus", int(r["tp"]) * int(r["pp"] or 1), "--tp", r["tp"], "--pp", r["pp"] or 1,
             "--engine", tables.ENGINES[r["backend"]], "--precision", tables.precision_of(r)]
    if int(r["moe_ep"] or 1) > 1:
        words += ["--ep", r["moe_ep"]]
    if r["backend"] == "vllm" and version[:1].isdigit():
        words += ["--engine-version", version]
    return words + tables.settings(r)


def load_of(r):
    return ["--input", r["isl"], "--output", r["osl"], "--concurrency", r["concurrency"], "--requests", 10 * int(r["concurrency"]), "--warm-up", 0]


def result_of(r):
    """The row as vllm bench serve would have written it; lengths are means, drawn as the command draws them."""
    n, share = 10 * int(r["concurrency"]), 0.9 if r["campaign"].startswith("dump") else 1
    return json.dumps({"completed": n, "max_concurrency": int(r["concurrency"]), "total_input_tokens": round(n * share * int(r["isl"])),
                       "total_output_tokens": round(n * share * int(r["osl"])), "mean_ttft_ms": float(r["ttft_ms"]), "mean_tpot_ms": float(r["tpot_ms"])})


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--most", type=int, default=40)
    args = parser.parse_args()
    program = tables.Program(args.program)
    found = configurations(args.data)
    found = found[::max(1, math.ceil(len(found) / args.most))]
    judged = collections.defaultdict(list)
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run.json"
        for rows in found:
            middle = rows[len(rows) // 2]
            run.write_text(result_of(middle))
            for r in {r["concurrency"]: r for r in (rows[0], rows[-1]) if r is not middle}.values():
                program.known.clear()  # the run's file changes under one name
                without = program.serve(*words_of(r), *load_of(r))
                given = program.serve(*words_of(r), *load_of(r), "--measured", run)
                known = program.serve(*words_of(middle), *load_of(middle), "--no-intervals")
                if without is None or given is None or known is None:
                    continue
                for metric in ("tpot_ms", "ttft_ms"):
                    judged[is_fitted(r["model"]), metric].append(
                        (float(r[metric]), without[metric]["mean"], given[metric]["mean"], math.log(float(middle[metric]) / known[metric]["mean"]["value"])))
    for (fitted, metric), rows in sorted(judged.items()):
        def reported(which):
            error = 100 * statistics.fmean(abs(row[which]["value"] / row[0] - 1) for row in rows)
            inside = 100 * statistics.fmean(row[which]["low"] <= row[0] <= row[which]["high"] for row in rows)
            width = 100 * statistics.median((row[which]["high"] - row[which]["low"]) / 2 / row[which]["value"] for row in rows)
            return f"{error:.1f} % ({inside:.0f} % inside, half-width {width:.0f} %)"
        slope = sum(row[3] * math.log(row[0] / row[1]["value"]) for row in rows) / sum(row[3] ** 2 for row in rows)
        print(f"{metric}, networks {'used to fit load_share' if fitted else 'not used'}: n {len(rows)}, without {told(1)}, with {told(2)}, slope {slope:.2f}")
    for why, count in program.refused.most_common():
        print(f"skipped, {count}: {why}")


if __name__ == "__main__":
    main()
