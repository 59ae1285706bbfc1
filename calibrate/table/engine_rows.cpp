#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "calibrate/table/engine_columns.hpp"
#include "calibrate/table/measurement.hpp"
#include "calibrate/table/row_fields.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

constexpr std::array<std::pair<std::string_view, GemmEngine>, kGemmEngineCount> kEngines = {{
    {"trtllm", GemmEngine::TensorRtLlm},
    {"sglang", GemmEngine::SgLang},
    {"vllm", GemmEngine::Vllm},
}};
constexpr std::array<std::pair<std::string_view, ExpertFormat>, kExpertFormatCount> kExperts = {{
    {"bfloat16", ExpertFormat::Half},
    {"fp8", ExpertFormat::Fp8},
    {"fp8_block", ExpertFormat::Fp8Block},
    {"nvfp4", ExpertFormat::Fp4},
    {"int4_wo", ExpertFormat::Int4Weights},
    {"w4a16_mxfp4", ExpertFormat::Fp4Weights},
    {"w4a8_mxfp4_mxfp8", ExpertFormat::Fp4WeightsFp8},
    {"w4afp8", ExpertFormat::Int4WeightsFp8},
}};

/// The value of a word; throws InputError that names the words.
template <class Value, std::size_t N>
Value word(const CsvReader& reader, std::string_view column, std::string_view text,
           const std::array<std::pair<std::string_view, Value>, N>& words) {
  std::string choices;
  for (std::size_t i = 0; i < N; ++i) {
    if (words[i].first == text) return words[i].second;
    choices += (i == 0 ? "" : i + 1 == N ? " or " : ", ") + std::string(words[i].first);
  }
  throw InputError(reader.where(), fmt::format("{} \"{}\"", column, text), choices);
}

constexpr std::array<std::pair<std::string_view, bool>, 3> kIsFp8 = {
    {{"bfloat16", false}, {"float16", false}, {"fp8", true}}};

/// Length classes that a fit weighs alike.
std::string size_class(double us) {
  return us < 12     ? "under 12 us"
         : us < 25   ? "12 us on"
         : us < 60   ? "25 us on"
         : us < 250  ? "60 us on"
         : us < 2000 ? "250 us on"
                     : "2 ms on";
}

