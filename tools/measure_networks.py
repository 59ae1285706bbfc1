#!/usr/bin/env python3
"""Measures PyTorch networks on this machine's GPU: tools/measure_networks.py --gpu ID --out FILE.csv [--budget 8m] [--list]

Rows have the columns of data/published/core.csv, so that `tracecast validate FILE.csv` reads them. Networks are the ones that
torchvision and transformers ship, with random weights and synthetic data on the GPU. A step is forward, loss, backward and SGD
with momentum; inference is forward without gradients. Each figure is the median of at least 10 steps and 1 second after 0.7
seconds of warm-up, timed by CUDA events round every step. What stands in FILE already is not measured again, so the same command
goes on where a budget ended. Exit codes: 0 done or out of budget, 2 wrong arguments, 3 what is needed is missing.
"""
import argparse
import csv
import datetime
import gc
import os
import statistics
import sys
import time

COLUMNS = ("id,source,date,gpu,gpus,nodes,interconnect,framework,framework_name,framework_version,precision,xla,network,data,"
           "phase,batch_per_gpu,samples_per_s,notes").split(",")
IMAGE_BATCHES, TEXT_BATCHES = (32, 1, 128), (8, 1, 32)  # in the order of measuring
# zoo name, maker, batches, tokens per sample or side of the image in pixels; by eager attention
NETWORKS = [
    ("resnet50", "torchvision", IMAGE_BATCHES, 224),
    ("bert_large", "transformers", TEXT_BATCHES, 512),
    ("vgg16", "torchvision", IMAGE_BATCHES, 224),
    ("gpt2", "transformers", TEXT_BATCHES, 1024),
    ("mobilenet_v2", "torchvision", IMAGE_BATCHES, 224),
    ("vit_b_16", "torchvision", IMAGE_BATCHES, 224),
    ("densenet121", "torchvision", IMAGE_BATCHES, 224),
    ("resnet152", "torchvision", IMAGE_BATCHES, 224),
    ("efficientnet_b0", "torchvision", IMAGE_BATCHES, 224),
    ("convnext_tiny", "torchvision", IMAGE_BATCHES, 224),
    ("alexnet", "torchvision", IMAGE_BATCHES, 224),
]
# As above, by the attention that the makers' newest code takes when nobody asks for one.
MORE_NETWORKS = [
    ("llama3_1b", "transformers", (2, 1, 4), 8192),
    ("resnext50_32x4d", "torchvision", IMAGE_BATCHES, 224),
    ("opt_1.3b", "transformers", (4, 1, 8), 2048),
    ("swin_t", "torchvision", IMAGE_BATCHES, 224),
    ("t5_base", "transformers", TEXT_BATCHES, 512),
    ("regnet_y_8gf", "torchvision", IMAGE_BATCHES, 224),
    ("bloom_560m", "transformers", (4, 1, 16), 2048),
    ("squeezenet1_1", "torchvision", IMAGE_BATCHES, 224),
    ("shufflenet_v2", "torchvision", IMAGE_BATCHES, 224),
    ("mnasnet1_0", "torchvision", IMAGE_BATCHES, 224),
    ("vgg16_bn", "torchvision", IMAGE_BATCHES, 224),
    ("mobilenet_v3_large", "torchvision", IMAGE_BATCHES, 224),
    ("efficientnet_v2_s", "torchvision", IMAGE_BATCHES, 384),
]
# Relatives of the first, and kinds that are in neither list.
EAGER_RELATIVES = [
    ("roberta_base", "transformers", TEXT_BATCHES, 512),
    ("gpt2_medium", "transformers", (4, 1, 16), 1024),
    ("albert_base", "transformers", TEXT_BATCHES, 512),
    ("distilbert_base", "transformers", TEXT_BATCHES, 512),
    ("electra_base", "transformers", TEXT_BATCHES, 512),
    ("xlnet_base", "transformers", TEXT_BATCHES, 512),
]
RELATIVES = [
    ("wide_resnet50_2", "torchvision", IMAGE_BATCHES, 224),
    ("qwen2_0.5b", "transformers", (2, 1, 4), 4096),
    ("deeplabv3_resnet50", "torchvision", (8, 1, 32), 520),
    ("pythia_410m", "transformers", (4, 1, 16), 2048),
    ("inception_v3", "torchvision", IMAGE_BATCHES, 299),
    ("phi_2", "transformers", (1, 2, 4), 2048),
    ("efficientnet_b4", "torchvision", IMAGE_BATCHES, 380),
    ("t5_small", "transformers", TEXT_BATCHES, 512),
    ("mobilenet_v3_small", "torchvision", IMAGE_BATCHES, 224),
    ("swin_s", "torchvision", IMAGE_BATCHES, 224),
    ("densenet201", "torchvision", IMAGE_BATCHES, 224),
    ("vit_l_16", "torchvision", IMAGE_BATCHES, 224),
    ("googlenet_bn", "torchvision", IMAGE_BATCHES, 224),
    ("regnet_x_8gf", "torchvision", IMAGE_BATCHES, 224),
    ("mistral_7b", "transformers", (1, 2, 4), 4096),
    ("resnet18", "torchvision", IMAGE_BATCHES, 224),
    ("vgg19_bn", "torchvision", IMAGE_BATCHES, 224),
    ("fcn_resnet50", "torchvision", (8, 1, 32), 520),
    ("shufflenet_v2_x2_0", "torchvision", IMAGE_BATCHES, 224),
    ("convnext_base", "torchvision", IMAGE_BATCHES, 224),
]
LISTS = [(NETWORKS, "eager"), (MORE_NETWORKS, "default"), (EAGER_RELATIVES, "eager"), (RELATIVES, "default")]
# Built without a head and trained on their states: what the zoo trains by their names has one, a quarter or more of a step.
ENCODERS = ("bert_large", "roberta_base", "albert_base", "distilbert_base")
PRECISIONS, PHASES = (("bf16", "tf32"), ("fp32",)), ("train", "infer")


