#!/usr/bin/env python3
"""The Python module beside the command: python_test.py PROGRAM ROOT [--example]. Exit code 77: there is no NumPy.

Every figure must be the command's to the last digit. With --example also the script that draws, where matplotlib is.
"""
import csv
import gc
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

try:
    import numpy as np
except ImportError:
    print("[skipped] no numpy")
    sys.exit(77)
import tracecast as tc

PROGRAM, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
faults = []


def check(condition, what):
    if not condition:
        faults.append(what)
        print("fault:", what, file=sys.stderr)


def command(*words):
    done = subprocess.run([PROGRAM, *words, "--format", "json"], capture_output=True, text=True, check=False, cwd=ROOT)
    return json.loads(done.stdout), done.returncode


def triple(of):
    return None if of is None else (of.value, of.low, of.high)


def reported(of):
    return of["value"], of["low"], of["high"]


def predictions():
    rows = [({"gpu": "v100", "batch": 64}, "resnet50"), ({"gpu": "cpu:e5_2667", "batch": 4, "phase": "infer"}, "alexnet"),
            ({"gpu": "a100", "gpus": 8, "precision": "amp", "batch": 16, "strategy": "horovod"}, "bert_base"),
            ({"gpu": "v100", "batch": 4096, "cudnn_benchmark": False}, "vgg16"),
            ({"gpu": "a100", "gpus": 8, "tp": 4, "micro_batch": 2, "global_batch": 32, "precision": "amp"}, "gpt2")]
    for flags, network in rows:
        f = tc.predict(network, **flags)
        words = [w for k, v in flags.items() for w in
                 (["--no-cudnn-benchmark"] if k == "cudnn_benchmark" else ["--" + k.replace("_", "-"), str(v)])]
        said, code = command("predict", network, *words)
        what = f"predict {network} {flags}"
        check(triple(f.throughput_samples_per_s) == reported(said["throughput_samples_per_s"]), what)
        check(triple(f.step_time_s) == reported(said["step_time_s"]), what)
        check(f.fits == said["memory"]["fits"] == (code == 0), what + " fits")
        check([dict(i) for i in f.inputs] == said["inputs"], what + " inputs")
        check(abs(sum(f.basis.values()) - 1) < 1e-9, what + " basis")


def matrices():
    jobs = [tc.Job("resnet50", batch=8), tc.Job("bert_base", batch=2, precision="amp"), tc.Job("nosuch")]
    places = [tc.Place("t4"), tc.Place("v100", gpus=4)]
    m = tc.throughput(jobs, places)
    check(m.samples_per_s.shape == (3, 2) and m.samples_per_s.dtype == np.float64, "shape of a matrix")
    said, _ = command("predict", "bert_base", "--gpu", "v100", "--gpus", "4", "--batch", "2", "--precision", "amp")
    check((m.samples_per_s[1, 1], m.samples_per_s_low[1, 1], m.samples_per_s_high[1, 1]) ==
          reported(said["throughput_samples_per_s"]), "a cell is what predict says")
    check("nosuch" in m.refused[2, 0] and np.isnan(m.samples_per_s[2, 0]), "a refused cell says why")


def searches_plans_servings():
    found = tc.search("gpt2", gpu="a100", gpus=8, global_batch=32)
    said, _ = command("predict", "gpt2", "--gpu", "a100", "--gpus", "8", "--global-batch", "32", "--search")
    same = [(d.tp, d.pp, d.dp, d.zero, d.micro_batch, d.samples_per_s.value) for d in found]
    check(same == [(d["tp"], d["pp"], d["dp"], d["zero"], d["micro_batch"], d["throughput"]["value"])
                   for d in said["divisions"]], "search")
    said, _ = command("predict", "gpt2", "--gpu", "a100", "--gpus", "8", "--batch", "16", "--tokens", "1e10", "--within", "2d", "--price", "a100=1.2")
    check(tc.work("gpt2", gpu="a100", gpus=8, batch=16, tokens=1e10, within="2d", price="a100=1.2") == said["work"], "work")
    flags = {"deadline": "30d", "worlds": 20}
    plan = tc.plan(ROOT / "tools/manual/jobs.textproto", **flags)
    said, code = command("plan", "tools/manual/jobs.textproto", "--deadline", "30d", "--worlds", "20")
    check(plan.plan == said["plan"] and plan.exit_code == code, "plan")
    s = tc.serve("llama3_8b", gpu="h100", gpus=1, concurrency=4, input=256, output=32, requests=50)
    said, _ = command("serve", "llama3_8b", "--gpu", "h100", "--gpus", "1", "--concurrency", "4", "--input", "256", "--output", "32",
                      "--requests", "50")
    check(triple(s.ttft_ms.p90) == reported(said["ttft_ms"]["p90"]) and s.tokens_per_s == said["tokens_per_s"], "serve")


