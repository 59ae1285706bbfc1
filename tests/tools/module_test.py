#!/usr/bin/env python3
"""Modules of PyTorch beside the zoo and ONNX: module_test.py PROGRAM ROOT [--all]. Exit code 77: there is no PyTorch.

A torchvision network predicted from its module must have the zoo's parameters and multiply-adds, and its step time and memory within 3 %.
Transformers written here must agree with what torch.onnx.export makes of them. Nothing is run: modules are traced.
"""
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import torch
    import torchvision
except ImportError as missing:
    print(f"[skipped] {missing}")
    sys.exit(77)
import tracecast as tc
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from unusual_networks import unusual_networks  # noqa: E402

PROGRAM, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
GPU, BATCH, TOLERANCE = "rtx4090", 16, 0.03
warnings.simplefilter("ignore")
faults = []
# Weights are of no interest: filling them takes most of the time.
for name in ("normal_", "uniform_", "trunc_normal_", "kaiming_normal_", "kaiming_uniform_", "xavier_uniform_", "xavier_normal_"):
    setattr(nn.init, name, lambda tensor, *_, **__: tensor)


def check(condition, what):
    if not condition:
        faults.append(what)
        print("fault:", what, file=sys.stderr)


def figures(network, *words):
    done = subprocess.run([PROGRAM, "predict", network, "--gpu", GPU, "--format", "json", *words], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        check(False, f"{network}: {done.stderr.strip()}")
        return None
    report = json.loads(done.stdout)
    return {"parameters": report["parameters"], "macs": report["forward_macs_per_sample"], "step": report["step_time_s"]["value"],
            "memory": report["memory"]["peak_live_bytes"]}


def compare(what, mine, other, tolerance=TOLERANCE, counts=("parameters", "macs")):
    if mine is None or other is None:
        return
    off = {key: mine[key] / other[key] - 1 for key in mine}
    print(f"{what:44} step {off['step']:+8.2%}  memory {off['memory']:+8.2%}  of {1e3 * other['step']:.2f} ms")
    for key in counts:
        check(abs(mine[key] - other[key]) <= 1e-9 * other[key], f"{what}: {key} {mine[key]} instead of {other[key]}")
    for key in ("step", "memory"):
        check(abs(off[key]) <= (tolerance if key == "step" else TOLERANCE), f"{what}: {key} {mine[key]:.6g} instead of {other[key]:.6g}, {off[key]:+.1%}")


NETWORKS = ["alexnet", "vgg16", "squeezenet1_0", "resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "densenet121", "mobilenet_v2",
            "mobilenet_v3_large", "mnasnet1_0", "shufflenet_v2_x1_0", "efficientnet_b0", "regnet_y_400mf", "resnet152", "inception_v3",
            "convnext_tiny", "vit_b_16", "swin_t", "vgg16_bn"]
# Written out in every version; what PyTorch before 2.0 traced cannot say so.
COMPOSED = {"swin_t": ("--attention", "composed")}


def zoo(folder):
    every = 1 if "--all" in sys.argv else 3  # all twenty take a minute and a half
    for network in NETWORKS[::every]:
        size = 299 if network == "inception_v3" else 224
        module = getattr(torchvision.models, network)(weights=None)
        for phase in ("train", "infer"):
            file = folder / f"{network}.graph"
            tc.graph(module, torch.empty(BATCH, 3, size, size), phase).save(file)
            words = ("--phase", phase)
            compare(f"{network} {phase}", figures(str(file), *words, *COMPOSED.get(network, ())),
                    figures(network, *words, "--batch", str(BATCH)))


# ---- Transformers as people write them.

class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Attention(nn.Module):
    """Packed or separate projections, heads of keys shared or not, masked or not, written out."""

    def __init__(self, width, heads, groups=None, packed=True, causal=False, rotary=False, other=None):
        super().__init__()
        self.heads, self.groups, self.size = heads, groups or heads, width // heads
        self.packed, self.causal, self.rotary = packed, causal, rotary
        kv = self.groups * self.size
        if packed:
            self.qkv = nn.Linear(width, width + 2 * kv)
        else:
            self.q, self.k, self.v = nn.Linear(width, width, False), nn.Linear(other or width, kv, False), nn.Linear(other or width, kv, False)
        self.out = nn.Linear(width, width)

    def turn(self, x, cos, sin):
        left, right = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-right, left), dim=-1) * sin

    def forward(self, x, other=None):
        batch, tokens, width = x.shape
        other = x if other is None else other
        kv = self.groups * self.size
        q, k, v = self.qkv(x).split((width, kv, kv), -1) if self.packed else (self.q(x), self.k(other), self.v(other))
        q = q.reshape(batch, tokens, self.heads, self.size).transpose(1, 2)
        k, v = (t.reshape(batch, -1, self.groups, self.size).transpose(1, 2) for t in (k, v))
        if self.rotary:
            angles = torch.outer(torch.arange(tokens, dtype=torch.float32), torch.ones(self.size // 2))
            angles = torch.cat((angles, angles), -1)
            q, k = (self.turn(t, angles.cos(), angles.sin()) for t in (q, k))
        if self.groups != self.heads:
            k, v = (t[:, :, None].expand(-1, -1, self.heads // self.groups, -1, -1).reshape(batch, self.heads, -1, self.size) for t in (k, v))
        scores = q @ k.transpose(-2, -1) / self.size ** 0.5
        if self.causal:
            scores = scores.masked_fill(torch.ones(tokens, tokens, dtype=torch.bool).triu(1), float("-inf"))
        y = scores.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class SwiGlu(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(width, hidden, False), nn.Linear(width, hidden, False), nn.Linear(hidden, width, False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def feed_forward(width, hidden, act):
    return nn.Sequential(nn.Linear(width, hidden), act, nn.Linear(hidden, width))


class Block(nn.Module):
    def __init__(self, width, attention, mlp, norm=nn.LayerNorm, before=True, dropout=0.0):
        super().__init__()
        self.attention, self.mlp, self.norm1, self.norm2 = attention, mlp, norm(width), norm(width)
        self.before, self.dropout = before, nn.Dropout(dropout)

    def forward(self, x):
        if self.before:
            x = x + self.dropout(self.attention(self.norm1(x)))
            return x + self.dropout(self.mlp(self.norm2(x)))
        x = self.norm1(x + self.dropout(self.attention(x)))
        return self.norm2(x + self.dropout(self.mlp(x)))


class Language(nn.Module):
    def __init__(self, block, width, layers=2, vocabulary=8000, tokens=256, positions=True, norm=nn.LayerNorm, tied=False):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(tokens, width) if positions else None
        self.blocks, self.norm, self.head = nn.ModuleList([block() for _ in range(layers)]), norm(width), nn.Linear(width, vocabulary, False)
        if tied:
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Vision(nn.Module):
    def __init__(self, block, width, layers=2, pooled=False):
        super().__init__()
        self.patch, self.pooled = nn.Conv2d(3, width, 16, 16), pooled
        self.token = None if pooled else nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, 196 + (not pooled), width))
        self.blocks, self.norm, self.head = nn.Sequential(*[block() for _ in range(layers)]), nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        if not self.pooled:
            x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), 1)
        x = self.norm(self.blocks(x + self.positions))
        return self.head(x.mean(1) if self.pooled else x[:, 0])


class Pair(nn.Module):
    """An encoder, and a decoder that looks at what it gives."""

    def __init__(self, width=512):
        super().__init__()
        self.source, self.target = nn.Embedding(8000, width), nn.Embedding(8000, width)
        self.encoder = Block(width, Attention(width, 8, packed=False), feed_forward(width, 4 * width, nn.ReLU()))
        self.decoder = Block(width, Attention(width, 8, packed=False, causal=True), feed_forward(width, 4 * width, nn.ReLU()))
        self.norm, self.cross, self.head = nn.LayerNorm(width), Attention(width, 8, packed=False), nn.Linear(width, 8000)

    def forward(self, source, target):
        x, y = self.encoder(self.source(source)), self.target(target)
        y = self.decoder(y)
        return self.head(y + self.cross(self.norm(y), x))


def transformers():
    ids, images = torch.zeros(2, 256, dtype=torch.long), torch.zeros(2, 3, 224, 224)
    w = 512

    def gelu(): return feed_forward(w, 4 * w, nn.GELU())
    yield "GPT-2", Language(lambda: Block(w, Attention(w, 8, causal=True), gelu(), dropout=0.1), w, tied=True), ids
    yield "BERT", Language(lambda: Block(w, Attention(w, 8, packed=False), gelu(), before=False, dropout=0.1), w), ids
    yield "Llama", Language(lambda: Block(w, Attention(w, 8, packed=False, causal=True, rotary=True), SwiGlu(w, 1376), RmsNorm), w,
                            positions=False, norm=RmsNorm), ids
    yield "grouped keys", Language(lambda: Block(w, Attention(w, 8, 2, packed=False, causal=True), SwiGlu(w, 1376), RmsNorm), w,
                                   positions=False, norm=RmsNorm), ids
    yield "one head of keys", Language(lambda: Block(w, Attention(w, 8, 1, causal=True), gelu()), w), ids
    yield "ReLU", Language(lambda: Block(w, Attention(w, 8, causal=True), feed_forward(w, 4 * w, nn.ReLU())), w), ids
    yield "GELU by tanh", Language(lambda: Block(w, Attention(w, 8), feed_forward(w, 4 * w, nn.GELU(approximate="tanh"))), w), ids
    yield "ViT", Vision(lambda: Block(w, Attention(w, 8), gelu()), w), images
    yield "ViT, pooled, SiLU", Vision(lambda: Block(w, Attention(w, 8), feed_forward(w, 4 * w, nn.SiLU())), w, pooled=True), images
    yield "encoder and decoder", Pair(), (ids, ids)


def files(folder):
    """The module, and the ONNX file that PyTorch exports of it."""
    for what, module, inputs in transformers():
        stem = what.replace(" ", "_").replace(",", "")
        exported = folder / f"{stem}.onnx"
        buffer = io.BytesIO()
        torch.onnx.export(module.eval(), inputs, buffer, opset_version=14)
        exported.write_bytes(buffer.getvalue())
        traced = tc.graph(module, inputs, "infer")
        traced.save(folder / f"{stem}.graph")
        words = ("--phase", "infer", "--batch", "64")
        mine = figures(str(folder / f"{stem}.graph"), *words)
        compare(f"{what}: module beside ONNX", mine, figures(str(exported), *words), counts=("macs",))
        check(mine and mine["parameters"] == sum(p.numel() for p in module.parameters()), f"{what}: parameters of the module")


def unusual(folder):
    """Blocks of other structure, at an opset without and with a norm as one operator; files and module agree, and the files with each other."""
    for what, module in unusual_networks():
        stem, images = what.replace(" ", "_"), torch.zeros(2, 3, 224, 224)
        tc.graph(module, images, "infer").save(folder / f"{stem}.graph")
        mine = figures(str(folder / f"{stem}.graph"), "--phase", "infer", "--batch", "64")
        first = None
        for opset in (13, 15, 17):
            exported = folder / f"{stem}_{opset}.onnx"
            torch.onnx.export(module.eval(), images, str(exported), opset_version=opset, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
            file = figures(str(exported), "--phase", "infer", "--batch", "64")
            if first is None:
                compare(f"{what}: module beside ONNX", mine, file, counts=("macs",))
            else:
                compare(f"{what}: opset {opset} beside 13", file, first, 0.01, counts=("macs",))
            first = first or file


def faces(folder):
    """Estimate, graph and the command are one."""
    module, images = torchvision.models.resnet18(weights=None), torch.empty(8, 3, 224, 224)
    module.fc.weight.requires_grad_(False)
    state = {key: id(value) for key, value in module.state_dict(keep_vars=True).items()}
    said = tc.estimate(module, images, gpu=GPU, phase="train", precision="bf16", optimizer="adamw")
    check({key: id(value) for key, value in module.state_dict(keep_vars=True).items()} == state, "the module is left as it was")
    check(module.training and module.layer1.training, "its mode too")
    tc.graph(module, images).save(folder / "ResNet.graph")
    asked = tc.predict(str(folder / "ResNet.graph"), gpu=GPU, precision="bf16", optimizer="adamw")
    check((said.step_time_s.value, said.memory_needed_bytes) == (asked.step_time_s.value, asked.memory_needed_bytes), "estimate is predict of graph")
    check(said.step_time_s.value > 0 and said.fits, "a result")
    # At another batch than it was traced at, the same as traced there.
    tc.graph(module, torch.empty(32, 3, 224, 224)).save(folder / "larger.graph")
    compare("another batch", figures(str(folder / "ResNet.graph"), "--batch", "32"), figures(str(folder / "larger.graph")), 1e-9)
    # A module of 16 bits is predicted in them; one on no device at all is traced.
    half = tc.estimate(nn.Linear(4096, 4096).bfloat16(), torch.empty(4096, 4096, dtype=torch.bfloat16), gpu="h100", phase="infer")
    check(half.step_time_s.value < tc.estimate(nn.Linear(4096, 4096), torch.empty(4096, 4096), gpu="h100", phase="infer").step_time_s.value, "16 bits")
    meta = nn.Linear(4096, 4096, device="meta")
    check(tc.graph(meta, torch.empty(8, 4096, device="meta")).text.count("parameter") == 2, "a module without contents")
    (folder / "mine.py").write_text("import torch, torchvision\ndef factory():\n"
                                    "    return torchvision.models.resnet18(), {'x': torch.empty(8, 3, 224, 224)}\n")
    run = subprocess.run([sys.executable, "-m", "tracecast", "mine:factory", "--gpu", GPU, "--format", "json"], cwd=folder, capture_output=True,
                         text=True, check=False)
    check(run.returncode == 0 and json.loads(run.stdout)["network"] == "ResNet", f"python -m tracecast: {run.stderr}")
    for word in ("mine", "mine:nobody", "nobody:factory", "mine:torch"):
        run = subprocess.run([sys.executable, "-m", "tracecast", word, "--gpu", GPU], cwd=folder, capture_output=True, text=True, check=False)
        check(run.returncode == 2 and run.stderr.count("\n") == 1 and "expected" in run.stderr, f"python -m tracecast {word}: {run.stderr}")


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        return self.inner(x) if x.sum() > 0 else x


class Loss(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(64, 1000)

    def forward(self, x, labels=None):
        logits = self.body(x)
        return {"loss": F.cross_entropy(logits, labels), "caches": ((x, x),)} if labels is not None else logits


def corners(folder):
    for model, inputs in ((Branch(), torch.empty(2, 4)), ("resnet50", torch.empty(1)), (nn.Linear(4, 4), torch.empty(2, 5))):
        try:
            tc.graph(model, inputs)
            check(False, f"{type(model).__name__} is traced")
        except tc.InputError as error:
            check("\n" not in str(error) and "expected" in str(error), f"one line: {error}")
    # A loss inside the forward pass is the training step's.
    x, labels = torch.empty(32, 64), torch.zeros(32, dtype=torch.long)
    tc.graph(Loss(), {"x": x, "labels": labels}).save(folder / "loss.graph")
    tc.graph(Loss(), x).save(folder / "logits.graph")
    compare("loss inside", figures(str(folder / "loss.graph")), figures(str(folder / "logits.graph")), 1e-9)
    recurrent = nn.LSTM(256, 512, 2, batch_first=True)
    tc.graph(recurrent, torch.empty(16, 50, 256)).save(folder / "lstm.graph")
    mine = figures(str(folder / "lstm.graph"))
    check(mine and mine["macs"] == 50 * 4 * 512 * (256 + 512 + 512 + 512), "multiply-adds of an LSTM")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for step in (faces, corners, zoo, files, unusual):
            step(folder)
    sys.exit(1 if faults else 0)


main()
