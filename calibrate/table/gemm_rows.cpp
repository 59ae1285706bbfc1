#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/engine_columns.hpp"
#include "calibrate/table/measurement.hpp"
#include "calibrate/table/repeated_gemm.hpp"
#include "calibrate/table/row_fields.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using cost::TensorGemm;

constexpr std::array<std::pair<std::string_view, GemmFormat>, 9> kFormats = {{
    {"bfloat16", GemmFormat::Half},
    {"float16", GemmFormat::Half},
    {"fp8", GemmFormat::Fp8},
    {"fp8_static", GemmFormat::Fp8Static},
    {"fp8_block", GemmFormat::Fp8Block},
    {"nvfp4", GemmFormat::Fp4},
    {"int8_wo", GemmFormat::Int8Weights},
    {"int4_wo", GemmFormat::Int4Weights},
    {"sq", GemmFormat::Int8},
}};
std::optional<GemmFormat> find_format(std::string_view word) {
  for (const auto& [name, format] : kFormats) {
    if (name == word) return format;
  }
  return std::nullopt;
}

TensorGemm read_gemm(const RowFields& row, GemmFormat format) {
  TensorGemm gemm;
  gemm.m = static_cast<double>(row.integer("m", 1));
  gemm.n = static_cast<double>(row.integer("n", 1));
  gemm.k = static_cast<double>(row.integer("k", 1));
  gemm.format = format;
  // Weights lie as [n, k]; engines pad what their narrow formats need.
  if (format == GemmFormat::Half) {
    gemm.alignment = cost::gemm_alignment(gemm, false, true, cost::result_bytes(format));
  }
  return gemm;
}

/// Whether tensor cores of this GPU multiply the format, or widen to one that they multiply.
bool has_format(const GpuSpec& gpu, GemmFormat format) {
  return gpu.find_peak(math_of(format), MathUnit::TensorCore).has_value();
}

class GemmReader : public MeasurementReader {
 public:
  explicit GemmReader(const MeasurementContext& context)
      : specs_(context.specs), engine_(context.engine), power_(context.power) {}

 protected:
  /// The row without its work; a reason when its GPU is not known.
  std::optional<std::string> begin(const CsvReader& reader, const RowFields& row,
                                   Measurement& m) const {
    m.line = reader.line();
    m.spec = specs_->find(row.gpu());
    if (!m.spec) return "GPU " + std::string(row.text("gpu")) + " has no spec";
    m.gpu = m.spec->id;
    m.time = time_unit() * row.positive(time_column());
    m.split = gemm_size_class(Seconds(row.positive("time_us") * 1e-6));
    return std::nullopt;
  }
  std::shared_ptr<SpecsAtClock> specs_;
  std::optional<GemmEngine> engine_;
  bool power_ = false;
};

/// gemm.csv.gz of data/modern: out[m,n] = x[m,k] w[n,k]^T by TensorRT-LLM, SGLang and vLLM in a
/// captured graph, copies of the weights in turn.
class EngineGemms final : public GemmReader {
 public:
  using GemmReader::GemmReader;
  std::string_view table() const override { return "GEMMs of inference engines"; }
  std::string_view convention() const override {
    return "One GEMM in a captured graph, one to six copies of its weights in turn, the same "
           "activations each time: what fits "
           "into L2 stays there. Formats below 16 bits hold the quantisation of the activations. "
           "time_us: median over "
           "engines, predicted as such; --engine trtllm|sglang|vllm: that engine's.";
  }
  bool use_engine(GemmEngine engine) override {
    engine_ = engine;
    return true;
  }
  bool use_power() override {
    power_ = true;
    return true;
  }
  Seconds time_unit() const override { return Seconds(power_ ? 1 : 1e-6); }
  std::string_view time_column() const override {
    if (power_) return "power_w";
    if (!engine_) return "time_us";
    return time_column_of(*engine_);
  }

  MeasurementOrReason read(const CsvReader& reader) override {
    const RowFields row(reader);
    Measurement m;
    const auto format = find_format(row.text("gemm_dtype"));
    if (!format) {
      throw InputError(
          reader.where(), "gemm_dtype \"" + std::string(row.text("gemm_dtype")) + "\"",
          "bfloat16, float16, fp8, fp8_static, fp8_block, nvfp4, int8_wo, int4_wo or sq");
    }
    if (row.text_or_empty(time_column()).empty())
      return "no figure in " + std::string(time_column());
    if (auto reason = begin(reader, row, m)) return *reason;
    if (!has_format(*m.spec, *format)) {
      return fmt::format("{} has no {} on its tensor cores", m.gpu, to_string(math_of(*format)));
    }
    m.source = engine_ ? std::string(to_string(*engine_)) : "engines";
    m.group = (power_ ? "power of GEMM " : "GEMM ") + std::string(row.text("gemm_dtype"));
    m.flag = flag_of(row);
    // Its newer versions ran these without a graph: host time. Source: data/modern/README.md.
    if (m.flag.empty() && engine_ == GemmEngine::Vllm && *format == GemmFormat::Fp8Block) {
      m.flag = "eager";
    }
    m.work = call_of(row, *format, *m.spec);
    return m;
  }