def jobs():
    """Every configuration; plain fp32 last, one batch after the other, so that a short budget sees all networks once."""
    for precisions in PRECISIONS:
        for batch_index in range(3):
            for listed, attention in LISTS:
                for network, maker, batches, size in listed:
                    for precision in precisions:
                        for phase in PHASES:
                            alone = "_encoder" if phase == "train" and network in ENCODERS else ""
                            yield {"network": network + alone, "builds": network, "maker": maker,
                                   "batch": batches[batch_index], "size": size,
                                   "precision": precision, "phase": phase, "attention": attention}


def key(job):
    return f"{job['network']}-{job['precision']}-{job['phase']}-{job['batch']}"


def seconds(text):
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        value = float(text[:-1]) * units[text[-1]]
    except (ValueError, KeyError, IndexError):
        value = 0
    if not 1 <= value <= 86400:
        raise argparse.ArgumentTypeError(f'"{text}", expected a time such as 90s, 8m or 1h')
    return value


def build_image(job, torch):
    """As `build`, of torchvision."""
    import torchvision
    batch, side, name = job["batch"], job["size"], job["builds"]
    name = {"shufflenet_v2": "shufflenet_v2_x1_0", "googlenet_bn": "googlenet"}.get(name, name)  # where torchvision's differ
    images, entropy = torch.randn(batch, 3, side, side, device="cuda"), torch.nn.functional.cross_entropy
    if hasattr(torchvision.models.segmentation, name):
        labels = torch.randint(0, 21, (batch, side, side), device="cuda")
        network = getattr(torchvision.models.segmentation, name)(weights=None, weights_backbone=None, aux_loss=True)
        return network, {"x": images}, lambda out: (entropy(out["out"].float(), labels) + 0.5 * entropy(out["aux"].float(), labels))
    labels = torch.randint(0, 1000, (batch,), device="cuda")
    helpers = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    network = getattr(torchvision.models, name)(**helpers)
    return network, {"x": images}, lambda out: entropy(out.float(), labels)


