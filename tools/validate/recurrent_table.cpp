#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/software/software_version.hpp"
#include "sim/base/error.hpp"
#include "sim/job/recurrent_layer.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

std::optional<CellKind> find_cell(std::string_view op) {
  if (op == "lstm") return CellKind::Lstm;
  if (op == "gru") return CellKind::Gru;
  if (op == "rnn" || op == "rnn_relu_or_tanh" || op == "rnn_tanh") return CellKind::RnnTanh;
  if (op == "rnn_relu") return CellKind::RnnRelu;
  return std::nullopt;
}

RecurrentLayer read_layer(const RowFields& row, CellKind cell) {
  RecurrentLayer result;
  result.layers = {.cell = cell,
                   .hidden = row.integer("hidden", 1, 1'000'000),
                   .layers = static_cast<int>(row.integer("layers", 1, 1000)),
                   .skip_input = row.text("input_mode") == "skip_input"};
  result.steps = row.integer("timesteps", 1, 1'000'000);
  result.batch = row.integer("batch", 1, 1'000'000);
  result.input = row.integer("input", 1, 1'000'000);
  return result;
}

/// Recurrent layers measured alone (data/kernels/rnn.csv): calls of cuDNN, one pass each, and steps
/// of frameworks.
class RecurrentTable final : public RowPredictor {
 public:
  RecurrentTable(const CsvReader& reader, const Hardware& hardware)
      : hardware_(hardware), records_(hardware.specs(), reader) {
    convention_ = fmt::format(
        "loop: one pass of cuDNN's standard algorithm, called back to back, at least {:.3g} us per "
        "launch; the layer's input has no weights where the row says so. loop_framework: a step of "
        "the framework: forward, or with squared error, backward and update.",
        recurrent_call_launch(hardware).in_us());
  }
  std::string_view table() const override { return "recurrent layers"; }
  std::string_view unit() const override { return "us"; }
  std::string_view convention() const override { return convention_; }

  RowResult predict(const CsvReader& reader) override {
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
    RowResult report;
    try {
      const RecurrentLayer layer = read_layer(row, *cell);
      report = row.text("timing") == "loop"
                   ? library_call(row, layer, *gpu, precision)
                   : framework_step(row, records_.program_of(reader), layer, *gpu, precision);
    } catch (const InputError& error) {
      throw InputError(reader.where(), error);
    }
    report.measured = measured_us;
    return report;
  }

 private:
  /// One pass of the layer, nothing round it.
  RowResult library_call(const RowFields& row, const RecurrentLayer& layer, const GpuSpec& gpu,
                         PrecisionMode precision) const {
    const std::string_view pass_name = row.text("pass");
    const Pass pass = pass_name == "backward_data"     ? Pass::BackwardData
                      : pass_name == "backward_filter" ? Pass::BackwardWeights
                                                       : Pass::Forward;
    if (pass == Pass::Forward && pass_name != "forward") return skip("pass is not known");
    const auto time =
        predict_recurrent_call(layer,
                               {.pass = pass,
                                .keeps_activations = row.text("split") != "inference",
                                .precision = precision,
                                .cudnn_version = find_cudnn_version(row.text("framework"))},
                               gpu, hardware_);
    return time ? report_of(*time) : skip("no kernel runs for this pass");
  }

  RowResult framework_step(const RowFields& row, const PublishedProgram& program,
                           const RecurrentLayer& layer, const GpuSpec& gpu,
                           PrecisionMode precision) const {
    const std::string_view pass = row.text("pass");
    const bool training = pass == "train_step";
    if (!training && pass != "forward") return skip("pass is not known");
    const std::string_view versions = row.text("framework");
    return report_of(predict_recurrent_step(
        layer,
        {.framework = program.framework.empty() ? std::string(row.text("algo")) : program.framework,
         .is_unrolled = program.calls.unrolled.value_or(false),
         .phase = training ? Phase::Train : Phase::Infer,
         .precision = precision,
         .cudnn_version = find_cudnn_version(versions)},
        gpu, hardware_));
  }

  static RowResult report_of(const RecurrentTime& time) {
    const Interval& t = time.time_s;
    return {.measured = 0,
            .predicted = {.value = t.value * 1e6, .low = t.low * 1e6, .high = t.high * 1e6},
            .basis = time.basis,
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
  PublishedRows records_;
  std::string convention_;
  std::map<std::string, std::optional<GpuSpec>> gpus_;
};

}  // namespace

std::vector<TableKind> recurrent_tables() {
  return {{.name = "recurrent layers (rnn.csv)",
           .required = {"gpu", "dtype", "op", "pass", "hidden", "input", "batch", "timesteps",
                        "layers", "input_mode", "time_us", "timing"},
           .make = [](const CsvReader& reader,
                      const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<RecurrentTable>(reader, hardware);
           }}};
}

}  // namespace tracecast
