#!/usr/bin/env python3
"""Ends sweeps in every way that they can end: sweep_endings_test.py PROGRAM [--kills N].

Killed N times at random (20), interrupted, on a disk that is full, where nothing can be written, by several processes of mpirun: what
is in the file is right, and the same command goes on to the same rows as an undisturbed run's. Prints a line per fault; exit code 1
when there is any.
"""
import os
import pathlib
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

GRID = """predict {
  network: ["alexnet", "resnet50", "mobilenet_v2", "bert_base"] gpu: ["v100_sxm2_16gb", "t4", "a100_sxm4_40gb"] gpus: [1, 4]
  precision: ["fp32", "amp"] batch: [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 4096] cpu_threads: [4, 16] }
serve { network: "llama3_8b" gpu: "h100_sxm5_80gb" gpus: 1 input: 256 output: 32 requests: 64 concurrency: [1, 2, 4, 8] }
"""
SEED = 20261124
faults = []


def check(condition, what):
    if not condition:
        faults.append(what)
        print("fault:", what, file=sys.stderr)


class Sweep:
    def __init__(self, program, folder, name):
        self.program, self.results = program, folder / f"{name}.db"
        self.grid = folder / "grid.textproto"
        self.grid.write_text(GRID)

    def command(self, *more):
        return [self.program, "sweep", str(self.grid), "-o", str(self.results), *more]

    def run(self, *more, **options):
        return subprocess.run(self.command(*more), capture_output=True, text=True, timeout=300, check=False, **options)

    def rows(self):
        report = ""
        for table in ("predictions", "servings", "grids", "inputs"):
            done = subprocess.run([self.program, "query", str(self.results), f"SELECT * FROM {table} ORDER BY 1", "--format",
                                   "csv"], capture_output=True, text=True, timeout=60, check=False)
            check(done.returncode == 0, f"query: {done.stderr}")
            report += done.stdout
        return report


def one_line_of(done, what, codes=(2,)):
    check(done.returncode in codes, f"{what}: exit code {done.returncode}, {done.stderr}")
    check(done.stderr.count("\n") == 1, f"{what}: says {done.stderr!r}")


def count_of(results):
    """Points in a file that may be in the middle of a write; without a table, none."""
    if not results.exists():
        return 0
    with sqlite3.connect(f"file:{results}?mode=ro", uri=True) as file:
        try:
            return file.execute("SELECT count(*) FROM predictions").fetchone()[0]
        except sqlite3.Error:
            return 0


def killed(sweep, expected, seconds, times, number):
    """Runs are ended at random until so many were; one that comes to its end is right, and another file is begun."""
    ended = whole = kept = 0
    while ended < times:
        with subprocess.Popen(sweep.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            try:
                run.wait(random.uniform(0.05, seconds))
            except subprocess.TimeoutExpired:
                run.send_signal(number)
                ended += 1
                run.wait()
                kept += 0 < count_of(sweep.results)
                continue
        check(run.returncode == 0, "a resumed run ends")
        check(sweep.rows() == expected, f"after {ended} ends the rows differ")
        whole += 1
        for file in sweep.results.parent.glob(sweep.results.name + "*"):
            file.unlink()
    last = sweep.run()
    check(last.returncode == 0, f"after {ended} ends: {last.stderr}")
    check(sweep.rows() == expected, f"after {ended} ends the rows differ")
    check(kept > 0, "no run was ended in its midst")
    print(f"ended {ended} times by {signal.Signals(number).name}, {kept} of them with rows in the file; {whole + 1} files came to "
          f"their end; same rows: {sweep.rows() == expected}")


def limit_file(size):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


def full_disk(sweep, expected):
    """A file that cannot grow beyond 200 KiB: what is in it stays, and grows where there is room again."""
    done = sweep.run(preexec_fn=limit_file(200 << 10))
    one_line_of(done, "full disk")
    print("full disk:", done.stderr.strip())
    check(sweep.run().returncode == 0 and sweep.rows() == expected, "after a full disk the rows differ")


def not_writable(sweep, expected):
    """As somebody who may read only; root may write everything, so it becomes somebody else."""
    check(sweep.run().returncode == 0, "a whole run")
    os.chmod(sweep.results, 0o444)
    os.chmod(sweep.results.parent, 0o555)
    reader = {"user": 65534, "group": 65534} if os.geteuid() == 0 else {}
    one_line_of(sweep.run(**reader), "read-only")
    query = subprocess.run([sweep.program, "query", str(sweep.results), "SELECT count(*) FROM predictions"],
                           capture_output=True, text=True, timeout=60, check=False, **reader)
    check(query.returncode == 0, f"query where nothing can be written: {query.stderr}")
    os.chmod(sweep.results.parent, 0o755)
    os.chmod(sweep.results, 0o644)
    check(sweep.rows() == expected, "a refused run changed rows")


def long_point(sweep):
    """A point of many seconds, asked to stop: the sweep does not wait for its end, and what was there before is there afterwards."""
    sweep.grid.write_text('predict { network: "alexnet" gpu: "t4" } serve { network: "llama3_8b" gpu: "h100_sxm5_80gb" gpus: 1 '
                          'input: 64 output: 4000 requests: 100000 rate: "1/s" }')
    for number in (signal.SIGTERM, signal.SIGINT):
        for left in sweep.results.parent.glob(sweep.results.name + "*"):  # so that its first row says that it is under way
            left.unlink()
        with subprocess.Popen(sweep.command(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
            deadline = time.monotonic() + 60
            while count_of(sweep.results) == 0 and time.monotonic() < deadline:
                time.sleep(0.05)
            run.send_signal(number)
            begin = time.monotonic()
            try:
                _, talk = run.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                run.kill()
                check(False, f"{signal.Signals(number).name} does not end a long point")
                continue
        check(run.returncode == 130, f"a long point ended by {signal.Signals(number).name}: exit code {run.returncode}, {talk}")
        check("the same command goes on" in talk, f"a long point: says {talk!r}")
        check(count_of(sweep.results) == 1, "a row was lost")
        print(f"long point: ended {time.monotonic() - begin:.1f} s after {signal.Signals(number).name}")


def several_processes(sweep, expected):
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        print("mpirun: not here, left out")
        return
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    done = subprocess.run([mpirun, *root, "--oversubscribe", "-n", "3", *sweep.command()], capture_output=True, text=True,
                          timeout=300, check=False)
    check(done.returncode == 0, f"mpirun: {done.stderr}")
    check(sweep.rows() == expected, "three processes wrote other rows than one")
    print("mpirun -n 3:", done.stderr.strip().splitlines()[-1], "same rows:", sweep.rows() == expected)


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    kills = int(sys.argv[sys.argv.index("--kills") + 1]) if "--kills" in sys.argv else 20
    random.seed(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        whole = Sweep(program, folder, "whole")
        begin = time.monotonic()
        done = whole.run()
        seconds = time.monotonic() - begin
        check(done.returncode == 0, f"a whole run: {done.stderr}")
        expected = whole.rows()
        check("0 of" in whole.run().stderr, "a second run predicts nothing")
        killed(Sweep(program, folder, "killed"), expected, seconds, kills, signal.SIGKILL)
        killed(Sweep(program, folder, "stopped"), expected, seconds, 3, signal.SIGINT)
        long_point(Sweep(program, folder, "long"))
        full_disk(Sweep(program, folder, "full"), expected)
        several_processes(Sweep(program, folder, "several"), expected)
        (folder / "locked").mkdir()
        not_writable(Sweep(program, folder / "locked", "read"), expected)
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
