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
#include "calibrate/table/repeated_product.hpp"
#include "calibrate/table/row_fields.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using cost::TensorProduct;

constexpr std::array<std::pair<std::string_view, ProductFormat>, 9> kFormats = {{
    {"bfloat16", ProductFormat::Half},
    {"float16", ProductFormat::Half},
    {"fp8", ProductFormat::Fp8},
    {"fp8_static", ProductFormat::Fp8Static},
    {"fp8_block", ProductFormat::Fp8Block},
    {"nvfp4", ProductFormat::Fp4},
    {"int8_wo", ProductFormat::Int8Weights},
    {"int4_wo", ProductFormat::Int4Weights},
    {"sq", ProductFormat::Int8},
}};
std::optional<ProductFormat> find_format(std::string_view word) {
  for (const auto& [name, format] : kFormats) {
    if (name == word) return format;
  }
  return std::nullopt;
}

TensorProduct read_product(const RowFields& row, ProductFormat format) {
  TensorProduct product;
  product.m = static_cast<double>(row.integer("m", 1));
  product.n = static_cast<double>(row.integer("n", 1));
  product.k = static_cast<double>(row.integer("k", 1));
  product.format = format;
  // Weights lie as [n, k]; engines pad what their narrow formats need.
  if (format == ProductFormat::Half) {
    product.alignment = cost::product_alignment(product, false, true, cost::result_bytes(format));
  }
  return product;
}

/// Whether tensor cores of this GPU multiply the format, or widen to one that they multiply.
bool has_format(const GpuSpec& gpu, ProductFormat format) {
  return gpu.find_peak(math_of(format), MathUnit::TensorCore).has_value();
}

class ProductReader : public MeasurementReader {
 public:
  explicit ProductReader(const MeasurementContext& context)
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
    m.split = product_size_class(Seconds(row.positive("time_us") * 1e-6));
    return std::nullopt;
  }
  std::shared_ptr<SpecsAtClock> specs_;
  std::optional<ProductEngine> engine_;
  bool power_ = false;
};

