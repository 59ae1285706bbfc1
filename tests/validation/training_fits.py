#!/usr/bin/env python3
"""Training rows of data/market/timm.csv.gz that ran, and whether they are said to fit: training_fits.py PROGRAM DATA.

Every row ran on the GPU it names, so that each that is said not to fit is wrong: the share of these is a figure to hold below 2 %. Networks of
the zoo are asked by name, those of data/market/onnx from their files, each at the row's batch, image size, precision and version. timm's
benchmark trains with plain SGD. Prints a line per row said not to fit, by how much, and a total for zoo and files; nothing is fitted to it.
"""
import csv
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile


def predicted(program, network, row):
    command = [program, "predict", str(network), "--gpu", row["gpu"], "--phase", "train", "--precision", row["precision"], "--batch", row["batch_per_gpu"],
               "--framework", "pytorch", "--framework-version", row["framework_version"], "--optimizer", "sgd", "--format", "json"]
    if row["channels_last"] == "yes":
        command.append("--channels-last")
    if not str(network).endswith(".onnx"):
        command += ["--image-size", row["image_size"]]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(run.stdout)["memory"] if run.returncode in (0, 1) else run.stderr.strip()


def main():
    program, data = sys.argv[1], pathlib.Path(sys.argv[2])
    with gzip.open(data / "market/timm.csv.gz", "rt") as file:
        rows = [row for row in csv.DictReader(file) if row["phase"] == "train"]
    with (data / "market/onnx/files.csv").open() as file:
        packed = {(row["model"], row["image_size"]): data / "market/onnx" / row["file"] for row in csv.DictReader(file)}
    with tempfile.TemporaryDirectory() as name:
        for kind in ("zoo", "files"):
            asked, misses, refused = 0, 0, 0
            for row in rows:
                file = packed.get((row["network_as_published"], row["image_size"]))
                if not (row["network"] if kind == "zoo" else file):
                    continue
                network = row["network"]
                if kind == "files":
                    network = pathlib.Path(name, file.name.removesuffix(".gz"))
                    if not network.exists():
                        network.write_bytes(gzip.decompress(file.read_bytes()))
                memory = predicted(program, network, row)
                if isinstance(memory, str):
                    refused += 1
                    print(f"{row['id']} {row['network_as_published']}: {memory}")
                    continue
                asked += 1
                if memory["fits"]:
                    continue
                misses += 1
                print(f"{row['id']} {row['network_as_published']}, batch {row['batch_per_gpu']}, {row['image_size']}, channels last {row['channels_last']}: "
                      f"{memory['device_used_bytes'] / 2**30:.1f} GiB")
            print(f"{kind}: {misses} of {asked} rows that ran are said not to fit ({misses / max(asked, 1):.1%}); {refused} could not be asked")


if __name__ == "__main__":
    main()