def sweeps(folder):
    grid = {"predict": {"network": ["alexnet", "resnet50"], "gpu": ["v100", "t4"], "precision": ["fp32", "amp"], "batch": [1, 1024]}}
    calls = []
    done = tc.sweep(grid, folder / "mine.db", on_progress=lambda *state: calls.append(state))
    check(done.points == done.predicted == 16 and calls, "sweep")
    check(tc.sweep(grid, folder / "mine.db").predicted == 0, "a second sweep predicts nothing")
    (folder / "grid.textproto").write_text(
        'predict { network: ["alexnet", "resnet50"] gpu: ["v100", "t4"] precision: ["fp32", "amp"] batch: [1, 1024] }')
    subprocess.run([PROGRAM, "sweep", folder / "grid.textproto", "-o", folder / "its.db"], check=True, capture_output=True)
    sql = "SELECT * FROM predictions ORDER BY point"
    mine, its = tc.query(folder / "mine.db", sql), tc.query(folder / "its.db", sql)
    check(list(mine) == list(its) and len(mine) == 16, "the same columns")
    for name in mine:
        if name != "state_sha256":  # of the module, of the program
            check(all(a == b or (a != a and b != b) for a, b in zip(mine[name], its[name])), f"column {name}")
    table = csv.DictReader(io.StringIO(subprocess.run([PROGRAM, "query", folder / "mine.db", sql, "--format", "csv"], check=True,
                                                      capture_output=True, text=True).stdout))
    check([float(row["step_time_s"]) for row in table] == list(mine["step_time_s"]), "what query prints")

    def fails(*_):
        raise ZeroDivisionError
    try:
        tc.sweep({"predict": {"network": "alexnet", "gpu": "v100", "batch": list(range(1, 200))}}, folder / "third.db", on_progress=fails)
        check(False, "what on_progress raises is lost")
    except ZeroDivisionError:
        pass


def errors():
    for flags in ({"gpu": "v1000"}, {"gpu": "v100", "batch": 0}, {"gpu": "v100", "batchh": 1}, {"gpu": "v100", "strategy": "horovod"}):
        words = [w for k, v in flags.items() for w in ("--" + k, str(v))]
        line = subprocess.run([PROGRAM, "predict", "resnet50", *words], capture_output=True, text=True, check=False).stderr
        try:
            tc.predict("resnet50", **flags)
            check(False, f"{flags} is not refused")
        except tc.InputError as error:
            check(str(error) + "\n" == line, f"{flags}: {error} instead of {line}")
    for call in (lambda: tc.serve("llama3_8b", gpu="h100"), lambda: tc.plan("/nonexistent"), lambda: tc.query("/nonexistent", "SELECT 1"),
                 lambda: tc.Hardware(profile="/nonexistent"), lambda: tc.sweep("/nonexistent", "x.db"), lambda: tc.Hardware().gpu("v1")):
        try:
            call()
            check(False, "a wrong question is answered")
        except ValueError as error:
            check("\n" not in str(error) and "expected" in str(error), f"one line: {error}")


def ignored():
    """A flag that the answer would not have is refused, not ignored."""
    for flag in ("format", "measured", "explain", "profile"):
        try:
            tc.predict("resnet50", gpu="v100", **{flag: True if flag == "explain" else "json" if flag == "format" else "x"})
            check(False, f"{flag} is ignored")
        except tc.InputError as error:
            check(str(error).startswith("--" + flag), f"{flag}: {error}")


def lives():
    """What is answered outlives what it was asked of."""
    hardware = tc.Hardware(settings=["gpu.memory_bandwidth=2x"])
    predictor = tc.Predictor(hardware)
    forecast = predictor.predict("resnet50", gpu="v100", batch=8)
    roofline, gpu = forecast.roofline(), hardware.gpu("v100")
    del hardware, predictor
    gc.collect()
    check(forecast.roofline().time_s.sum() == roofline.time_s.sum() > 0, "a roofline without its hardware")
    usual = tc.Hardware().gpu("v100")
    check(gpu.bandwidth_bytes_per_s == 2 * usual.bandwidth_bytes_per_s, "hardware with a setting")
    check(forecast.step_time_s.value < tc.predict("resnet50", gpu="v100", batch=8).step_time_s.value, "and what follows from it")


def threads():
    """Others run while one computes, and all answers are right."""
    predictor, reports, ticks = tc.Predictor(), {}, []
    done = threading.Event()

    def ask(gpu):
        reports[gpu] = [predictor.predict("densenet121", gpu=gpu, batch=b).step_time_s.value for b in (1, 2, 4, 8, 16, 32)]

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)
    clock = threading.Thread(target=tick)
    clock.start()
    askers = [threading.Thread(target=ask, args=(gpu,)) for gpu in ("v100", "t4", "a100")]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    done.set()
    clock.join()
    for gpu, values in reports.items():
        check(values == [tc.predict("densenet121", gpu=gpu, batch=b).step_time_s.value for b in (1, 2, 4, 8, 16, 32)], f"threads {gpu}")
    check(len(ticks) > 10, "another thread runs meanwhile")


def example(folder):
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        print("no matplotlib: the example is left out")
        return
    picture = folder / "picture.png"
    subprocess.run([sys.executable, ROOT / "tools/python/examples/which_gpus.py", picture], check=True)
    check(picture.read_bytes().startswith(b"\x89PNG") and picture.stat().st_size > 20_000, "a picture")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for part in (predictions, matrices, searches_plans_servings, errors, ignored, lives, threads):
            part()
        sweeps(folder)
        if "--example" in sys.argv:
            example(folder)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
