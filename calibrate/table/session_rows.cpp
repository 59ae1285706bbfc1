#include "calibrate/table/measurement.hpp"

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "calibrate/table/row_fields.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// TensorFlow layers measured one at a time, host clock round session.run (data/kernels_tf).
/// `forward`: the layer on variables that lie on the device. `training`: forward, mean squared
/// error against a variable, backward, optimizer; input and target are trainable too, so their
/// gradients are computed and they are updated.
class SessionRows final : public MeasurementReader {
 public:
  SessionRows(bool convolution, const MeasurementContext& context)
      : convolution_(convolution), specs_(context.specs) {
    FrameworkProfile framework = context.framework("tensorflow");
    framework.convolutions.image_layout = ImageLayout::Nhwc;
    framework.optimizer.weight_decay = WeightDecay::None;
    framework.host.synchronizes_each_step = true;  // session.run returns the result
    convention_ = fmt::format(
        "One session.run per step, host clock: {:.3g} us per step, {:.3g} us per op, {:.3g} us per "
        "launch; images in NHWC; in training rows input and target are variables and updated too.",
        framework.host.step_overhead.in_us(), framework.host.dispatch_per_op.in_us(),
        framework.host.launch_per_kernel.in_us());
    framework_ = std::make_shared<const FrameworkProfile>(std::move(framework));
  }
  std::string_view table() const override {
    return convolution_ ? "TensorFlow convolution layers" : "TensorFlow dense layers";
  }
  std::string_view convention() const override { return convention_; }
  std::string_view time_column() const override { return "time_median_ms"; }
  Seconds time_unit() const override { return Seconds(1e-3); }

  MeasurementOrReason read(const CsvReader& reader) override {
    const RowFields row(reader);
    Measurement m;
    m.time = Seconds(row.positive("time_median_ms") * 1e-3);
    m.line = reader.line();
    m.spec = specs_->find(row.gpu());
    if (!m.spec) return "GPU " + std::string(row.text("gpu")) + " has no spec";
    m.gpu = m.spec->id;
    const std::string_view pass = row.text("pass");
    if (pass != "forward" && pass != "training") return "pass is not known";
    const bool training = pass == "training";
    std::optional<OptimizerKind> optimizer;
    if (training) {
      optimizer = find_optimizer(row.text("optimizer"));
      if (!optimizer)
        return "optimizer " + std::string(row.text("optimizer")) + " is not predicted";
    }
    if (!row.text("suspect").empty())
      return "the row is marked " + std::string(row.text("suspect"));

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
    m.split = row.integer("batch", 1, 1'000'000) < 33 ? "batch up to 32" : "batch over 32";
    m.group = fmt::format("TensorFlow {} {}", convolution_ ? "convolution" : "dense", pass);
    m.work = FrameworkStep{.graph = std::move(graph), .framework = framework_};
    return m;
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

  bool convolution_;
  std::shared_ptr<SpecsAtClock> specs_;
  std::shared_ptr<const FrameworkProfile> framework_;
  std::string convention_;
};

MeasurementTable layers(std::string_view name, bool convolution,
                        std::vector<std::string_view> required) {
  return {.name = name,
          .required = std::move(required),
          .make = [convolution](const MeasurementContext& context) {
            return std::unique_ptr<MeasurementReader>(
                std::make_unique<SessionRows>(convolution, context));
          }};
}

}  // namespace

std::vector<MeasurementTable> session_measurement_tables() {
  return {layers("TensorFlow convolution layers", true,
                 {"gpu", "batch", "image_hw", "kernel_hw", "channels_in", "channels_out", "stride",
                  "padding", "use_bias", "activation", "pass", "optimizer", "time_median_ms",
                  "suspect"}),
          layers("TensorFlow dense layers", false,
                 {"gpu", "batch", "features_in", "features_out", "activation", "pass", "optimizer",
                  "time_median_ms", "suspect"})};
}

}  // namespace tracecast
