#include "models/compiler/image_layout.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

/// The rule that the profile of torch.compile states.
const ImageLayoutRule& rule() { return *find_framework("pytorch_compile").compiler->image_layout; }

struct Filter {
  std::int64_t channels, results, side;
  std::int64_t groups = 1;
};

NetworkGraph network_of(const std::vector<Filter>& filters, int more_ops = 0) {
  GraphBuilder b("network", 2);
  std::vector<TensorId> ends;
  for (std::size_t i = 0; i < filters.size(); ++i) {
    const Filter& f = filters[i];
    const std::string name = "conv" + std::to_string(i);
    TensorId x = b.input(name + ".x", {2, f.channels, 16, 16});
    ends.push_back(
        b.conv_layer(name, x, f.results, Window::square(f.side, 1, f.side / 2), false, f.groups));
  }
  TensorId y = ends.empty() ? b.input("x", {2, 8}) : ends.front();
  for (int i = 0; i < more_ops; ++i) y = b.activation("relu" + std::to_string(i), y, "relu");
  b.graph().outputs = ends.empty() ? std::vector<TensorId>{y} : ends;
  return std::move(b).take();
}

TEST_SUITE_BEGIN("models/compiler/image_layout");

TEST_CASE("which convolutions make a compiler lay images channels last") {
  const Filter usual{128, 128, 3}, depthwise{128, 128, 3, 128}, grouped{128, 128, 3, 4},
      narrowing{256, 128, 3}, low_precision_point{256, 128, 1}, small{3, 64, 7};
  struct Row {
    const char* what;
    std::vector<Filter> filters;
    bool trains, infers;
  };
  const std::vector<Row> rows = {
      {"usual ones", {usual, small}, true, true},
      {"one channel to a group", {usual, depthwise}, true, true},
      {"several channels to a group", {usual, grouped}, false, true},  // a quarter of the work
      {"nothing but groups", {grouped}, false, false},
      {"half as many results as channels", {usual, narrowing}, false, true},
      {"the same by a single point", {usual, low_precision_point}, true, true},
      {"small ones alone", {small}, false, true},
      {"none", {}, false, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(lays_channels_last(network_of(row.filters), rule(), true) == row.trains);
    CHECK(lays_channels_last(network_of(row.filters), rule(), false) == row.infers);
  }
  CHECK_FALSE(lays_channels_last(network_of({usual}, 300), rule(), true));  // few among many ops
  CHECK(lays_channels_last(network_of({usual, usual}, 300), rule(), true));
}

TEST_CASE("networks of the zoo") {
  struct Row {
    const char* name;
    bool trains, infers;
  };
  const Row rows[] = {
      {"resnet50", true, true},      {"mobilenet_v2", true, true}, {"resnext50_32x4d", false, true},
      {"regnet_y_8gf", false, true}, {"densenet121", false, true}, {"vit_b_16", false, false},
      {"bert_base", false, false},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(lays_channels_last(build_network(row.name, {.training = true}), rule(), true) ==
          row.trains);
    CHECK(lays_channels_last(build_network(row.name, {}), rule(), false) == row.infers);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
