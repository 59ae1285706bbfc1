#!/usr/bin/env python3
"""What the loaders of two reference programs cost a CPU core: loader_costs.py [--core-ghz 5.735] [--repeats 7]

Runs, on one core, the work that MLPerf v0.5's reference programs do for a sample, written anew from what they say:

  SSD   single_stage_detector/ssd/utils.py: search for a crop among boxes, flip, resize to 300x300, colour jitter, tensor,
        normalisation; boxes matched with 8,732 default boxes; collated by 32. An image has 640x480 pixels and 7 boxes (the
        mean of COCO)
  NCF   recommendation/pytorch/dataset.py: four of five records draw a film that the user has not seen, each by a tensor of
        one number and a look-up in a dictionary-of-keys matrix; collated by 2,048

Prints CPU time, the least of the repeats, and clock cycles of a Haswell core: the speed of this one is its turbo clock times its
instructions per clock over Haswell's, as hwspecs/cpu states them (default: Zen 4, 3.7 GHz x 1.55), which is the scale of
tools/fit/jpeg_decode.py. Decoding is measured beside, to compare with the 46 cycles per pixel there. Needs PyTorch, torchvision,
Pillow and SciPy, all of which run on the CPU. What other versions of the interpreter and of libraries change is not known.
"""
import argparse
import io
import itertools
import math
import random
import time

import numpy as np
import scipy.sparse
import torch
import torchvision.transforms as transforms
from PIL import Image
from torch.utils.data.dataloader import default_collate

EXTRA_PIXELS = 19_700  # of an image, hwspecs/pipeline/pytorch.textproto
WIDTH, HEIGHT, BOXES, SSD_BATCH = 640, 480, 7, 32
USERS, FILMS, NCF_BATCH = 138_493, 26_744, 2048


def least(work, times, repeats):
    """CPU seconds of one call."""
    best = math.inf
    for _ in range(repeats):
        begin = time.process_time()
        for _ in range(times):
            work()
        best = min(best, (time.process_time() - begin) / times)
    return best


def photograph(rng):
    """Smooth waves and noise as a JPEG of 163 kB, the mean of COCO (hwspecs/dataset/coco.textproto)."""
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    smooth = 128 + 60 * np.sin(x / 37) + 40 * np.cos(y / 23)
    pixels = np.stack([smooth + rng.normal(0, sd, smooth.shape) for sd in (14, 12, 13)], -1)
    out = io.BytesIO()
    Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(out, "JPEG", quality=93)
    return out.getvalue()


def default_boxes():
    """Left, top, right, bottom of SSD300's 8,732 boxes, as parts of the image."""
    scales, boxes = (21, 45, 99, 153, 207, 261, 315), []
    for level, (side, step) in enumerate(zip((38, 19, 10, 5, 3, 1), (8, 16, 32, 64, 100, 300))):
        size, larger = scales[level] / 300, scales[level + 1] / 300
        sizes = [(size, size), (math.sqrt(size * larger),) * 2]
        for ratio in (2,) if level in (0, 4, 5) else (2, 3):
            root = math.sqrt(ratio)
            sizes += [(size * root, size / root), (size / root, size * root)]
        for (w, h), i, j in itertools.gemm(sizes, range(side), range(side)):
            x, y = (j + 0.5) * step / 300, (i + 0.5) * step / 300
            boxes.append((x - w / 2, y - h / 2, x + w / 2, y + h / 2))
    return torch.tensor(boxes)


def overlap(one, two):
    """Intersection over union of every pair."""
    a, b = one.unsqueeze(1).expand(-1, len(two), -1), two.unsqueeze(0).expand(len(one), -1, -1)
    sides = torch.min(a[:, :, 2:], b[:, :, 2:]) - torch.max(a[:, :, :2], b[:, :, :2])
    sides[sides < 0] = 0
    both = sides[:, :, 0] * sides[:, :, 1]
    size_a, size_b = a[:, :, 2:] - a[:, :, :2], b[:, :, 2:] - b[:, :, :2]
    return both / (size_a[:, :, 0] * size_a[:, :, 1] + size_b[:, :, 0] * size_b[:, :, 1] - both)


def matched(boxes, labels, defaults):
    """What the loss is reported of every default box."""
    ious = overlap(boxes, defaults)
    best, which = ious.max(dim=0)
    _, own = ious.max(dim=1)
    best.index_fill_(0, own, 2.0)
    order = torch.arange(len(own))
    which[own[order]] = order
    hit = best > 0.5
    out_labels = torch.zeros(len(defaults), dtype=torch.long)
    out_labels[hit] = labels[which[hit]]
    out = defaults.clone()
    out[hit, :] = boxes[which[hit], :]
    centres = (out[:, :2] + out[:, 2:]) * 0.5, out[:, 2:] - out[:, :2]
    out[:, :2], out[:, 2:] = centres
    return out, out_labels


