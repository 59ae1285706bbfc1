"""Networks of unusual structure, one block of each, for module_test: what exporters write of them must come out as what the module dispatches.

Structures follow the papers named at each; sizes are small. All take images of 224 x 224.
"""
import torch
from torch import nn
from torch.nn import functional as F


def feed_forward(width):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Classifier(nn.Module):
    """Patches of 4 x 4, a block of N,H,W,C images, the mean over places, classes."""

    def __init__(self, width, block):
        super().__init__()
        self.stem, self.norm, self.block, self.head = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width), block, nn.Linear(width, 1000)

    def forward(self, images):
        x = self.norm(self.stem(images).permute(0, 2, 3, 1))
        return self.head((x + self.block(x)).mean((1, 2)))


class Tokens(nn.Module):
    """A block of tokens on an image."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        batch, height, width, channels = x.shape
        return self.block(x.reshape(batch, height * width, channels)).view(batch, height, width, channels)


class ChannelAttention(nn.Module):
    """Attention between channels, tokens being the width of a head: DaViT (arXiv 2204.03645)."""

    def __init__(self, width, groups):
        super().__init__()
        self.groups, self.qkv, self.out = groups, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.groups, -1).permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((q * tokens ** -0.5).transpose(-1, -2) @ k).softmax(-1)
        y = (weights @ v.transpose(-1, -2)).transpose(-1, -2)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, width))


class CrossCovariance(nn.Module):
    """The same with normalized queries and keys and a trained temperature: XCiT (arXiv 2106.09681), EdgeNeXt (arXiv 2206.10589)."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.temperature = heads, nn.Parameter(torch.ones(heads, 1, 1))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 4, 1).unbind(0)
        scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.temperature
        return self.out((scores.softmax(-1) @ v).permute(0, 3, 1, 2).reshape(batch, tokens, width))


class Windows(nn.Module):
    """Attention in windows or on a grid (MaxViT, arXiv 2204.01697), shifted (Swin), by cosines (Swin V2, arXiv 2111.09883)."""

    def __init__(self, width, heads, size=7, grid=False, shift=0, cosine=False):
        super().__init__()
        self.heads, self.size, self.grid, self.shift = heads, size, grid, shift
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.bias = nn.Parameter(torch.rand(heads, size * size, size * size))
        self.temperature = nn.Parameter(torch.ones(heads, 1, 1)) if cosine else None

    def forward(self, x):
        batch, height, width, channels = x.shape
        size, places = self.size, self.size * self.size
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        if self.grid:
            x = x.view(batch, size, height // size, size, width // size, channels).permute(0, 2, 4, 1, 3, 5)
        else:
            x = x.view(batch, height // size, size, width // size, size, channels).permute(0, 1, 3, 2, 4, 5)
        shape = x.shape
        q, k, v = self.qkv(x.reshape(-1, places, channels)).reshape(-1, places, 3, self.heads, channels // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if self.temperature is not None:
            scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1) * self.temperature.exp()
        else:
            scores = q * (channels // self.heads) ** -0.5 @ k.transpose(-2, -1)
        y = ((scores + self.bias).softmax(-1) @ v).transpose(1, 2).reshape(-1, places, channels)
        y = self.out(y).view(shape).permute(*((0, 3, 1, 4, 2, 5) if self.grid else (0, 1, 3, 2, 4, 5))).reshape(batch, height, width, channels)
        return torch.roll(y, (self.shift, self.shift), (1, 2)) if self.shift else y


class ResponseNorm(nn.Module):
    """Global response normalization: ConvNeXt V2 (arXiv 2301.00808)."""

    def __init__(self, width):
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.rand(1, 1, 1, width)), nn.Parameter(torch.rand(1, 1, 1, width))

    def forward(self, x):
        response = torch.norm(x, p=2, dim=(1, 2), keepdim=True)
        return self.scale * (x * (response / (response.mean(-1, keepdim=True) + 1e-6))) + self.shift + x


class LinearAttention(nn.Module):
    """Attention without softmax, keys and values multiplied first: EfficientViT (arXiv 2205.14756)."""

    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1, bias=False), nn.Conv2d(width, width, 1)

    def forward(self, x):
        batch, height, width, _ = x.shape
        q, k, v = self.qkv(x.permute(0, 3, 1, 2)).reshape(batch, -1, 48, height * width).transpose(-1, -2).chunk(3, -1)
        v = F.pad(v, (0, 1), value=1.0)
        y = F.relu(q) @ (F.relu(k).transpose(-1, -2) @ v)
        y = (y[..., :-1] / (y[..., -1:] + 1e-5)).transpose(-1, -2)
        return self.out(y.reshape(batch, -1, height, width)).permute(0, 2, 3, 1)


class Reduced(nn.Module):
    """Attention to fewer keys, which a convolution makes: PVT (arXiv 2102.12122)."""

    def __init__(self, width, ratio=8):
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.fewer, self.norm = nn.Conv2d(width, width, ratio, ratio), nn.LayerNorm(width)

    def forward(self, x):
        batch, height, width, channels = x.shape
        q = self.q(x.reshape(batch, height * width, channels)).reshape(batch, -1, 1, channels).permute(0, 2, 1, 3)
        fewer = self.norm(self.fewer(x.permute(0, 3, 1, 2)).reshape(batch, channels, -1).permute(0, 2, 1))
        k, v = self.kv(fewer).reshape(batch, -1, 2, 1, channels).permute(2, 0, 3, 1, 4).unbind(0)
        y = (q @ k.transpose(-2, -1) * channels ** -0.5).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(x.shape))


def unusual_networks():
    yield "channel attention", Classifier(96, Tokens(ChannelAttention(96, 3)))
    yield "cross covariance", Classifier(64, Tokens(CrossCovariance(64, 4)))
    yield "windows", Classifier(96, Windows(96, 3))
    yield "grid", Classifier(96, Windows(96, 3, grid=True))
    yield "shifted windows", Classifier(96, Windows(96, 3, shift=3))
    yield "cosine attention", Classifier(96, Windows(96, 3, cosine=True))
    yield "response norm", Classifier(96, nn.Sequential(nn.Linear(96, 384), nn.GELU(), ResponseNorm(384), nn.Linear(384, 96)))
    yield "linear attention", Classifier(64, LinearAttention(64))
    yield "reduced keys", Classifier(64, Reduced(64))
    yield "feed forward", Classifier(96, feed_forward(96))
