#pragma once
#include <cstdint>
#include <vector>

#include "models/kernel.hpp"
#include "models/lowering/convolution.hpp"

namespace tracecast::lowering {

/// Drops candidates that this cuDNN (major.minor) does not have for the pass, and notes the version
/// in the others.
void keep_known_algorithms(std::vector<Candidate>& candidates, Pass pass, double cudnn_version);

/// cuDNN 7 launches every kernel of a grouped convolution of NCHW images once per group, and the
/// groups overlap on the GPU. Source: data/kernels/conv_cudnn_algos.csv.gz: 4 groups of one image
/// take 4 times two launches, 5.9 us each; 2 groups that fill the GPU take no longer than one GEMM
/// over both. NHWC: ResNeXt-101 of single images, TensorFlow 20.03 in half width, takes 6 ms where
/// 33 layers of 32 launches alone would take five more (notes/0001).
void launch_by_group(std::vector<Candidate>& candidates, std::int64_t groups);

/// cuDNN 8.0 has nothing for groups on Turing but the plain GEMMs on CUDA cores (notes/0001);
/// sim/cost/convolution.cpp has the rest.
[[nodiscard]] bool lacks_grouped_kernels(Architecture architecture, double cudnn_version);

/// Whether 1x1 filters on tensor cores are GEMMs of NCHW images as they lie. So in 32 bits in a
/// recorded step on A100 (TF32, cuDNN 8, HolisticTraceAnalysis); tensor cores else want NHWC, and
/// cuDNN turns the images before and the results after (NVIDIA's Convolutional Layers User's Guide,
/// "Tensor Layouts In Memory"), in 16 bits and, CHOICE by rows (notes/0001), with 8.0 in 32.
[[nodiscard]] bool multiplies_images_as_they_lie(Architecture architecture, Precision storage,
                                                 double cudnn_version);

}  // namespace tracecast::lowering
