#include <string>
#include <utility>

#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// Whole language networks run by PyTorch, forward or forward and backward, timed by CUDA events
/// (data/kernels, e2e_transformers.csv).
class TransformerTable final : public RowPredictor {
 public:
  TransformerTable(const CsvReader& reader, const Hardware& hardware)
      : hardware_(hardware), records_(hardware.specs(), reader) {}
  std::string_view table() const override { return "language networks"; }
  std::string_view unit() const override { return "ms"; }
  std::string_view convention() const override {
    return "Forward, or forward and backward without loss and optimizer; the measured times hold "
           "first allocations of memory, the predicted ones do not.";
  }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const double measured_ms = row.positive("e2e_ms");
    const std::string network(row.text("model"));
    const std::int64_t batch = row.integer("batch", 1, 1'000'000);
    const std::int64_t tokens = row.integer("seq", 1, 1'000'000);
    const std::string_view phase = row.text("phase");
    if (!find_network(network)) return skip("network " + network + " is not in the zoo");
    if (phase != "inf" && phase != "train") return skip("phase is not known");
    if (row.text("dtype") != "fp32") return skip("precision is not fp32");
    const std::string_view option = row.text("option");
    if (!option.empty() && option != "fusion") return skip("option is not known");
    const bool training = phase == "train";
    try {
      const GpuSpec& gpu = hardware_.gpus().find(row.gpu());
      const FrameworkProfile framework =
          framework_of(records_.program_of(reader), gpu, option == "fusion");
      NetworkGraph graph =
          build_network(network, {.batch = batch, .seq_len = tokens, .training = training});
      if (training) {
        graph =
            make_training_graph(std::move(graph), {.with_loss = false, .with_optimizer = false});
      }
      const Prediction prediction = predict_step(
          {.graph = graph, .gpu = gpu, .cost = hardware_.cost(), .framework = framework});
      const Interval& time = prediction.step_time_s;
      return {
          .measured = measured_ms,
          .predicted = {.value = time.value * 1e3, .low = time.low * 1e3, .high = time.high * 1e3},
          .basis = prediction.by_basis.empty() ? "unknown" : prediction.by_basis.front().name,
          .skipped = {}};
    } catch (const InputError& error) {
      return skip(error.what());
    }
  }

 private:
  /// PyTorch of the version that the source's record states, today's without one: whether a GEMM's
  /// bias is fused. Fused graphs are torch.compile's.
  [[nodiscard]] FrameworkProfile framework_of(const PublishedProgram& program, const GpuSpec& gpu,
                                              bool compiled) const {
    const SoftwareWords words{.version = program.version, .date = ""};
    FrameworkProfile framework = hardware_.framework(compiled ? "pytorch_compile" : "pytorch");
    framework.fusion.gemm_bias =
        hardware_.specs()
            .defaults_of(hardware_.specs().find_framework("pytorch", words), words, gpu)
            .fuses_gemm_bias;
    return framework;
  }

  const Hardware& hardware_;
  PublishedRows records_;
};

}  // namespace

std::vector<TableKind> transformer_tables() {
  return {{.name = "language networks (e2e_transformers.csv)",
           .required = {"gpu", "dtype", "model", "phase", "option", "seq", "batch", "e2e_ms"},
           .make = [](const CsvReader& reader,
                      const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<TransformerTable>(reader, hardware);
           }}};
}

}  // namespace tracecast
