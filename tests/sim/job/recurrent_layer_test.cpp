#include "sim/job/recurrent_layer.hpp"

#include <doctest/doctest.h>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

struct Lstm {
  Hardware hardware = Hardware::embedded();
  const GpuSpec& gpu = hardware.gpus().find("p100_pcie_16gb");
  RecurrentLayer layer;

  Lstm() {
    layer.layers.hidden = 512;
    layer.steps = 25, layer.batch = 32, layer.input = 512;
  }
  [[nodiscard]] double call(const RecurrentCall& call) const {
    return predict_recurrent_call(layer, call, gpu, hardware).value().time_s.value;
  }
  [[nodiscard]] double step(const RecurrentStep& step) const {
    return predict_recurrent_step(layer, step, gpu, hardware).time_s.value;
  }
};

TEST_SUITE_BEGIN("sim/job/recurrent_layer");

TEST_CASE("a longer sequence takes longer, in proportion at most") {
  Lstm lstm;
  const double once = lstm.call({});
  lstm.layer.steps *= 4;
  const double four = lstm.call({});
  CHECK(four > 2 * once);
  CHECK(four < 4.01 * once);
}

TEST_CASE("calls that compute next to nothing come as fast as the host launches them") {
  Lstm lstm;
  lstm.layer.layers.hidden = 1;
  lstm.layer.steps = lstm.layer.batch = lstm.layer.input = 1;
  CHECK(lstm.call({}) >= recurrent_call_launch(lstm.hardware).in_s());
}

TEST_CASE("there is no backward pass of what kept nothing") {
  const Lstm lstm;
  CHECK(!predict_recurrent_call(lstm.layer,
                                {.pass = Pass::BackwardData, .keeps_activations = false}, lstm.gpu,
                                lstm.hardware));
}

TEST_CASE("training takes longer than the forward pass, and modules longer than the library") {
  const Lstm lstm;
  const double forward = lstm.step({.framework = "torch7"});
  CHECK(lstm.step({.framework = "torch7", .phase = Phase::Train}) > 2 * forward);
  CHECK(lstm.step({.framework = "torch7", .is_unrolled = true}) > forward);
  CHECK_THROWS_AS((void)lstm.step({.framework = "torch77"}), InputError);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
