#!/usr/bin/env python3
"""Fits the thread times of the channels grpc and rdma_grpc: tools/fit/channel_fit.py [COPY_NS_PER_BYTE]

Data: the seven point-to-point ratios of AR-gRPC to gRPC that "Characterising deep-learning systems on data-centre
architectures" (Ohio State University, Bench'18) states, and nothing else. Ratios have no scale: that is the time per
byte of the RDMA receiver, taken from "3 machines, gRPC + GPUDirect RDMA: 3400 MB/s" (tensorflow issue 6116, 2017-08;
cmp-00264 of components.csv). The formulas are those of sim/network/channel_cost.hpp. Prints the parameters of
hwspecs/channel/grpc.textproto and rdma_grpc.textproto, and predicted over published for every ratio.
Needs numpy and scipy.
"""
import sys

import numpy as np
from scipy.optimize import least_squares

COPY = float(sys.argv[1]) if len(sys.argv) > 1 else 1 / 3.4  # ns per byte
EDR, FDR = 12.5, 6.818  # GB/s; payload's share: 0.97 of the channel on IPoIB, 0.9 of the link's spec on InfiniBand
TCP_WIRE = {rate: 1 / (rate * 0.97) for rate in (EDR, FDR)}  # ns per byte
RDMA_WIRE = {rate: 1 / (rate * 0.9) for rate in (EDR, FDR)}
TCP_US, RDMA_US = 18.0, 0.7  # latencies of ipoib_fdr and infiniband_fdr
KIB, MIB = 1024, 1024 * 1024
UNIFORM = 3 * 10 + 3 * 10 * KIB + 4 * MIB  # bytes of ten buffers
SKEW = 1 * 10 + 3 * 10 * KIB + 6 * MIB


def latency(bytes_, message, link, send, wire, receive, chunk, handshake, eager):
    first = min(bytes_, chunk)
    pipe = first * (send + wire + receive) + (bytes_ - first) * max(send, wire, receive)
    return message + link + (handshake if bytes_ > eager else 0) + pipe * 1e-3


def bandwidth(bytes_, message, send, wire, receive):
    per_end = message / 2 * 1e3
    return bytes_ / max(per_end + bytes_ * send, bytes_ * wire, per_end + bytes_ * receive)


def ratios(p):
    message, send, receive, handshake = p

    def latency_ratio(bytes_):
        grpc = latency(bytes_, message, TCP_US, send, TCP_WIRE[FDR], receive, MIB, 0, 1e12)
        rdma = latency(bytes_, message, RDMA_US, 0, RDMA_WIRE[FDR], COPY, 128 * KIB, handshake, 8 * KIB)
        return grpc / rdma

    def bandwidth_ratio(bytes_, rate):
        grpc = bandwidth(bytes_, message, send, TCP_WIRE[rate], receive)
        return bandwidth(bytes_, message, 0, RDMA_WIRE[rate], COPY) / grpc

    connected = bandwidth_ratio(4 * MIB, FDR)
    return np.array([latency_ratio(32), latency_ratio(64 * KIB), latency_ratio(MIB), bandwidth_ratio(UNIFORM, EDR),
                     bandwidth_ratio(SKEW, FDR), connected, connected])


NAMES = ["latency 32 B", "latency 64 KB", "latency 1 MB", "bandwidth A", "bandwidth B, skew", "connected, latency",
         "connected, throughput"]
PUBLISHED = np.array([1 / 0.4, 2.5, 4.1, 2.14, 3.2, 1 / 0.4, 2.68])

fit = least_squares(lambda p: np.log(ratios(p) / PUBLISHED), [10, 0.3, 0.5, 5],
                    bounds=([1, 0.05, 0.1, 0], [60, 2, 2, 40]))
for name, value in zip(["send_message_us + receive_message_us", "grpc: send_ns_per_byte", "grpc: receive_ns_per_byte",
                        "rdma_grpc: handshake_us"], fit.x):
    print(f"{name:40} {value:.3f}")
print(f"{'rdma_grpc: receive_ns_per_byte':40} {COPY:.3f}")
for name, published, value in zip(NAMES, PUBLISHED, ratios(fit.x)):
    print(f"{name:24} published {published:.2f}  predicted / published {value / published:.2f}")
