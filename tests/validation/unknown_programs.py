#!/usr/bin/env python3
"""Training programs that are left out: does the interval of an unknown host hold them, and what does one run say?

    tests/validation/unknown_programs.py build/release/bin/tracecast ../shared/data

Leaves one program after the other out of what tools/fit/program_hosts.py learned of all (core.csv on one GPU,
gavel_throughputs.csv, sia_step_times.csv). Of the programs, each counting the same, 85 to 95 % of the rows must lie
inside the 90 % interval, and one run of the same program, at another batch or on another GPU, must halve the error.
Prints a line for each program; exit code 1: missed.
"""
import re
import subprocess
import sys
from pathlib import Path


def main():
    program, data = sys.argv[1:3]
    fit = Path(__file__).resolve().parents[2] / "tools/fit/program_hosts.py"
    out = subprocess.run([sys.executable, str(fit), program, data, "--check"], capture_output=True, text=True, check=True).stdout
    print(out, end="")
    figures = re.search(r"programs alike: inside ([\d.]+) %, error ([\d.]+) %, given one ([\d.]+) %", out)
    inside, before, after = map(float, figures.groups())
    print("inside %.1f %% (85 to 95), error %.1f %%, with one run %.1f %% (at most %.1f)" % (inside, before, after, before / 2))
    return 0 if 85 <= inside <= 95 and after <= before / 2 else 1


if __name__ == "__main__":
    sys.exit(main())
