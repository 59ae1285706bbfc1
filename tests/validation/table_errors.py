"""What gemm_tables.py and engine_tables.py share: specs, tables, predictions, fits without a generation, rooflines, errors."""
import csv
import gzip
import json
import re
import subprocess
import sys


def spec(root, gpu):
    """Tensor-core peaks of the GPU by format, TFLOP/s, and its memory bandwidth, GB/s."""
    text = (root / "hwspecs/gpu" / f"{gpu}.textproto").read_text()
    peaks = {k: float(v) for k, v in re.findall(r"precision: (\w+) unit: TENSOR_CORE tflop_per_s: ([\d.]+)", text)}
    base = re.search(r'^base: "(\w+)"', text, re.M)
    up = spec(root, base[1]) if base else ({}, None)
    width = re.search(r"dram_gb_per_s \{ value: ([\d.]+)", text)
    return {**up[0], **peaks}, float(width[1]) if width else up[1]


def read(path):
    """Rows by their line in the file, counted from 1."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        return {i + 2: row for i, row in enumerate(csv.DictReader(file))}


def validate(program, table, only, *flags):
    """Predicted rows of a table; none where nothing is left of it."""
    command = [program, "validate", str(table), "--format", "json", *flags]
    for text in only:
        command += ["--only", text]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode == 1:
        return []
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}")
    return [row for row in json.loads(done.stdout)["rows"] if row["skipped"] is None]


def profile_without(args, gpu, tables, *flags):
    """The profile of a fit to those tables of DATA/modern without the GPU's generation; made once. --errors: its intervals, too, know
    nothing of that generation; else they are those of before any measurement."""
    path = args.out / f"generation_of_{gpu}.textproto"
    if not path.exists():
        command = [args.program, "calibrate", "check", "--leave-out", "generation", "--only", gpu, "--profiles", str(args.out), *flags]
        for table in tables:
            command += ["--from", str(args.data / "modern" / table)]
        subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return path


def rooflines(arithmetic_us, memory_us):
    """The plain one, and that of three constants."""
    return max(arithmetic_us, memory_us), max(arithmetic_us / 0.75, memory_us / 0.8) + 3


class Errors:
    def __init__(self):
        self.rows = []

    def add(self, measured, predicted, low=None, high=None):
        inside = low <= measured <= high if low is not None else None
        self.rows.append((predicted / measured - 1, inside, (high - low) / 2 / predicted if low is not None else None))

    def mean(self):
        return 100 * sum(abs(r[0]) for r in self.rows) / len(self.rows)

    def median(self, column=0):
        ordered = sorted(abs(r[column]) for r in self.rows)
        return 100 * ordered[len(ordered) // 2]

    def bias(self):
        return 100 * sum(r[0] for r in self.rows) / len(self.rows)

    def inside(self):
        return 100 * sum(r[1] for r in self.rows) / len(self.rows)

    def width(self):
        """Median half-width of the interval."""
        return self.median(2)
