#!/usr/bin/env python3
"""Published memory and published "fits" or "out of memory" beside ours: tests/validation/memory_tables.py PROGRAM DATA [TABLE...]

Tables: openmmlab, finetune, timm, bert, llm; all of them where none is named. Of each: mean error, bias, share inside the 90 % interval, and the verdicts
against what was observed with the Brier score of the probability. `--rows` prints every row. Nothing is fitted here; only rows whose network is known and whose
job is stated in full are asked, the others are counted.
"""
import csv
import gzip
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

GIB = 2**30


class Asker:
    def __init__(self, program):
        self.program, self.known = program, {}

    def memory(self, words):
        """The report's `memory`, or nothing where the job is refused."""
        if words not in self.known:
            done = subprocess.run([self.program, "predict", *words.split(), "--format", "json"], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
            self.known[words] = json.loads(done.stdout)["memory"] if done.stdout else None
        return self.known[words]


def needed(memory):
    return memory.get("needed_bytes") or memory["total_bytes"]


def probability(memory):
    return memory.get("fit_probability", 1.0 if memory["fits"] else 0.0)


class Errors:
    """Of figures: what was measured, what is predicted, its interval."""

    def __init__(self, name, shows):
        self.name, self.shows, self.rows, self.left_out = name, shows, [], 0

    def add(self, label, measured, memory, quantity):
        """`quantity`: "peak_allocated" or "needed": what the source's reading counts."""
        if memory is None:
            self.left_out += 1
            return
        ours = needed(memory)
        if quantity == "peak_allocated":
            # The counter of the framework's own allocator; the context is not in it.
            ours = memory.get("peak_allocated_bytes") or memory.get("peak_live_bytes") or ours - sum(memory["by_class_bytes"].get(name, 0) for name in ("context", "pool"))
        interval = memory.get("needed_interval_bytes")
        low, high = (interval["low"] / needed(memory), interval["high"] / needed(memory)) if interval else (1, 1)
        error = ours / GIB / measured - 1
        inside = low <= measured * GIB / ours <= high
        self.rows.append((error, inside))
        if self.shows:
            print(f"  {label:70.70} measured {measured:7.2f}  ours {ours / GIB:7.2f} GiB  {100 * error:+6.1f} %{'' if inside else '  outside'}")

    def tell(self):
        if not self.rows:
            print(f"{self.name}: no rows; left out {self.left_out}")
            return 1.0
        n = len(self.rows)
        mean = sum(abs(error) for error, _ in self.rows) / n
        print(f"{self.name}: {n} rows, mean error {100 * mean:.1f} %, bias {100 * sum(e for e, _ in self.rows) / n:+.1f} %, "
              f"inside {100 * sum(i for _, i in self.rows) / n:.0f} %; left out {self.left_out}")
        return mean


class Verdicts:
    """Of fits and does not fit: what was observed, and the probability that we gave."""

    def __init__(self, name, shows):
        self.name, self.shows, self.rows, self.left_out = name, shows, [], 0

    def add(self, label, fitted, memory):
        if memory is None:
            self.left_out += 1
            return
        self.rows.append((fitted, probability(memory)))
        if self.shows:
            print(f"  {label:70.70} {'ran        ' if fitted else 'did not run'}  probability {probability(memory):.2f}  "
                  f"{needed(memory) / GIB:6.2f} of {memory['capacity_bytes'] / GIB:.2f} GiB")

    def tell(self):
        if not self.rows:
            print(f"{self.name}: no rows; left out {self.left_out}")
            return
        ran = [p for fitted, p in self.rows if fitted]
        failed = [p for fitted, p in self.rows if not fitted]
        brier = sum((p - fitted)**2 for fitted, p in self.rows) / len(self.rows)
        print(f"{self.name}: of {len(ran)} that ran {sum(p >= 0.5 for p in ran)} are said to fit, of {len(failed)} that did not "
              f"{sum(p < 0.5 for p in failed)} are said not to, or likely not; Brier score {brier:.3f}; left out {self.left_out}")
        for low, high in ((0, 1 / 3), (1 / 3, 2 / 3), (2 / 3, 1.0001)):
            bin_rows = [(p, f) for f, p in self.rows if low <= p < high]
            if bin_rows:
                stated = sum(p for p, _ in bin_rows) / len(bin_rows)
                observed = sum(f for _, f in bin_rows) / len(bin_rows)
                print(f"    probability {low:.2f} to {min(high, 1):.2f}: {len(bin_rows)} rows, stated {stated:.2f}, observed {observed:.2f}")


def rows_of(path):
    with (gzip.open(path, "rt") if path.suffix == ".gz" else path.open()) as file:
        return list(csv.DictReader(file))


# What a source calls a network of the zoo: folder of the config, method and backbone.
SEGMENTATION = {(method, f"R-{depth}{stem}-D8"): f"{method}_r{depth}_d8"
                for method in ("fcn", "pspnet", "deeplabv3", "deeplabv3plus") for depth in (50, 101) for stem in ("", "b")}
DETECTION = [(re.compile(pattern), network) for pattern, network in
             [(r"^(?P<network>(faster_rcnn|mask_rcnn|cascade_rcnn|cascade_mask_rcnn|retinanet)_(r50|r101|x101_32x4d|x101_64x4d)_(caffe_)?fpn)_"
               r"(albu_|instaboost_|mstrain_|mstrain-poly_)?([1234]x|20e)_coco(-.*)?\.py$", None),
              (r"^ssd300_coco\.py$", "ssd300"), (r"^yolov3_d53_320.*\.py$", "yolov3")]]
# 80,000 iterations of 4 crops (ADE20K, VOC), else 2 crops (Cityscapes); 480x480 is Pascal Context's, 4 crops.
SQUARE_CROPS_ARE_FOUR = {"512x512": 4, "480x480": 4}


def segmentation_batch(row):
    if row["crop"] != "512x512":
        return SQUARE_CROPS_ARE_FOUR.get(row["crop"], 2)
    return 4


def openmmlab(ask, data, shows):
    errors = Errors("openmmlab_memory, peak allocated", shows)
    for row in rows_of(data / "market/openmmlab_memory.csv"):
        if not row["memory_gb"]:
            continue
        words = None
        common = "--gpu v100_sxm2_32gb --framework pytorch --framework-version 1.6 --optimizer momentum"
        if row["collection"] == "mmsegmentation" and row["folder"] in ("fcn", "pspnet", "deeplabv3", "deeplabv3plus"):
            network = SEGMENTATION.get((row["folder"], row["backbone"]))
            height, width = map(int, row["crop"].split("x"))
            if network:
                words = f"{network} {common} --precision fp32 --batch {segmentation_batch(row)} --image-size {round(math.sqrt(height * width))}"
        elif row["collection"] == "mmdetection":
            found = next(((n, match) for pattern, n in DETECTION if (match := pattern.match(row["config"]))), None)
            network = found and (found[0] or found[1]["network"].replace("_caffe", ""))
            if network == "ssd300":
                words = f"{network} {common} --precision fp32 --batch 8 --cudnn-benchmark"
            elif network == "yolov3":
                words = f"{network} {common} --precision fp32 --batch 8 --image-size 320"
            elif network:
                words = f"{network} {common} --precision fp32 --batch 2 --image-size 1037"
        errors.add(f"{row['id']} {row['folder']} {row['backbone']} {row['crop']} {row['config']}", float(row["memory_gb"]),
                   ask.memory(words) if words else None, "peak_allocated")
    return [errors]


def finetune(ask, data, shows):
    errors, verdicts = Errors("finetune_memory", shows), Verdicts("finetune_memory, fits", shows)
    for row in rows_of(data / "market/finetune_memory.csv"):
        words = None
        # litgpt's rows do not state the length of their sequences: they are left out.
        if row["source"] == "torchtune" and row["method"] in ("LoRA", "QLoRA"):
            words = (f"{row['network']} --gpu {row['gpu']} --gpus {row['gpus']} --zero 3 --micro-batch {row['micro_batch']} "
                     f"--global-batch {int(row['micro_batch']) * int(row['gpus'])} --seq-len {row['seq_len']} --precision bf16 --recompute full "
                     f"--software torchtune --lora 16 --lora-targets linear{' --base-precision nf4' if row['method'] == 'QLoRA' else ''}")
        elif row["source"] == "torchtitan" and row["precision"] == "bf16":
            words = (f"{row['network']} --gpu {row['gpu']} --gpus 4 --zero 3 --micro-batch {row['micro_batch']} --global-batch {4 * int(row['micro_batch'])} "
                     f"--seq-len {row['seq_len']} --precision bf16 --software torchtitan --recompute selective")
        memory = ask.memory(words) if words else None
        label = f"{row['id']} {row['model']} {row['method']} {row['precision']} batch {row['micro_batch']}"
        if row["peak_memory"] not in ("", "OOM"):
            errors.add(label, float(row["peak_memory"]), memory, "needed" if "reserved" in row["memory_kind"] else "peak_allocated")
        if row["fits"]:
            verdicts.add(label, row["fits"] == "yes", memory)
    return [errors, verdicts]


def next_batch(batch):
    """The benchmark goes down by 3/4 and 2/3 in turn from 512: the batch before."""
    is_power = batch & (batch - 1) == 0
    return batch * 3 // 2 if is_power else batch // 3 * 4


def timm(ask, data, shows):
    verdicts = Verdicts("timm training on 24 GB, fits", shows)
    for row in rows_of(data / "market/timm.csv.gz"):
        if not row["phase"].startswith("train") or not row["network"]:
            continue
        batch = int(row["batch_per_gpu"])
        words = (f"{row['network']} --gpu {row['gpu']} --precision amp --framework pytorch --framework-version {row['framework_version']} "
                 f"--cudnn-benchmark --optimizer momentum --image-size {row['image_size']}")
        words += " --channels-last" if row["channels_last"] == "yes" else ""
        label = f"{row['id']} {row['network_as_published']} {row['channels_last']} "
        verdicts.add(label + str(batch), True, ask.memory(f"{words} --batch {batch}"))
        if batch < 512 and batch > 1:
            verdicts.add(label + str(next_batch(batch)), False, ask.memory(f"{words} --batch {next_batch(batch)}"))
    return [verdicts]


# google-research/bert, README: largest batch on a Titan X of 12 GB.
BERT = {("bert_base_squad", 64): 64, ("bert_base_squad", 128): 32, ("bert_base_squad", 512): 6, ("bert_large_squad", 64): 12,
        ("bert_large_squad", 128): 6, ("bert_large_squad", 256): 2, ("bert_large_squad", 384): 0}


def bert(ask, data, shows):
    right = 0
    for (network, length), largest in BERT.items():
        memory = ask.memory(f"{network} --gpu titanx_pascal --framework tensorflow --framework-version 1.11 --optimizer adam --seq-len {length} --largest-batch")
        ours = memory["largest_batch"] if memory else None
        is_right = ours is not None and abs(ours - largest) <= 0.25 * largest
        right += is_right
        if shows:
            print(f"  {network} {length}: largest batch {ours}, published {largest}")
    print(f"google-research/bert, TITAN X 12 GB: {right} of {len(BERT)} within 25 %")
    return []


def llm(ask, data, shows):
    errors = Errors("llm_scaling with mem_gb", shows)
    folder = tempfile.mkdtemp()
    for row in rows_of(data / "published/llm_scaling.csv"):
        if not row["mem_gb"]:
            continue
        whole = lambda name: int(float(row[name])) if row[name] else 1
        known = {"GPT-1.3B": "gpt3_1.3b", "Llama-3.1-70B": "llama3_70b", "Llama-3.1-405B": "llama3_405b"}
        network = known.get(row["model"])
        if network is None and row["model"] == "GPT-104B" and float(row["params_b"]) > 60:
            path = pathlib.Path(folder, "gpt104.json")
            path.write_text(json.dumps({"model_type": "gpt2", "vocab_size": 50304, "n_positions": 2048, "n_embd": whole("hidden"),
                                        "n_layer": whole("n_layers"), "n_head": whole("hidden") // 128}))
            network = str(path)
        words = None
        if network:
            words = (f"{network} --gpu {row['gpu_id'].replace('_96gb', '_80gb')} --gpus {whole('gpus')} --tp {whole('tp')} --pp {whole('pp')} --dp {whole('dp')} "
                     f"--global-batch {whole('gbs')} --seq-len {whole('seq_len')} --recompute {row['act_ckpt']}")
            if whole("cp") > 1:
                words += f" --cp {whole('cp')}"
            if row["framework"] == "torchtitan":
                # With stages `mbs` is the batch of a rank, in as many micro-batches as there are stages.
                words += f" --software torchtitan --sequence-parallel --precision bf16 --micro-batch {max(1, whole('mbs') // whole('pp'))} --zero {1 if whole('pp') > 1 else 3}"
                words += " --schedule interleaved:2" if "nterleaved" in row["note"] else ""
            else:
                optimizer = "adam8bit" if "8-bit Adam" in row["note"] else "adam"
                words += f" --software megatron_deepspeed --precision fp16 --optimizer {optimizer} --micro-batch {whole('mbs')} --zero 1 --attention composed"
        errors.add(f"{row['model']} {row['gpu_id']} tp {row['tp']} pp {row['pp']} dp {row['dp']} mbs {row['mbs']} {row['act_ckpt']} {row['note'][:20]}",
                   float(row["mem_gb"]), ask.memory(words) if words else None, "needed")
    return [errors]


TABLES = {"openmmlab": openmmlab, "finetune": finetune, "timm": timm, "bert": bert, "llm": llm}


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    program, data, names = words[0], pathlib.Path(words[1]), words[2:] or list(TABLES)
    ask = Asker(program)
    for name in names:
        for table in TABLES[name](ask, data, "--rows" in sys.argv):
            table.tell()
    return 0


if __name__ == "__main__":
    sys.exit(main())