/// gemm.csv.gz of data/modern: out[m,n] = x[m,k] w[n,k]^T by TensorRT-LLM, SGLang and vLLM in a captured graph, copies of
/// the weights in turn.
class EngineProducts final : public ProductReader {
 public:
  using ProductReader::ProductReader;
  std::string_view table() const override { return "products of inference engines"; }
  std::string_view convention() const override {
    return "One product in a captured graph, one to six copies of its weights in turn, the same "
           "activations each time: what fits "
           "into L2 stays there. Formats below 16 bits hold the quantisation of the activations. "
           "time_us: median over "
           "engines, predicted as such; --engine trtllm|sglang|vllm: that engine's.";
  }
  bool use_engine(ProductEngine engine) override {
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
    m.group = (power_ ? "power of product " : "product ") + std::string(row.text("gemm_dtype"));
    m.flag = flag_of(row);
    // Its newer versions ran these without a graph: host time. Source: data/modern/README.md.
    if (m.flag.empty() && engine_ == ProductEngine::Vllm && *format == ProductFormat::Fp8Block) {
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
  /// SGLang's calls as they were timed. Source: ai-dynamo/aiconfigurator, collector/sglang/collect_gemm.py: each of six copies has activations
  /// of its own, and scales of weights are fp32, which DeepGEMM lays out anew in each call on data-centre Blackwell (csrc/apis/layout.hpp).
  /// With static scales, which that file does not have, activations are quantised beforehand: CHOICE by rows of L40S, of which 4,096 x 65,536 take
  /// 516 us where their 16-bit activations alone take 620 to come from memory (sim/cost/notes/0005).
  static void as_sglang_was_timed(TensorProduct& product, MmaKind kind) {
    constexpr double kCopies = 6;
    const double activations = product.m * product.k * (2 + activation_bytes(product.format));
    const double weights = product.n * product.k * weight_bytes(product.format);
    const double results = product.m * product.n * cost::result_bytes(product.format);
    product.is_quantised = product.format == ProductFormat::Fp8Static;
    if (!product.is_quantised) product.reuse.inputs = kCopies * (activations + weights) + results;
    product.packs_scales =
        product.format == ProductFormat::Fp8Block && kind == MmaKind::TensorMemory;
  }
  /// Weights in turn. Source: ai-dynamo/aiconfigurator, collector/{trtllm,sglang,vllm}/collect_gemm.py: TensorRT-LLM's as many as fill L2, five at
  /// most, and those of its plug-in of 2025 five; the others six, vLLM's kernels of blocks and 4-bit floats one.
  static double weight_copies(std::optional<ProductEngine> engine, const TensorProduct& product,
                              const GpuSpec& gpu) {
    constexpr double kMost = 5, kOthers = 6;
    if (engine == ProductEngine::TensorRtLlm) {
      const bool is_plug_in = product.format == ProductFormat::Int8 ||
                              product.format == ProductFormat::Int8Weights ||
                              product.format == ProductFormat::Int4Weights;
      if (is_plug_in) return kMost;
      const double weights = product.n * product.k * weight_bytes(product.format);
      return std::clamp(std::ceil(gpu.l2.in_bytes() / weights), 1.0, kMost);
    }
    const bool is_one =
        engine == ProductEngine::Vllm &&
        (product.format == ProductFormat::Fp8Block || product.format == ProductFormat::Fp4);
    return is_one ? 1 : kOthers;
  }
  ProductCall call_of(const RowFields& row, ProductFormat format, const GpuSpec& gpu) const {
    ProductCall call;
    call.in_graph = true;
    call.is_power = power_;
    const auto add = [&](std::optional<ProductEngine> engine) {
      TensorProduct product = read_product(row, format);
      product.engine = engine;
      repeat_product(product, weight_copies(engine ? engine : engine_, product, gpu));
      if (engine == ProductEngine::SgLang) as_sglang_was_timed(product, mma_kind(gpu));
      // Its collector calls the layer without a tuning run before (collector/trtllm/collect_gemm.py).
      product.is_untuned = engine == ProductEngine::TensorRtLlm;
      call.products.push_back(product);
    };
    // 16-bit products all call the vendor's library: one price for all.
    if (format == ProductFormat::Half) {
      add(std::nullopt);
      return call;
    }
    for (std::size_t e = 0; e < kProductEngineCount; ++e) {
      const auto engine = static_cast<ProductEngine>(e);
      const std::string_view column = kEngineColumns[e];
      if (engine_ ? engine == *engine_ : !row.text_or_empty(column).empty()) add(engine);
    }
    if (call.products.empty()) add(std::nullopt);
    return call;
  }
};

/// vidur_linear.csv of data/modern: kernels of one transformer layer in PyTorch, duration on the GPU alone.
class LayerProducts final : public ProductReader {
 public:
  explicit LayerProducts(const MeasurementContext& context)
      : ProductReader(context), library_(context.library) {}
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
    if (row.text("m").empty()) return "op " + std::string(op) + " is no product";
    m.source = "vidur";
    m.group = "product linear";
    TensorProduct product = read_product(row, ProductFormat::Half);
    const double activations = product.m * product.k * 2, results = product.m * product.n * 2;
    product.reuse.activations = 2 * activations;  // the kernel before wrote them
    product.reuse.results = activations + results;
    product.by_early_library = library_
                                   .defaults_of(library_.find_framework("pytorch"),
                                                {.version = {}, .date = kDate}, *m.spec)
                                   .early_products;
    ProductCall call;
    call.products.push_back(product);
    m.work = std::move(call);
    return m;
  }

 private:
  /// Of their repository; its libraries are no younger. Source: data/modern/README.md, section 1.
  static constexpr std::string_view kDate = "2024-11";
  SpecLibrary library_;
};

/// v100_gemm_fp16.csv and fp8_gemm_pipeweave.csv of data/modern: one header, the number format in the file's name; else 16 bits
/// where the GPU has no 8-bit floats.
class PlainProducts final : public ProductReader {
 public:
  explicit PlainProducts(const MeasurementContext& context)
      : ProductReader(context), framework_(context.framework("pytorch")) {
    convention_ = fmt::format(
        "fp16: PyTorch products back to back, host clock, at least {:.3g} us each, of more than "
        "{:.0f} multiply-adds {:.3g} us, cut to whole microseconds, operands the same each time. "
        "fp8: a kernel of one tile; one call between two events, a fitted share of {:.3g} us more.",
        kFloor.in_us(), kSmallProduct, kLargeFloor.in_us(),
        framework_.host.launch_per_kernel.in_us());
  }
  std::string_view table() const override { return "products"; }
  std::string_view convention() const override { return convention_; }
  MeasurementOrReason read(const CsvReader& reader) override {
    const RowFields row(reader);
    Measurement m;
    if (auto reason = begin(reader, row, m)) return *reason;
    const std::string name = to_lower(reader.file_name());
    const bool is_fp8 = name.find("fp8") != name.npos ||
                        (name.find("fp16") == name.npos && has_format(*m.spec, ProductFormat::Fp8));
    if (is_fp8 && !has_format(*m.spec, ProductFormat::Fp8)) {
      return m.gpu + " has no fp8 on its tensor cores";
    }
    m.source = is_fp8 ? "pipeweave" : "apex";
    m.group = is_fp8 ? "product fp8" : "product fp16";
    TensorProduct product = read_product(row, is_fp8 ? ProductFormat::Fp8 : ProductFormat::Half);
    ProductCall call;
    if (is_fp8) {
      call.gap = framework_.host.launch_per_kernel;  // one call between two events
      call.is_alone = true;
      product.is_untuned = true;  // one tile; which library, the table does not state
    } else {
      const double multiply_adds = product.batch * product.m * product.n * product.k;
      call.floor = multiply_adds > kSmallProduct ? kLargeFloor : kFloor;
    }
    repeat_product(product, 1);
    call.products.push_back(product);
    m.work = std::move(call);
    return m;
  }

