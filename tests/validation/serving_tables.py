#!/usr/bin/env python3
"""Served language models against published measurements: tests/validation/serving_tables.py PROGRAM DATA [--only TABLE] [--rows FILE]

DATA/serving's tables, rows without a flag, each configuration predicted once from specs and the built-in profiles, repeated
runs by their median: mean absolute error per table, metric and GPU, share of rows inside the 90 % interval and its median half-width.
Bars: issue 25, "Done when" 1 to 4. Exit code 1 when one is missed.
"""
import argparse
import collections
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

NETWORKS = {
    "llama2-70b": "llama2_70b", "bloom-176b": "bloom_176b", "Llama-3.1-70B": "llama3_70b", "Qwen2.5-14B": "qwen2.5_14b", "Qwen3-32B": "qwen3_32b",
    "meta-llama/Llama-3.1-70B": "llama3_70b", "Qwen/Qwen3-32B": "qwen3_32b", "openai/gpt-oss-120b": "gpt_oss_120b",
    "MiniMaxAI/MiniMax-M2.5": "minimax_m2.5", "Qwen/Qwen3.5-397B-A17B": "qwen3.5_397b_a17b", "meta-llama/Llama-3.1-8B": "llama3_8b",
    "meta-llama/Llama-3.1-8B-Instruct": "llama3_8b", "mistralai/Mixtral-8x7B-v0.1": "mixtral_8x7b", "Qwen/Qwen3-14B": "qwen3_14b",
    "codellama/CodeLlama-34b-Instruct-hf": "codellama_34b", "Qwen/Qwen2.5-7B-Instruct": "qwen2_7b", "meta-llama/Llama-2-7b-hf": "llama2_7b"}
ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrt_llm"}
BARS = {("splitwise", "prompt_ms"): 12, ("splitwise", "token_ms"): 12, ("splitwise", "e2e_ms"): 10,
        ("pipeweave", "prefill_ms"): 15, ("pipeweave", "decode_ms"): 15, ("pipeweave", "total_ms"): 12,
        ("aic", "tpot_ms"): 15, ("aic", "ttft_ms"): 25,
        ("timelines", "ttft"): 15, ("timelines", "tpot"): 10, ("timelines", "e2e"): 10, ("timelines", "kv_tokens"): 5,
        ("vllm_h100", "e2e"): 20, ("vllm_h100", "itl"): 12}
RATES = {"general": (8, 20), "codegen": (5, 10), "roleplay": (6,), "reasoning": (4,)}


class Program:
    def __init__(self, path):
        self.path, self.known, self.refused = path, {}, collections.Counter()

    def serve(self, *words):
        """The answer, or None where the program refuses or it does not fit."""
        if words not in self.known:
            done = subprocess.run([self.path, "serve", *map(str, words), "--format", "json"], capture_output=True, text=True, check=False)
            self.known[words] = json.loads(done.stdout) if done.returncode in (0, 1) else None
            if done.returncode not in (0, 1):
                self.refused[done.stderr.strip()[:150]] += 1
            elif "ttft_ms" not in self.known[words]:
                self.refused[f"does not fit: {words[0]} {' '.join(map(str, words[1:6]))}"] += 1
                self.known[words] = None
        return self.known[words]


Row = collections.namedtuple("Row", "table group metric key measured predicted low high")


def rows_of(data, name):
    with open(data / "serving" / name, newline="") as file:
        return [row for row in csv.DictReader(file) if not row.get("flag")]


def row(table, group, metric, key, measured, value):
    return Row(table, group, metric, key, float(measured), value["value"], value["low"], value["high"])


def is_fitted_splitwise(model, tp, prompt, batch, output):
    """Rows that host costs of vLLM of 2023 were fitted to: hwspecs/published/splitwise.textproto."""
    if model == "bloom-176b":
        return batch in ("2", "4", "8", "16", "32") or (batch == "1" and output == "128")
    return model == "llama2-70b" and prompt == "128" and tp in ("4", "8")


