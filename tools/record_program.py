#!/usr/bin/env python3
"""A training program to record: tools/record_program.py resnet50|transformer|bert_large [--steps N] [--warm-up N]

Random weights, synthetic data on the GPU, Adam, fp32 with TF32 allowed (--bf16: all in bf16; --compile: torch.compile). Each step is an
NVTX range "step N" and ends with the loss on the host. Prints one JSON line: {"step_s": [...], "torch": "...", "cuda": "..."}; the
warm-up is not in it. --kineto FILE.json.gz writes three more steps as PyTorch's profiler records them, shapes included. Needs PyTorch,
torchvision for resnet50 and transformers for bert_large. Exit code 3 when they or a GPU are missing.
"""
import argparse
import json
import sys
import time


def resnet50(torch):
    import torchvision
    images = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")
    return torchvision.models.resnet50(), lambda network, cast: torch.nn.functional.cross_entropy(network(cast(images)).float(), labels)


def transformer(torch):
    """Six layers of 512, eight heads, 256 tokens, 32 sequences."""
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    network = torch.nn.Sequential(torch.nn.Embedding(10000, 512), torch.nn.TransformerEncoder(layer, 6), torch.nn.Linear(512, 10000))
    tokens = torch.randint(0, 10000, (32, 257), device="cuda")
    return network, lambda network, _: torch.nn.functional.cross_entropy(network(tokens[:, :-1]).flatten(0, 1).float(),
                                                                         tokens[:, 1:].flatten())


def bert_large(torch):
    """Masked-language training: 512 tokens, 8 sequences, attention as separate GEMMs."""
    import transformers
    config = transformers.BertConfig(vocab_size=30522, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    config._attn_implementation = "eager"
    ids = torch.randint(0, 30000, (8, 512), device="cuda")
    return transformers.BertForMaskedLM(config), lambda network, _: torch.nn.functional.cross_entropy(
        network(input_ids=ids).logits.flatten(0, 1).float(), ids.flatten())


def record(torch, step, path):
    """Three steps by PyTorch's own profiler."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities, schedule=torch.profiler.schedule(wait=0, warmup=1, active=3),
                                record_shapes=True, on_trace_ready=lambda profiler: profiler.export_chrome_trace(path)) as profiler:
        for _ in range(4):
            step()
            profiler.step()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=("resnet50", "transformer", "bert_large"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warm-up", type=int, default=20)
    parser.add_argument("--bf16", action="store_true", help="weights, inputs and arithmetic in bf16")
    parser.add_argument("--compile", action="store_true", help="the network through torch.compile")
    parser.add_argument("--kineto", metavar="FILE.json.gz", help="record three steps with PyTorch's profiler too")
    options = parser.parse_args()
    try:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
        torch.backends.cuda.matmul.allow_tf32 = True
        network, loss_of = {"resnet50": resnet50, "transformer": transformer, "bert_large": bert_large}[options.network](torch)
    except ImportError as error:
        print(f"record_program: {error}", file=sys.stderr)
        return 3
    network = network.cuda()
    if options.bf16:
        network = network.bfloat16()
    if options.compile:
        network = torch.compile(network)
    cast = (lambda x: x.bfloat16()) if options.bf16 else (lambda x: x)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(network, cast)
        loss.backward()
        optimizer.step()
        return loss.item()

    for _ in range(options.warm_up):
        step()
    durations = []
    for number in range(options.steps):
        begin = time.perf_counter()
        torch.cuda.nvtx.range_push(f"step {number}")
        step()
        torch.cuda.nvtx.range_pop()
        durations.append(time.perf_counter() - begin)
    if options.kineto:
        record(torch, step, options.kineto)
    print(json.dumps({"step_s": durations, "torch": torch.__version__, "cuda": torch.version.cuda}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
