#include "tools/sweep/result_columns.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <span>

#include "tools/command/json_text.hpp"

namespace tracecast {
namespace {

using store::Column;
using store::ColumnType;
using store::Value;
using Json = nlohmann::ordered_json;

/// Names where `values` is null, values otherwise: one list for both.
class Cells {
 public:
  explicit Cells(std::vector<Column>& columns) : columns_(&columns) {}
  explicit Cells(std::vector<Value>& values) : values_(&values) {}

  void number(std::string name, std::optional<double> value) {
    add(std::move(name), ColumnType::Real, value ? Value(*value) : Value());
  }
  void whole(std::string name, std::int64_t value) {
    add(std::move(name), ColumnType::Integer, Value(value));
  }
  void text(std::string name, const std::string& value) {
    add(std::move(name), ColumnType::Text, value.empty() ? Value() : Value(value));
  }
  /// NAME_UNIT, NAME_low_UNIT, NAME_high_UNIT.
  void interval(const std::string& name, const std::string& unit,
                const std::optional<Interval>& interval) {
    const auto part = [&](double Interval::*end) {
      return interval ? std::optional((*interval).*end) : std::nullopt;
    };
    number(name + unit, part(&Interval::value));
    number(name + "_low" + unit, part(&Interval::low));
    number(name + "_high" + unit, part(&Interval::high));
  }

