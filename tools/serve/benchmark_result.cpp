#include "tools/serve/benchmark_result.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::json;

constexpr double kMostNumber = 1e15;  ///< of anything that a benchmark reports
constexpr double kMostInFlight = 1e6, kMostRequests = 1e9, kMostTokens = 1 << 24;

/// The number at a key; nothing where it is missing or null.
std::optional<double> number_at(const Json& doc, const std::string& key, std::string_view where) {
  const auto it = doc.find(key);
  if (it == doc.end() || it->is_null()) return std::nullopt;
  if (!it->is_number())
    throw InputError(std::string(where) + ", " + key, it->dump().substr(0, 40), "a number");
  const double value = it->get<double>();
  if (!(value >= 0 && value <= kMostNumber))
    throw InputError(std::string(where) + ", " + key, it->dump(),
                     fmt::format("a number from 0 to {:g}", kMostNumber));
  return value;
}

/// The text at a key; `otherwise` where it is missing.
std::string text_at(const Json& doc, const std::string& key, const char* otherwise,
                    std::string_view where) {
  const auto it = doc.find(key);
  if (it == doc.end()) return otherwise;
  if (!it->is_string())
    throw InputError(std::string(where) + ", " + key, it->dump().substr(0, 40), "a text");
  return it->get<std::string>();
}

/// 0 stands for "none was measured" where no answer has a second token.
std::optional<double> above_zero(const std::optional<double>& value) {
  return value && *value > 0 ? value : std::nullopt;
}

/// Nothing where it is below 1. Throws InputError: more than `most`.
std::optional<std::int64_t> count_of(const std::optional<double>& value, const char* what,
                                     std::string_view where, double most) {
  if (!value || *value < 1) return std::nullopt;
  if (*value > most)
    throw InputError(std::string(where) + ", " + what, fmt::format("{}", *value),
                     fmt::format("at most {:.0f}", most));
  return std::llround(*value);
}

MeasuredLatency vllm_latency(const Json& doc, const std::string& name, std::string_view where) {
  const auto at = [&](const char* statistic) {
    return above_zero(number_at(doc, statistic + ("_" + name + "_ms"), where));
  };
  return {at("mean"), at("median"), at("p90"), at("p99")};
}

BenchmarkResult read_vllm(const Json& doc, std::string_view where) {
  BenchmarkResult r;
  r.tool = "vllm bench serve";
  r.network = text_at(doc, "model_id", "", where);
  r.ttft_ms = vllm_latency(doc, "ttft", where);
  r.tpot_ms = vllm_latency(doc, "tpot", where);
  r.itl_ms = vllm_latency(doc, "itl", where);
  r.e2e_ms = vllm_latency(doc, "e2el", where);
  r.tokens_per_s = above_zero(number_at(doc, "output_throughput", where));
  // "inf" where all requests are sent at once, as far as max_concurrency lets them.
  if (const auto rate = doc.find("request_rate"); rate != doc.end() && rate->is_number())
    r.per_second = above_zero(number_at(doc, "request_rate", where));
  r.concurrency =
      count_of(number_at(doc, "max_concurrency", where), "max_concurrency", where, kMostInFlight);
  r.requests = count_of(number_at(doc, "completed", where), "completed", where, kMostRequests);
  if (!r.requests)
    r.requests =
        count_of(number_at(doc, "num_prompts", where), "num_prompts", where, kMostRequests);
  if (r.requests) {
    const double n = static_cast<double>(*r.requests);
    if (const auto in = number_at(doc, "total_input_tokens", where)) r.input = *in / n;
    if (const auto out = number_at(doc, "total_output_tokens", where)) r.output = *out / n;
  }
  return r;
}

/// {"unit": "ms", "avg": ..., "p50": ..., ...}.
MeasuredLatency genai_latency(const Json& doc, const char* key, std::string_view where) {
  const auto it = doc.find(key);
  if (it == doc.end() || !it->is_object()) return {};
  const std::string place = std::string(where) + ", " + key;
  const std::string unit = text_at(*it, "unit", "ms", place);
  const double factor = unit == "ms"   ? 1
                        : unit == "us" ? 1e-3
                        : unit == "ns" ? 1e-6
                        : unit == "s"  ? 1e3
                                       : 0;
  if (factor == 0) throw InputError(place, "unit \"" + unit + '"', "ms, s, us or ns");
  const auto at = [&](const char* statistic) -> std::optional<double> {
    const auto value = above_zero(number_at(*it, statistic, place));
    return value ? std::optional(*value * factor) : std::nullopt;
  };
  return {at("avg"), at("p50"), at("p90"), at("p99")};
}

