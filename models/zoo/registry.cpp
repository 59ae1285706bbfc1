#include <charconv>
#include <string>
#include <system_error>
#include <vector>

#include "models/zoo/builders.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using namespace zoo_builders;

constexpr std::string_view kTorchvision = "torchvision 0.15 model reference (num_params)";

constexpr std::string_view kAlexNetNames[] = {"alexnet_owt"};
constexpr std::string_view kGoogLeNetNames[] = {"inception_v1"};
constexpr std::string_view kCycleGanNames[] = {"cyclegan_monet2photo"};
constexpr std::string_view kMaskRcnnNames[] = {"maskrcnn_resnet50_fpn"};
constexpr std::string_view kResNet50Names[] = {"resnet50_v1.5", "resnet50_imagenet"};

/// A family's builder with one of its layouts.
template <auto family, auto layout>
NetworkGraph build(const BuildOptions& options) {
  return family(options, layout);
}

constexpr DenseNetLayout kDenseNet121{.layers = {6, 12, 24, 16}};
constexpr DenseNetLayout kDenseNet161{
    .layers = {6, 12, 36, 24}, .growth = 48, .first_channels = 96};
constexpr DenseNetLayout kDenseNet169{.layers = {6, 12, 32, 32}};
constexpr DenseNetLayout kDenseNet201{.layers = {6, 12, 48, 32}};
constexpr GoogLeNetLayout kGoogLeNet{};
constexpr GoogLeNetLayout kGoogLeNetBn{.batch_norm = true};
constexpr InceptionBnLayout kInceptionBn{};
constexpr InceptionBnLayout kInceptionBnMxnet{.as_mxnet = true};
constexpr SqueezeNetLayout kSqueezeNet10{
    .first_channels = 96, .first_kernel = 7, .pool_after = {2, 6}};
constexpr SqueezeNetLayout kSqueezeNet11{
    .first_channels = 64, .first_kernel = 3, .pool_after = {1, 3}};
constexpr ResNetLayout kResNet18{.blocks = {2, 2, 2, 2}, .bottleneck = false};
constexpr ResNetLayout kResNet18Cifar{
    .blocks = {2, 2, 2, 2}, .bottleneck = false, .small_images = true};
constexpr ResNetLayout kResNet34{.blocks = {3, 4, 6, 3}, .bottleneck = false};
constexpr ResNetLayout kResNet50{.blocks = {3, 4, 6, 3}};
constexpr ResNetLayout kResNet50V1{.blocks = {3, 4, 6, 3}, .stride_in_first = true};
constexpr ResNetLayout kResNet101{.blocks = {3, 4, 23, 3}};
constexpr ResNetLayout kResNet152{.blocks = {3, 8, 36, 3}};
constexpr ResNetLayout kResNet200{.blocks = {3, 24, 36, 3}, .pre_activation = true};
constexpr ResNetLayout kResNeXt50{.blocks = {3, 4, 6, 3}, .groups = 32, .group_width = 4};
constexpr ResNetLayout kResNeXt101{.blocks = {3, 4, 23, 3}, .groups = 32, .group_width = 4};
constexpr ResNetLayout kWideResNet50{.blocks = {3, 4, 6, 3}, .group_width = 128};
constexpr SsdResNetLayout kSsdResNet34{.bottleneck = false, .batch_norm = false};
constexpr SsdResNetLayout kSsdResNet50{.bottleneck = true, .batch_norm = true};
constexpr VggLayout kVgg11{{1, 1, 2, 2, 2}};
constexpr VggLayout kVgg13{{2, 2, 2, 2, 2}};
constexpr VggLayout kVgg16{{2, 2, 3, 3, 3}};
constexpr VggLayout kVgg19{{2, 2, 4, 4, 4}};