def splitwise(program, data):
    runs = collections.defaultdict(list)
    for r in rows_of(data, "splitwise.csv"):
        runs[r["model"], r["gpu"], r["tp"], r["prompt"], r["batch"], r["output"]].append(r)
    for key, group in sorted(runs.items()):
        model, gpu, tp, prompt, batch, output = key
        # Both were timed beyond their 4096 and 2048 tokens.
        a = program.serve(NETWORKS[model], "--gpu", gpu, "--gpus", tp, "--engine", "vllm_v0_2023", "--precision", "fp16", "--input", prompt,
                          "--batch", batch, "--output", output, "--context", int(prompt) + int(output))
        if a is None:
            continue
        is_fitted = is_fitted_splitwise(model, tp, prompt, batch, output)
        for metric, part in (("prompt_ms", "ttft_ms"), ("token_ms", "tpot_ms"), ("e2e_ms", "e2e_ms")):
            yield row("splitwise_fitted" if is_fitted else "splitwise", f"{model} tp{tp}", metric, key, statistics.median(float(r[metric]) for r in group), a[part]["mean"])


def pipeweave(program, data):
    runs = collections.defaultdict(list)
    for r in rows_of(data, "pipeweave_e2e.csv"):
        if r["backend"] == "sglang":
            runs[r["model"], r["gpu"], r["tp"], r["workload"], r["batch"], r["prompt_tokens_total"], r["output"]].append(r)
    for key, group in sorted(runs.items()):
        model, gpu, tp, _, batch, total, output = key
        # Lengths of the prompts are not committed: alike ones.
        a = program.serve(NETWORKS[model], "--gpu", gpu, "--gpus", tp, "--engine", "sglang", "--precision", "bf16",
                          "--input", round(int(total) / int(batch)), "--batch", batch, "--output", output)
        if a is None:
            continue
        for metric, part, which in (("prefill_ms", "ttft_ms", "mean"), ("decode_ms", "tpot_ms", "p50"), ("total_ms", "e2e_ms", "mean")):
            yield row("pipeweave", f"{gpu} {model}", metric, key, statistics.median(float(r[metric]) for r in group), a[part][which])


def precision_of(r):
    if r["model"].startswith("openai"):
        return "mxfp4"
    if r["precision"] == "fp8":
        return "fp8_block" if "MiniMax" in r["model"] or "Qwen3.5" in r["model"] else "fp8"
    return {"fp4": "nvfp4", "bf16": "bf16", "int4": "int4_wo"}[r["precision"]]


