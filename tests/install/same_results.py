#!/usr/bin/env python3
"""same_results.py PROGRAM CONSUMER FILE: runs each line of FILE as a command, and through the library; every figure must be
the same to the last digit. A key that the command's JSON does not have is a fault as well."""
import json
import subprocess
import sys


def at(document, path):
    """The value at "power_w.avg" or "breakdown[gemm].time_s"; None: there is none."""
    for part in path.split("."):
        name, _, entry = part.partition("[")
        document = document.get(name) if isinstance(document, dict) else None
        if entry and document is not None:
            document = next((e for e in document if entry[:-1] in e.values()), None)
        if document is None:
            return None
    return document


def main():
    program, consumer, file = sys.argv[1:]
    printed = subprocess.run([consumer, file], capture_output=True, text=True, check=True).stdout
    jobs = figures = faults = 0
    for report in printed.split("# ")[1:]:
        command, *lines = report.splitlines()
        done = subprocess.run([program, *command.split(), "--format", "json"], capture_output=True, text=True, check=False)
        document = json.loads(done.stdout)
        said = {"assumption": list(document["assumptions"]), "warning": list(document["warnings"])}
        jobs += 1
        for line in lines:
            key, _, value = line.partition(" ")
            if key in said:
                same = value in said[key]
                found = said[key]
            else:
                key, _, value = line.rpartition(" ")
                found = at(document, key)
                same = found is not None and float(found) == float(value)
            figures += 1
            if not same:
                faults += 1
                print(f"{command}: {key}: library {value}, command {found}")
    print(f"{jobs} jobs, {figures} figures, {faults} differ")
    return 1 if faults or not jobs else 0


sys.exit(main())