// layers, width, heads, ... as in each family's layout.
constexpr BertLayout kBertBase{12, 768, 12};
constexpr BertLayout kBertLarge{24, 1024, 16};
constexpr GptLayout kGpt2Small{12, 768, 12};
constexpr GptLayout kGpt2Medium{24, 1024, 16};
constexpr GptLayout kGpt2Large{36, 1280, 20};
constexpr GptLayout kGpt2Xl{48, 1600, 25};
constexpr GptLayout kGpt3Small{12, 768, 12, 2048};
constexpr GptLayout kGpt3Medium{24, 1024, 16, 2048};
constexpr GptLayout kGpt3Large{24, 1536, 16, 2048};
// The table's 24 heads of 128 are not 2048 wide; 16 are.
constexpr GptLayout kGpt3Xl{24, 2048, 16, 2048};
constexpr GptLayout kGpt3Of2700{32, 2560, 32, 2048};
constexpr GptLayout kGpt3Of6700{32, 4096, 32, 2048};
// The table's width of 5140 is not 40 heads of 128; 5120 is.
constexpr GptLayout kGpt3Of13000{40, 5120, 40, 2048};
constexpr GptLayout kGpt3Of175000{96, 12288, 96, 2048};
constexpr LlamaLayout kLlama2Of7{32, 4096, 32, 32, 11008, 32000};
constexpr LlamaLayout kLlama2Of13{40, 5120, 40, 40, 13824, 32000};
constexpr LlamaLayout kLlama2Of70{80, 8192, 64, 8, 28672, 32000};
constexpr LlamaLayout kLlama3Of1{16, 2048, 32, 8, 8192, 128256, true};
constexpr LlamaLayout kLlama3Of3{28, 3072, 24, 8, 8192, 128256, true};
constexpr LlamaLayout kLlama3Of8{32, 4096, 32, 8, 14336, 128256};
constexpr LlamaLayout kLlama3Of70{80, 8192, 64, 8, 28672, 128256};
constexpr LlamaLayout kLlama3Of405{126, 16384, 128, 8, 53248, 128256};
constexpr OptLayout kOpt125{12, 768, 12};
constexpr OptLayout kOpt350{24, 1024, 16, 512, true};
constexpr OptLayout kOpt1300{24, 2048, 32};
constexpr OptLayout kOpt2700{32, 2560, 32};
constexpr OptLayout kOpt6700{32, 4096, 32};
constexpr OptLayout kOpt13000{40, 5120, 40};
constexpr OptLayout kOpt30000{48, 7168, 56};
constexpr OptLayout kOpt66000{64, 9216, 72};
constexpr OptLayout kOpt175000{96, 12288, 96};
constexpr TransformerLayout kTransformerBase{512, 8, 2048, 37000};
constexpr TransformerLayout kTransformerBig{1024, 16, 4096, 37000};
// Guess: words that occur five times or more in Multi30k.
constexpr TransformerLayout kTransformerMulti30k{512, 8, 2048, 3149, 2911, true};

constexpr std::string_view kHuggingFace = "Hugging Face transformers (count of the checkpoint)";
constexpr std::string_view kGpt3 = "Brown et al., arXiv 2005.14165, table 2.1 (rounded there)";
constexpr std::string_view kOpt = "Zhang et al., arXiv 2205.01068, table 1; transformers' OPT";
constexpr std::string_view kLlama2 = "Touvron et al., arXiv 2307.09288; count of the checkpoint";
constexpr std::string_view kLlama3 = "Dubey et al., arXiv 2407.21783; count of the checkpoint";
constexpr std::string_view kVaswani = "Vaswani et al., arXiv 1706.03762, table 3 (rounded there)";

constexpr std::string_view kGpt2Names[] = {"gpt2_small"};
constexpr std::string_view kMlpNames[] = {"mlp"};
constexpr std::string_view kNcfNames[] = {"neumf"};
constexpr std::string_view kAutoencoderNames[] = {"autoencoder_ml20m"};