std::optional<double> genai_mean(const Json& doc, const char* key, std::string_view where) {
  const auto it = doc.find(key);
  if (it == doc.end() || !it->is_object()) return std::nullopt;
  return above_zero(number_at(*it, "avg", std::string(where) + ", " + key));
}

/// A setting of the load, wherever a version keeps it: input_config, its loadgen or
/// perf_analyzer.stimulus.
std::optional<double> setting_of(const Json& config, const char* key, std::string_view where) {
  if (!config.is_object()) return std::nullopt;
  if (const auto it = config.find(key); it != config.end() && it->is_number())
    return above_zero(number_at(config, key, where));
  for (const char* part : {"loadgen", "perf_analyzer", "stimulus"})
    if (const auto it = config.find(part); it != config.end())
      if (const auto found = setting_of(*it, key, where)) return found;
  return std::nullopt;
}

BenchmarkResult read_genai(const Json& doc, std::string_view where) {
  BenchmarkResult r;
  r.tool = "genai-perf";
  r.ttft_ms = genai_latency(doc, "time_to_first_token", where);
  // Its "inter token latency" is a mean of each request: (end to end - first) / (tokens - 1).
  r.tpot_ms = genai_latency(doc, "inter_token_latency", where);
  r.e2e_ms = genai_latency(doc, "request_latency", where);
  r.tokens_per_s = genai_mean(doc, "output_token_throughput", where);
  r.input = genai_mean(doc, "input_sequence_length", where);
  r.output = genai_mean(doc, "output_sequence_length", where);
  r.requests =
      count_of(genai_mean(doc, "request_count", where), "request_count", where, kMostRequests);
  const Json config = doc.value("input_config", Json::object());
  r.concurrency =
      count_of(setting_of(config, "concurrency", where), "concurrency", where, kMostInFlight);
  r.per_second = setting_of(config, "request_rate", where);
  return r;
}

}  // namespace

BenchmarkResult read_benchmark_result(const std::string& text, std::string_view where) {
  const Json doc = Json::parse(text, nullptr, false);
  if (doc.is_discarded() || !doc.is_object())
    throw InputError(where, "no JSON object", "a result of vllm bench serve or genai-perf");
  const bool is_vllm = doc.contains("mean_ttft_ms") || doc.contains("mean_tpot_ms");
  const bool is_genai = doc.contains("time_to_first_token") || doc.contains("request_latency");
  if (is_vllm == is_genai)
    throw InputError(where, is_vllm ? "keys of two tools" : "none of their keys",
                     "mean_ttft_ms (vllm bench serve) or time_to_first_token (genai-perf)");
  BenchmarkResult r = is_vllm ? read_vllm(doc, where) : read_genai(doc, where);
  if (!r.ttft_ms.mean && !r.tpot_ms.mean)
    throw InputError(where, "no mean latency", "mean times to the first token or per token");
  return r;
}

void use_load_of(const BenchmarkResult& result, std::string_view where, ServingLoad& load) {
  if (!result.input || !result.output || *result.input < 1 || *result.output < 1)
    throw InputError(where, "no lengths of prompts and answers",
                     "its tokens, or --input, --output");
  if (*result.input > kMostTokens || *result.output > kMostTokens)
    throw InputError(
        where, fmt::format("{:g} and {:g} tokens of a request", *result.input, *result.output),
        fmt::format("at most {:.0f} of each", kMostTokens));
  load.input = std::llround(*result.input);
  load.output = std::llround(*result.output);
  load.per_second.reset();
  load.concurrency.reset();
  // A rate with a bound on what is in flight is a closed loop where the bound holds it: the rate
  // alone is reported then.
  if (result.per_second)
    load.per_second = result.per_second;
  else if (result.concurrency)
    load.concurrency = result.concurrency;
  else if (result.requests)
    load.concurrency = result.requests;  // all at once
  else
    throw InputError(where, "neither rate nor concurrency", "one of both");
  if (result.requests)
    load.requests =
        static_cast<std::uint64_t>(std::clamp<std::int64_t>(*result.requests, 1, 1'000'000));
  load.warm_up = 0;
}

}  // namespace tracecast
