#!/usr/bin/env python3
"""Whether the store of predictions survives kill -9: tests/validation/plan_store.py [PROGRAM] [MOMENTS]

A plan is ended at random moments (seeded), each time on the store as the last one left it, now and then with a second process on the same
file. Prints how many cells each run found kept; fails when a later run's bytes differ from those of a run without a store, or when the
store lost a cell that an earlier run had kept.
"""
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/release/bin/tracecast"
MOMENTS = int(sys.argv[2]) if len(sys.argv) > 2 else 50


def command(store):
    words = [PROGRAM, "plan", "tools/manual/jobs.textproto", "--deadline", "30d", "--worlds", "20", "--format", "json"]
    return words + (["--store", store] if store else [])


def kept(store):
    try:
        with sqlite3.connect(store) as database:
            return database.execute("SELECT count(*) FROM results").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


def main():
    draw = random.Random(1)
    start = time.time()
    expected = subprocess.run(command(None), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True).stdout
    whole = time.time() - start
    lost = cells = 0
    with tempfile.TemporaryDirectory() as folder:
        store = folder + "/cells.sqlite"
        for moment in range(MOMENTS):
            if moment % 5 == 0:  # from nothing again
                store = f"{folder}/cells{moment}.sqlite"
            before = kept(store)
            runs = [subprocess.Popen(command(store), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    for _ in range(1 + moment % 2)]
            time.sleep(draw.uniform(0, whole / 3))
            for run in runs:
                run.send_signal(signal.SIGKILL)
                run.wait()
            after = kept(store)
            lost += max(0, before - after)
            cells += after - before
            if moment % 5 == 4:
                both = [subprocess.Popen(command(store), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) for _ in range(2)]
                for run in both:
                    if run.communicate()[0] != expected:
                        print(f"moment {moment}: other bytes")
                        return 1
    print(f"{MOMENTS} moments, {cells} cells kept by runs that were ended, {lost} lost; every next run, two at once, gave the same bytes")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
