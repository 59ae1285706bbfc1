#!/usr/bin/env python3
"""A training program to record: tools/record_program.py resnet50|transformer [--steps N] [--warm-up N]

Random weights, synthetic data on the GPU, Adam, fp32 with TF32 allowed. Each step is an NVTX range "step N" and ends with the loss on the
host. Prints one JSON line: {"step_s": [...], "torch": "...", "cuda": "..."}; the warm-up is not in it. Needs PyTorch, and torchvision
for resnet50. Exit code 3 when they or a GPU are missing.
"""
import argparse
import json
import sys
import time


def resnet50(torch):
    import torchvision
    network = torchvision.models.resnet50().cuda()
    images = torch.randn(64, 3, 224, 224, device="cuda")
    labels = torch.randint(0, 1000, (64,), device="cuda")
    return network, lambda: torch.nn.functional.cross_entropy(network(images), labels)


def transformer(torch):
    """Six layers of 512, eight heads, 256 tokens, 32 sequences."""
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    network = torch.nn.Sequential(torch.nn.Embedding(10000, 512), torch.nn.TransformerEncoder(layer, 6), torch.nn.Linear(512, 10000)).cuda()
    tokens = torch.randint(0, 10000, (32, 257), device="cuda")
    return network, lambda: torch.nn.functional.cross_entropy(network(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network", choices=("resnet50", "transformer"))
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warm-up", type=int, default=20)
    options = parser.parse_args()
    try:
        import torch
        if not torch.cuda.is_available():
            raise ImportError("PyTorch sees no GPU")
        torch.backends.cuda.matmul.allow_tf32 = True
        network, loss_of = {"resnet50": resnet50, "transformer": transformer}[options.network](torch)
    except ImportError as error:
        print(f"record_program: {error}", file=sys.stderr)
        return 3
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of()
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
    print(json.dumps({"step_s": durations, "torch": torch.__version__, "cuda": torch.version.cuda}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
