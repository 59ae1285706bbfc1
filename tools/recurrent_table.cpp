#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/framework_era.hpp"
#include "models/lowering/lower.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "models/unroll.hpp"
#include "sim/base/error.hpp"
#include "sim/cost/price.hpp"
#include "tools/validation.hpp"

namespace tracecast {
namespace {

/// A row's layer, built.
struct LayerRow {
  GraphBuilder::RecurrentLayers layer;
  std::int64_t steps = 1, batch = 1, input = 1;
};

std::optional<CellKind> find_cell(std::string_view op) {
  if (op == "lstm") return CellKind::Lstm;
  if (op == "gru") return CellKind::Gru;
  if (op == "rnn" || op == "rnn_relu_or_tanh" || op == "rnn_tanh") return CellKind::RnnTanh;
  if (op == "rnn_relu") return CellKind::RnnRelu;
  return std::nullopt;
}

LayerRow read_layer(const RowFields& row, CellKind cell) {
  LayerRow result;
  result.layer = {.cell = cell,
                  .hidden = row.integer("hidden", 1, 1'000'000),
                  .layers = static_cast<int>(row.integer("layers", 1, 1000)),
                  .skip_input = row.text("input_mode") == "skip_input"};
  result.steps = row.integer("timesteps", 1, 1'000'000);
  result.batch = row.integer("batch", 1, 1'000'000);
  result.input = row.integer("input", 1, 1'000'000);
  return result;
}

/// Recurrent layers measured alone (data/kernels/rnn.csv): calls of cuDNN, one pass each, and steps of frameworks.
class RecurrentTable final : public RowPredictor {
 public:
  explicit RecurrentTable(const Hardware& hardware)
      : hardware_(hardware),
        library_(hardware.framework("ideal")),
        launch_(hardware.framework("pytorch").launch_per_kernel) {
    library_.persistent_recurrence = false;  // DeepBench asks for the standard algorithm
    convention_ = fmt::format(
        "loop: one pass of cuDNN's standard algorithm, called back to back, at least {:.3g} us per "
        "launch; the layer's input has no weights where the row says so. loop_framework: a step of "
        "the framework: forward, or with squared error, backward and update.",
        launch_.in_us());
  }
  std::string_view table() const override { return "recurrent layers"; }
  std::string_view unit() const override { return "us"; }
  std::string_view convention() const override { return convention_; }

  RowAnswer predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const double measured_us = row.positive("time_us");
    const std::string_view dtype = row.text("dtype");
    if (dtype != "fp32" && !dtype.starts_with("fp16")) {
      return skip("dtype " + std::string(dtype) + " is not predicted");
    }
    const PrecisionMode precision = dtype == "fp32" ? PrecisionMode::Fp32 : PrecisionMode::Fp16;
    const auto cell = find_cell(row.text("op"));
    if (!cell) return skip("op " + std::string(row.text("op")) + " is not predicted");
    const GpuSpec* gpu = find_gpu(std::string(row.gpu()));
    if (!gpu) return skip("GPU " + std::string(row.text("gpu")) + " has no spec");
    RowAnswer answer;
    try {
      const LayerRow layer = read_layer(row, *cell);
      answer = row.text("timing") == "loop" ? library_call(row, layer, *gpu, precision)
                                            : framework_step(row, layer, *gpu, precision);
    } catch (const InputError& error) {
      throw InputError(reader.where(), error);
    }
    answer.measured = measured_us;
    return answer;
  }

 private:
  /// One pass of the layer, nothing round it.
  RowAnswer library_call(const RowFields& row, const LayerRow& layer, const GpuSpec& gpu,
                         PrecisionMode precision) {
    const std::string_view pass_name = row.text("pass");
    const Pass pass = pass_name == "backward_data"     ? Pass::BackwardData
                      : pass_name == "backward_filter" ? Pass::BackwardWeights
                                                       : Pass::Forward;
    if (pass == Pass::Forward && pass_name != "forward") return skip("pass is not known");
    library_.cudnn_version =
        find_cudnn_version(row.text("framework")).value_or(library_.cudnn_version);
    GraphBuilder builder("row", layer.batch);
    const TensorId x = builder.weight("x", {layer.steps, layer.batch, layer.input});
    builder.graph().outputs = {builder.recurrent_layer("layer", x, layer.layer).y};
    NetworkGraph graph = std::move(builder).take();
    if (row.text("split") != "inference") {
      graph = make_training_graph(std::move(graph), {.with_loss = false, .with_optimizer = false});
    }
    LoweredStep step = lower(graph, library_, gpu, {.precision = precision});
    std::erase_if(step.ops, [&](const LoweredOp& op) {
      return graph.op(op.op).pass != pass || graph.op(op.op).kind != OpKind::Recurrent;
    });
    return price_call(step, gpu);
  }

