#!/usr/bin/env python3
"""Whether two builds answer alike, to the byte: same_results.py BEFORE AFTER DATA

Runs both programs on the golden jobs, on jobs that go elsewhere in the program (clusters, servers, co-location, errors,
help), on the tables of DATA and the studies, and compares exit code, standard output and standard error. Exit code 1, and
the cases by name, when any differ. Needs Python 3 alone.
"""
import glob
import os
import shlex
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TABLES = ["published/core.csv", "published/mlperf.csv", "published/llm_scaling.csv", "jobs/gavel_throughputs.csv",
          "jobs/gavel_colocation.csv"]
CLUSTERS = {
    "leaves": 'id: "leaves" group { name: "a" count: 64 machine: "dgx1_v100" } '
              "network { nodes_per_leaf: 16 oversubscription: 4 }",
    "rails": 'id: "rails" group { name: "a" count: 64 machine: "dgx1_v100" } '
             "network { nodes_per_leaf: 32 rail_optimized: true }",
    "slow": 'id: "slow" group { name: "a" count: 15 machine: "dgx1_v100" } '
            'group { name: "b" count: 1 machine: "dgx1_v100" compute_time_factor: 1.2 start_jitter_us: 500 } '
            "network { nodes_per_leaf: 4 oversubscription: 2 }",
}
JOBS = """
version
--version
help predict
help
predict --help
colocate --help
trace --help
trace replay --help
collectives --help
predict
predict resnet50
predict resnet5 --gpu v100
predict resnet50 --gpu v101
predict resnet50 --gpu v100 --framework pytroch
predict resnet50 --gpu v100 --strategy ddpp --gpus 2
predict resnet50 --gpu v100 version
predcit resnet50
networks --format csv
gpus --format csv
hardware machines
hardware links
collectives --gpu v100 --gpus 8
predict bert_large --gpu a100 --precision amp --batch 8
predict gpt3_175b --gpu a100_sxm4_80gb --gpus 1536 --format json
predict resnet50 --gpu v100 --gpus 8192 --nodes 1024
predict resnet50 --gpu v100 --gpus 8192 --format json
predict resnet50 --gpu v100 --gpus 16 --nodes 4 --strategy horovod --framework tensorflow --xla --precision amp
predict resnet50 --gpu p100 --gpus 32 --nodes 8 --strategy distributed_ps
predict resnet50 --gpu p100 --gpus 32 --nodes 8 --strategy distributed_replicated
predict resnet50 --gpu p100 --gpus 32 --nodes 8 --strategy parameter_server
predict resnet50 --gpu k80 --gpus 32 --nodes 8 --strategy kvstore_dist_device --framework mxnet
predict resnet50 --gpu v100 --gpus 4 --strategy dataparallel
predict resnet50 --gpu v100 --gpus 16 --nodes 2 --no-fold
predict resnet50 --gpu v100 --data imagenet --cpu-threads 8 --disk hdd
predict job:a3c_pong --gpu k80
colocate job:a3c_pong job:autoencoder_ml20m:1024 --gpu k80
colocate job:lstm_wikitext2:20 resnet50:64 --gpu v100 --mps
colocate mask_rcnn:1 gnmt_v2:16 dlrm_kaggle:128 --gpu a100 --format json
colocate vgg16:16 unet:1@1 bert_base:4@1 --gpu p100 --data imagenet
predict llama2_70b --gpu h100
predict ssd300 --gpu v100 --format csv
predict densenet121 --gpu cpu:2xe5_2667 --batch 8
""".strip().splitlines()


def cases(data, scratch):
    for folder in sorted(glob.glob(os.path.join(HERE, "..", "golden", "*", "command"))):
        with open(folder, encoding="utf-8") as file:
            yield os.path.basename(os.path.dirname(folder)), shlex.split(file.read())
    for job in JOBS:
        yield job, shlex.split(job)
    for name, text in CLUSTERS.items():
        path = os.path.join(scratch, name + ".textproto")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        for more in ("", "--strategy horovod", "--strategy parameter_server", "--strategy distributed_ps",
                     "--no-fold"):
            yield f"{name} {more}", ["predict", "resnet50", "--gpu", "v100", "--cluster", path] + shlex.split(more)
    for study in ("s_ibm", "s_nyu", "s_osu", "s_wisc"):
        yield "study " + study, ["study", "run", study, "--format", "json"]
    for table in TABLES:
        path = os.path.join(data, table)
        if os.path.exists(path):
            yield table, ["validate", path, "--format", "json"]
        else:
            print("absent:", path)


def report(program, words):
    done = subprocess.run([program] + words, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    return done.returncode, done.stdout, done.stderr


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    before, after, data = sys.argv[1:]
    differing, count, size = [], 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for name, words in cases(data, scratch):
            first, second = report(before, words), report(after, words)
            count += 1
            size += len(first[1])
            if first != second:
                differing.append(name)
                print("differs:", name)
    print(f"{count} answers, {size} bytes: {len(differing)} differ")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
