#include "models/graph_text.hpp"

#include <doctest/doctest.h>

#include "models/ops.hpp"

using namespace tracecast;

TEST_SUITE_BEGIN("models/graph_text");

TEST_CASE("a graph prints its totals and one line per op with shapes and work") {
  GraphBuilder b("tiny", 2);
  TensorId x = b.input("images", {2, 3, 4, 4});
  x = b.conv_layer("conv", x, 8, Window::square(1), false);
  x = b.activation("relu", x, "relu", true);
  const Shape shape[] = {{2, 8, 4, 4}};
  const TensorId inputs[] = {x};
  b.unknown("odd", "com.acme::Odd", inputs, shape);
  const std::string text = graph_text(b.graph());
  // 2 * 8 * 4 * 4 * 3 = 768 multiply-adds, 8 * 3 parameters.
  CHECK(text ==
        "tiny, batch 2: 3 ops, 5 tensors, 24 parameters, 7.68e-07 forward GMAC\n"
        "conv  Conv           forward            0.000768 MMAC  images[2x3x4x4] "
        "conv.weight[8x3x1x1] -> conv[2x8x4x4]\n"
        "relu  Activation     forward                        -  conv[2x8x4x4] -> relu[2x8x4x4] (in "
        "place)\n"
        "odd   com.acme::Odd  forward                        -  relu[2x8x4x4] -> odd[2x8x4x4]\n");
}

TEST_SUITE_END();
