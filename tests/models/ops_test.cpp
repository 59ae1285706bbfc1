#include "models/ops.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"

using namespace tracecast;

namespace {

/// What `build` says when it refuses.
template <class Build>
std::string refusal(Build build) {
  try {
    build();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_SUITE_BEGIN("models/ops");

TEST_CASE("windows are counted as the frameworks count them") {
  struct Row {
    const char* what;
    std::int64_t size, kernel, stride, before, after, dilation;
    bool ceil_mode;
    std::int64_t expected;
  };
  const Row rows[] = {
      {"ResNet stem: (224 + 6 - 7) / 2 = 111.5", 224, 7, 2, 3, 3, 1, false, 112},
      {"AlexNet stem: (224 + 4 - 11) / 4 = 54.25", 224, 11, 4, 2, 2, 1, false, 55},
      {"3x3 keeps the size", 56, 3, 1, 1, 1, 1, false, 56},
      {"dilation 2 makes 3 into 5: 32 + 4 - 5 + 1", 32, 3, 1, 2, 2, 2, false, 32},
      {"pads differ: (224 + 5 - 7) / 2 = 111 exactly", 224, 7, 2, 2, 3, 1, false, 112},
      {"pooling, floor: (112 - 3) / 2 = 54.5", 112, 3, 2, 0, 0, 1, false, 55},
      {"pooling, ceil: one window more", 112, 3, 2, 0, 0, 1, true, 56},
      {"ceil changes nothing when it divides", 113, 3, 2, 0, 0, 1, true, 56},
      {"ceil: a window that starts in the far pad (at 6 of 1 + 4) is dropped", 4, 2, 3, 1, 1, 1,
       true, 2},
      {"ceil: one window over an image a cell too small, ceil(-1 / 2) = 0", 2, 3, 2, 0, 0, 1, true,
       1},
      {"the window is the whole image", 7, 7, 1, 0, 0, 1, false, 1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(window_count("op", row.size, row.kernel, row.stride, row.before, row.after, row.dilation,
                       row.ceil_mode) == row.expected);
  }
}

TEST_CASE("a window that does not fit is refused by name") {
  CHECK(
      refusal([] { (void)window_count("features.12", 2, 3, 2, 0, 0); }) ==
      "features.12: found a window of 3 on 2 cells (pads included); expected an image at least as "
      "large as the window; a larger image size");
  CHECK_THROWS_AS((void)window_count("op", 2, 4, 2, 0, 0, 1, true), InputError);
  CHECK_THROWS_AS((void)window_count("op", 8, 0, 1, 0, 0), InputError);
  CHECK_THROWS_AS((void)window_count("op", 8, 3, 0, 0, 0), InputError);
  CHECK_THROWS_AS((void)window_count("op", 8, 3, 1, -1, 0), InputError);
  CHECK_THROWS_AS((void)window_count("op", 8, 3, 1, 0, 0, std::int64_t{1} << 40), InputError);
  CHECK_THROWS_AS((void)window_count("op", 0, 1, 1, 0, 0), InputError);
}

TEST_CASE("padding 'same' gives ceil(size / stride) places, the odd cell at the end") {
  // 224, kernel 7, stride 2: 112 places need (112 - 1) * 2 + 7 = 229 cells: 5 more, 2 before and 3
  // after.
  const Window window = Window::square(7, 2);
  const Pads upper = same_padding(224, 224, window);
  CHECK(upper.top == 2);
  CHECK(upper.bottom == 3);
  const Pads lower = same_padding(224, 224, window, true);
  CHECK(lower.left == 3);
  CHECK(lower.right == 2);
  for (std::int64_t size = 1; size < 40; ++size) {
    for (std::int64_t kernel = 1; kernel < 8; ++kernel) {
      for (std::int64_t stride = 1; stride < 5; ++stride) {
        CAPTURE(size);
        CAPTURE(kernel);
        CAPTURE(stride);
        const Pads pads = same_padding(size, size, Window::square(kernel, stride));
        CHECK(window_count("op", size, kernel, stride, pads.left, pads.right) ==
              (size + stride - 1) / stride);
      }
    }
  }
}

TEST_CASE("element counts are refused before they overflow, whatever the order") {
  const std::int64_t big = std::int64_t{1} << 31;
  CHECK(checked_element_count({big, big - 1}) == big * (big - 1));
  CHECK_FALSE(checked_element_count({big, big}).has_value());
  CHECK_FALSE(checked_element_count({0, big, big, big}).has_value());
  CHECK_FALSE(checked_element_count({big, big, 0}).has_value());
  CHECK_FALSE(checked_element_count({-1, 4}).has_value());
  CHECK(checked_element_count({0, 4}) == 0);
  CHECK(checked_element_count({}) == 1);
}

TEST_CASE("convolutions infer shapes, groups and multiply-adds") {
  GraphBuilder b("test", 2);
  const TensorId x = b.input("x", {2, 8, 10, 12});
  const TensorId y = b.conv_layer(
      "y", x, 16, {.kernel_h = 3, .kernel_w = 5, .stride_h = 2, .pads = {1, 0, 1, 0}}, true, 4);
  // Height (10 + 2 - 3) / 2 + 1 = 5, width 12 - 5 + 1 = 8.
  CHECK(b.shape(y) == Shape{2, 16, 5, 8});
  // A filter sees 8 / 4 = 2 channels: 2 * 16 * 5 * 8 * 2 * 3 * 5.
  CHECK(b.graph().forward_macs() == 2 * 16 * 5 * 8 * 2 * 3 * 5);
  CHECK(b.graph().parameter_count() == 16 * 2 * 3 * 5 + 16);

  const TensorId line = b.input("line", {2, 4, 20});
  CHECK(b.shape(b.conv_layer("conv1d", line, 6, {.kernel_w = 3}, false)) == Shape{2, 6, 18});

  CHECK(refusal([&] {
          b.conv_layer("uneven", x, 16, Window::square(1), false, 3);
        }).starts_with("uneven: found weight 16x2x1x1 for input 2x8x10x12 in 3 groups"));
  CHECK_THROWS_AS(b.conv("wrong", x, b.weight("w", {16, 5, 3, 3}), std::nullopt, {}), InputError);
  CHECK_THROWS_AS(b.conv("rank", x, b.weight("w", {16, 8, 3}), std::nullopt, {}), InputError);
  CHECK_THROWS_AS(b.conv_layer("negative", x, -3, Window::square(1), false), InputError);
}

TEST_CASE("a transposed convolution undoes the shape of the convolution it belongs to") {
  GraphBuilder b("test", 1);
  const TensorId x = b.input("x", {1, 32, 4, 4});
  const TensorId y = b.conv_transpose("up", x, b.weight("w", {32, 16, 4, 4}), std::nullopt,
                                      Window::square(4, 2, 1));
  // (4 - 1) * 2 - 2 + 3 + 1 = 8.
  CHECK(b.shape(y) == Shape{1, 16, 8, 8});
  // Every input pixel is spread over 16 x 4 x 4 outputs.
  CHECK(b.graph().forward_macs() == 32 * 4 * 4 * 16 * 4 * 4);
  // And the convolution of those attributes leads back: (8 + 2 - 4) / 2 + 1 = 4.
  const auto& a = std::get<ConvAttributes>(b.graph().ops().back().attributes);
  CHECK(window_count("op", a.h, a.r, a.stride_h, a.pad_top, a.pad_bottom) == a.p);
}

TEST_CASE("GEMMs infer shapes and fold what one matrix serves") {
  GraphBuilder b("test", 2);
  const TensorId x = b.input("x", {2, 7, 12});
  CHECK(b.shape(b.linear_layer("linear", x, 5, true)) == Shape{2, 7, 5});
  const auto& linear = std::get<MatMulAttributes>(b.graph().ops().back().attributes);
  CHECK(linear.m == 14);
  CHECK(linear.n == 5);
  CHECK(linear.k == 12);
  CHECK(linear.transpose_b);
  const TensorId in_out = b.weight("in_out", {12, 5});
  CHECK(b.shape(b.linear("gemm", x, in_out, std::nullopt, GraphBuilder::WeightLayout::InOut)) ==
        Shape{2, 7, 5});
  CHECK_THROWS_AS(b.linear("swapped", x, in_out, std::nullopt), InputError);

  const TensorId q = b.input("q", {2, 3, 7, 4}), k = b.input("k", {2, 3, 9, 4});
  CHECK(b.shape(b.matmul("scores", q, k, false, true)) == Shape{2, 3, 7, 9});
  const auto& scores = std::get<MatMulAttributes>(b.graph().ops().back().attributes);
  CHECK(scores.batch == 6);
  CHECK(scores.macs() == 6 * 7 * 9 * 4);
  CHECK(b.shape(b.matmul("folded", q, b.input("m", {4, 11}))) == Shape{2, 3, 7, 11});
  CHECK(std::get<MatMulAttributes>(b.graph().ops().back().attributes).m == 2 * 3 * 7);
  CHECK_THROWS_AS(b.matmul("inner", q, k), InputError);
}

TEST_CASE("pooling, adaptive and global pooling infer shapes") {
  GraphBuilder b("test", 2);
  const TensorId x = b.input("x", {2, 8, 13, 13});
  CHECK(b.shape(b.max_pool("max", x, Window::square(3, 2))) == Shape{2, 8, 6, 6});
  CHECK(b.shape(b.global_avg_pool("global", x)) == Shape{2, 8, 1, 1});
  CHECK(b.shape(b.adaptive_avg_pool("shrink", x, 6, 6)) == Shape{2, 8, 6, 6});
  // Cells cover floor(13 i / 6) to ceil(13 (i + 1) / 6): three cells at most.
  CHECK(std::get<PoolAttributes>(b.graph().ops().back().attributes).kernel_h == 3);
  const TensorId dot = b.input("dot", {2, 8, 1, 1});
  CHECK(b.shape(b.adaptive_avg_pool("repeat", dot, 7, 7)) == Shape{2, 8, 7, 7});
}

TEST_CASE("moving data keeps count of every element") {
  GraphBuilder b("test", 2);
  const TensorId x = b.input("x", {2, 6, 4, 5});
  CHECK(b.shape(b.reshape("infer", x, {2, -1, 10})) == Shape{2, 12, 10});
  CHECK(b.shape(b.flatten("flatten", x)) == Shape{2, 120});
  const std::int64_t nhwc[] = {0, 2, 3, 1};
  CHECK(b.shape(b.transpose("nhwc", x, nhwc)) == Shape{2, 4, 5, 6});
  const TensorId both[] = {x, x};
  CHECK(b.shape(b.concat("cat", both, -3)) == Shape{2, 12, 4, 5});
  const std::int64_t sizes[] = {1, 2, 3};
  const std::vector<TensorId> parts = b.split("split", x, 1, sizes);
  REQUIRE(parts.size() == 3);
  CHECK(b.shape(parts[2]) == Shape{2, 3, 4, 5});
  const std::int64_t before[] = {0, 0, 1, 2}, after[] = {0, 0, 0, -1};
  CHECK(b.shape(b.pad("pad", x, before, after)) == Shape{2, 6, 5, 6});
  const std::int64_t axes[] = {2, -1};
  CHECK(b.shape(b.reduce("keep", x, axes, true, "mean")) == Shape{2, 6, 1, 1});
  CHECK(b.shape(b.reduce("drop", x, axes, false, "mean")) == Shape{2, 6});
  CHECK(std::get<ReduceAttributes>(b.graph().ops().back().attributes).cols == 20);
  const TensorId ids = b.input("ids", {2, 9}, true);
  CHECK(b.shape(b.embedding_layer("embedding", ids, 1000, 16)) == Shape{2, 9, 16});
  CHECK(b.shape(b.gather("gather", x, ids, 1)) == Shape{2, 2, 9, 4, 5});

  const std::int64_t repeated[] = {0, 1, 1, 3}, short_sizes[] = {1, 2};
  CHECK_THROWS_AS(b.reshape("two open", x, {-1, -1}), InputError);
  CHECK_THROWS_AS(b.reshape("too few", x, {2, 6}), InputError);
  CHECK_THROWS_AS(b.reshape("does not divide", x, {7, -1}), InputError);
  CHECK_THROWS_AS(b.reshape("zero", x, {0, -1}), InputError);
  CHECK_THROWS_AS(b.reshape("minus two", x, {-2, -120}), InputError);
  CHECK_THROWS_AS(b.transpose("repeats", x, repeated), InputError);
  CHECK_THROWS_AS(b.split("rest", x, 1, short_sizes), InputError);
  CHECK_THROWS_AS(b.slice("larger", x, {2, 7, 4, 5}), InputError);
  CHECK_THROWS_AS(b.flatten("axis", x, 5), InputError);
}

TEST_CASE("broadcasting stretches ones and nothing else") {
  CHECK(broadcast_shape("op", {2, 3, 4}, {3, 1}) == Shape{2, 3, 4});
  CHECK(broadcast_shape("op", {}, {3, 1}) == Shape{3, 1});
  CHECK(broadcast_shape("op", {5, 1}, {1, 6}) == Shape{5, 6});
  CHECK_THROWS_AS((void)broadcast_shape("op", {5, 2}, {5, 3}), InputError);
  GraphBuilder b("test", 1);
  const TensorId column = b.input("column", {5, 1}), row = b.input("row", {1, 6});
  // Neither operand has room for the result, so it cannot be written in place.
  b.add("outer", column, row, true);
  CHECK_FALSE(shares_memory_with_input(b.graph().ops().back()));
}

TEST_CASE("GEMMs of broadcast or reshaped dimensions cannot overflow") {
  const std::int64_t big = std::int64_t{1} << 40;
  GraphBuilder b("test", 1);
  const TensorId column = b.input("column", {big, 1}), row = b.input("row", {1, big});
  CHECK_THROWS_AS(b.add("outer", column, row), InputError);
  CHECK_THROWS_AS(b.matmul("outer", column, row), InputError);
  CHECK_THROWS_AS(b.conv_layer("huge", b.input("image", {1, 1, 1 << 20, 1 << 20}), big,
                               Window::square(1), false),
                  InputError);
  CHECK_THROWS_AS(b.input("shape", {big, big}), InputError);
}

TEST_CASE("views and ops in place share the memory of their input") {
  GraphBuilder b("test", 1);
  const TensorId x = b.input("x", {1, 8});
  const auto last = [&] { return b.graph().ops().back(); };
  b.reshape("view", x, {8});
  CHECK(shares_memory_with_input(last()));
  b.activation("relu", x, "relu", true);
  CHECK(shares_memory_with_input(last()));
  b.activation("relu", x, "relu", false);
  CHECK_FALSE(shares_memory_with_input(last()));
  b.softmax("softmax", x);
  CHECK_FALSE(shares_memory_with_input(last()));
}

TEST_SUITE_END();
