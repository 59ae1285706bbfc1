#include <string>

#include "models/zoo/parts/blocks.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

const Window kOne = Window::square(1);
const Window kReduce = Window::square(3, 2);

TensorId pool_branch(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t channels) {
  const TensorId pooled = b.avg_pool(name + ".pool", x, same_window(3, 3), false, false);
  return chain(b, name, pooled, {{".branch3", channels, kOne}});
}

TensorId stem(GraphBuilder& b, TensorId x) {
  x = chain(b, "stem", x,
            {{".conv1", 32, kReduce},
             {".conv2", 32, Window::square(3)},
             {".conv3", 64, same_window(3, 3)}});
  const TensorId first[] = {b.max_pool("stem.pool1", x, kReduce),
                            chain(b, "stem", x, {{".conv4", 96, kReduce}})};
  x = b.concat("stem.cat1", first, 1);
  const TensorId second[] = {
      chain(b, "stem.short", x, {{".0", 64, kOne}, {".1", 96, Window::square(3)}}),
      chain(b, "stem.long", x,
            {{".0", 64, kOne},
             {".1", 64, same_window(1, 7)},
             {".2", 64, same_window(7, 1)},
             {".3", 96, Window::square(3)}})};
  x = b.concat("stem.cat2", second, 1);
  const TensorId third[] = {chain(b, "stem", x, {{".conv5", 192, kReduce}}),
                            b.max_pool("stem.pool2", x, kReduce)};
  return b.concat("stem.cat3", third, 1);
}

TensorId block_a(GraphBuilder& b, const std::string& name, TensorId x) {
  const TensorId parts[] = {
      chain(b, name, x, {{".branch0", 96, kOne}}),
      chain(b, name, x, {{".branch1.0", 64, kOne}, {".branch1.1", 96, same_window(3, 3)}}),
      chain(b, name, x,
            {{".branch2.0", 64, kOne},
             {".branch2.1", 96, same_window(3, 3)},
             {".branch2.2", 96, same_window(3, 3)}}),
      pool_branch(b, name, x, 96)};
  return b.concat(name + ".cat", parts, 1);
}

TensorId reduction_a(GraphBuilder& b, const std::string& name, TensorId x) {
  const TensorId parts[] = {chain(b, name, x, {{".branch0", 384, kReduce}}),
                            chain(b, name, x,
                                  {{".branch1.0", 192, kOne},
                                   {".branch1.1", 224, same_window(3, 3)},
                                   {".branch1.2", 256, kReduce}}),
                            b.max_pool(name + ".pool", x, kReduce)};
  return b.concat(name + ".cat", parts, 1);
}

TensorId block_b(GraphBuilder& b, const std::string& name, TensorId x) {
  const TensorId parts[] = {chain(b, name, x, {{".branch0", 384, kOne}}),
                            chain(b, name, x,
                                  {{".branch1.0", 192, kOne},
                                   {".branch1.1", 224, same_window(1, 7)},
                                   {".branch1.2", 256, same_window(7, 1)}}),
                            chain(b, name, x,
                                  {{".branch2.0", 192, kOne},
                                   {".branch2.1", 192, same_window(7, 1)},
                                   {".branch2.2", 224, same_window(1, 7)},
                                   {".branch2.3", 224, same_window(7, 1)},
                                   {".branch2.4", 256, same_window(1, 7)}}),
                            pool_branch(b, name, x, 128)};
  return b.concat(name + ".cat", parts, 1);
}

TensorId reduction_b(GraphBuilder& b, const std::string& name, TensorId x) {
  const TensorId parts[] = {
      chain(b, name, x, {{".branch0.0", 192, kOne}, {".branch0.1", 192, kReduce}}),
      chain(b, name, x,
            {{".branch1.0", 256, kOne},
             {".branch1.1", 256, same_window(1, 7)},
             {".branch1.2", 320, same_window(7, 1)},
             {".branch1.3", 320, kReduce}}),
      b.max_pool(name + ".pool", x, kReduce)};
  return b.concat(name + ".cat", parts, 1);
}

TensorId block_c(GraphBuilder& b, const std::string& name, TensorId x) {
  const auto rows_and_columns = [&](const std::string& branch, TensorId in) {
    return fork(b, branch, in, {".a", 256, same_window(1, 3)}, {".b", 256, same_window(3, 1)});
  };
  const TensorId low_precision = chain(b, name, x, {{".branch1.0", 384, kOne}});
  const TensorId wide = chain(b, name, x,
                              {{".branch2.0", 384, kOne},
                               {".branch2.1", 448, same_window(3, 1)},
                               {".branch2.2", 512, same_window(1, 3)}});
  const TensorId parts[] = {chain(b, name, x, {{".branch0", 256, kOne}}),
                            rows_and_columns(name + ".branch1", low_precision),
                            rows_and_columns(name + ".branch2", wide),
                            pool_branch(b, name, x, 256)};
  return b.concat(name + ".cat", parts, 1);
}

// Szegedy et al., arXiv 1602.07261, figures 3 to 9.
NetworkGraph inception_v4(const BuildOptions& options) {
  GraphBuilder b("inception_v4", options.batch);
  b.graph().reserve(1250, 520);
  TensorId x = b.input("images", {options.batch, 3, *options.image_size, *options.image_size});
  x = stem(b, x);
  for (int i = 0; i < 4; ++i) x = block_a(b, "inception_a" + std::to_string(i + 1), x);
  x = reduction_a(b, "reduction_a", x);
  for (int i = 0; i < 7; ++i) x = block_b(b, "inception_b" + std::to_string(i + 1), x);
  x = reduction_b(b, "reduction_b", x);
  for (int i = 0; i < 3; ++i) x = block_c(b, "inception_c" + std::to_string(i + 1), x);
  x = b.global_avg_pool("avgpool", x);
  if (options.training) x = b.dropout("dropout", x);
  x = b.flatten("flatten", x);
  b.graph().outputs = {b.linear_layer("fc", x, *options.classes, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> inception_v4_networks() {
  return {
      {.name = "inception_v4",
       .title = "Inception-v4",
       .source = "Szegedy et al., arXiv 1602.07261",
       .parameters = rounded(42.68e6, 0.01e6, "timm 0.9, results of inception_v4"),
       .image_size = 299,
       .build = inception_v4},
  };
}

}  // namespace tracecast::zoo_builders
