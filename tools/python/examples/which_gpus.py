#!/usr/bin/env python3
"""Draws what limits a network on one GPU, how it scales, and what an epoch costs: which_gpus.py [PICTURE.png]"""
import sys

import numpy as np
import matplotlib.pyplot as plt
import tracecast as tc

NETWORK, BATCH, EPOCH = "resnet50", 64, 1_281_167  # images of ImageNet
USD_PER_HOUR = {"v100_sxm2_16gb": 2.5, "a100_sxm4_40gb": 3.7, "l4": 0.8, "h100_sxm5_80gb": 9.0}  # of a GPU: put in what you pay
COUNTS = [1, 2, 4, 8, 16, 32]
fig, (left, middle, right) = plt.subplots(1, 3, figsize=(16, 4.8), layout="constrained")

roofline = tc.predict(NETWORK, gpu="a100_sxm4_40gb", batch=BATCH, precision="amp").roofline()
x = np.geomspace(0.05, 2000, 200)
for roof in roofline.roofs:
    left.loglog(x, np.minimum(roof.flops_per_s, x * roofline.bandwidth_bytes_per_s) / 1e12, label=f"{roof.precision}, {roof.unit}")
for kind in np.unique(roofline.classes):
    here = roofline.classes == kind
    left.scatter(roofline.intensity_flop_per_byte[here], roofline.flops_per_s[here] / 1e12, s=9 + 4e4 * roofline.time_s[here], alpha=0.5, label=kind)
left.set(title=f"{NETWORK} on an A100, amp", xlabel="flop per byte", ylabel="Tflop/s", ylim=(1e-2, 500))

jobs, points = [tc.Job(NETWORK, batch=BATCH, precision="amp")], []
for gpu, usd in USD_PER_HOUR.items():
    matrix = tc.throughput(jobs, [tc.Place(gpu, gpus=count) for count in COUNTS])
    rate, low, high = (a[0] / 1e3 for a in (matrix.samples_per_s, matrix.samples_per_s_low, matrix.samples_per_s_high))
    middle.loglog(COUNTS, rate, "o-", label=gpu)
    middle.fill_between(COUNTS, low, high, alpha=0.15)
    hours = EPOCH / rate / 1e3 / 3600
    cost = hours * usd * np.array(COUNTS)
    points += zip(hours, cost)
    right.errorbar(hours, cost, xerr=[hours - hours * rate / high, hours * rate / low - hours], fmt="o-", capsize=2, label=gpu)
front = [p for i, p in enumerate(sorted(points)) if p[1] <= min(q[1] for q in sorted(points)[:i + 1])]
right.step(*zip(*front), "k--", where="post", label="nothing is faster and cheaper")
middle.set(title="Scaling, 90 % intervals", xlabel="GPUs", ylabel="thousand images/s", xticks=COUNTS, xticklabels=COUNTS)
right.set(title="An epoch: time and cost", xlabel="hours", ylabel="USD", xscale="log")
for axes in (left, middle, right):
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=7)
fig.savefig(sys.argv[1] if len(sys.argv) > 1 else "which_gpus.png", dpi=80)
