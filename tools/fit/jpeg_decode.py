#!/usr/bin/env python3
"""Fits the cost of decoding a JPEG on one core, by library, from measured rates (components.csv).

    ln rate(library, cpu) = ln speed(cpu) - ln cycles(library)        least squares, both effects free

The scale comes from the CPUs that have a spec: on average their speed is turbo clock times instructions per clock
over Haswell's, as hwspecs/cpu states them. So `cycles` are clock cycles of a Haswell core for one image; per pixel they are divided by
(pixels + extra), where `extra` pixels stand for the fixed cost of an image, from two image sizes of one
measurement (300x300 and 1920x1080). Printed: cycles per image and per pixel by library, speed by CPU, residuals.
Then the whole loaders: cycles per image of every rate for which the host and its threads are known.
"""
import argparse
import collections
import csv
import math
import pathlib
import re

# Words of the table's CPU names, and their spec.
SPECS = {"3970X": "threadripper_3970x", "9B14": "epyc_9b14", "9B45": "epyc_9b45", "8581C": "platinum_8581c"}
IMAGE_PIXELS = 500 * 400  # as the source states it

SECOND_THREAD_GAIN = 0.25  # of a core's two hardware threads; a guess, as in the profiles
# Whole loaders: row, what it is, cores, spec of the CPU. All cores and their second threads are busy.
LOADERS = [
    ("cmp-00034", "tf.data on 2x E5-2698 v4", 40, "e5_2698_v4"),
    ("cmp-00033", "tensorpack on 2x E5-2698 v4", 40, "e5_2698_v4"),
]


def rates(rows):
    """{(library, cpu): images/s} of one thread; the median over disks where there are several."""
    found = collections.defaultdict(list)
    for row in rows:
        if not row["source"].startswith("ternaus") or row["unit"] != "images/s":
            continue
        if row["metric"] in ("decode rate, 1 thread", "decode rate"):
            library = {"pil": "pillow"}.get(row["framework"], row["framework"])
            found[library, row["gpu"].removeprefix("CPU ")].append(float(row["value"]))
    return {key: sorted(values)[len(values) // 2] for key, values in found.items()}


def two_way(table):
    """Row and column effects of ln(table) by alternating means; columns with mean 0."""
    rows = sorted({r for r, _ in table})
    cols = sorted({c for _, c in table})
    a, b = dict.fromkeys(rows, 0.0), dict.fromkeys(cols, 0.0)
    for _ in range(500):
        for r in rows:
            values = [math.log(table[k]) - b[k[1]] for k in table if k[0] == r]
            a[r] = sum(values) / len(values)
        for c in cols:
            values = [math.log(table[k]) - a[k[0]] for k in table if k[1] == c]
            b[c] = sum(values) / len(values)
    return a, b


def ghz(folder, spec, clock):
    """Haswell GHz of one core of a CPU spec."""
    text = (pathlib.Path(folder) / f"{spec}.textproto").read_text(encoding="utf-8")
    value = lambda field: float(re.search(rf"^{field} {{ value: ([0-9.]+)", text, re.M).group(1))
    return value(clock) / 1e3 * value("single_thread_ipc")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("components", help="published/components.csv")
    parser.add_argument("cpus", help="folder of CPU specs, hwspecs/cpu")
    args = parser.parse_args()
    with open(args.components, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    by_id = {row["id"]: row for row in rows}

    small, large = (1 / float(by_id[i]["value"]) for i in ("cmp-00480", "cmp-00482"))
    slope = (large - small) / (1920 * 1080 - 300 * 300)
    extra = small / slope - 300 * 300
    print(f"fixed cost of an image: as much as {extra:.0f} pixels ({slope * 1e9:.2f} ns per pixel there)")

    table = rates(rows)
    library, cpu = two_way(table)
    known = {name: ghz(args.cpus, SPECS[word], "turbo_clock_mhz") for name in cpu for word in SPECS if word in name}
    scale = sum(math.log(known[name]) - cpu[name] for name in known) / len(known)
    print("\nHaswell GHz of one core    fitted   its spec")
    for name, effect in cpu.items():
        stated = f"{known[name]:10.2f}" if name in known else ""
        print(f"  {name:28} {math.exp(effect + scale):6.2f} {stated}")
    print("\nHaswell cycles      per image   per pixel   (residual of ln, each CPU)")
    for name, effect in library.items():
        cycles = 1e9 * math.exp(scale - effect)
        left = [math.log(table[k]) - effect - cpu[k[1]] for k in table if k[0] == name]
        print(f"  {name:14} {cycles / 1e6:10.2f} M {cycles / (IMAGE_PIXELS + extra):10.1f}   "
              + " ".join(f"{x:+.2f}" for x in left))

    print("\nwhole loaders, Haswell cycles per image")
    for key, what, cores, spec in LOADERS:
        total = cores * ghz(args.cpus, spec, "all_core_clock_mhz") * (1 + SECOND_THREAD_GAIN)
        print(f"  {what:30} {total * 1e3 / float(by_id[key]['value']):6.2f} M")


if __name__ == "__main__":
    main()