  RowAnswer price_call(const LoweredStep& step, const GpuSpec& gpu) const {
    Seconds kernels{}, longest{-1.0};
    double launches = 0;
    std::vector<ErrorShare> errors;
    RowAnswer answer;
    for (const LoweredOp& op : step.ops) {
      const cost::PricedCandidate choice = cost::choose(op, gpu, hardware_.cost());
      kernels += choice.duration;
      for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
        const cost::KernelEstimate& estimate = choice.estimates[k];
        launches += 1 + choice.candidate->kernels[k].more_launches;
        errors.push_back({.kernel_class = choice.candidate->kernels[k].kernel_class,
                          .time = estimate.duration,
                          .log_sd = estimate.log_sd,
                          .shared_log_sd = estimate.shared_log_sd});
        if (estimate.duration > longest) {
          longest = estimate.duration;
          answer.basis = cost::to_string(estimate.basis);
        }
      }
    }
    if (launches == 0) return skip("no kernel runs for this pass");
    const Seconds host = max(launch_ * launches - kernels, Seconds(0));
    const Seconds total = kernels + host;
    answer.predicted =
        interval90(total.in_us(), step_log_sd(errors, total, host, library_.host_log_sd, 0.0));
    return answer;
  }

  /// A network that is the layer: its last state, and in training the squared error against a target.
  RowAnswer framework_step(const RowFields& row, const LayerRow& layer, const GpuSpec& gpu,
                           PrecisionMode precision) const {
    const std::string_view algo = row.text("algo"), pass = row.text("pass");
    const bool training = pass == "train_step";
    if (!training && pass != "forward") return skip("pass is not known");
    FrameworkProfile framework =
        hardware_.framework(algo == "torch" ? std::string_view("torch7") : algo);
    framework.cudnn_version =
        find_cudnn_version(row.text("framework")).value_or(framework.cudnn_version);
    // A package of modules, each layer a graph of ordinary ones, cloned for every step.
    if (row.text("framework").find("Element-Research") != std::string_view::npos) {
      framework.recurrence = Recurrence::Unrolled;
    }
    GraphBuilder builder("row", layer.batch);
    const TensorId x = builder.input("x", {layer.steps, layer.batch, layer.input});
    TensorId y = builder.recurrent_layer("layer", x, layer.layer).last_h;
    if (training) {
      const TensorId pair[] = {y, builder.input("target", builder.shape(y))};
      y = builder.activation("squared", builder.binary("difference", "sub", pair), "square");
      y = builder.reduce("loss", y, {}, false, "mean");
    }
    builder.graph().outputs = {y};
    NetworkGraph graph = std::move(builder).take();
    if (framework.recurrence == Recurrence::Unrolled) graph = unroll_recurrent(graph);
    if (training) {
      graph = make_training_graph(std::move(graph),
                                  {.optimizer = OptimizerKind::Sgd, .with_loss = false});
    }
    const Prediction prediction = tracecast::predict({.graph = graph,
                                                      .gpu = gpu,
                                                      .cost = hardware_.cost(),
                                                      .framework = framework,
                                                      .precision = precision});
    const Interval& time = prediction.step_time_s;
    return {
        .measured = 0,
        .predicted = {.value = time.value * 1e6, .low = time.low * 1e6, .high = time.high * 1e6},
        .basis = prediction.by_basis.empty() ? "unknown" : prediction.by_basis.front().name,
        .skipped = {}};
  }

  const GpuSpec* find_gpu(const std::string& name) {
    auto known = gpus_.find(name);
    if (known == gpus_.end()) {
      std::optional<GpuSpec> spec;
      try {
        spec = hardware_.gpus().find(name);
      } catch (const InputError&) {
        spec.reset();
      }
      known = gpus_.emplace(name, std::move(spec)).first;
    }
    return known->second ? &*known->second : nullptr;
  }

  const Hardware& hardware_;
  FrameworkProfile library_;
  Seconds launch_;
  std::string convention_;
  std::map<std::string, std::optional<GpuSpec>> gpus_;
};

}  // namespace

std::vector<TableKind> recurrent_tables() {
  return {{.name = "recurrent layers (rnn.csv)",
           .required = {"gpu", "dtype", "op", "pass", "hidden", "input", "batch", "timesteps",
                        "layers", "input_mode", "time_us", "timing"},
           .make = [](const CsvReader&, const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<RecurrentTable>(hardware);
           }}};
}

}  // namespace tracecast