/// Why a table sets a row apart: a spread between tables does not.
std::string flag_of(const RowFields& row) {
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

/// What a row says, whichever engine ran it.
using WorkOf = std::function<Work(std::optional<GemmEngine>)>;

/// Tables of calls with a column per engine: the median over them, or one engine's.
class EngineReader : public MeasurementReader {
 public:
  explicit EngineReader(const MeasurementContext& context)
      : specs_(context.specs), engine_(context.engine) {}
  bool use_engine(GemmEngine engine) override {
    engine_ = engine;
    return true;
  }
  std::string_view time_column() const override {
    return engine_ ? time_column_of(*engine_) : "time_us";
  }
  MeasurementOrReason read(const CsvReader& reader) override {
    const RowFields row(reader);
    Measurement m;
    m.group = group_of(reader, row);
    const WorkOf work = work_of(reader, row);
    if (row.text_or_empty(time_column()).empty())
      return "no figure in " + std::string(time_column());
    m.line = reader.line();
    m.spec = specs_->find(row.gpu());
    if (!m.spec) return "GPU " + std::string(row.text("gpu")) + " has no spec";
    m.gpu = m.spec->id;
    const double us = row.positive(time_column());
    m.time = Seconds(us * 1e-6);
    m.split = size_class(us);
    m.source = engine_ ? std::string(to_string(*engine_)) + " calls" : "engine calls";
    m.flag = flag_of(row);
    EngineCall call;
    for (std::size_t e = 0; e < kGemmEngineCount; ++e) {
      const auto engine = static_cast<GemmEngine>(e);
      if (engine_ ? engine == *engine_ : !row.text_or_empty(kEngineColumns[e]).empty())
        call.calls.push_back(work(engine));
    }
    if (call.calls.empty()) call.calls.push_back(work(std::nullopt));
    m.work = std::move(call);
    return m;
  }

 protected:
  [[nodiscard]] virtual std::string group_of(const CsvReader& reader,
                                             const RowFields& row) const = 0;
  [[nodiscard]] virtual WorkOf work_of(const CsvReader& reader, const RowFields& row) const = 0;

  std::shared_ptr<SpecsAtClock> specs_;
  std::optional<GemmEngine> engine_;
};

double number(const RowFields& row, std::string_view column, std::int64_t low = 1) {
  return static_cast<double>(row.integer(column, low));
}

/// Heads of queries and of keys; groups are whole.
std::pair<double, double> heads_of(const CsvReader& reader, const RowFields& row) {
  const double heads = number(row, "num_heads"), keys = number(row, "num_key_value_heads");
  if (keys > heads) {
    throw InputError(reader.where(),
                     fmt::format("num_key_value_heads {} of num_heads {}", keys, heads),
                     "no more heads of keys than of queries");
  }
  return {heads, keys};
}

/// Whether only the collectors of mid-2026 had the shape: earlier ones had heads of 128 and, late,
/// of 256 without windows; vLLM's those of 64 and windows of 128, too. SGLang's then narrow what
/// comes in for an 8-bit cache within the call, as it is in service, not beforehand; and vLLM's
/// kernels no longer write the cache, which a kernel outside the call does (vllm, pull request
/// 25954). Source: aiconfigurator, collector/cases/base_ops/attention_context.yaml and
/// collector/sglang/collect_attn.py beside their earlier versions.
bool is_late_shape(double width, double window, std::optional<GemmEngine> engine) {
  const bool is_early = width == 128 || width == 256;
  if (engine == GemmEngine::Vllm)
    return !(is_early || width == 64) || (window > 0 && (window != 128 || width == 256));
  return !is_early || window > 0;
}

/// Whether an engine's figure is of one table, its newest, as far as the row tells: of `tables` one
/// at least is of each other engine that has a figure.
bool is_of_one_table(const RowFields& row, GemmEngine engine) {
  if (row.text_or_empty("tables").empty()) return false;
  std::int64_t own = row.integer("tables", 0);
  for (std::size_t e = 0; e < kGemmEngineCount; ++e) {
    const bool is_other = static_cast<GemmEngine>(e) != engine;
    if (is_other && !row.text_or_empty(kEngineColumns[e]).empty()) --own;
  }
  return own <= 1;
}

/// By engine.
std::array<bool, kGemmEngineCount> of_one_table(const RowFields& row) {
  std::array<bool, kGemmEngineCount> all{};
  for (std::size_t e = 0; e < kGemmEngineCount; ++e)
    all[e] = is_of_one_table(row, static_cast<GemmEngine>(e));
  return all;
}

class PrefillRows final : public EngineReader {
 public:
  using EngineReader::EngineReader;
  std::string_view table() const override { return "attention of new tokens"; }
  std::string_view convention() const override {
    return "Causal attention and the write of keys and values into the cache in a captured graph, "
           "the same data each time; TensorRT-LLM's holds the rotary embedding. time_us: median "
           "over engines, predicted as such; --engine trtllm|sglang|vllm: that engine's.";
  }

 protected:
  std::string group_of(const CsvReader& reader, const RowFields& row) const override {
    const bool is_fp8 = word(reader, "attn_dtype", row.text("attn_dtype"), kIsFp8);
    const bool cache_is_fp8 = word(reader, "kv_cache_dtype", row.text("kv_cache_dtype"), kIsFp8);
    return is_fp8 ? "prefill fp8" : cache_is_fp8 ? "prefill over fp8" : "prefill bfloat16";
  }
  WorkOf work_of(const CsvReader& reader, const RowFields& row) const override {
    PrefillWork w;
    w.batch = number(row, "batch_size");
    w.tokens = number(row, "isl");
    std::tie(w.heads, w.kv_heads) = heads_of(reader, row);
    w.key_width = w.value_width = number(row, "head_dim");
    w.window = number(row, "window_size", 0);
    w.format = row.text("attn_dtype") == "fp8"       ? AttentionFormat::Fp8
               : row.text("kv_cache_dtype") == "fp8" ? AttentionFormat::HalfOver8
                                                     : AttentionFormat::Half;
    const auto is_newest = of_one_table(row);
    return [w, is_newest](std::optional<GemmEngine> engine) mutable {
      PrefillWork own = w;
      own.engine = engine;
      // Source: data/modern/README.md, attention_prefill.
      if (engine == GemmEngine::SgLang && w.key_width == 192) own.value_width = 128;
      if (engine && engine != GemmEngine::TensorRtLlm) {
        own.late = own.casts = is_late_shape(w.key_width, w.window, engine) ||
                               is_newest[static_cast<std::size_t>(*engine)];
        own.writes_cache = !own.late || engine != GemmEngine::Vllm;
      }
      return Work(own);
    };
  }
};

class DecodeRows final : public EngineReader {
 public:
  using EngineReader::EngineReader;
  std::string_view table() const override { return "attention over a cache"; }
  std::string_view convention() const override {
    return "One new token a sequence over its paged cache in a captured graph, the same cache each "
           "time. time_us: median over engines, predicted as such; --engine trtllm|sglang|vllm: "
           "that engine's.";
  }

 protected:
  std::string group_of(const CsvReader& reader, const RowFields& row) const override {
    return word(reader, "kv_cache_dtype", row.text("kv_cache_dtype"), kIsFp8) ? "decode over fp8"
                                                                              : "decode bfloat16";
  }
  WorkOf work_of(const CsvReader& reader, const RowFields& row) const override {
    DecodeWork w;
    w.batch = number(row, "batch_size");
    w.keys = number(row, "step", 0) + 1;
    std::tie(w.heads, w.kv_heads) = heads_of(reader, row);
    w.width = number(row, "head_dim");
    w.key_values = w.gemms = 2 * w.width;
    w.window = number(row, "window_size", 0);
    w.fp8_cache = row.text("kv_cache_dtype") == "fp8";
    const auto is_newest = of_one_table(row);
    return [w, is_newest](std::optional<GemmEngine> engine) mutable {
      DecodeWork own = w;
      own.engine = engine;
      if (engine && engine != GemmEngine::TensorRtLlm) {
        own.late = own.casts = is_late_shape(w.width, w.window, engine) ||
                               is_newest[static_cast<std::size_t>(*engine)];
      }
      return Work(own);
    };
  }
};

class ExpertRows final : public EngineReader {
 public:
  using EngineReader::EngineReader;
  std::string_view table() const override { return "MoE networks"; }
  std::string_view convention() const override {
    return "One rank's experts in a captured graph, from given scores to the weighted sum; under a "
           "power law the rank with most tokens. time_us: median over engines, predicted as such; "
           "--engine trtllm|sglang|vllm: that engine's.";
  }

 protected:
  std::string group_of(const CsvReader& reader, const RowFields& row) const override {
    (void)word(reader, "moe_dtype", row.text("moe_dtype"), kExperts);
    return "experts " + std::string(row.text("moe_dtype"));
  }
  WorkOf work_of(const CsvReader& reader, const RowFields& row) const override {
    Routing routing;
    routing.tokens = row.integer("num_tokens", 1);
    routing.experts = row.integer("num_experts", 1, 100'000);
    routing.per_token = row.integer("topk", 1, routing.experts);
    routing.ranks = row.integer("moe_ep_size", 1, routing.experts);
    routing.exponent = exponent_of(reader, row.text("distribution"));
    ExpertsWork w;
    w.load = expert_load(routing);
    w.tokens = static_cast<double>(routing.tokens);
    w.per_token = static_cast<double>(routing.per_token);
    w.all_experts = static_cast<double>(routing.experts);
    w.hidden = number(row, "hidden_size");
    w.width = number(row, "inter_size") / number(row, "moe_tp_size");
    w.gated = row.integer("gated", 0, 1) == 1;
    w.format = word(reader, "moe_dtype", row.text("moe_dtype"), kExperts);
    const bool is_sharded = routing.ranks > 1;
    return [w, is_sharded](std::optional<GemmEngine> engine) mutable {
      return Work(as_timed(w, engine, is_sharded));
    };
  }

 private:
  /// What the collectors' calls hold that an engine's do not. Source: collector/sglang and
  /// collector/vllm, collect_moe.py, of the repository that data/modern/README.md names. Both give
  /// every MoE the weights of a gated one. SGLang's calls on a divided group begin with the tokens
  /// that have an expert on the rank; its own kernels then multiply their other experts' rows as
  /// expert 0's, in older campaigns not all of them; in 4-bit floats they are the GEMMs alone.
  static ExpertsWork as_timed(ExpertsWork w, std::optional<GemmEngine> engine, bool is_sharded) {
    w.engine = engine;
    if (engine == GemmEngine::SgLang || engine == GemmEngine::Vllm) w.gated = true;
    if (engine != GemmEngine::SgLang || !is_sharded) return w;
    w.gemms_alone = w.format == ExpertFormat::Fp4;
    const bool is_marlin = w.format == ExpertFormat::Int4Weights;
    const bool is_triton = w.format == ExpertFormat::Half || w.format == ExpertFormat::Fp8Block;
    if (!w.gemms_alone && !is_marlin && !is_triton) return w;
    w.tokens = w.load.tokens;
    if (w.gemms_alone) return w;
    const double rows = std::max(0.0, w.load.tokens * w.per_token - w.load.rows);
    (is_triton ? w.perhaps_strays : w.strays) = rows;
    return w;
  }
  /// "balanced", "power_law_1.2".
  static double exponent_of(const CsvReader& reader, std::string_view text) {
    constexpr std::string_view kPower = "power_law_";
    if (text == "balanced") return 0;
    if (text.starts_with(kPower)) {
      const std::string digits(text.substr(kPower.size()));
      char* end = nullptr;
      const double value = std::strtod(digits.c_str(), &end);
      if (end != digits.c_str() && *end == '\0' && value > 0 && value < 10) {
        return value == 1 ? 1 + 1e-6 : value;  // the inverse has a pole at 1
      }
    }
    throw InputError(reader.where(), fmt::format("distribution \"{}\"", text),
                     "balanced or power_law_A with an exponent A from 0 to 10");
  }
};

class QuantizationRows final : public EngineReader {
 public:
  using EngineReader::EngineReader;
  std::string_view table() const override { return "quantisation by inference engines"; }
  std::string_view convention() const override {
    return "One matrix of bf16 to fp8 at a given scale in a captured graph, the same data each "
           "time; SGLang runs a chain of kernels. time_us: median over engines, predicted as such; "
           "--engine trtllm|sglang|vllm: that engine's.";
  }

 protected:
  std::string group_of(const CsvReader& reader, const RowFields& row) const override {
    constexpr std::array<std::pair<std::string_view, bool>, 1> kKnown = {{{"fp8", true}}};
    (void)word(reader, "quant_dtype", row.text("quant_dtype"), kKnown);
    return "quantization fp8";
  }
  WorkOf work_of(const CsvReader&, const RowFields& row) const override {
    QuantizationWork w;
    w.rows = number(row, "m");
    w.cols = number(row, "k");
    return [w](std::optional<GemmEngine> engine) mutable {
      QuantizationWork own = w;
      own.engine = engine;
      return Work(own);
    };
  }
};

/// mla_prefill.csv and mla_decode.csv: a row per engine. Widths of DeepSeek-V3, which all rows
/// have.
class LatentRows : public MeasurementReader {
 public:
  explicit LatentRows(const MeasurementContext& context) : specs_(context.specs) {}
  MeasurementOrReason read(const CsvReader& reader) override {
    const RowFields row(reader);
    Measurement m;
    m.line = reader.line();
    const GemmEngine engine = word(reader, "framework", row.text("framework"), kEngines);
    const bool is_fp8 = word(reader, "kv_cache_dtype", row.text("kv_cache_dtype"), kIsFp8);
    EngineCall call;
    call.calls.push_back(work_of(reader, row, engine, is_fp8));
    m.group = group(is_fp8);
    m.spec = specs_->find(row.gpu());
    if (!m.spec) return "GPU " + std::string(row.text("gpu")) + " has no spec";
    m.gpu = m.spec->id;
    const double us = row.positive("time_us");
    m.time = Seconds(us * 1e-6);
    m.split = size_class(us);
    m.source = std::string(to_string(engine)) + " calls";
    m.flag = flag_of(row);
    m.work = std::move(call);
    return m;
  }

 protected:
  [[nodiscard]] virtual std::string group(bool is_fp8) const = 0;
  [[nodiscard]] virtual Work work_of(const CsvReader& reader, const RowFields& row,
                                     GemmEngine engine, bool is_fp8) const = 0;
  static constexpr double kRank = 512, kPositions = 64, kHead = 128;

 private:
  std::shared_ptr<SpecsAtClock> specs_;
};

class LatentPrefillRows final : public LatentRows {
 public:
  using LatentRows::LatentRows;
  std::string_view table() const override { return "latent attention of new tokens"; }
  std::string_view convention() const override {
    return "Causal attention of DeepSeek-V3's heads on one rank and the write of the cache in a "
           "captured graph, the same data each time; projections are not in it.";
  }

 protected:
  std::string group(bool is_fp8) const override {
    return is_fp8 ? "latent prefill over fp8" : "latent prefill bfloat16";
  }
  Work work_of(const CsvReader& reader, const RowFields& row, GemmEngine engine,
               bool is_fp8) const override {
    constexpr std::array<std::pair<std::string_view, bool>, 2> kForms = {
        {{"projected", false}, {"absorbed", true}}};
    PrefillWork w;
    w.latent = true;
    w.absorbed = word(reader, "form", row.text("form"), kForms);
    w.batch = number(row, "batch_size");
    w.tokens = number(row, "isl");
    w.heads = number(row, "num_heads");
    w.kv_heads = w.absorbed ? 1 : w.heads;
    w.key_width = w.absorbed ? kRank + kPositions : kHead + kPositions;
    w.value_width = w.absorbed ? kRank : kHead;
    w.format = is_fp8 ? AttentionFormat::HalfOver8 : AttentionFormat::Half;
    w.engine = engine;
    // vLLM's collector times the layer's implementation in a plain loop: the GEMM that makes keys
    // and values of the latent is in it. Source: aiconfigurator, collector/vllm/collect_mla.py;
    // vllm, v1/attention/backends/mla/common.py, _forward_prefill.
    w.eager = engine == GemmEngine::Vllm;
    if (w.eager) w.expands = kRank;
    return w;
  }
};

class LatentDecodeRows final : public LatentRows {
 public:
  using LatentRows::LatentRows;
  std::string_view table() const override { return "latent attention over a cache"; }
  std::string_view convention() const override {
    return "One new token a sequence over a cache of DeepSeek-V3's latent vectors in a captured "
           "graph, the same cache each time; projections are not in it.";
  }

 protected:
  std::string group(bool is_fp8) const override {
    return is_fp8 ? "latent decode over fp8" : "latent decode bfloat16";
  }
  Work work_of(const CsvReader&, const RowFields& row, GemmEngine engine,
               bool is_fp8) const override {
    DecodeWork w;
    w.latent = true;
    w.batch = number(row, "batch_size");
    w.keys = number(row, "step", 0) + 1;
    w.heads = number(row, "num_heads");
    w.kv_heads = 1;
    w.width = w.key_values = kRank + kPositions;
    w.gemms = 2 * kRank + kPositions;
    w.fp8_cache = is_fp8;
    w.engine = engine;
    // As in LatentPrefillRows: queries and results pass through GEMMs of the latent's width within
    // the call.
    w.eager = engine == GemmEngine::Vllm;
    if (w.eager) w.absorbs = kHead;
    return w;
  }
};

}  // namespace

std::vector<MeasurementTable> engine_measurement_tables() {
  return {table_read_by<PrefillRows>(
              "attention of new tokens",
              {"gpu", "attn_dtype", "kv_cache_dtype", "batch_size", "isl", "num_heads",
               "num_key_value_heads", "head_dim", "window_size", "time_us"}),
          table_read_by<DecodeRows>(
              "attention over a cache",
              {"gpu", "attn_dtype", "kv_cache_dtype", "batch_size", "step", "num_heads",
               "num_key_value_heads", "head_dim", "window_size", "time_us"}),
          table_read_by<LatentPrefillRows>("latent attention of new tokens",
                                           {"gpu", "kv_cache_dtype", "batch_size", "isl",
                                            "num_heads", "framework", "form", "time_us"}),
          table_read_by<LatentDecodeRows>(
              "latent attention over a cache",
              {"gpu", "kv_cache_dtype", "batch_size", "step", "num_heads", "framework", "time_us"}),
          table_read_by<ExpertRows>(
              "MoE networks",
              {"gpu", "moe_dtype", "num_tokens", "hidden_size", "inter_size", "topk", "num_experts",
               "moe_tp_size", "moe_ep_size", "distribution", "gated", "time_us"}),
          table_read_by<QuantizationRows>("quantisation by inference engines",
                                          {"gpu", "quant_dtype", "m", "k", "time_us"})};
}

}  // namespace tracecast
