#include "models/zoo/zoo.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "models/ops.hpp"
#include "sim/base/error.hpp"

using namespace tracecast;

namespace {

double square(double x) { return x * x; }

/// Multiply-adds of a VGG from its table: 3x3 convolutions on images of 224 / 2^group, then three
/// GEMMs.
double vgg_macs(const int (&convolutions)[5]) {
  const double channels[] = {64, 128, 256, 512, 512};
  double macs = 25088.0 * 4096 + 4096.0 * 4096 + 4096.0 * 1000;
  double in = 3;
  for (int group = 0; group < 5; ++group) {
    for (int i = 0; i < convolutions[group]; ++i) {
      macs += in * channels[group] * 9 * square(224 >> group);
      in = channels[group];
    }
  }
  return macs;
}

/// Multiply-adds of a bottleneck ResNet from its table (stride in the 3x3).
double bottleneck_resnet_macs(const int (&blocks)[4]) {
  double macs = 3 * 64 * 49 * square(112) + 2048.0 * 1000;
  double in = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const double width = 64 << stage, out = 4 * width;
    const double after = square(56 >> stage);
    for (int i = 0; i < blocks[stage]; ++i) {
      const double before = i == 0 && stage > 0 ? square(112 >> stage) : after;
      macs += in * width * before + width * width * 9 * after + width * out * after;
      if (i == 0) macs += in * out * after;
      in = out;
    }
  }
  return macs;
}

}  // namespace

TEST_SUITE_BEGIN("models/zoo");

TEST_CASE(
    "every network has the published parameters and multiply-adds, to the last digit printed") {
  // A rounded figure may have been rounded or cut off: less than one of its last digit away.
  const auto agrees = [](double count, const Published& published) {
    const double away = std::abs(count - published.value);
    return published.unit == 1 ? away == 0 : away < published.unit;
  };
  for (const ZooEntry& entry : zoo()) {
    if (!entry.parameters && !entry.macs) continue;
    CAPTURE(entry.name);
    const NetworkGraph graph = build_network(entry.name, {});
    CAPTURE(graph.parameter_count());
    CAPTURE(graph.forward_macs());
    if (entry.parameters) {
      CHECK(agrees(static_cast<double>(graph.parameter_count()), *entry.parameters));
    }
    if (entry.macs) CHECK(agrees(graph.forward_macs(), *entry.macs));
  }
}

TEST_CASE("every entry names its source and whatever it takes a figure from") {
  for (const ZooEntry& entry : zoo()) {
    CAPTURE(entry.name);
    CHECK_FALSE(entry.title.empty());
    CHECK_FALSE(entry.source.empty());
    CHECK((entry.build != nullptr));
    for (const auto& figure : {entry.parameters, entry.macs}) {
      if (!figure) continue;
      CHECK_FALSE(figure->source.empty());
      CHECK(figure->value > 0);
      CHECK(figure->unit >= 1);
      CHECK(figure->unit <= 0.1 * figure->value);
    }
  }
}