def build(job, torch):
    """(network, its inputs, function from its output to a loss)"""
    device, batch, tokens = "cuda", job["batch"], job["size"]
    if job["maker"] == "torchvision":
        return build_image(job, torch)
    import transformers as t
    maker, config = {
        "bert_large": (t.BertModel, t.BertConfig(vocab_size=30522, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
                                                 intermediate_size=4096)),
        "gpt2": (t.GPT2LMHeadModel, t.GPT2Config()),
        "llama3_1b": (t.LlamaForCausalLM, t.LlamaConfig(vocab_size=128256, hidden_size=2048, intermediate_size=8192,
                                                        num_hidden_layers=16, num_attention_heads=32, num_key_value_heads=8,
                                                        tie_word_embeddings=True, max_position_embeddings=8192)),
        "opt_1.3b": (t.OPTForCausalLM, t.OPTConfig(vocab_size=50272, hidden_size=2048, ffn_dim=8192, num_hidden_layers=24,
                                                   num_attention_heads=32, max_position_embeddings=2048, word_embed_proj_dim=2048)),
        "bloom_560m": (t.BloomForCausalLM, t.BloomConfig(vocab_size=250880, hidden_size=1024, n_layer=24, n_head=16)),
        "t5_base": (t.T5ForConditionalGeneration, t.T5Config(vocab_size=32128, d_model=768, d_kv=64, d_ff=3072, num_layers=12,
                                                             num_heads=12)),
        "t5_small": (t.T5ForConditionalGeneration, t.T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6,
                                                              num_heads=8)),
        "roberta_base": (t.RobertaModel, t.RobertaConfig(vocab_size=50265, max_position_embeddings=514, type_vocab_size=1)),
        "albert_base": (t.AlbertModel, t.AlbertConfig(hidden_size=768, num_attention_heads=12, intermediate_size=3072)),
        "distilbert_base": (t.DistilBertModel, t.DistilBertConfig()),
        "electra_base": (t.ElectraModel, t.ElectraConfig(embedding_size=768, hidden_size=768, num_attention_heads=12,
                                                         intermediate_size=3072)),
        "xlnet_base": (t.XLNetModel, t.XLNetConfig(d_model=768, n_layer=12, n_head=12, d_inner=3072)),
        "gpt2_medium": (t.GPT2LMHeadModel, t.GPT2Config(n_embd=1024, n_layer=24, n_head=16)),
        "pythia_410m": (t.GPTNeoXForCausalLM, t.GPTNeoXConfig(vocab_size=50304, hidden_size=1024, num_hidden_layers=24,
                                                              num_attention_heads=16, intermediate_size=4096)),
        "qwen2_0.5b": (t.Qwen2ForCausalLM, t.Qwen2Config(vocab_size=151936, hidden_size=896, intermediate_size=4864,
                                                         num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2,
                                                         tie_word_embeddings=True)),
        "phi_2": (t.PhiForCausalLM, t.PhiConfig(vocab_size=51200, hidden_size=2560, intermediate_size=10240, num_hidden_layers=32,
                                                num_attention_heads=32, partial_rotary_factor=0.4)),
        "mistral_7b": (t.MistralForCausalLM, t.MistralConfig()),
    }[job["builds"]]
    if job["attention"] == "eager":
        config._attn_implementation = "eager"
    if hasattr(config, "use_cache"):
        config.use_cache = False
    ids = torch.randint(0, 30000, (batch, tokens), device=device)
    inputs = {"input_ids": ids}
    if maker in (t.BertModel, t.RobertaModel, t.AlbertModel, t.DistilBertModel, t.ElectraModel, t.XLNetModel):
        inputs["attention_mask"] = torch.ones_like(ids)
        if maker is not t.DistilBertModel:
            inputs["token_type_ids"] = torch.zeros_like(ids)
        return maker(config), inputs, lambda out: sum(
            x.float().pow(2).mean() for x in (out.last_hidden_state, getattr(out, "pooler_output", None)) if x is not None)
    is_both = maker is t.T5ForConditionalGeneration
    shift = 0 if is_both else 1  # a decoder's word is reported by the words before it
    if is_both:
        inputs["decoder_input_ids"] = torch.randint(0, 30000, (batch, tokens), device=device)
    return maker(config), inputs, lambda out: torch.nn.functional.cross_entropy(
        out.logits[:, :tokens - shift].reshape(-1, out.logits.shape[-1]).float(), ids[:, shift:].reshape(-1))


