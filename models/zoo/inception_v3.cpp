#include <initializer_list>
#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Adds the blocks of one network; block names are those of torchvision.
class InceptionV3 {
 public:
  explicit InceptionV3(GraphBuilder& builder) : b_(builder) {}

  TensorId block_a(const std::string& name, TensorId x, std::int64_t pool_channels) {
    const TensorId parts[] = {
        chain(name, x, {{".branch1x1", 64, kOne}}),
        chain(name, x, {{".branch5x5_1", 48, kOne}, {".branch5x5_2", 64, same_window(5, 5)}}),
        chain(name, x,
              {{".branch3x3dbl_1", 64, kOne},
               {".branch3x3dbl_2", 96, same_window(3, 3)},
               {".branch3x3dbl_3", 96, same_window(3, 3)}}),
        pool_branch(name, x, pool_channels)};
    return b_.concat(name + ".cat", parts, 1);
  }

  TensorId block_b(const std::string& name, TensorId x) {
    const TensorId parts[] = {chain(name, x, {{".branch3x3", 384, kReduce}}),
                              chain(name, x,
                                    {{".branch3x3dbl_1", 64, kOne},
                                     {".branch3x3dbl_2", 96, same_window(3, 3)},
                                     {".branch3x3dbl_3", 96, kReduce}}),
                              b_.max_pool(name + ".pool", x, kReduce)};
    return b_.concat(name + ".cat", parts, 1);
  }

  TensorId block_c(const std::string& name, TensorId x, std::int64_t width) {
    const TensorId parts[] = {chain(name, x, {{".branch1x1", 192, kOne}}),
                              chain(name, x,
                                    {{".branch7x7_1", width, kOne},
                                     {".branch7x7_2", width, same_window(1, 7)},
                                     {".branch7x7_3", 192, same_window(7, 1)}}),
                              chain(name, x,
                                    {{".branch7x7dbl_1", width, kOne},
                                     {".branch7x7dbl_2", width, same_window(7, 1)},
                                     {".branch7x7dbl_3", width, same_window(1, 7)},
                                     {".branch7x7dbl_4", width, same_window(7, 1)},
                                     {".branch7x7dbl_5", 192, same_window(1, 7)}}),
                              pool_branch(name, x, 192)};
    return b_.concat(name + ".cat", parts, 1);
  }

  TensorId block_d(const std::string& name, TensorId x) {
    const TensorId parts[] = {
        chain(name, x, {{".branch3x3_1", 192, kOne}, {".branch3x3_2", 320, kReduce}}),
        chain(name, x,
              {{".branch7x7x3_1", 192, kOne},
               {".branch7x7x3_2", 192, same_window(1, 7)},
               {".branch7x7x3_3", 192, same_window(7, 1)},
               {".branch7x7x3_4", 192, kReduce}}),
        b_.max_pool(name + ".pool", x, kReduce)};
    return b_.concat(name + ".cat", parts, 1);
  }

  TensorId block_e(const std::string& name, TensorId x) {
    const TensorId low_precision = chain(name, x, {{".branch3x3_1", 384, kOne}});
    const TensorId wide = chain(
        name, x, {{".branch3x3dbl_1", 448, kOne}, {".branch3x3dbl_2", 384, same_window(3, 3)}});
    const TensorId parts[] = {chain(name, x, {{".branch1x1", 320, kOne}}),
                              rows_and_columns(name + ".branch3x3_2", low_precision),
                              rows_and_columns(name + ".branch3x3dbl_3", wide),
                              pool_branch(name, x, 192)};
    return b_.concat(name + ".cat", parts, 1);
  }

  TensorId chain(const std::string& name, TensorId x, std::initializer_list<Step> steps) {
    return zoo_builders::chain(b_, name, x, steps);
  }

 private:
  /// A row and a column window beside each other.
  TensorId rows_and_columns(const std::string& name, TensorId x) {
    return fork(b_, name, x, {"a", 384, same_window(1, 3)}, {"b", 384, same_window(3, 1)});
  }

  TensorId pool_branch(const std::string& name, TensorId x, std::int64_t channels) {
    const TensorId pooled = b_.avg_pool(name + ".pool", x, same_window(3, 3));
    return chain(name, pooled, {{".branch_pool", channels, kOne}});
  }

  static inline const Window kOne = Window::square(1);
  static inline const Window kReduce = Window::square(3, 2);
  GraphBuilder& b_;
};

// torchvision/models/inception.py, after Szegedy et al., arXiv 1512.00567.
NetworkGraph inception_v3(const BuildOptions& options) {
  GraphBuilder b("inception_v3", options.batch);
  b.graph().reserve(900, 330);
  InceptionV3 net(b);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = net.chain("", x,
                {{"Conv2d_1a_3x3", 32, Window::square(3, 2)},
                 {"Conv2d_2a_3x3", 32, Window::square(3)},
                 {"Conv2d_2b_3x3", 64, same_window(3, 3)}});
  x = b.max_pool("maxpool1", x, Window::square(3, 2));
  x = net.chain(
      "", x, {{"Conv2d_3b_1x1", 80, Window::square(1)}, {"Conv2d_4a_3x3", 192, Window::square(3)}});
  x = b.max_pool("maxpool2", x, Window::square(3, 2));
  x = net.block_a("Mixed_5b", x, 32);
  x = net.block_a("Mixed_5c", x, 64);
  x = net.block_a("Mixed_5d", x, 64);
  x = net.block_b("Mixed_6a", x);
  x = net.block_c("Mixed_6b", x, 128);
  x = net.block_c("Mixed_6c", x, 160);
  x = net.block_c("Mixed_6d", x, 160);
  x = net.block_c("Mixed_6e", x, 192);
  std::optional<TensorId> auxiliary;
  if (options.training) {
    TensorId y = b.avg_pool("AuxLogits.pool", x, Window::square(5, 3));
    y = net.chain("AuxLogits", y,
                  {{".conv0", 128, Window::square(1)}, {".conv1", 768, Window::square(5)}});
    y = b.global_avg_pool("AuxLogits.avgpool", y);
    y = b.flatten("AuxLogits.flatten", y);
    auxiliary = b.linear_layer("AuxLogits.fc", y, *options.classes, true);
  }
  x = net.block_d("Mixed_7a", x);
  x = net.block_e("Mixed_7b", x);
  x = net.block_e("Mixed_7c", x);
  x = b.global_avg_pool("avgpool", x);
  if (options.training) x = b.dropout("dropout", x);
  x = b.flatten("flatten", x);
  x = b.linear_layer("fc", x, *options.classes, true);
  b.graph().outputs = {x};
  if (auxiliary) b.graph().outputs.push_back(*auxiliary);
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> inception_v3_networks() {
  return {
      {.name = "inception_v3",
       .title = "Inception-v3",
       .source = "torchvision 0.15",
       .parameters = rounded(23.83e6, 0.01e6, "timm 0.9, results of inception_v3"),
       .macs = torchvision_gmacs(5.71),
       .image_size = 299,
       .build = inception_v3},
  };
}

}  // namespace tracecast::zoo_builders
