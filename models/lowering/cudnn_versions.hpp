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

/// Whether cuDNN 8 has no tensor-core kernel for the groups of channels-last images of 16 bits. It
/// has them for groups 32 at a time, of up to 32 channels that divide a tile of 64 (from 8.9 on
/// forward any number of these), and, forward, for groups of whole tiles. Others run conv2d_,
/// dgrad2d_ and wgrad2d_grouped_direct_kernel, on CUDA cores. Source: pytorch/pytorch issue 34977
/// for the names; which groups: CHOICE by rows (notes/0001).
[[nodiscard]] bool lacks_grouped_tensor_kernels(const ConvAttributes& shape, Pass pass,
                                                double cudnn_version);

/// Whether a depthwise convolution runs in cuDNN's kernels for one channel, which take
/// channels-last images as they lie, and those of float16 that lie otherwise but for some strides
/// and sizes. Source: PyTorch 1.9 to 2.9, aten/src/ATen/native/Convolution.cpp, use_cudnn_depthwise
/// and check_cudnn_depthwise_workload_with_filter; bfloat16 runs PyTorch's own kernels
/// (traces/recordings/h200_efficientnet_b0_bf16_infer_32_kineto).
[[nodiscard]] bool takes_library_depthwise(const ConvAttributes& shape, ImageLayout layout,
                                           Precision storage, double cudnn_version);

/// Whether 1x1 filters on tensor cores can be GEMMs of NCHW images as they lie. So in 32 bits in a
/// recorded step on A100 (TF32, cuDNN 8, HolisticTraceAnalysis); tensor cores else want NHWC, and
/// cuDNN turns the images before and the results after (NVIDIA's Convolutional Layers User's Guide,
/// "Tensor Layouts In Memory"): CHOICE by rows (notes/0001), with 8.0, and in 16 bits where nothing
/// is tried out (lower.cpp).
[[nodiscard]] bool multiplies_images_as_they_lie(Architecture architecture, Precision storage,
                                                 double cudnn_version);

}  // namespace tracecast::lowering
