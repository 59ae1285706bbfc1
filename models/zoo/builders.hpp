#pragma once
#include "models/graph.hpp"
#include "models/zoo/zoo.hpp"

/// One function per network or family; registry.cpp gives them their names.
namespace tracecast::zoo_builders {

[[nodiscard]] NetworkGraph alexnet(const BuildOptions& options);
[[nodiscard]] NetworkGraph caffenet(const BuildOptions& options);
[[nodiscard]] NetworkGraph cifar10_cnn(const BuildOptions& options);
[[nodiscard]] NetworkGraph cyclegan(const BuildOptions& options);
[[nodiscard]] NetworkGraph mask_rcnn(const BuildOptions& options);
[[nodiscard]] NetworkGraph minigo(const BuildOptions& options);
[[nodiscard]] NetworkGraph shufflenet(const BuildOptions& options);
[[nodiscard]] NetworkGraph ssd_vgg16(const BuildOptions& options);
[[nodiscard]] NetworkGraph zfnet512(const BuildOptions& options);
[[nodiscard]] NetworkGraph inception_v3(const BuildOptions& options);
[[nodiscard]] NetworkGraph inception_v4(const BuildOptions& options);
[[nodiscard]] NetworkGraph mobilenet_v2(const BuildOptions& options);
[[nodiscard]] NetworkGraph overfeat(const BuildOptions& options);

[[nodiscard]] NetworkGraph mlp_reuters(const BuildOptions& options);
[[nodiscard]] NetworkGraph softmax_regression(const BuildOptions& options);
[[nodiscard]] NetworkGraph ncf(const BuildOptions& options);
[[nodiscard]] NetworkGraph autoencoder(const BuildOptions& options);

/// BERT; heads of width / heads.
struct BertLayout {
  int layers;
  std::int64_t width, heads;
};
[[nodiscard]] NetworkGraph bert(const BuildOptions& options, const BertLayout& layout);

/// GPT-2 and GPT-3.
struct GptLayout {
  int layers;
  std::int64_t width, heads;
  std::int64_t positions = 1024;
};
[[nodiscard]] NetworkGraph gpt(const BuildOptions& options, const GptLayout& layout);

/// OPT. An embedding width other than 0 is projected to the network's; the 350M network has its
/// layer norms after each part instead of before.
struct OptLayout {
  int layers;
  std::int64_t width, heads;
  std::int64_t embedding_width = 0;
  bool norm_after = false;
};
[[nodiscard]] NetworkGraph opt(const BuildOptions& options, const OptLayout& layout);

/// Llama 2 and 3: `kv_heads` of keys and values (grouped-query attention), feed-forward of `hidden`,
/// last product tied to the embedding or not.
struct LlamaLayout {
  int layers;
  std::int64_t width, heads, kv_heads, hidden, vocabulary;
  bool tied = false;
};
[[nodiscard]] NetworkGraph llama(const BuildOptions& options, const LlamaLayout& layout);

/// Encoder and decoder of `layers` each; a source vocabulary of 0 shares the target's table.
struct TransformerLayout {
  std::int64_t width, heads, hidden, target_vocabulary;
  std::int64_t source_vocabulary = 0;
  bool attention_dropout = false;
  int layers = 6;
};
[[nodiscard]] NetworkGraph transformer(const BuildOptions& options,
                                       const TransformerLayout& layout);

/// DenseNet: `layers[i]` layers in block i, each adding `growth` channels.
struct DenseNetLayout {
  int layers[4];
  std::int64_t growth = 32;
  std::int64_t first_channels = 64;
};
[[nodiscard]] NetworkGraph densenet(const BuildOptions& options, const DenseNetLayout& layout);

/// GoogLeNet as published, or with batch norm as torchvision has it.
struct GoogLeNetLayout {
  bool batch_norm = false;
};
[[nodiscard]] NetworkGraph googlenet(const BuildOptions& options, const GoogLeNetLayout& layout);

/// Inception with batch norm, as published or as MXNet's examples have it.
struct InceptionBnLayout {
  bool as_mxnet = false;
};
[[nodiscard]] NetworkGraph inception_bn(const BuildOptions& options,
                                        const InceptionBnLayout& layout);

/// SqueezeNet: the first convolution, and after which of the eight fire modules (from 0) images are pooled.
struct SqueezeNetLayout {
  std::int64_t first_channels, first_kernel;
  int pool_after[2];
};
[[nodiscard]] NetworkGraph squeezenet(const BuildOptions& options, const SqueezeNetLayout& layout);

/// VGG: 3x3 convolutions in five groups, each followed by a pooling; `convolutions[i]` of them in
/// group i.
struct VggLayout {
  int convolutions[5];
};
[[nodiscard]] NetworkGraph vgg(const BuildOptions& options, const VggLayout& layout);

/// ResNet and what grew from it. `blocks[i]` blocks in stage i.
struct ResNetLayout {
  int blocks[4];
  int strides[4] = {1, 2, 2, 2};  ///< of each stage's first block
  bool bottleneck = true;         ///< 1x1, 3x3, 1x1; else two 3x3
  std::int64_t groups = 1;        ///< of the 3x3 convolution (ResNeXt: 32)
  std::int64_t group_width = 64;  ///< channels of the 3x3 per group in the first stage
  bool stride_in_first =
      false;  ///< the stage's stride sits in the first 1x1 (He et al.), not in the 3x3
  bool pre_activation = false;  ///< norm and ReLU before the convolutions; bottleneck blocks only
  bool small_images = false;    ///< stem of one 3x3 without stride or pooling, as for CIFAR
};
[[nodiscard]] NetworkGraph resnet(const BuildOptions& options, const ResNetLayout& layout);

/// SSD300 on a ResNet-34 or, with `bottleneck`, ResNet-50; `batch_norm`: after the extra convolutions.
struct SsdResNetLayout {
  bool bottleneck, batch_norm;
};
[[nodiscard]] NetworkGraph ssd_resnet(const BuildOptions& options, const SsdResNetLayout& layout);

}  // namespace tracecast::zoo_builders