 private:
  static std::string flag_of(const RowFields& row) {
    std::string rest;
    std::string_view flags = row.text_or_empty("flag");
    while (!flags.empty()) {
      const std::size_t end = std::min(flags.find(';'), flags.size());
      const std::string_view flag = flags.substr(0, end);
      if (flag != "spread") rest += (rest.empty() ? "" : ";") + std::string(flag);
      flags.remove_prefix(std::min(end + 1, flags.size()));
    }
    return rest;
  }
  /// SGLang's calls as they were timed. Source: ai-dynamo/aiconfigurator,
  /// collector/sglang/collect_gemm.py: each of six copies has activations of its own, and scales of
  /// weights are fp32, which DeepGEMM lays out anew in each call on data-centre Blackwell
  /// (csrc/apis/layout.hpp). With static scales, which that file does not have, activations are
  /// quantised beforehand: CHOICE by rows of L40S, of which 4,096 x 65,536 take 516 us where their
  /// 16-bit activations alone take 620 to come from memory (sim/cost/notes/0005).
  static void as_sglang_was_timed(TensorGemm& gemm, MmaKind kind) {
    constexpr double kCopies = 6;
    const double activations = gemm.m * gemm.k * (2 + activation_bytes(gemm.format));
    const double weights = gemm.n * gemm.k * weight_bytes(gemm.format);
    const double results = gemm.m * gemm.n * cost::result_bytes(gemm.format);
    gemm.is_quantised = gemm.format == GemmFormat::Fp8Static;
    if (!gemm.is_quantised) gemm.reuse.inputs = kCopies * (activations + weights) + results;
    gemm.packs_scales = gemm.format == GemmFormat::Fp8Block && kind == MmaKind::TensorMemory;
  }
  /// Weights in turn. Source: ai-dynamo/aiconfigurator,
  /// collector/{trtllm,sglang,vllm}/collect_gemm.py: TensorRT-LLM's as many as fill L2, five at
  /// most, and those of its plug-in of 2025 five; the others six, vLLM's kernels of blocks and
  /// 4-bit floats one.
  static double weight_copies(std::optional<GemmEngine> engine, const TensorGemm& gemm,
                              const GpuSpec& gpu) {
    constexpr double kMost = 5, kOthers = 6;
    if (engine == GemmEngine::TensorRtLlm) {
      const bool is_plug_in = gemm.format == GemmFormat::Int8 ||
                              gemm.format == GemmFormat::Int8Weights ||
                              gemm.format == GemmFormat::Int4Weights;
      if (is_plug_in) return kMost;
      const double weights = gemm.n * gemm.k * weight_bytes(gemm.format);
      return std::clamp(std::ceil(gpu.l2.in_bytes() / weights), 1.0, kMost);
    }
    const bool is_one = engine == GemmEngine::Vllm &&
                        (gemm.format == GemmFormat::Fp8Block || gemm.format == GemmFormat::Fp4);
    return is_one ? 1 : kOthers;
  }
  GemmCall call_of(const RowFields& row, GemmFormat format, const GpuSpec& gpu) const {
    GemmCall call;
    call.in_graph = true;
    call.is_power = power_;
    const auto add = [&](std::optional<GemmEngine> engine) {
      TensorGemm gemm = read_gemm(row, format);
      gemm.engine = engine;
      repeat_gemm(gemm, weight_copies(engine ? engine : engine_, gemm, gpu));
      if (engine == GemmEngine::SgLang) as_sglang_was_timed(gemm, mma_kind(gpu));
      // Its collector calls the layer without a tuning run before
      // (collector/trtllm/collect_gemm.py).
      gemm.is_untuned = engine == GemmEngine::TensorRtLlm;
      call.gemms.push_back(gemm);
    };
    // 16-bit GEMMs all call the vendor's library: one price for all.
    if (format == GemmFormat::Half) {
      add(std::nullopt);
      return call;
    }
    for (std::size_t e = 0; e < kGemmEngineCount; ++e) {
      const auto engine = static_cast<GemmEngine>(e);
      const std::string_view column = kEngineColumns[e];
      if (engine_ ? engine == *engine_ : !row.text_or_empty(column).empty()) add(engine);
    }
    if (call.gemms.empty()) add(std::nullopt);
    return call;
  }
};

/// vidur_linear.csv of data/modern: kernels of one transformer layer in PyTorch, duration on the
/// GPU alone.
class LayerGemms final : public GemmReader {
 public:
  explicit LayerGemms(const MeasurementContext& context)
      : GemmReader(context), library_(context.library) {}
  std::string_view table() const override { return "PyTorch's linear layers"; }
  std::string_view convention() const override {
    return "Kernels of a transformer layer, their time on the GPU in whole microseconds; weights "
           "come from memory, since the "
           "rest of the layer runs between.";
  }
  MeasurementOrReason read(const CsvReader& reader) override {
    const RowFields row(reader);
    Measurement m;
    if (auto reason = begin(reader, row, m)) return *reason;
    const std::string_view op = row.text("op");
    if (row.text("m").empty()) return "op " + std::string(op) + " is no GEMM";
    m.source = "vidur";
    m.group = "GEMM linear";
    TensorGemm gemm = read_gemm(row, GemmFormat::Half);
    const double activations = gemm.m * gemm.k * 2, results = gemm.m * gemm.n * 2;
    gemm.reuse.activations = 2 * activations;  // the kernel before wrote them
    gemm.reuse.results = activations + results;
    gemm.by_early_library = library_
                                .defaults_of(library_.find_framework("pytorch"),
                                             {.version = {}, .date = kDate}, *m.spec)
                                .early_gemms;
    GemmCall call;
    call.gemms.push_back(gemm);
    m.work = std::move(call);
    return m;
  }