def settings(r):
    """What the scripts set that made the dumps (SemiAnalysisAI/InferenceX, benchmarks/70b_*, gptoss_fp4_*, single_node/minimaxm2.5_*.sh): 8-bit caches but for gpt-oss on H100,
    tokens and sequences of a step."""
    if not r["campaign"].startswith("dump"):  # lengths as stated; TensorRT-LLM takes the cache's format from ModelOpt's checkpoints, 8 bits
        # Tokens of a step as aiconfigurator's generator sets them (generator/backends/trtllm.py, max_num_tokens).
        return ["--kv-precision", "fp8", "--max-batched-tokens", int(r["concurrency"]) // int(r["dp"] or 1) + int(r["isl"]) + 1500] if r["backend"] == "trtllm" else []
    words, is_oss = ["--least-share", 0.8], r["model"].startswith("openai")
    if r["model"].startswith(("meta-llama", "openai")) and not (is_oss and r["gpu"].startswith("h100")):
        words += ["--kv-precision", "fp8"]
    if r["backend"] == "trtllm":
        words += ["--max-batched-tokens", 20000 if is_oss else int(r["isl"]) + int(r["osl"]) + 200]
    if r["backend"] == "vllm":
        words += ["--max-batched-tokens", 8192, "--max-sequences", 512]
        if is_oss:  # max-cudagraph-capture-size in gptoss_fp4_b200.sh and gptoss_fp4_h100.sh
            words += ["--graph-tokens", 2048]
    if "MiniMax" in r["model"] and r["precision"] == "fp8":
        words += ["--memory-share", 0.95]
    if "MiniMax" in r["model"] and r["precision"] == "fp4":  # ModelOpt's checkpoint names the cache's format (vllm-project/vllm issue 45178: its tokens)
        words += ["--kv-precision", "fp8"]
    return words


def version_of(r):
    """As stated; else vLLM's of that month: 0.14, whose host runs ahead, came in January 2026."""
    if not r["version"] and r["backend"] == "vllm" and "" < r["date"] < "2026":
        return "0.11"
    return r["version"].split("rc")[0].removesuffix(".post1")


def aic(program, data):
    for r in rows_of(data, "aic_silicon.csv"):
        if r["mode"] != "agg" or r["gpu"] not in ("h100_sxm5_80gb", "b200") or not r["concurrency"]:
            continue
        tp, dp, pp = int(r["tp"]), int(r["dp"] or 1), int(r["pp"] or 1)
        sharing = ["--tp", tp // dp if tp % dp == 0 and dp > 1 and tp >= dp else tp, "--dp", dp, "--pp", pp]
        gpus = sharing[1] * dp * pp
        ep = int(r["moe_ep"] or 1)
        if ep > 1:
            sharing += ["--ep", ep]
        words = [NETWORKS[r["model"]], "--gpu", r["gpu"], "--gpus", gpus, *sharing, "--engine", ENGINES[r["backend"]], "--precision", precision_of(r),
                 "--input", r["isl"], "--output", r["osl"], "--concurrency", r["concurrency"],
                 "--requests", min(4000, 10 * int(r["concurrency"])), "--warm-up", 0, "--no-intervals"]
        words += settings(r)
        version = version_of(r)
        if r["backend"] == "vllm" and version[:1].isdigit():
            words += ["--engine-version", version]
        a = program.serve(*words)
        if a is None:
            continue
        key = (r["gpu"], r["model"], r["backend"], r["version"], r["precision"], r["isl"], r["osl"], r["concurrency"], tp, dp, ep)
        table = "aic_qwen3.5" if "Qwen3.5" in r["model"] else "aic"
        for metric in ("ttft_ms", "tpot_ms"):
            yield row(table, f"{r['gpu']} {r['model'].split('/')[1]} {r['backend']} {r['precision'] or 'bf16'}", metric, key, r[metric], a[metric]["mean"])


def directions(rows):
    """Pairs of one network, GPU and lengths that differ in sharing or load alone, by more than 20 % in measured time per token."""
    groups = collections.defaultdict(list)
    for r in rows:
        if r.table == "aic" and r.metric == "tpot_ms":
            groups[r.key[:7]].append(r)
    right = pairs = 0
    for group in groups.values():
        for i, a in enumerate(group):
            for b in group[:i]:
                if max(a.measured, b.measured) > 1.2 * min(a.measured, b.measured):
                    pairs += 1
                    right += (a.measured > b.measured) == (a.predicted > b.predicted)
    return right, pairs


def percentile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


def timelines(program, data):
    settings = {r["run"]: r for r in rows_of(data, "vllm_runs.csv")}
    runs = collections.defaultdict(list)
    for r in rows_of(data, "vllm_timelines.csv"):
        runs[r["run"]].append(r)
    for run, requests in runs.items():
        s = settings[run]
        with tempfile.TemporaryDirectory() as folder:
            trace, out = pathlib.Path(folder) / "trace.csv", pathlib.Path(folder) / "out.csv"
            requests.sort(key=lambda r: float(r["queued_s"]))
            lines = ["arrival_s,input_tokens,output_tokens"] + [f"{max(0, float(r['queued_s']))},{r['input_tokens']},{r['output_tokens']}" for r in requests]
            trace.write_text("\n".join(lines) + "\n")
            a = program.serve(NETWORKS[s["model"]], "--gpu", s["gpu"], "--gpus", s["tp"], "--engine", "vllm", "--engine-version", s["vllm_version"],
                              "--max-batched-tokens", s["max_num_batched_tokens"], "--max-sequences", s["max_num_seqs"],
                              "--memory-share", s["gpu_memory_utilization"], "--trace", trace, "--per-request", out)
            if a is None:
                continue
        measured = {"ttft": [], "tpot": [], "e2e": []}
        for r in requests:
            queued, first, last = (float(r[k]) for k in ("queued_s", "first_token_s", "last_token_s"))
            measured["ttft"].append(1e3 * (first - queued))
            measured["e2e"].append(1e3 * (last - queued))
            if int(r["output_tokens"]) > 1:
                measured["tpot"].append(1e3 * (last - first) / (int(r["output_tokens"]) - 1))
        for metric, values in measured.items():
            for which, value in (("mean", statistics.fmean(values)), ("p90", percentile(values, 0.9))):
                # Stamped by the engine: without the server before it.
                server = 0 if metric == "tpot" else a["frontend_ms"]
                predicted = {k: a[metric + "_ms"][which][k] - server for k in ("value", "low", "high")}
                yield row("timelines", which, metric, run, value, predicted)
        kv = a["kv_tokens"]
        yield Row("timelines", "capacity", "kv_tokens", run, float(s["kv_tokens"]), kv, kv, kv)


def vllm_h100(program, data):
    for r in rows_of(data, "vllm_h100.csv"):
        rates = RATES.get(r["workload"])
        stage = "0" if r["stage"] == "all" and rates and len(rates) == 1 else r["stage"]  # one stage is the whole run
        if rates is None or stage not in ("0", "1") or int(stage) >= len(rates):
            continue
        metric, which = r["metric"].split("_")[:2]
        words = [NETWORKS[r["model"]], "--gpu", r["gpu"], "--gpus", r["tp"], "--engine", "vllm", "--engine-version", "0.15.1", "--precision", "fp16",
                 "--input", r["input_tokens"], "--output", r["output_tokens"], "--shared-prefix", int(r["input_tokens"]) // 4,
                 "--max-batched-tokens", r["max_num_batched_tokens"], "--max-sequences", 128, "--memory-share", r["gpu_memory_utilization"] or 0.9,
                 "--rate", rates[int(stage)], "--requests", 600 * rates[int(stage)], "--warm-up", 0]
        a = program.serve(*words)
        if a is not None:
            yield row("vllm_h100", f"{r['model'].split('/')[1]} {r['workload']} {which}", metric, tuple(r.values()), r["value"], a[metric + "_ms"][which])


TABLES = {"splitwise": splitwise, "pipeweave": pipeweave, "aic": aic, "timelines": timelines, "vllm_h100": vllm_h100}


def summary(rows):
    errors = [r.predicted / r.measured - 1 for r in rows]
    return 100 * statistics.fmean(map(abs, errors)), 100 * statistics.median(errors)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--only", choices=list(TABLES))
    parser.add_argument("--rows", type=pathlib.Path, help="write every row to this CSV file")
    args = parser.parse_args()
    program, rows, missed = Program(args.program), [], []
    for name, make in TABLES.items():
        if args.only in (None, name):
            rows += list(make(program, args.data))
    if args.rows:
        with open(args.rows, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(Row._fields)
            writer.writerows(rows)
    for table, metric in dict.fromkeys((r.table, r.metric) for r in rows):
        chosen = [r for r in rows if (r.table, r.metric) == (table, metric)]
        error, bias = summary(chosen)
        bar = BARS.get((table, metric))
        verdict = "" if bar is None else f"  bar {bar}: {'met' if error <= bar else 'MISSED'}"
        missed += [(table, metric)] if bar is not None and error > bar else []
        print(f"{table} {metric}: n {len(chosen)}, mean error {error:.1f} %, median {bias:+.1f} %{verdict}")
        for group in sorted({r.group for r in chosen}):
            part = [r for r in chosen if r.group == group]
            print("    {}: n {}, {:.1f} %, median {:+.1f} %".format(group, len(part), *summary(part)))
    right, pairs = directions(rows)
    if pairs:
        print(f"direction of time per token: {right} of {pairs}, {100 * right / pairs:.0f} %  bar 90: {'met' if right >= 0.9 * pairs else 'MISSED'}")
        missed += [("aic", "direction")] if right < 0.9 * pairs else []
    single = [r for r in rows if r.table in ("splitwise", "pipeweave")]
    if single:
        inside = 100 * statistics.fmean(r.low <= r.measured <= r.high for r in single)
        half = 100 * statistics.median((r.high - r.low) / 2 / r.predicted for r in single)
        met = 85 <= inside <= 95 and half <= 30
        print(f"intervals of single batches: {inside:.0f} % inside (85 to 95), median half-width {half:.0f} % (30): {'met' if met else 'MISSED'}")
        missed += [] if met else [("intervals", "")]
    for why, count in program.refused.most_common():
        print(f"skipped, {count} configurations: {why}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
