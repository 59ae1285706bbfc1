#include "models/zoo/blocks.hpp"
#include "models/zoo/builders.hpp"

namespace tracecast::zoo_builders {

// torchvision/models/vgg.py, after Simonyan and Zisserman, arXiv 1409.1556, table 1 (columns A, B,
// D, E).
NetworkGraph vgg(const BuildOptions& options, const VggLayout& layout) {
  constexpr std::int64_t kChannels[] = {64, 128, 256, 512, 512};
  GraphBuilder b("vgg", options.batch);
  b.graph().reserve(112, 64);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  int index = 0;
  const auto next = [&] { return "features." + std::to_string(index++); };
  for (int group = 0; group < 5; ++group) {
    for (int i = 0; i < layout.convolutions[group]; ++i) {
      x = b.conv_layer(next(), x, kChannels[group], Window::square(3, 1, 1), true);
      x = b.activation(next(), x, "relu", true);
    }
    x = b.max_pool(next(), x, Window::square(2, 2));
  }
  // The published classifier reads whatever the features leave; torchvision averages larger maps down to 7x7 (its
  // stretching of smaller ones only repeats numbers, which no other framework does).
  if (b.shape(x)[2] >= 7) x = b.adaptive_avg_pool("avgpool", x, 7, 7);
  x = b.flatten("flatten", x);
  x = hidden_layer(b, {"classifier.0", "classifier.1", "classifier.2"}, x, 4096, options.training);
  x = hidden_layer(b, {"classifier.3", "classifier.4", "classifier.5"}, x, 4096, options.training);
  x = b.linear_layer("classifier.6", x, *options.classes, true);
  b.graph().outputs = {x};
  return std::move(b).take();
}

}  // namespace tracecast::zoo_builders