TEST_CASE("parameters equal torchvision's num_params, auxiliary heads when training") {
  struct Row {
    const char* name;
    bool training;
    std::int64_t parameters;
  };
  // pytorch.org/vision/stable/models.html, table of classification weights. Inception-v3 with its
  // auxiliary head is the table's figure; without: minus 768*128 + 2*128 + 128*768*25 + 2*768 +
  // 768*1000 + 1000 = 3,326,696.
  const Row rows[] = {
      {"resnet18", false, 11'689'512},
      {"resnet50", true, 25'557'032},
      {"resnet152", false, 60'192'808},
      {"vgg16", true, 138'357'544},
      {"vgg19", false, 143'667'240},
      {"alexnet", true, 61'100'840},
      {"densenet121", false, 7'978'856},
      {"mobilenet_v2", true, 3'504'872},
      {"squeezenet1_0", false, 1'248'424},
      {"convnext_tiny", true, 28'589'128},
      {"convnext_small", false, 50'223'688},
      {"convnext_base", false, 88'591'464},
      {"convnext_large", false, 197'767'336},
      {"regnet_x_400mf", false, 5'495'976},
      {"regnet_x_8gf", false, 39'572'648},
      {"regnet_y_400mf", true, 4'344'144},
      {"regnet_y_16gf", false, 83'590'140},
      {"inception_v3", true, 27'161'264},
      {"inception_v3", false, 27'161'264 - 3'326'696},
      // The same page, table of object detection weights: 91 classes of COCO.
      {"ssd300", false, 35'641'826},
      {"ssd300", true, 35'641'826},
      {"mask_rcnn", false, 44'401'393},
      // The stem and the first stage do not train: 64 * 3 * 49 and three blocks of 1x1, 3x3, 1x1
      // with one shortcut.
      {"mask_rcnn", true,
       44'401'393 - 9'408 - (64 + 2 * 256) * 64 - 3 * (9 * 64 * 64 + 64 * 256) - 64 * 256},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(build_network(row.name, {.training = row.training}).parameter_count() == row.parameters);
  }
}

TEST_CASE("multiply-adds follow from the papers' tables and grow with the batch") {
  struct Row {
    const char* name;
    double macs;
  };
  const Row rows[] = {
      {"vgg11", vgg_macs({1, 1, 2, 2, 2})},
      {"vgg16", vgg_macs({2, 2, 3, 3, 3})},
      {"vgg19", vgg_macs({2, 2, 4, 4, 4})},
      {"resnet50", bottleneck_resnet_macs({3, 4, 6, 3})},
      {"resnet152", bottleneck_resnet_macs({3, 8, 36, 3})},
      {"alexnet", 64 * 3 * 121 * square(55) + 192 * 64 * 25 * square(27) +
                      (384 * 192 + 256 * 384 + 256 * 256) * 9 * square(13) + 9216.0 * 4096 +
                      4096.0 * 4096 + 4096.0 * 1000},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(build_network(row.name, {}).forward_macs() == row.macs);
    CHECK(build_network(row.name, {.batch = 32}).forward_macs() == 32 * row.macs);
  }
}

TEST_CASE("multiply-adds agree with torchvision's GFLOPS column") {
  struct Row {
    const char* name;
    double gmac;
  };
  const Row rows[] = {
      {"resnet18", 1.81},        {"resnet34", 3.66},         {"resnet50", 4.09},
      {"resnet101", 7.80},       {"resnet152", 11.51},       {"vgg13", 11.31},
      {"vgg16", 15.47},          {"vgg19", 19.63},           {"alexnet", 0.71},
      {"inception_v3", 5.71},    {"densenet121", 2.83},      {"densenet161", 7.73},
      {"densenet169", 3.36},     {"densenet201", 4.29},      {"googlenet_bn", 1.50},
      {"mobilenet_v2", 0.30},    {"squeezenet1_0", 0.82},    {"squeezenet1_1", 0.35},
      {"resnext50_32x4d", 4.23}, {"wide_resnet50_2", 11.40}, {"ssd300", 34.86},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(build_network(row.name, {}).forward_macs() * 1e-9 ==
          doctest::Approx(row.gmac).epsilon(0.005));
  }
}

TEST_CASE("GoogLeNet as published has the paper's convolutions and both auxiliary heads") {
  // Multiply-adds of table 1's modules: 1x1, reductions, 3x3, 5x5 and projection on one grid.
  struct Module {
    double in, one, reduce3, three, reduce5, five, pooled, side;
  };
  const Module modules[] = {
      {192, 64, 96, 128, 16, 32, 32, 28},     {256, 128, 128, 192, 32, 96, 64, 28},
      {480, 192, 96, 208, 16, 48, 64, 14},    {512, 160, 112, 224, 24, 64, 64, 14},
      {512, 128, 128, 256, 24, 64, 64, 14},   {512, 112, 144, 288, 32, 64, 64, 14},
      {528, 256, 160, 320, 32, 128, 128, 14}, {832, 256, 160, 320, 32, 128, 128, 7},
      {832, 384, 192, 384, 48, 128, 128, 7}};
  double expected =
      3 * 64 * 49 * square(112) + (64 * 64 + 64 * 192 * 9) * square(56) + 1024.0 * 1000;
  for (const Module& m : modules) {
    expected += square(m.side) * (m.in * (m.one + m.reduce3 + m.reduce5 + m.pooled) +
                                  m.reduce3 * m.three * 9 + m.reduce5 * m.five * 25);
  }
  CHECK(build_network("googlenet", {}).forward_macs() == expected);
  // Each head: 1x1 to 128 channels on 4x4, 2048 to 1024 to 1000, all with biases.
  const std::int64_t heads = (512 + 1) * 128 + (528 + 1) * 128 + 2 * (2049 * 1024 + 1025 * 1000);
  CHECK(build_network("googlenet", {.training = true}).parameter_count() == 6'998'552 + heads);
}

TEST_CASE("Caffe's AlexNet splits its second, fourth and fifth convolution into two groups") {
  // Krizhevsky et al., figure 2, on 227x227: 55, 27, 13, 13, 13 cells.
  const double macs = 96 * 3 * 121 * square(55) + 256 * 48 * 25 * square(27) +
                      (384 * 256 + 384 * 192 + 256 * 192) * 9 * square(13) + 9216.0 * 4096 +
                      4096.0 * 4096 + 4096.0 * 1000;
  CHECK(build_network("bvlc_alexnet", {}).forward_macs() == macs);
  // CaffeNet pools before it normalises, which changes no GEMM.
  CHECK(build_network("caffenet", {}).forward_macs() == macs);
}

TEST_CASE("SSD300 predicts 8732 boxes, whatever the backbone") {
  // Liu et al., section 3.1: 4 or 6 default boxes on maps of 38, 19, 10, 5, 3 and 1.
  const std::int64_t boxes = 4 * 38 * 38 + 6 * (19 * 19 + 10 * 10 + 5 * 5) + 4 * (3 * 3 + 1);
  REQUIRE(boxes == 8732);
  struct Row {
    const char* name;
    std::int64_t classes;
  };
  for (const Row& row : {Row{"ssd300", 91}, Row{"ssd300_rn34", 81}, Row{"ssd300_rn50", 81}}) {
    CAPTURE(row.name);
    const NetworkGraph graph = build_network(row.name, {.batch = 2});
    REQUIRE(graph.outputs.size() == 2);
    CHECK(graph.tensor(graph.outputs[0]).shape == Shape{2, row.classes, boxes, 1});
    CHECK(graph.tensor(graph.outputs[1]).shape == Shape{2, 4, boxes, 1});
  }
}

TEST_CASE("SSD300 on a ResNet has three of its stages, extra convolutions and heads") {
  // Heads: 3x3 from 256 or 1024, 512, 512, 256, 256, 256 channels with biases to 4, 6, 6, 6, 4, 4
  // boxes of 4 + 81 values. Extras: 1x1 to 256, 256, 128, 128, 128 and 3x3 to the next map's
  // channels.
  const auto heads = [](double first) {
    return 85 * (4 * (9 * first + 1) + 12 * (9 * 512 + 1) + 14 * (9 * 256 + 1));
  };
  const auto extra_weights = [](double first) {
    return 256 * first + 9 * 256 * 512 + 256 * 512 + 9 * 256 * 512 + 128 * 512 + 9 * 128 * 256 +
           2.0 * (128 * 256 + 9 * 128 * 256);
  };
  const double extra_channels = 256 + 512 + 256 + 512 + 3 * (128 + 256);
  // ResNet-50 without its last stage (14,964,736) and classifier (2,049,000); batch norms: two
  // weights a channel.
  CHECK(build_network("ssd300_rn50", {}).parameter_count() ==
        25'557'032 - 14'964'736 - 2'049'000 + heads(1024) + extra_weights(1024) +
            2 * extra_channels);
  // ResNet-34 without its last stage (13,114,368) and classifier (513,000); a bias a channel.
  CHECK(build_network("ssd300_rn34", {}).parameter_count() ==
        21'797'672 - 13'114'368 - 513'000 + heads(256) + extra_weights(256) + extra_channels);
}

TEST_CASE("SSD320 predicts six boxes in every cell of five maps, and its host chooses among them") {
  const NetworkGraph graph = build_network("ssd320_fpn_rn50", {.batch = 2});
  // Cells of 320x320 images at strides of 8, 16, 32, 64, 128.
  const std::int64_t cells = 40 * 40 + 20 * 20 + 10 * 10 + 5 * 5 + 3 * 3;
  CHECK(graph.tensor(graph.outputs[0]).shape == Shape{2, 6 * cells, 90});
  CHECK(graph.tensor(graph.outputs[1]).shape == Shape{2, 6 * cells, 4});
  const auto small_ops = [](const NetworkGraph& g) {
    std::int64_t sum = 0;
    for (const Op& op : g.ops()) {
      if (op.kind == OpKind::Routine) sum += std::get<RoutineAttributes>(op.attributes).ops;
    }
    return sum;
  };
  CHECK(small_ops(graph) == 2 * (90 * 22 + 60));  // class by class, image by image
  CHECK(small_ops(build_network("ssd320_fpn_rn50", {.batch = 3, .training = true})) == 3 * 140);
}

TEST_CASE(
    "Mask R-CNN's heads read 1000 proposals and 100 detections, fewer of either when training") {
  // The box head's GEMMs and the mask head's convolutions: 4 of 3x3 on 14x14, 2x2 to 28x28, 1x1 to
  // the classes.
  const auto heads = [](double boxes, double masks) {
    return boxes * (12544.0 * 1024 + 1024.0 * 1024 + 1024.0 * 5 * 91) +
           masks *
               (4 * 2304.0 * 256 * square(14) + 256.0 * 256 * square(28) + 256.0 * 91 * square(28));
  };
  const double rest = build_network("mask_rcnn", {}).forward_macs() - heads(1000, 100);
  // The 1:3 sampling of He et al. leaves at most 128 masks of 512 regions.
  CHECK(build_network("mask_rcnn", {.training = true}).forward_macs() - heads(512, 128) == rest);
  // Backbone, pyramid and proposals grow with the image, whose maps shrink by 4, 8, 16, 32 and 64.
  CHECK(build_network("mask_rcnn", {.image_size = 1280}).forward_macs() - heads(1000, 100) ==
        4 * (build_network("mask_rcnn", {.image_size = 640}).forward_macs() - heads(1000, 100)));
}

TEST_CASE("3D U-Net halves its cube five times and meets what it skipped on the way back") {
  const std::int64_t widths[] = {32, 64, 128, 256, 320, 320};
  const auto cells = [](int level) { return std::pow(128.0 / (1 << level), 3); };
  double macs = 0, weights = 0;
  const auto convolve = [&](std::int64_t in, std::int64_t out, std::int64_t taps, double outputs) {
    const double filters = static_cast<double>(in * out * taps);
    weights += filters;
    macs += filters * outputs;
  };
  for (int level = 0; level <= 5; ++level) {
    const std::int64_t in = level == 0 ? 1 : widths[level - 1], out = widths[level];
    convolve(in, out, 27, cells(level));
    convolve(out, out, 27, cells(level));
    weights += static_cast<double>(4 * out);  // two norms
    if (level == 5) continue;
    convolve(widths[level + 1], out, 8, cells(level + 1));  // up: a cell in gives eight
    convolve(2 * out, out, 27, cells(level));
    convolve(out, out, 27, cells(level));
    weights += static_cast<double>(5 * out);
  }
  convolve(32, 3, 1, cells(0));
  const NetworkGraph graph = build_network("unet3d", {});
  CHECK(graph.forward_macs() == macs);
  CHECK(static_cast<double>(graph.parameter_count()) == weights + 3);
}

TEST_CASE("U-Net without padding loses 184 pixels") {
  const NetworkGraph graph = build_network("unet_medical", {});
  CHECK(graph.tensor(graph.outputs.front()).shape == Shape{1, 2, 388, 388});
  CHECK(graph.parameter_count() == 31'030'658);
}

TEST_CASE("MiniGo's network grows with the board") {
  // N blocks of two 3x3 convolutions, `width` wide, 17 planes in, biases and two weights a channel
  // for the batch norms; heads as in Silver et al., whose batch norms have no weights.
  const auto parameters = [](std::int64_t n, std::int64_t width) {
    const std::int64_t points = n * n;
    const std::int64_t tower = 17 * 9 * width + 3 * width + 2 * n * (9 * width * width + 3 * width);
    const std::int64_t policy = 2 * width + 2 + (2 * points + 1) * (points + 1);
    const std::int64_t value = width + 1 + (points + 1) * 2 * width + 2 * width + 1;
    return tower + policy + value;
  };
  // The powers of two nearest to 81 / 3 = 27 and 361 / 3 = 120.
  CHECK(build_network("minigo", {}).parameter_count() == parameters(9, 32));
  CHECK(build_network("minigo", {.image_size = 19}).parameter_count() == parameters(19, 128));
}

TEST_CASE("the CIFAR-10 tutorial's network has its multiply-adds") {
  // "about 19.5M": 5x5 convolutions on 24x24 and 12x12, GEMMs of 6 * 6 * 64 to 384, 192 and 10.
  const double macs = 75 * 64 * square(24) + 1600 * 64 * square(12) + 2304 * 384 + 384 * 192 + 1920;
  CHECK(build_network("cifar10_cnn", {}).forward_macs() == macs);
}

TEST_CASE("CycleGAN trains both generators and both discriminators, each three times") {
  const NetworkGraph infer = build_network("cyclegan", {});
  const NetworkGraph train = build_network("cyclegan", {.training = true});
  // What the authors' program prints: 11.378 M and 2.765 M.
  CHECK(train.parameter_count() == 2 * (11'378'179 + 2'764'737));
  CHECK(infer.tensor(infer.outputs.front()).shape == Shape{1, 3, 256, 256});
  // PatchGAN on 256: 4x4 windows on 128, 64, 32, 31 and 30 cells.
  const double judge = 16 * (3 * 64 * square(128) + 64 * 128 * square(64) + 128 * 256 * square(32) +
                             256 * 512 * square(31) + 512 * square(30));
  CHECK(train.forward_macs() == 6 * (infer.forward_macs() + judge));
}

TEST_CASE("DCGAN trains its generator once and its discriminator three times") {
  const NetworkGraph infer = build_network("dcgan", {});
  const NetworkGraph train = build_network("dcgan", {.training = true});
  CHECK(infer.tensor(infer.outputs.front()).shape == Shape{1, 3, 64, 64});
  // 16 (3 * 64 + 64 * 128 + 128 * 256 + 256 * 512 + 512) and two weights a channel of three batch
  // norms.
  CHECK(train.parameter_count() == 3'576'704 + 2'765'568);
  const double judge = 16 * (3 * 64 * square(32) + 64 * 128 * square(16) + 128 * 256 * square(8) +
                             256 * 512 * square(4) + 512);
  CHECK(train.forward_macs() == infer.forward_macs() + 3 * judge);
}

TEST_CASE("the stride's place makes the difference between ResNet-50 v1 and v1.5") {
  // v1.5 runs the first 1x1 of stages 2 to 4 and the 3x3 of v1 at different sizes: v1 saves the 1x1
  // on three quarters of the pixels (in * width * 3/4 of the larger image).
  double saved = 0;
  for (int stage = 1; stage < 4; ++stage) {
    saved += (128 << stage) * (64 << stage) * square(112 >> stage) * 0.75;
  }
  const double difference = build_network("resnet50", {}).forward_macs() -
                            build_network("resnet50_v1", {}).forward_macs();
  CHECK(difference == saved);
}

TEST_CASE("networks of S-WISC build at 32x32") {
  for (const char* name : {"resnet18", "resnet50", "resnet152", "vgg16", "vgg19"}) {
    CAPTURE(name);
    const NetworkGraph graph = build_network(name, {.batch = 128, .image_size = 32, .classes = 10});
    CHECK(graph.tensor(graph.outputs.front()).shape == Shape{128, 10});
  }
  // VGG's features are 1x1 there, so the first classifier layer has 512 inputs in place of 25088:
  // 138,357,544 - (25,088 - 512) * 4096.
  CHECK(build_network("vgg16", {.image_size = 32}).parameter_count() == 37'694'248);
}

TEST_CASE("the smallest image that fits is the one torchvision states") {
  struct Row {
    const char* name;
    bool training;
    std::int64_t smallest;
  };
  const Row rows[] = {
      {"alexnet", false, 63},
      {"vgg16", false, 32},
      {"resnet50", false, 1},
      {"densenet121", false, 29},
      {"googlenet_bn", false, 15},
      {"squeezenet1_0", false, 21},
      {"squeezenet1_1", false, 17},
      {"inception_v3", false, 75},
      // The auxiliary head pools 5x5 by 3 and convolves 5x5: 17x17 cells, which take the usual 299.
      {"inception_v3", true, 299},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const BuildOptions options{.training = row.training};
    CHECK(smallest_image_size(*find_network(row.name), options) == row.smallest);
  }
  CHECK_THROWS_WITH_AS(
      (void)build_network("alexnet", {.image_size = 32}),
      "network alexnet: found image size 32; expected 63 or more: below it a window no longer fits",
      InputError);
}

TEST_CASE(
    "every network of images builds at the smallest size and its usual one, alone and in a batch") {
  for (const ZooEntry& entry : zoo()) {
    if (entry.image_size == 0) continue;
    CAPTURE(entry.name);
    for (const bool training : {false, true}) {
      const std::int64_t least = smallest_image_size(entry, {.training = training});
      for (const std::int64_t size : {least, entry.image_size}) {
        const NetworkGraph graph =
            build_network(entry.name, {.batch = 3, .image_size = size, .training = training});
        CHECK(graph.name == entry.name);
        CHECK(graph.batch == 3);
        for (const TensorId output : graph.outputs) {
          const Shape& shape = graph.tensor(output).shape;
          CHECK(shape.front() == 3);
          if (entry.classes == 1000) CHECK(shape == Shape{3, 1000});
        }
        for (const Tensor& tensor : graph.tensors()) CHECK(element_count(tensor.shape) > 0);
      }
    }
  }
}

TEST_CASE("dropout is there when training and only then") {
  const auto has_dropout = [](bool training) {
    const NetworkGraph graph = build_network("vgg16", {.training = training});
    for (const Op& op : graph.ops()) {
      if (op.kind == OpKind::Dropout) return true;
    }
    return false;
  };
  CHECK(has_dropout(true));
  CHECK_FALSE(has_dropout(false));
}

TEST_CASE("names are found however they are written") {
  for (const char* name : {"resnet50", "ResNet-50", "resnet_50", "RESNET50", "resnet50_v1.5"}) {
    CAPTURE(name);
    REQUIRE(find_network(name) != nullptr);
    CHECK(find_network(name)->name == "resnet50");
  }
  CHECK(find_network("resnet50v1")->name == "resnet50_v1");
  CHECK(find_network("") == nullptr);
  for (std::size_t i = 1; i < zoo().size(); ++i) CHECK(zoo()[i - 1].name < zoo()[i].name);
}

TEST_CASE("what cannot be built is refused in one line") {
  CHECK_THROWS_WITH_AS((void)build_network("resnt50", {}), doctest::Contains("resnet50"),
                       InputError);
  CHECK_THROWS_AS((void)build_network("resnet50", {.batch = 0}), InputError);
  CHECK_THROWS_AS((void)build_network("resnet50", {.batch = std::int64_t{1} << 60}), InputError);
  CHECK_THROWS_AS((void)build_network("resnet50", {.image_size = 0}), InputError);
  CHECK_THROWS_AS((void)build_network("resnet50", {.image_size = std::int64_t{1} << 40}),
                  InputError);
  CHECK_THROWS_AS((void)build_network("resnet50", {.classes = -1}), InputError);
}

TEST_SUITE_END();
