#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "calibrate/table/framework_era.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/published_row.hpp"
#include "tools/validation.hpp"

namespace tracecast {
namespace {

/// Average board power and GPU utilisation of published runs (components.csv; e2e.csv has the same columns). What a row
/// is follows from its metric; the job from model, GPU, batch and what the notes say of limit, clocks and optimizer.
class ComponentTable final : public RowPredictor {
 public:
  explicit ComponentTable(const Sources& sources) : sources_(sources) {}
  std::string_view table() const override { return "published power and utilisation"; }
  std::string_view unit() const override { return "w_or_share"; }
  std::string_view convention() const override {
    return "Power in W; utilisation as a share of time, its errors in points. A data set that the "
           "notes name is loaded on a host of the GPU's years; without one, data are on the GPU "
           "already. One of several GPUs "
           "is predicted as one alone. An optimizer we lack counts as adam; a batch not stated is "
           "the largest power of two that fits (utilisation only).";
  }

  RowAnswer predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const std::string_view metric = row.text("metric"), unit = row.text("unit");
    const bool is_power = is_board_power(metric, unit);
    if (!is_power && !is_gpu_utilization(metric, unit)) {
      return skip("metric " + std::string(metric) + " is not predicted from this table");
    }
    const auto value = parse_double(row.text("value"));
    if (!value) return skip("the value is a text: " + std::string(row.text("value")));
    const PublishedJob job = read_published_job(row, sources_.gpus);
    if (!job.unknown.empty()) return skip(job.unknown);
    if (is_power && job.options.batch == 0) return skip("batch not stated");
    RowAnswer result = is_power ? power(job) : utilization(job);
    result.measured = is_power ? *value : *value / 100;
    return result;
  }

 private:
  struct Figures {
    double power_w = 0, utilization = 0, log_sd = 0;
    std::string_view basis{};
    std::string error;
  };

  RowAnswer power(const PublishedJob& job) {
    const Figures& f = figures(job.options);
    if (!f.error.empty()) return skip(f.error);
    return {.measured = 0,
            .predicted = interval90(f.power_w, sources_.cost.power.log_sd),
            .basis = f.basis,
            .skipped = {}};
  }

  RowAnswer utilization(const PublishedJob& job) {
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
  const Figures& figures(const JobOptions& o) {
    const auto text = [](const std::optional<double>& value) {
      return value ? std::to_string(*value) : std::string();
    };
    const std::string key = o.network + '|' + o.gpu + '|' + o.framework + '|' + o.precision + '|' +
                            o.optimizer + '|' + o.data + '|' + std::to_string(o.batch) + '|' +
                            text(o.power_limit_w) + '|' + text(o.clock_mhz) + '|' +
                            text(o.memory_clock_mhz);
    const auto known = figures_.find(key);
    if (known != figures_.end()) return known->second;
    return figures_.emplace(key, o.batch > 0 ? predict_job(o) : predict_largest(o)).first->second;
  }

  Figures predict_job(const JobOptions& options) const {
    try {
      const Job job = make_job(options, sources_);
      const Prediction p = tracecast::predict(job, sources_);
      return {.power_w = p.power.avg.in_w(),
              .utilization = p.gpu_utilization.avg,
              .log_sd = p.log_sd,
              .basis = main_basis(p),
              .error = {}};
    } catch (const InputError& error) {
      return {.power_w = 0, .utilization = 0, .log_sd = 0, .basis = {}, .error = error.what()};
    }
  }

  Figures predict_largest(JobOptions options) const {
    for (options.batch = 1024; options.batch > 1; options.batch /= 2) {
      try {
        if (plan_memory(make_job(options, sources_), sources_).fits) break;
      } catch (const InputError& error) {
        return {.power_w = 0, .utilization = 0, .log_sd = 0, .basis = {}, .error = error.what()};
      }
    }
    return predict_job(options);
  }

  const Sources& sources_;
  std::map<std::string, Figures> figures_;
};

}  // namespace

std::vector<TableKind> component_tables() {
  return {{.name = "power and utilisation (components.csv)",
           .required = {"gpu", "gpu_count", "framework", "precision", "model", "batch_per_gpu",
                        "metric", "value", "unit", "notes"},
           .make = [](const CsvReader&, const Sources& sources) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<ComponentTable>(sources);
           }}};
}

}  // namespace tracecast