def record(step, path, torch):
    """Two steps by PyTorch's own profiler, with shapes."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, schedule=torch.profiler.schedule(wait=0, warmup=1, active=2), record_shapes=True,
                                on_trace_ready=lambda profiler: profiler.export_chrome_trace(path)) as profiler:
        for _ in range(3):
            step()
            torch.cuda.synchronize()
            profiler.step()


def measure(job, torch, recording):
    """Samples per second and a note; a recording too, where a path for it is given."""
    wide = job["precision"] == "fp32"
    torch.backends.cuda.matmul.allow_tf32 = not wide
    torch.backends.cudnn.allow_tf32 = True  # PyTorch's default, what `fp32` means for it
    torch.backends.cudnn.benchmark = True
    with torch.device("cuda"):  # weights are drawn where they stay
        network, inputs, loss_of = build(job, torch)
    if job["precision"] == "bf16":
        network = network.bfloat16()
        inputs = {name: x.bfloat16() if x.is_floating_point() else x for name, x in inputs.items()}
    call = (lambda: network(inputs["x"])) if "x" in inputs else (lambda: network(**inputs))
    if job["phase"] == "train":
        network.train()
        optimizer = torch.optim.SGD(network.parameters(), lr=1e-4, momentum=0.9)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss_of(call()).backward()
            optimizer.step()
    else:
        network.eval()

        def step():
            with torch.no_grad():
                call()

    def run(least_seconds, least_steps):
        """Durations of steps, in seconds."""
        events, begin = [torch.cuda.Event(enable_timing=True)], time.monotonic()
        events[0].record()
        while len(events) <= least_steps or time.monotonic() - begin < least_seconds:
            step()
            events.append(torch.cuda.Event(enable_timing=True))
            events[-1].record()
            if len(events) % 10 == 0:
                events[-1].synchronize()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) * 1e-3 for a, b in zip(events, events[1:])]

    run(0.7, 3)
    durations = run(1, 10)
    if recording:
        record(step, recording, torch)
    median = statistics.median(durations)
    note = f"median of {len(durations)} steps; mean {statistics.mean(durations) * 1e3:.4g} ms; cudnn.benchmark; {job['attention']} attention"
    return job["batch"] / median, note


def read_done(path):
    if not os.path.exists(path):
        return set()
    with open(path, newline="", encoding="utf-8") as file:
        return {row["id"] for row in csv.DictReader(file) if row.get("samples_per_s")}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", required=True, help="id of the GPU's spec, written into the rows")
    parser.add_argument("--out", help="table to write or to go on with")
    parser.add_argument("--budget", type=seconds, help="stop in time: 90s, 8m")
    parser.add_argument("--only", metavar="ID,ID", help="configurations to measure, as ids of rows; default: all")
    parser.add_argument("--kineto", metavar="FOLDER", help="record two steps of each with PyTorch's profiler too")
    parser.add_argument("--list", action="store_true", help="print the configurations and end")
    options = parser.parse_args()
    if options.list:
        for job in jobs():
            print(",".join((job["network"], job["precision"], job["phase"], str(job["batch"]))))
        return 0
    if not options.out:
        parser.error("--out is needed")
    try:
        import torch
    except ImportError:
        print("measure_networks: no PyTorch in this Python; expected one with torch", file=sys.stderr)
        return 3
    if not torch.cuda.is_available():
        print("measure_networks: PyTorch sees no GPU", file=sys.stderr)
        return 3

    only = set(options.only.split(",")) if options.only else set()
    if unknown := only - {key(job) for job in jobs()}:
        parser.error(f'--only: "{sorted(unknown)[0]}", expected ids such as {key(next(jobs()))}')
    begin, done, missing = time.monotonic(), read_done(options.out), set()
    is_new = not os.path.exists(options.out)
    with open(options.out, "a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        for job in jobs():
            if key(job) in done or job["maker"] in missing or (only and key(job) not in only):
                continue
            if options.budget and time.monotonic() - begin > options.budget - 20:
                print("measure_networks: out of budget; the same command goes on", file=sys.stderr)
                break
            try:
                rate, note = measure(job, torch, options.kineto and os.path.join(options.kineto, key(job) + ".json.gz"))
            except ImportError:
                missing.add(job["maker"])
                print(f"measure_networks: no {job['maker']} in this Python: its networks are left out", file=sys.stderr)
                continue
            except torch.cuda.OutOfMemoryError:
                print(f"measure_networks: {key(job)} does not fit", file=sys.stderr)
                continue
            except (AttributeError, RuntimeError, TypeError, ValueError) as error:  # another version of its maker
                print(f"measure_networks: {key(job)}: {str(error).splitlines()[0][:200]}", file=sys.stderr)
                continue
            finally:
                gc.collect()
                torch.cuda.empty_cache()
            writer.writerow({
                "id": key(job), "source": "tracecast", "date": datetime.date.today().isoformat()[:7], "gpu": options.gpu,
                "gpus": 1, "nodes": 1, "framework": "pytorch", "framework_name": "PyTorch",
                "framework_version": torch.__version__, "precision": job["precision"], "xla": "no",
                "network": job["network"], "data": "synthetic", "phase": job["phase"], "batch_per_gpu": job["batch"],
                "samples_per_s": f"{rate:.6g}", "notes": note})
            file.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