 private:
  /// Of their repository; its libraries are no younger. Source: data/modern/README.md, section 1.
  static constexpr std::string_view kDate = "2024-11";
  SpecLibrary library_;
};

/// v100_gemm_fp16.csv and fp8_gemm_pipeweave.csv of data/modern: one header, the number format in
/// the file's name; else 16 bits where the GPU has no 8-bit floats.
class PlainGemms final : public GemmReader {
 public:
  explicit PlainGemms(const MeasurementContext& context)
      : GemmReader(context), framework_(context.framework("pytorch")) {
    convention_ = fmt::format(
        "fp16: PyTorch GEMMs back to back, host clock, at least {:.3g} us each, of more than "
        "{:.0f} multiply-adds {:.3g} us, cut to whole microseconds, operands the same each time. "
        "fp8: a kernel of one tile; one call between two events, a fitted share of {:.3g} us more.",
        kFloor.in_us(), kSmallGemm, kLargeFloor.in_us(), framework_.host.launch_per_kernel.in_us());
  }
  std::string_view table() const override { return "gemms"; }
  std::string_view convention() const override { return convention_; }
  MeasurementOrReason read(const CsvReader& reader) override {
    const RowFields row(reader);
    Measurement m;
    if (auto reason = begin(reader, row, m)) return *reason;
    const std::string name = to_lower(reader.file_name());
    const bool is_fp8 = name.find("fp8") != name.npos ||
                        (name.find("fp16") == name.npos && has_format(*m.spec, GemmFormat::Fp8));
    if (is_fp8 && !has_format(*m.spec, GemmFormat::Fp8)) {
      return m.gpu + " has no fp8 on its tensor cores";
    }
    m.source = is_fp8 ? "pipeweave" : "apex";
    m.group = is_fp8 ? "GEMM fp8" : "GEMM fp16";
    TensorGemm gemm = read_gemm(row, is_fp8 ? GemmFormat::Fp8 : GemmFormat::Half);
    GemmCall call;
    if (is_fp8) {
      call.gap = framework_.host.launch_per_kernel;  // one call between two events
      call.is_alone = true;
      gemm.is_untuned = true;  // one tile; which library, the table does not state
    } else {
      const double multiply_adds = gemm.batch * gemm.m * gemm.n * gemm.k;
      call.floor = multiply_adds > kSmallGemm ? kLargeFloor : kFloor;
    }
    repeat_gemm(gemm, 1);
    call.gemms.push_back(gemm);
    m.work = std::move(call);
    return m;
  }

 private:
  /// What its host takes for each GEMM: medians of the rows whose roofs are below 6 us
  /// (sim/cost/notes/0005). At 2^21 multiply-adds, whatever the shape, its library goes another
  /// way. Source: data/modern/v100_gemm_fp16.csv, 1,083 and 852 rows.
  static constexpr Seconds kFloor = Seconds(14e-6), kLargeFloor = Seconds(22e-6);
  static constexpr double kSmallGemm = 2097152;
  FrameworkProfile framework_;
  std::string convention_;
};

}  // namespace

void repeat_gemm(TensorGemm& gemm, double weight_copies) {
  const double activations = gemm.batch * gemm.m * gemm.k * activation_bytes(gemm.format);
  const double weights = gemm.batch * gemm.n * gemm.k * weight_bytes(gemm.format);
  const double results = gemm.batch * gemm.m * gemm.n * cost::result_bytes(gemm.format);
  gemm.reuse.activations = gemm.reuse.results = activations + weights + results;
  gemm.reuse.weights = activations + weight_copies * weights + results;
}

std::string gemm_size_class(Seconds time) {
  const double us = time.in_us();
  return us < 6      ? "under 6 us"
         : us < 15   ? "6 us on"
         : us < 50   ? "15 us on"
         : us < 200  ? "50 us on"
         : us < 1000 ? "200 us on"
                     : "1 ms on";
}

std::vector<MeasurementTable> gemm_measurement_tables() {
  return {table_read_by<EngineGemms>(
              "GEMMs of inference engines",
              {"gpu", "gemm_dtype", "m", "n", "k", "time_us", "trtllm_us", "sglang_us", "vllm_us"}),
          table_read_by<LayerGemms>(
              "PyTorch's linear layers",
              {"gpu", "model", "tp", "op", "num_tokens", "m", "n", "k", "cols", "time_us"}),
          table_read_by<PlainGemms>("gemms", {"gpu", "m", "n", "k", "time_us"})};
}

}  // namespace tracecast