// clang-format off
constexpr ZooEntry kZoo[] = {
    {"alexnet", kAlexNetNames, "AlexNet, one tower", kTorchvision, 61'100'840, 224, alexnet},
    {"autoencoder", kAutoencoderNames, "Recoder's autoencoder, MovieLens-20M", "github.com/amoussawi/recoder (the count of that definition)", 8'063'508, 0, autoencoder},
    {"bert_base", {}, "BERT base", kHuggingFace, 109'482'240, 0, build<bert, kBertBase>, 512, 512},
    {"bert_large", {}, "BERT large", kHuggingFace, 335'141'888, 0, build<bert, kBertLarge>, 512, 512},
    {"caffenet", {}, "AlexNet of Caffe, two groups", "BVLC Caffe models/bvlc_alexnet (60,965,224)", 60'965'224, 227, caffenet},
    {"cifar10_cnn", {}, "CIFAR-10 CNN, TensorFlow's tutorial", "tensorflow.org tutorials, Convolutional Neural Networks (1,068,298)", 1'068'298, 24, cifar10_cnn, 0, 0, 10},
    {"cyclegan", kCycleGanNames, "CycleGAN; inference: one generator", "github.com/junyanz/pytorch-CycleGAN-and-pix2pix (prints 11.378 M, discriminator 2.765 M)", 11'378'179, 256, cyclegan, 0, 0, 1},
    {"densenet121", {}, "DenseNet-121", kTorchvision, 7'978'856, 224, build<densenet, kDenseNet121>},
    {"densenet161", {}, "DenseNet-161", kTorchvision, 28'681'000, 224, build<densenet, kDenseNet161>},
    {"densenet169", {}, "DenseNet-169", kTorchvision, 14'149'480, 224, build<densenet, kDenseNet169>},
    {"densenet201", {}, "DenseNet-201", kTorchvision, 20'013'928, 224, build<densenet, kDenseNet201>},
    {"googlenet", kGoogLeNetNames, "GoogLeNet as published, with LRN", "Szegedy et al., arXiv 1409.4842, table 1 (the count with biases)", 6'998'552, 224, build<googlenet, kGoogLeNet>},
    {"googlenet_bn", {}, "GoogLeNet with batch norm", kTorchvision, 6'624'904, 224, build<googlenet, kGoogLeNetBn>},
    {"gpt2", kGpt2Names, "GPT-2 small", kHuggingFace, 124'439'808, 0, build<gpt, kGpt2Small>, 1024, 1024},
    {"gpt2_large", {}, "GPT-2 large", kHuggingFace, 774'030'080, 0, build<gpt, kGpt2Large>, 1024, 1024},
    {"gpt2_medium", {}, "GPT-2 medium", kHuggingFace, 354'823'168, 0, build<gpt, kGpt2Medium>, 1024, 1024},
    {"gpt2_xl", {}, "GPT-2 XL", kHuggingFace, 1'557'611'200, 0, build<gpt, kGpt2Xl>, 1024, 1024},
    {"gpt3_1.3b", {}, "GPT-3 1.3B, dense attention", kGpt3, 1'315'723'264, 0, build<gpt, kGpt3Xl>, 2048, 2048},
    {"gpt3_125m", {}, "GPT-3 125M, dense attention", kGpt3, 125'226'240, 0, build<gpt, kGpt3Small>, 2048, 2048},
    {"gpt3_13b", {}, "GPT-3 13B, dense attention", kGpt3, 12'853'386'240, 0, build<gpt, kGpt3Of13000>, 2048, 2048},
    {"gpt3_175b", {}, "GPT-3 175B, dense attention", kGpt3, 174'604'259'328, 0, build<gpt, kGpt3Of175000>, 2048, 2048},
    {"gpt3_2.7b", {}, "GPT-3 2.7B, dense attention", kGpt3, 2'651'553'280, 0, build<gpt, kGpt3Of2700>, 2048, 2048},
    {"gpt3_350m", {}, "GPT-3 350M, dense attention", kGpt3, 355'871'744, 0, build<gpt, kGpt3Medium>, 2048, 2048},
    {"gpt3_6.7b", {}, "GPT-3 6.7B, dense attention", kGpt3, 6'658'404'352, 0, build<gpt, kGpt3Of6700>, 2048, 2048},
    {"gpt3_760m", {}, "GPT-3 760M, dense attention", kGpt3, 760'300'032, 0, build<gpt, kGpt3Large>, 2048, 2048},
    {"inception_bn", {}, "Inception with batch norm, MXNet's", "MXNet 1.x symbols/inception-bn.py (the count of that definition)", 11'295'240, 224, build<inception_bn, kInceptionBnMxnet>},
    {"inception_v2", {}, "Inception with batch norm as published", "Ioffe and Szegedy, arXiv 1502.03167, figure 5 (the count of that table)", 11'194'984, 224, build<inception_bn, kInceptionBn>},
    {"inception_v3", {}, "Inception-v3", kTorchvision, 23'834'568, 299, inception_v3},
    {"inception_v4", {}, "Inception-v4", "Szegedy et al., arXiv 1602.07261; count of timm 0.9 (42.68 M)", 42'679'816, 299, inception_v4},
    {"llama2_13b", {}, "Llama 2 13B", kLlama2, 13'015'864'320, 0, build<llama, kLlama2Of13>, 4096, 0},
    {"llama2_70b", {}, "Llama 2 70B", kLlama2, 68'976'648'192, 0, build<llama, kLlama2Of70>, 4096, 0},
    {"llama2_7b", {}, "Llama 2 7B", kLlama2, 6'738'415'616, 0, build<llama, kLlama2Of7>, 4096, 0},
    {"llama3_1b", {}, "Llama 3.2 1B", kLlama3, 1'235'814'400, 0, build<llama, kLlama3Of1>, 8192, 0},
    {"llama3_3b", {}, "Llama 3.2 3B", kLlama3, 3'212'749'824, 0, build<llama, kLlama3Of3>, 8192, 0},
    {"llama3_405b", {}, "Llama 3.1 405B", kLlama3, 405'853'388'800, 0, build<llama, kLlama3Of405>, 8192, 0},
    {"llama3_70b", {}, "Llama 3 70B", kLlama3, 70'553'706'496, 0, build<llama, kLlama3Of70>, 8192, 0},
    {"llama3_8b", {}, "Llama 3 8B", kLlama3, 8'030'261'248, 0, build<llama, kLlama3Of8>, 8192, 0},
    {"mask_rcnn", kMaskRcnnNames, "Mask R-CNN on ResNet-50 FPN", "torchvision 0.15 maskrcnn_resnet50_fpn (num_params)", 44'401'393, 800, mask_rcnn, 0, 0, 91},
    {"minigo", {}, "MiniGo; image size = board", "github.com/tensorflow/minigo dual_net.py, early 2018 (the count of that definition)", 191'386, 9, minigo, 0, 0, 82},
    {"mlp_reuters", kMlpNames, "512 units on 1000 words, 46 topics", "Keras examples/reuters_mlp.py (the count of that definition)", 536'110, 0, mlp_reuters},
    {"mobilenet_v2", {}, "MobileNet-v2", kTorchvision, 3'504'872, 224, mobilenet_v2},
    {"ncf", kNcfNames, "NeuMF on MovieLens-20M", "MLPerf training v0.5, recommendation/pytorch/neumf.py (the count of that definition)", 31'832'577, 0, ncf},
    {"opt_1.3b", {}, "OPT-1.3B", kOpt, 1'315'758'080, 0, build<opt, kOpt1300>, 2048, 2048},
    {"opt_125m", {}, "OPT-125M", kOpt, 125'239'296, 0, build<opt, kOpt125>, 2048, 2048},
    {"opt_13b", {}, "OPT-13B", kOpt, 12'853'473'280, 0, build<opt, kOpt13000>, 2048, 2048},
    {"opt_175b", {}, "OPT-175B", kOpt, 174'604'468'224, 0, build<opt, kOpt175000>, 2048, 2048},
    {"opt_2.7b", {}, "OPT-2.7B", kOpt, 2'651'596'800, 0, build<opt, kOpt2700>, 2048, 2048},
    {"opt_30b", {}, "OPT-30B", kOpt, 29'974'540'288, 0, build<opt, kOpt30000>, 2048, 2048},
    {"opt_350m", {}, "OPT-350M", kOpt, 331'196'416, 0, build<opt, kOpt350>, 2048, 2048},
    {"opt_6.7b", {}, "OPT-6.7B", kOpt, 6'658'473'984, 0, build<opt, kOpt6700>, 2048, 2048},
    {"opt_66b", {}, "OPT-66B", kOpt, 65'719'701'504, 0, build<opt, kOpt66000>, 2048, 2048},
    {"overfeat", {}, "OverFeat, fast", "Sermanet et al., arXiv 1312.6229, table 1 (145 M)", 145'920'872, 231, overfeat},
    {"resnet101", {}, "ResNet-101 v1.5", kTorchvision, 44'549'160, 224, build<resnet, kResNet101>},
    {"resnet152", {}, "ResNet-152 v1.5", kTorchvision, 60'192'808, 224, build<resnet, kResNet152>},
    {"resnet18", {}, "ResNet-18", kTorchvision, 11'689'512, 224, build<resnet, kResNet18>},
    {"resnet18_cifar10", {}, "ResNet-18 for 32x32 images", "github.com/kuangliu/pytorch-cifar models/resnet.py (11,173,962)", 11'173'962, 32, build<resnet, kResNet18Cifar>, 0, 0, 10},
    {"resnet200", {}, "ResNet-200, pre-activation", "fb.resnet.torch models/preresnet.lua (the count of that definition)", 64'666'152, 224, build<resnet, kResNet200>},
    {"resnet34", {}, "ResNet-34", kTorchvision, 21'797'672, 224, build<resnet, kResNet34>},
    {"resnet50", kResNet50Names, "ResNet-50 v1.5, stride in the 3x3", kTorchvision, 25'557'032, 224, build<resnet, kResNet50>},
    {"resnet50_v1", {}, "ResNet-50 v1, stride in the first 1x1", kTorchvision, 25'557'032, 224, build<resnet, kResNet50V1>},
    {"resnext101_32x4d", {}, "ResNeXt-101 32x4d", "Xie et al., arXiv 1611.05431, section 4 (44 M)", 44'177'704, 224, build<resnet, kResNeXt101>},
    {"resnext50_32x4d", {}, "ResNeXt-50 32x4d", kTorchvision, 25'028'904, 224, build<resnet, kResNeXt50>},
    {"shufflenet", {}, "ShuffleNet, 4 groups", "Zhang et al., arXiv 1707.01083; the count of the ONNX model zoo's file", 1'393'320, 224, shufflenet},
    {"softmax_regression", {}, "Softmax regression, MNIST", "TensorFlow 1.x mnist_softmax.py (the count of that definition)", 7'850, 0, softmax_regression},
    {"squeezenet1_0", {}, "SqueezeNet 1.0", kTorchvision, 1'248'424, 224, build<squeezenet, kSqueezeNet10>},
    {"squeezenet1_1", {}, "SqueezeNet 1.1", kTorchvision, 1'235'496, 224, build<squeezenet, kSqueezeNet11>},
    {"ssd300", {}, "SSD300 on VGG-16", "torchvision 0.15 ssd300_vgg16 (num_params)", 35'641'826, 300, ssd_vgg16, 0, 0, 91},
    {"ssd300_rn34", {}, "SSD300 on ResNet-34, MLPerf's", "MLPerf training single_stage_detector (the count of that definition)", 19'972'534, 300, build<ssd_resnet, kSsdResNet34>, 0, 0, 81},
    {"ssd300_rn50", {}, "SSD300 on ResNet-50, NVIDIA's", "NVIDIA DeepLearningExamples SSD300 v1.1 for PyTorch (the count of that definition)", 22'894'902, 300, build<ssd_resnet, kSsdResNet50>, 0, 0, 81},
    {"transformer", {}, "Transformer base, English to German", kVaswani, 63'082'496, 0, build<transformer, kTransformerBase>, 32, 0},
    {"transformer_big", {}, "Transformer big, English to German", kVaswani, 214'245'376, 0, build<transformer, kTransformerBig>, 32, 0},
    {"transformer_multi30k", {}, "Transformer base on Multi30k", "github.com/jadore801120/attention-is-all-you-need-pytorch (the count of that definition)", 47'241'216, 0, build<transformer, kTransformerMulti30k>, 32, 0},
    {"vgg11", {}, "VGG-11 (A)", kTorchvision, 132'863'336, 224, build<vgg, kVgg11>},
    {"vgg13", {}, "VGG-13 (B)", kTorchvision, 133'047'848, 224, build<vgg, kVgg13>},
    {"vgg16", {}, "VGG-16 (D)", kTorchvision, 138'357'544, 224, build<vgg, kVgg16>},
    {"vgg19", {}, "VGG-19 (E)", kTorchvision, 143'667'240, 224, build<vgg, kVgg19>},
    {"wide_resnet50_2", {}, "Wide ResNet-50-2", kTorchvision, 68'883'240, 224, build<resnet, kWideResNet50>},
    {"zfnet512", {}, "ZFNet, 512 channels", "Zeiler and Fergus, arXiv 1311.2901; the count of the ONNX model zoo's file", 87'250'536, 224, zfnet512},
};
// clang-format on

/// Letters and digits in lower case: "ResNet-50_v1.5" and "resnet50_v1.5" are one name.
std::string plain(std::string_view name) {
  std::string text = to_lower(name);
  std::erase_if(text, [](char c) { return c == '-' || c == '_' || c == ' '; });
  return text;
}

constexpr std::int64_t kMostSamples = 1 << 24;
constexpr std::int64_t kMostClasses = 1 << 24;
constexpr std::int64_t kMostPixels = 1 << 16;
constexpr std::int64_t kMostTokens = 1 << 20;

NetworkGraph build_at(const ZooEntry& entry, BuildOptions options, std::int64_t image_size) {
  options.image_size = image_size;
  options.classes = options.classes.value_or(entry.classes);
  return entry.build(options);
}

const ZooEntry* find_exact(std::string_view name) {
  const std::string wanted = plain(name);
  for (const ZooEntry& entry : kZoo) {
    if (plain(entry.name) == wanted) return &entry;
    for (const std::string_view alias : entry.aliases) {
      if (plain(alias) == wanted) return &entry;
    }
  }
  return nullptr;
}

/// A name and the number behind its "_seq", if there is one: "bert_large_seq384".
struct SizedName {
  std::string_view name;
  std::optional<std::int64_t> seq_len;
};
SizedName split_length(std::string_view name) {
  constexpr std::string_view kMark = "_seq";
  const std::size_t at = name.rfind(kMark);
  if (at == std::string_view::npos) return {name, {}};
  const std::string_view digits = name.substr(at + kMark.size());
  std::int64_t length = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), length);
  if (error != std::errc() || end != digits.data() + digits.size()) return {name, {}};
  return {name.substr(0, at), length};
}

NetworkGraph build_sequence(const ZooEntry& entry, BuildOptions options) {
  options.seq_len = options.seq_len.value_or(entry.seq_len);
  const std::int64_t most = entry.most_tokens > 0 ? entry.most_tokens : kMostTokens;
  if (*options.seq_len < 1 || *options.seq_len > most) {
    throw InputError("network " + std::string(entry.name),
                     std::to_string(*options.seq_len) + " tokens", "1 to " + std::to_string(most));
  }
  return entry.build(options);
}

NetworkGraph build_image(const ZooEntry& entry, const BuildOptions& options) {
  const std::string where = "network " + std::string(entry.name);
  const std::int64_t image_size = options.image_size.value_or(entry.image_size);
  const std::string size_text = "image size " + std::to_string(image_size);
  if (image_size < 1 || image_size > kMostPixels) {
    throw InputError(where, size_text, "1 to " + std::to_string(kMostPixels));
  }
  try {
    return build_at(entry, options, image_size);
  } catch (const InputError&) {
    const std::int64_t least = smallest_image_size(entry, options);
    if (image_size >= least) throw;  // something else is wrong, and says so itself
    throw InputError(where, size_text,
                     std::to_string(least) + " or more: below it a window no longer fits");
  }
}

}  // namespace

std::span<const ZooEntry> zoo() { return kZoo; }

const ZooEntry* find_network(std::string_view name) {
  if (const ZooEntry* entry = find_exact(name)) return entry;
  const SizedName sized = split_length(name);
  const ZooEntry* entry = sized.seq_len ? find_exact(sized.name) : nullptr;
  return entry != nullptr && entry->seq_len > 0 ? entry : nullptr;
}

std::int64_t smallest_image_size(const ZooEntry& entry, const BuildOptions& options) {
  // Windows shrink images monotonically: bisect between a size that fails and one that works.
  std::int64_t too_small = 0, enough = entry.image_size;
  while (enough - too_small > 1) {
    const std::int64_t middle = too_small + (enough - too_small) / 2;
    try {
      (void)build_at(entry, options, middle);
      enough = middle;
    } catch (const InputError&) {
      too_small = middle;
    }
  }
  return enough;
}

NetworkGraph build_network(std::string_view name, const BuildOptions& options) {
  const ZooEntry* entry = find_network(name);
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const ZooEntry& known : kZoo) {
      names.emplace_back(known.name);
      names.insert(names.end(), known.aliases.begin(), known.aliases.end());
    }
    throw InputError("network", "'" + std::string(name) + "'", describe_choices(name, names));
  }
  const std::string where = "network " + std::string(entry->name);
  if (options.batch < 1 || options.batch > kMostSamples) {
    throw InputError(where, "batch " + std::to_string(options.batch),
                     "1 to " + std::to_string(kMostSamples));
  }
  const std::int64_t classes = options.classes.value_or(entry->classes);
  if (classes < 1 || classes > kMostClasses) {
    throw InputError(where, std::to_string(classes) + " classes",
                     "1 to " + std::to_string(kMostClasses));
  }
  BuildOptions sized = options;
  if (!sized.seq_len && find_exact(name) == nullptr) sized.seq_len = split_length(name).seq_len;
  NetworkGraph graph = entry->seq_len > 0      ? build_sequence(*entry, sized)
                       : entry->image_size > 0 ? build_image(*entry, sized)
                                               : entry->build(sized);
  graph.name = entry->name;
  return graph;
}

}  // namespace tracecast
