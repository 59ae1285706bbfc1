#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "models/ops.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"
#include "tools/validation.hpp"

namespace tracecast {
namespace {

/// TensorFlow layers measured one at a time, host clock round session.run (data/kernels_tf).
/// `forward`: the layer on variables that lie on the device. `training`: forward, mean squared error
/// against a variable, backward, optimizer; input and target are trainable too, so their gradients are
/// computed and they are updated.
class SessionTable final : public RowPredictor {
 public:
  SessionTable(bool convolution, const Sources& sources)
      : convolution_(convolution),
        sources_(sources),
        framework_(take_framework("tensorflow", sources)) {
    framework_.image_layout = ImageLayout::Nhwc;
    framework_.weight_decay = WeightDecay::None;
    framework_.synchronizes_each_step = true;  // session.run returns the result
    convention_ = fmt::format(
        "One session.run per step, host clock: {:.3g} us per step, {:.3g} us per op, {:.3g} us per "
        "launch; images in NHWC; in training rows input and target are variables and updated too.",
        framework_.step_overhead.in_us(), framework_.dispatch_per_op.in_us(),
        framework_.launch_per_kernel.in_us());
  }
  std::string_view table() const override {
    return convolution_ ? "TensorFlow convolution layers" : "TensorFlow dense layers";
  }
  std::string_view unit() const override { return "ms"; }
  std::string_view convention() const override { return convention_; }

  RowAnswer predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const double measured_ms = row.positive("time_median_ms");
    const std::string gpu_name(row.text("gpu"));
    const GpuSpec* gpu = find_gpu(gpu_name);
    if (!gpu) return skip("GPU " + gpu_name + " has no spec");
    const std::string_view pass = row.text("pass");
    if (pass != "forward" && pass != "training") return skip("pass is not known");
    const bool training = pass == "training";
    std::optional<OptimizerKind> optimizer;
    if (training) {
      optimizer = find_optimizer(row.text("optimizer"));
      if (!optimizer)
        return skip("optimizer " + std::string(row.text("optimizer")) + " is not predicted");
    }
    if (!row.text("suspect").empty())
      return skip("the row is marked " + std::string(row.text("suspect")));

    NetworkGraph graph;
    try {
      graph = build(row, training);
      if (training) {
        graph =
            make_training_graph(std::move(graph), {.optimizer = *optimizer, .with_loss = false});
      }
    } catch (const InputError& error) {
      throw InputError(reader.where(), error);
    }
    const Prediction prediction = tracecast::predict(
        {.graph = graph, .gpu = *gpu, .cost = sources_.cost, .framework = framework_});
    const Interval& time = prediction.step_time_s;
    return {
        .measured = measured_ms,
        .predicted = {.value = time.value * 1e3, .low = time.low * 1e3, .high = time.high * 1e3},
        .basis = prediction.by_basis.empty() ? "unknown" : prediction.by_basis.front().name,
        .skipped = {}};
  }

 private:
  NetworkGraph build(const RowFields& row, bool training) const {
    const auto batch = row.integer("batch", 1, 1'000'000);
    GraphBuilder builder("row", batch);
    const auto variable = [&](const char* name, Shape shape) {
      return training ? builder.weight(name, std::move(shape))
                      : builder.input(name, std::move(shape));
    };
    TensorId y{};
    if (convolution_) {
      const auto size = row.integer("image_hw", 1, 100'000),
                 kernel = row.integer("kernel_hw", 1, 1000);
      const auto stride = row.integer("stride", 1, 1000);
      const TensorId x = variable("x", {batch, row.integer("channels_in", 1), size, size});
      Window window = Window::square(kernel, stride);
      if (row.text("padding") == "same") window.pads = same_padding(size, size, window);
      y = builder.conv_layer("conv", x, row.integer("channels_out", 1), window,
                             row.integer("use_bias", 0, 1) == 1);
    } else {
      const TensorId x = variable("x", {batch, row.integer("features_in", 1)});
      y = builder.linear_layer("dense", x, row.integer("features_out", 1), true);
    }
    if (const std::string_view activation = row.text("activation"); activation != "none") {
      y = builder.activation("activation", y, activation);
    }
    if (training) {
      const TensorId target = builder.weight("target", builder.shape(y));
      const std::array<TensorId, 2> pair{y, target};
      const TensorId difference = builder.binary("difference", "sub", pair);
      const TensorId squared = builder.activation("squared", difference, "square");
      y = builder.reduce("loss", squared, {}, false, "mean");
    }
    builder.graph().outputs = {y};
    return std::move(builder).take();
  }

  const GpuSpec* find_gpu(const std::string& name) {
    auto known = gpus_.find(name);
    if (known == gpus_.end()) {
      std::optional<GpuSpec> spec;
      try {
        spec = sources_.gpus.find(name);
      } catch (const InputError&) {
        spec.reset();
      }
      known = gpus_.emplace(name, std::move(spec)).first;
    }
    return known->second ? &*known->second : nullptr;
  }

  bool convolution_;
  const Sources& sources_;
  FrameworkProfile framework_;
  std::string convention_;
  std::map<std::string, std::optional<GpuSpec>> gpus_;
};

TableKind layers(std::string_view name, bool convolution, std::vector<std::string_view> required) {
  return {
      .name = name,
      .required = std::move(required),
      .make = [convolution](const CsvReader&, const Sources& sources) {
        return std::unique_ptr<RowPredictor>(std::make_unique<SessionTable>(convolution, sources));
      }};
}

}  // namespace

std::vector<TableKind> session_tables() {
  return {layers("TensorFlow convolution layers", true,
                 {"gpu", "batch", "image_hw", "kernel_hw", "channels_in", "channels_out", "stride",
                  "padding", "use_bias", "activation", "pass", "optimizer", "time_median_ms",
                  "suspect"}),
          layers("TensorFlow dense layers", false,
                 {"gpu", "batch", "features_in", "features_out", "activation", "pass", "optimizer",
                  "time_median_ms", "suspect"})};
}

}  // namespace tracecast