 private:
  void add(std::string name, ColumnType type, Value value) {
    if (columns_ != nullptr) {
      columns_->push_back({std::move(name), type});
    } else {
      values_->push_back(std::move(value));
    }
  }
  std::vector<Column>* columns_ = nullptr;
  std::vector<Value>* values_ = nullptr;
};

std::string parts_json(std::span<const StepPart> parts) {
  Json doc = Json::object();
  for (const StepPart& part : parts) doc[part.name] = part.time.in_s();
  return json_text(doc, -1);
}

std::string lines_json(const std::vector<std::string>& lines) {
  return lines.empty() ? std::string() : json_text(Json(lines), -1);
}

/// Of the step's time, what rests on one basis.
double share_on(const Forecast& f, std::string_view basis) {
  Seconds on{}, all{};
  for (const StepPart& part : f.by_basis) {
    all += part.time;
    if (part.name == basis) on += part.time;
  }
  return all > Seconds(0) ? on / all : 0;
}

std::optional<double> watts(const Forecast& f, Watts PowerRange::*which) {
  return f.power ? std::optional((f.power->board.*which).in_w()) : std::nullopt;
}

void list_settled(Cells& cells, const Forecast& f) {
  cells.text("used_network", f.network);
  cells.text("used_gpu", f.gpu);
  cells.text("used_machine", f.machine);
  cells.text("used_host_cpu", f.host_cpu);
  cells.text("used_framework", f.framework);
  cells.text("used_precision", f.precision);
  cells.text("used_optimizer", f.optimizer);
  cells.text("used_phase", f.phase);
  cells.text("used_parallel_layout", f.parallel_layout);
  cells.whole("used_gpus", f.gpus);
  cells.whole("used_nodes", f.nodes);
  cells.whole("used_batch_per_gpu", f.batch_per_gpu);
  cells.number("samples_per_step", f.samples_per_step);
  cells.whole("parameters", f.parameters);
  cells.number("forward_macs_per_sample", f.forward_macs_per_sample);
}

void list_prediction(Cells& cells, const Forecast& f) {
  list_settled(cells, f);
  cells.interval("throughput", "_samples_per_s", f.throughput_samples_per_s);
  cells.interval("throughput", "_tokens_per_s", f.throughput_tokens_per_s);
  cells.interval("step_time", "_s", f.step_time_s);
  cells.number("efficiency", f.efficiency);
  const auto utilization = [&](double Range::*which) {
    return f.gpu_utilization ? std::optional((*f.gpu_utilization).*which) : std::nullopt;
  };
  cells.number("gpu_utilization_min", utilization(&Range::min));
  cells.number("gpu_utilization_avg", utilization(&Range::avg));
  cells.number("gpu_utilization_max", utilization(&Range::max));
  cells.number("sm_efficiency", f.sm_efficiency);
  cells.number("cpu_utilization", f.cpu_utilization);
  cells.text("bottleneck", f.bottleneck);
  cells.whole("fits", f.memory.fits ? 1 : 0);
  cells.number("memory_needed_bytes", f.memory.needed.in_bytes());
  cells.number("device_used_bytes", f.memory.used.in_bytes());
  cells.number("peak_live_bytes", f.memory.peak_live.in_bytes());
  cells.number("memory_capacity_bytes", f.memory.capacity.in_bytes());
  cells.number("fit_probability", f.memory.fit_probability);
  cells.number("memory_needed_low_bytes", f.memory.needed_bytes.low);
  cells.number("memory_needed_high_bytes", f.memory.needed_bytes.high);
  cells.number("power_idle_w", watts(f, &PowerRange::idle));
  cells.number("power_min_w", watts(f, &PowerRange::min));
  cells.number("power_avg_w", watts(f, &PowerRange::avg));
  cells.number("power_max_w", watts(f, &PowerRange::max));
  cells.number("board_power_total_w",
               f.power ? std::optional(f.power->boards_total.in_w()) : std::nullopt);
  cells.number("energy_j_per_sample",
               f.power ? std::optional(f.power->energy_per_sample.in_j()) : std::nullopt);
  for (const char* basis : {"measured", "transferred", "spec", "guessed", "unknown"})
    cells.number(std::string("basis_") + basis, share_on(f, basis));
  cells.text("by_class_s_json", parts_json(f.by_class));
  cells.text("by_cause_s_json", parts_json(f.by_cause));
  Json memory = Json::object();
  for (const auto& [name, bytes] : f.memory.by_class) memory[name] = bytes.in_bytes();
  cells.text("memory_by_class_bytes_json", json_text(memory, -1));
  cells.text("assumptions_json", lines_json(f.assumptions));
  cells.text("warnings_json", lines_json(f.warnings));
}

void list_latency(Cells& cells, const std::string& name, const ServedLatency& l, bool is_reported) {
  const std::pair<const char*, const ServedFigure*> figures[] = {
      {"_mean", &l.mean}, {"_p50", &l.p50}, {"_p90", &l.p90}, {"_p99", &l.p99}};
  for (const auto& [statistic, figure] : figures)
    cells.interval(name + statistic, "_ms",
                   is_reported ? std::optional(figure->interval) : std::nullopt);
}

void list_serving(Cells& cells, const ServeQuestion& q, const ServingReport& a) {
  const auto reported = [&a](double value) { return a.fits ? std::optional(value) : std::nullopt; };
  cells.text("used_network", a.network);
  cells.text("used_gpu", a.gpu);
  cells.text("used_machine", a.machine);
  cells.text("used_engine", a.engine);
  cells.whole("used_gpus", a.gpus);
  cells.whole("replicas", a.replicas);
  cells.whole("used_tp", a.tensor);
  cells.whole("used_pp", a.pipeline);
  cells.whole("used_ep", a.experts);
  cells.whole("used_dp", a.data);
  cells.number("found_rate_per_s", q.found_rate);
  list_latency(cells, "ttft", a.ttft_ms, a.fits);
  list_latency(cells, "tpot", a.tpot_ms, a.fits);
  list_latency(cells, "itl", a.itl_ms, a.fits);
  list_latency(cells, "e2e", a.e2e_ms, a.fits);
  list_latency(cells, "queue", a.queue_ms, a.fits);
  cells.number("frontend_ms", reported(a.frontend_ms));
  cells.number("requests_per_s", reported(a.requests_per_s));
  cells.number("tokens_per_s", reported(a.tokens_per_s));
  cells.number("tokens_per_s_per_gpu", reported(a.tokens_per_s_per_gpu));
  cells.number("tokens_per_s_per_user", reported(a.tokens_per_s_per_user));
  cells.whole("kv_tokens", a.replica_cache_tokens);
  cells.whole("fits", a.fits ? 1 : 0);
  cells.text("change_to_fit", a.change);
  cells.number("weights_bytes", a.memory.weights.in_bytes());
  cells.number("kv_cache_bytes", a.memory.cache.in_bytes());
  cells.number("board_bytes", a.memory.board.in_bytes());
  cells.whole("turned_away", static_cast<std::int64_t>(a.turned_away));
  cells.whole("preemptions", static_cast<std::int64_t>(a.preemptions));
  cells.number("recomputed_share", reported(a.recomputed_share));
  cells.number("kv_use", reported(a.cache_use));
  cells.number("utilization", reported(a.utilization));
  cells.number("model_flops_utilization", reported(a.mfu));
  cells.number("power_idle_w", reported(a.idle_power_w));
  cells.number("power_avg_w", reported(a.power_w));
  cells.number("energy_j_per_token", reported(a.energy_j_per_token));
  cells.number("cost_usd_per_million_tokens", a.fits ? cost_per_million(q, a) : std::nullopt);
  cells.text("limited_by", a.limited_by);
  cells.number("step_log_sd", reported(a.log_sd));
  cells.number("basis_unknown", reported(a.guessed_share));
  Json shares = Json::object();
  for (const auto& [part, share] : a.shares) shares[part] = share;
  cells.text("share_by_class_json", json_text(shares, -1));
  cells.text("assumptions_json", lines_json(a.assumptions));
}

}  // namespace

std::vector<Column> prediction_columns() {
  std::vector<Column> columns;
  Cells cells(columns);
  list_prediction(cells, Forecast{});
  return columns;
}

void append_prediction(const Forecast& forecast, std::vector<Value>& values) {
  Cells cells(values);
  list_prediction(cells, forecast);
}

std::vector<Column> serving_columns() {
  std::vector<Column> columns;
  Cells cells(columns);
  list_serving(cells, ServeQuestion{}, ServingReport{});
  return columns;
}

void append_serving(const ServeQuestion& question, const ServingReport& report,
                    std::vector<Value>& values) {
  Cells cells(values);
  list_serving(cells, question, report);
}

std::string inputs_json(const std::vector<InputRecord>& inputs) {
  Json list = Json::array();
  for (const InputRecord& input : inputs)
    list.push_back({{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  return json_text(list, -1);
}

}  // namespace tracecast