def crop_search(boxes):
    """Draws a crop until one keeps its boxes as wanted."""
    while True:
        least_iou = random.choice((None, 0.1, 0.3, 0.5, 0.7, 0.9, -math.inf))
        if least_iou is None:
            return
        w, h = random.uniform(0.3, 1), random.uniform(0.3, 1)
        if not 0.5 <= w / h <= 2:
            continue
        left, top = random.uniform(0, 1 - w), random.uniform(0, 1 - h)
        right, bottom = left + w, top + h
        if not (overlap(boxes, torch.tensor([[left, top, right, bottom]])) > least_iou).all():
            continue
        x, y = 0.5 * (boxes[:, 0] + boxes[:, 2]), 0.5 * (boxes[:, 1] + boxes[:, 3])
        inside = (x > left) & (x < right) & (y > top) & (y < bottom)
        if not inside.any():
            continue
        kept = boxes.clone()
        kept[kept[:, 0] < left, 0] = left
        kept[kept[:, 1] < top, 1] = top
        kept[kept[:, 2] > right, 2] = right
        kept[kept[:, 3] > bottom, 3] = bottom
        kept = kept[inside, :]
        kept[:, 0], kept[:, 1] = (kept[:, 0] - left) / w, (kept[:, 1] - top) / h
        kept[:, 2], kept[:, 3] = (kept[:, 2] - left) / w, (kept[:, 3] - top) / h
        return


def ssd(rng, repeats):
    """Seconds of decoding, and of every other part, per image."""
    jpeg = photograph(rng)
    decode = least(lambda: Image.open(io.BytesIO(jpeg)).convert("RGB"), 30, repeats)
    crop = Image.open(io.BytesIO(jpeg)).convert("RGB").crop((100, 60, 540, 420))  # the mean crop, half of the image
    resize, tensor = transforms.Resize((300, 300)), transforms.ToTensor()
    jitter = transforms.ColorJitter(brightness=0.125, contrast=0.5, saturation=0.5, hue=0.05)
    normalise = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    small, defaults = resize(crop), default_boxes()
    corner = torch.rand(BOXES, 2) * 0.7
    boxes = torch.cat([corner, corner + 0.05 + torch.rand(BOXES, 2) * 0.25], 1)
    labels = torch.randint(1, 81, (BOXES,))
    sample = (normalise(tensor(small)), (HEIGHT, WIDTH), *matched(boxes, labels, defaults))
    return decode, {
        "search for a crop": least(lambda: crop_search(boxes), 200, repeats),
        "flip, every other": 0.5 * least(lambda: crop.transpose(Image.FLIP_LEFT_RIGHT), 30, repeats),
        "resize": least(lambda: resize(crop), 30, repeats),
        "colour jitter": least(lambda: jitter(small), 30, repeats),
        "tensor, normalised": least(lambda: normalise(tensor(small)), 30, repeats),
        "match default boxes": least(lambda: matched(boxes, labels, defaults), 30, repeats),
        "collate": least(lambda: default_collate([sample] * SSD_BATCH), 3, repeats) / SSD_BATCH,
    }


def ncf(rng, repeats):
    """Seconds of every part per record."""
    seen = scipy.sparse.dok_matrix((USERS, FILMS), dtype=np.float32)
    rated = [(int(u), int(f)) for u, f in zip(rng.integers(0, USERS, 200_000), rng.integers(0, FILMS, 200_000))]
    for pair in rated:
        seen[pair] = 1

    def record(index):
        user, film = rated[index // 5]
        if index % 5 == 0:
            return user, film, np.ones(1, dtype=np.float32)
        film = torch.LongTensor(1).random_(0, FILMS).item()
        while (user, film) in seen:
            film = torch.LongTensor(1).random_(0, FILMS).item()
        return user, film, np.zeros(1, dtype=np.float32)

    indices = rng.integers(0, 5 * len(rated), NCF_BATCH).tolist()
    records = [record(index) for index in indices]
    return {"fetch": least(lambda: [record(index) for index in indices], 3, repeats) / NCF_BATCH,
            "collate": least(lambda: default_collate(records), 3, repeats) / NCF_BATCH}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--core-ghz", type=float, default=3.7 * 1.55)
    parser.add_argument("--repeats", type=int, default=7)
    args = parser.parse_args()
    hertz, repeats = 1e9 * args.core_ghz, args.repeats
    torch.set_num_threads(1)  # as a worker of DataLoader does
    torch.manual_seed(0)
    random.seed(0)
    rng = np.random.default_rng(0)
    decode, image_parts = ssd(rng, repeats)
    pixels = WIDTH * HEIGHT + EXTRA_PIXELS
    print(f"PyTorch {torch.__version__}; decoding {1e3 * decode:.2f} ms, {decode * hertz / pixels:.1f} cycles per pixel")
    for what, parts in (("SSD, per image beside decoding", image_parts), ("NCF, per record", ncf(rng, repeats))):
        for part, seconds in parts.items():
            print(f"  {part:<22} {1e6 * seconds:10.2f} us")
        total = sum(parts.values())
        print(f"{what}: {1e6 * total:.2f} us, {total * hertz:.3g} cycles")


if __name__ == "__main__":
    main()
