#include <string>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

struct Yolo {
  GraphBuilder& b;
  std::int64_t classes;

  TensorId conv(const std::string& name, TensorId x, std::int64_t channels, std::int64_t kernel,
                std::int64_t stride = 1) const {
    x = b.conv_layer(name, x, channels, Window::square(kernel, stride, kernel / 2), false);
    return b.activation(name + ".leaky", b.batch_norm_layer(name + ".bn", x), "leakyrelu", true);
  }
  /// Halves the image, then so many blocks of 1x1 and 3x3.
  TensorId stage(const std::string& name, TensorId x, std::int64_t channels, int blocks) const {
    x = conv(name + ".down", x, channels, 3, 2);
    for (int i = 0; i < blocks; ++i) {
      const std::string block = name + "." + std::to_string(i);
      const TensorId y = conv(block + ".2", conv(block + ".1", x, channels / 2, 1), channels, 3);
      x = b.add(block + ".add", y, x);
    }
    return x;
  }
  /// 1x1 and 3x3 in turn, five in all.
  TensorId neck(const std::string& name, TensorId x, std::int64_t channels) const {
    for (int i = 0; i < 5; ++i) {
      const std::string part = name + "." + std::to_string(i);
      x = i % 2 == 0 ? conv(part, x, channels, 1) : conv(part, x, 2 * channels, 3);
    }
    return x;
  }
  /// Three boxes a cell: four coordinates, objectness and the classes.
  void detect(const std::string& name, TensorId x, std::int64_t channels) const {
    x = conv(name + ".conv", x, 2 * channels, 3);
    x = b.conv_layer(name + ".boxes", x, 3 * (5 + classes), Window::square(1), true);
    b.graph().outputs.push_back(x);
  }
  /// A coarser neck's result, twice as large, beside the backbone's.
  TensorId join(const std::string& name, TensorId coarse, TensorId fine) const {
    TensorId x = conv(name + ".conv", coarse, b.shape(coarse)[1] / 2, 1);
    const Shape grown = {b.shape(x)[0], b.shape(x)[1], b.shape(fine)[2], b.shape(fine)[3]};
    const TensorId both[] = {b.resize(name + ".up", x, grown, "nearest"), fine};
    return b.concat(name + ".cat", both, 1);
  }
};

// Redmon and Farhadi, arXiv 1804.02767, table 1, and darknet's cfg/yolov3.cfg. What boxes are
// trained with (mean squares and cross entropies of matched boxes) and decoding and suppression
// after inference are not in the graph.
NetworkGraph yolov3(const BuildOptions& options) {
  GraphBuilder b("yolov3", options.batch);
  b.graph().reserve(700, 300);
  const Yolo net{b, *options.classes};
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = net.conv("conv0", x, 32, 3);
  x = net.stage("stage1", x, 64, 1);
  x = net.stage("stage2", x, 128, 2);
  const TensorId fine = net.stage("stage3", x, 256, 8);
  const TensorId middle = net.stage("stage4", fine, 512, 8);
  x = net.neck("neck1", net.stage("stage5", middle, 1024, 4), 512);
  net.detect("detect1", x, 512);
  x = net.neck("neck2", net.join("join2", x, middle), 256);
  net.detect("detect2", x, 256);
  x = net.neck("neck3", net.join("join3", x, fine), 128);
  net.detect("detect3", x, 128);
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> yolov3_networks() {
  return {{.name = "yolov3",
           .title = "YOLOv3 on Darknet-53",
           .source = "Redmon and Farhadi, arXiv 1804.02767; darknet, cfg/yolov3.cfg",
           .parameters = exact(61'949'149, "ultralytics/yolov3, model summary of yolov3.cfg"),
           // Darknet counts two operations a multiply-add.
           .macs = rounded(65.86e9 / 2, 0.01e9, "pjreddie.com/darknet/yolo: 65.86 Bn at 416"),
           .image_size = 416,
           .classes = 80,
           .data_set = "coco",
           .build = yolov3}};
}

}  // namespace tracecast::zoo_builders
