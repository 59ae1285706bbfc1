#pragma once
#include <cstdint>
#include <vector>

#include "models/kernel.hpp"
#include "models/lowering/formats.hpp"

namespace tracecast::lowering {

/// The candidates of one convolution pass under given formats; see `convolution_candidates` in
/// lower.hpp. `pass` is Forward, BackwardData or BackwardWeights; the first candidate is always
/// legal.
///
/// Algorithms (cuDNN Developer Guide, cudnnConvolution*Algo_t: "supported algorithms" tables), with
/// e = element size, x = n c h w, w = k (c/groups) r s, y = n k p q, and out = x, w or y by pass:
///
///   ImplicitGemm       groups < c; no workspace; backward passes clear their output first
///   ImplicitPrecomputedGemm
///                      groups < c; a small kernel builds the offset table (two for weights);
///                      workspace 6 p q B from Volta on, 4 (c/groups) r s B before
///   ExplicitGemm       forward, fp32: im2col, then one GEMM; workspace e n c r s p q.
///                      1x1, stride 1, on Ampere's tensor cores: a plain GEMM of NCHW images as
///                      they lie, no im2col
///   Direct             groups == c: what cuDNN 7 runs as IMPLICIT_GEMM then; cuDNN 8's kernels for
///                      groups of channels-last images that its tensor-core kernels do not take
///   Fft                fp32, or fp16 in NCHW with spectra of fp32; stride 1, dilation 1, groups 1,
///   filter > pad, padded image <= 256;
///                      F = power of two >= padded image, at least 16;
///                      S = F (F/2 + 1) complex values per plane, half a spectrum of real data;
///                      kernels: flip the filter, transform both operands, S GEMMs of complex
///                      matrices, transform back; workspace 16 S (planes of both operands;
///                      forward: ck + nc)
///   FftTiling          as Fft, any image, filter <= 32, any stride forward (all outputs are
///                      computed, one in stride^2 kept): F = 32, S = 544,
///                      tiles = ceil(p1/(33-r)) ceil(q1/(33-s)) of the p1 x q1 outputs of stride 1,
///                      each with its own transforms and GEMMs;
///                      workspace 8 S (ck + n(c+k) min(tiles, 2)).
///                      Filters of one row, stride 1: transforms along rows only, 17 values for
///                      every 32 of a row, 17 GEMMs over the n h rows of two of the ceil(q/(33-s))
///                      tiles at a time; workspace 8 * 17 (ck + n(c+k) h min(ceil(q/(33-s)), 2))
///   WinogradFused      3x3, stride 1, dilation 1, forward and backward data: F(2x2,3x3), 2.25
///                      times fewer multiplications; workspace 100 (c/groups) k + 4 k B
///   WinogradNonfused   stride 1, dilation 1, all passes; 3x3: F(4x4,3x3), t = 6;
///                      5x5 (not in half width): F(9x9,5x5), t = 13; images are padded to a
///                      multiple of 16, tiles = n16 ceil(p/m) ceil(q/m); cuDNN 7
///                      multiplies them in blocks of 128 (Kepler: as many as there are);
///                      workspace e t^2 (ck/groups + (c+k) tiles)
///                      Neither Winograd in 16 bits on tensor cores from Ampere on (cuDNN 8.1)
///
/// Volumes have the implicit, explicit and direct ones (Developer Guide, the same tables: Winograd
/// and FFT take 4-D tensors; tiled FFT, which takes 5-D ones as well, is left out).
///
/// Int8 has one candidate, ImplicitPrecomputedGemm without workspace, with padded channels (cuDNN
/// Developer Guide, cudnnConvolutionForward: the INT8 configurations allow this algorithm alone).
///
/// The workspace formulas reproduce what cuDNN 7.6 reports for forward convolutions on V100 and K80
/// (tests/models/lowering/workspace_test.cpp). A complex GEMM counts as a real one with 4 k:
/// 8 operations per multiply-add.
///
/// On tensor cores cuDNN computes in NHWC: NCHW operands and results pass through transposes, whose
/// copies are workspace; channels are padded to 8 (16-bit) or 4 (tf32) on the way. On CUDA cores it
/// computes in NCHW, and a framework that keeps NHWC transposes round it.
///
/// `cudnn_version`, major.minor, decides which algorithms exist: FFT since 3; tiled FFT since 4
/// (weight gradients 6); Winograd since 5, with non-fused transforms since 5.1; the others since
/// the first. Source: cuDNN release notes and the enumerations of its header. Below 1: none; a loop
/// over images that unfolds and multiplies one. It also decides which shapes are legal on 16-bit
/// tensor cores (release notes 7.0, 7.3 and 8.0; Developer Guide, Tensor Core Operations): channels
/// in and out per group multiples of 8; from 7.3 on any in NCHW, where the transposes pad them;
/// from 8.0 on any. Before 7 there are no groups: a framework calls the library group by group.
/// cuDNN 7 launches its kernels on CUDA cores group by group where images are NCHW.
[[nodiscard]] std::vector<Candidate> convolution_candidates(const ConvAttributes& shape, Pass pass,
                                                            const Formats& formats,
                                                            ImageLayout layout,
                                                            Architecture architecture,
                                                            double cudnn_version);

/// Whether non-fused Winograd multiplies less than the simplest rival: fused Winograd for 3x3
/// filters, whose images are not padded to 16 (4 multiplications an output), else the plain
/// convolution (r s). With tiles as above: t^2 tiles < 16 n ceil(p/2) ceil(q/2), or < r s n p q; h
/// and w for p and q where the data's gradient is computed. Weight gradients are not padded:
/// always. Needs 3x3 or 5x5 filters, stride 1.
[[nodiscard]] bool nonfused_winograd_saves_multiplications(const ConvAttributes& shape, Pass pass);

/// First cuDNN for GPUs of this generation: Volta 7.0, Turing 7.3, Ampere 8.0, Ada and Hopper 8.6,
/// Blackwell 9.6 (release notes, supported GPUs).
[[nodiscard]] double first_cudnn_version(Architecture architecture);

}  // namespace tracecast::lowering
