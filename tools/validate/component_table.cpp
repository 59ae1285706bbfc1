#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/input.hpp"
#include "tools/show/network_summary.hpp"
#include "tools/validate/published_row.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// Samples per second on one GPU, average board power and GPU utilisation of published runs
/// (e2e.csv, components.csv). What a row is follows from its metric; the job from model, GPU, batch
/// and what the notes say of limit, clocks and optimizer.
class ComponentTable final : public RowPredictor {
 public:
  ComponentTable(const CsvReader& reader, const Hardware& hardware)
      : hardware_(hardware), records_(hardware.specs(), reader) {}
  std::string_view table() const override { return "published runs"; }
  std::string_view unit() const override { return "samples_per_s_w_or_share"; }
  std::string_view convention() const override {
    return "Samples per second on one GPU, real data read and decoded; "
           "power in W; utilisation as a share of time, its errors in points. A data set that the "
           "notes name is loaded on a host of the GPU's years; without one, data are on the GPU "
           "already. One of several GPUs "
           "is predicted as one alone. An optimizer we lack counts as adam; a batch not stated is "
           "the largest power of two that fits (utilisation only).";
  }

  bool honors(std::string_view) const override { return true; }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const std::string_view metric = row.text("metric"), unit = row.text("unit");
    const bool is_power = is_board_power(metric, unit);
    const bool is_token_rate = metric == "throughput" && unit == "tokens/s";
    const bool is_rate = is_token_rate || is_sample_rate(metric, unit);
    if (!is_rate && !is_power && !is_gpu_utilization(metric, unit)) {
      return skip("metric " + std::string(metric) + " in " + std::string(unit) +
                  " is not predicted from this table");
    }
    const auto value = parse_double(row.text("value"));
    if (!value) return skip("the value is a text: " + std::string(row.text("value")));
    const PublishedProgram program = records_.program_of(reader);
    PublishedJob job = read_published_job(row, hardware_.specs(), program);
    if (!job.unknown.empty()) return skip(job.unknown);
    if (is_token_rate && !find_network(job.options.network)->rates_count_tokens) {
      return skip("metric " + std::string(metric) + " in tokens/s is not predicted of it");
    }
    if (const std::string unasked = read_conditions(row, hardware_.specs(), job.options);
        !unasked.empty())
      return skip(unasked);
    check_sizes_apply(*find_network(job.options.network), job.options.image_size,
                      job.options.seq_len);
    job.options.software.date = row.text_or_empty("date");
    job.options.network =
        meant_network(job.options.network, uncompiled(job.options.software, hardware_));
    if ((is_rate || is_power) && job.options.batch == 0) return skip("batch not stated");
    if (is_rate) {
      if (row.text_or_empty("gpu_count") != "1") return skip("throughput of several GPUs");
      read_input(row, program, job.options);
    }
    RowResult result = is_rate ? rate(job) : is_power ? power(job) : utilization(job);
    result.measured = is_rate || is_power ? *value : *value / 100;
    return result;
  }

 private:
  struct Figures {
    Interval samples_per_s;
    double power_w = 0, most_w = 0, utilization = 0, log_sd = 0;
    std::string_view basis{};
    std::string error;
  };

  static bool is_sample_rate(std::string_view metric, std::string_view unit) {
    return metric == "throughput" && (unit == "images/s" || unit == "samples/s" ||
                                      unit == "sequences/s" || unit == "sentences/s");
  }

  /// "real": read and decoded on a host of the GPU's years, or with the CPU that the notes name, as
  /// rows of core.csv are.
  void read_input(const RowFields& row, const PublishedProgram& program, PlacedJob& job) const {
    job.data = program.data.empty() ? PlacedJob{}.data : program.data;
    if (!program.data.empty() || row.text_or_empty("dataset") != "real") return;
    job.data = "real";
    job.pipeline = program.pipeline;
    if (const std::string cpu = find_cpu_in(row.text_or_empty("notes"), hardware_.cpus());
        !cpu.empty()) {
      job.host_cpu = "2x" + cpu;  // servers with data-centre GPUs have two sockets
    }
  }

  RowResult rate(const PublishedJob& job) {
    const Figures& f = figures(job.options);
    if (!f.error.empty()) return skip(f.error);
    const ZooEntry& entry = *find_network(job.options.network);
    const std::int64_t tokens = job.options.seq_len.value_or(entry.seq_len);
    const double counted = entry.rates_count_tokens ? static_cast<double>(tokens) : 1;
    const Interval& rate = f.samples_per_s;
    return {.measured = 0,
            .predicted = {rate.value * counted, rate.low * counted, rate.high * counted},
            .basis = f.basis,
            .skipped = {}};
  }

  RowResult power(const PublishedJob& job) {
    const Figures& f = figures(job.options);
    if (!f.error.empty()) return skip(f.error);
    Interval watts = interval90(f.power_w, hardware_.cost().power.log_sd);
    watts.high = std::min(watts.high, f.most_w);
    return {.measured = 0, .predicted = watts, .basis = f.basis, .skipped = {}};
  }

  RowResult utilization(const PublishedJob& job) {
    const Figures& f = figures(job.options);
    if (!f.error.empty()) return skip(f.error);
    Interval share = interval90(f.utilization, f.log_sd);
    share.high = std::min(share.high, 1.0);
    return {.measured = 0,
            .predicted = share,
            .basis = f.basis,
            .skipped = {},
            .error_in_points = true};
  }

  /// What the job shows; configurations that stand in several rows are predicted once.
  const Figures& figures(const PlacedJob& o) {
    const auto text = [](const std::optional<double>& value) {
      return value ? std::to_string(*value) : std::string();
    };
    const std::string key =
        o.network + '|' + o.gpu + '|' + o.software.framework + '|' + o.precision + '|' + o.phase +
        '|' + o.software.version + (o.software.xla ? "|xla|" : "|") +
        (o.software.cudnn_benchmark.value_or(false) ? "tried|" : "|") +
        (o.software.channels_last.value_or(false) ? "last|" : "|") + o.software.attention + '|' +
        o.pipeline + '|' + o.software.date + '|' + o.optimizer + '|' + o.data + '|' + o.host_cpu +
        '|' + std::to_string(o.batch) + 'x' + std::to_string(o.seq_len.value_or(0)) + 'x' +
        std::to_string(o.image_size.value_or(0)) + '|' + text(o.board.power_limit_w) + '|' +
        text(o.board.clock_mhz) + '|' + text(o.board.memory_clock_mhz);
    const auto known = figures_.find(key);
    if (known != figures_.end()) return known->second;
    return figures_.emplace(key, o.batch > 0 ? predict_job(o) : predict_largest(o)).first->second;
  }

  static Figures failed(const InputError& error) {
    Figures figures;
    figures.error = error.what();
    return figures;
  }

  Figures predict_job(const PlacedJob& options) const {
    try {
      const ResolvedJob job = make_job(options, hardware_);
      const Prediction p = tracecast::predict(job, hardware_);
      return {.samples_per_s = p.throughput_samples_per_s,
              .power_w = p.power.avg.in_w(),
              .most_w = p.power.holds_limit ? p.power.limit.in_w()
                                            : std::numeric_limits<double>::infinity(),
              .utilization = p.gpu_utilization.avg,
              .log_sd = p.log_sd,
              .basis = main_basis(p),
              .error = {}};
    } catch (const InputError& error) {
      return failed(error);
    }
  }

  Figures predict_largest(PlacedJob options) const {
    for (options.batch = 1024; options.batch > 1; options.batch /= 2) {
      try {
        if (fits_in_memory(make_job(options, hardware_), hardware_)) break;
      } catch (const InputError& error) {
        return failed(error);
      }
    }
    return predict_job(options);
  }

  const Hardware& hardware_;
  PublishedRows records_;
  std::map<std::string, Figures> figures_;
};

}  // namespace

std::vector<TableKind> component_tables() {
  return {{.name = "published runs (e2e.csv, components.csv)",
           .required = {"gpu", "gpu_count", "framework", "precision", "model", "batch_per_gpu",
                        "metric", "value", "unit", "notes"},
           .make = [](const CsvReader& reader,
                      const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<ComponentTable>(reader, hardware);
           }}};
}

}  // namespace tracecast