 private:
  /// What its host takes for each product: medians of the rows whose roofs are below 6 us (sim/cost/notes/0005). At 2^21 multiply-adds,
  /// whatever the shape, its library goes another way. Source: data/modern/v100_gemm_fp16.csv, 1,083 and 852 rows.
  static constexpr Seconds kFloor = Seconds(14e-6), kLargeFloor = Seconds(22e-6);
  static constexpr double kSmallProduct = 2097152;
  FrameworkProfile framework_;
  std::string convention_;
};

}  // namespace

void repeat_product(TensorProduct& product, double weight_copies) {
  const double activations =
      product.batch * product.m * product.k * activation_bytes(product.format);
  const double weights = product.batch * product.n * product.k * weight_bytes(product.format);
  const double results = product.batch * product.m * product.n * cost::result_bytes(product.format);
  product.reuse.activations = product.reuse.results = activations + weights + results;
  product.reuse.weights = activations + weight_copies * weights + results;
}

std::string product_size_class(Seconds time) {
  const double us = time.in_us();
  return us < 6      ? "under 6 us"
         : us < 15   ? "6 us on"
         : us < 50   ? "15 us on"
         : us < 200  ? "50 us on"
         : us < 1000 ? "200 us on"
                     : "1 ms on";
}

std::vector<MeasurementTable> product_measurement_tables() {
  return {table_read_by<EngineProducts>(
              "products of inference engines",
              {"gpu", "gemm_dtype", "m", "n", "k", "time_us", "trtllm_us", "sglang_us", "vllm_us"}),
          table_read_by<LayerProducts>(
              "PyTorch's linear layers",
              {"gpu", "model", "tp", "op", "num_tokens", "m", "n", "k", "cols", "time_us"}),
          table_read_by<PlainProducts>("products", {"gpu", "m", "n", "k", "time_us"})};
}

}  // namespace tracecast
