#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "hwspecs/library.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/input.hpp"
#include "sim/job/many_gpus.hpp"
#include "sim/step/step_floor.hpp"
#include "tools/show/network_summary.hpp"
#include "tools/validate/network_folder.hpp"
#include "tools/validate/published_cluster.hpp"
#include "tools/validate/published_row.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// The loader that a front end's name, such as "TensorFlow (Keras)", is the id of; empty: none.
std::string find_loader_in(const std::string& name, const SpecLibrary& specs) {
  const std::size_t open = name.find('('), close = name.find(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return {};
  const std::string word = to_lower(name.substr(open + 1, close - open - 1));
  const auto ids = specs.input_pipeline_ids();
  return std::find(ids.begin(), ids.end(), word) == ids.end() ? std::string() : word;
}

/// Our memory of a step errs by some percent; a board that lacks more than this cannot have run it.
constexpr double kMemoryMargin = 1.1;
/// Boards run above the boost clock of their data sheet while they are cool. Guess: by this at
/// most.
constexpr double kClockMargin = 1.15;

/// What a board can do with a step at most, by its data sheet.
struct Reach {
  double arithmetic_rate = 0, kernel_rate = 0;  ///< samples per second of all GPUs
  bool fits = true;

  [[nodiscard]] std::string fault_of(double samples_per_s) const {
    if (samples_per_s > arithmetic_rate * kClockMargin)
      return "faster than the cheapest algorithms at the board's peak arithmetic";
    if (samples_per_s > kernel_rate * kClockMargin)
      return "faster than the framework's kernels one by one at the board's peaks";
    return fits ? "" : "needs more than the board's memory by over 10 %";
  }
};

Reach reach_of(const ResolvedJob& job, const Prediction& one_gpu, std::int64_t gpus) {
  const StepFloor floor = step_floor(*one_gpu.priced.lowered, job.gpu);
  const auto samples = static_cast<double>(job.options.batch * gpus);
  const MemoryPlan& memory = one_gpu.memory;
  return {.arithmetic_rate = samples / floor.arithmetic.in_s(),
          .kernel_rate = samples / floor.kernels.in_s(),
          .fits = memory.needed / memory.capacity <= kMemoryMargin};
}

/// Columns of figures, in the order in which a row is asked for one: the first that is not empty.
struct FigureColumn {
  std::string_view name;
  bool is_ms;  ///< of a batch; else samples per second of all GPUs
};
constexpr std::array<FigureColumn, 4> kFigureColumns = {{{"single_stream_p90_ms", true},
                                                         {"latency_ms", true},
                                                         {"samples_per_s", false},
                                                         {"value", true}}};
/// Of tables whose `value` is of the unit beside it: "ms" of a batch, "samples/s" else.
constexpr std::string_view kFigureOfUnit = "value";

/// Rows of whole networks: samples per second, or the milliseconds of a batch. What columns do not
/// say the source's record does (hwspecs/published). A configuration that stands in several rows is
/// predicted once.
class NetworkTable final : public RowPredictor {
 public:
  NetworkTable(const CsvReader& reader, const Hardware& hardware)
      : hardware_(hardware),
        records_(hardware.specs(), reader),
        names_networks_(reader.find_column("network_as_published") &&
                        reader.find_column("image_size")) {
    for (const FigureColumn& figure : kFigureColumns) {
      if (!reader.find_column(figure.name)) continue;
      if (first_ == nullptr) first_ = &figure;
    }
  }
  std::string_view table() const override { return "whole networks"; }
  std::string_view unit() const override {
    return has_figures() || first_->name == kFigureOfUnit ? "samples_per_s_or_ms"
           : first_->is_ms                                ? "ms"
                                                          : "samples_per_s";
  }
  std::string_view metric() const override { return first_->name; }
  /// A latency beside a rate is the same figure again; of several latencies each row has one.
  bool has_figures() const override { return first_->name == "single_stream_p90_ms"; }
  bool honors(std::string_view) const override { return true; }
  bool use_networks(const std::filesystem::path& folder) override {
    if (!names_networks_) return false;
    files_.emplace(folder);
    return true;
  }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const PublishedProgram program = records_.program_of(reader);
    if (!program.unpredicted.empty()) return skip(program.unpredicted);
    const FigureColumn& figure = figure_of(row);
    const double measured = row.positive(figure.name);
    const auto stated = [&row](std::string_view column, const std::string& otherwise) {
      const std::string_view text = row.text_or_empty(column);
      return text.empty() ? otherwise : std::string(text);
    };
    const char* const batch_column = row.text_or_empty("batch").empty() ? "batch_per_gpu" : "batch";
    const std::int64_t batch = row.text_or_empty(batch_column).empty() && program.batch
                                   ? *program.batch
                                   : row.integer(batch_column, 1, 1'000'000);
    const bool in_ms = figure.name == kFigureOfUnit ? row.text("unit") == "ms" : figure.is_ms;
    const std::int64_t gpus = reader.find_column("gpus") ? row.integer("gpus", 1) : 1;
    const std::string phase_word = stated("phase", program.phase);
    const auto phase = find_phase(to_lower(phase_word));
    const auto precision = find_precision(
        program.precision.empty() ? to_lower(row.text("precision")) : program.precision);
    if (!phase) return skip("phase " + phase_word + " is not known");
    if (!precision)
      return skip("precision " + std::string(row.text("precision")) + " is not known");
    PlacedJob job;
    job.network = program.network.empty() ? stated("network", "") : program.network;
    if (job.network.empty()) job.network = stated("network_as_published", "");
    job.gpu = program.gpu.empty() ? row.gpu() : program.gpu;
    if (job.gpu.empty()) return skip("GPU " + stated("gpu_as_published", "") + " has no spec");
    job.batch = batch;
    job.phase = to_string(*phase);
    job.board.power_limit_w = program.power_limit_w;
    job.software.framework =
        program.framework.empty() ? to_lower(stated("framework", "")) : program.framework;
    job.software.xla = row.text_or_empty("xla") == "yes";  // unknown: a log that mixes both
    job.software.version = row.text_or_empty("framework_version");
    if (program.cudnn_benchmark) job.software.cudnn_benchmark = program.cudnn_benchmark;
    job.software.channels_last = program.channels_last;
    job.software.attention = program.attention;
    job.software.program = program.host;
    job.software.cuda_graphs = program.cuda_graphs.value_or(false);
    job.seq_len = program.seq_len;
    // What a row leaves open is not today's usual but this table's: momentum.
    job.optimizer =
        *phase == Phase::Train && !program.optimizer.empty() ? program.optimizer : "momentum";
    if (job.software.version.empty()) job.software.version = program.version;
    const std::string_view notes = row.text_or_empty("notes");
    add_cudnn_of(job.software.version, {notes});
    // Batches that the benchmark keeps in host memory are copied in every step.
    const bool from_host = program.data == "memory";
    job.data = program.data.empty() ? "synthetic" : program.data;
    if (row.text_or_empty("data") == "real") {
      job.data = "real";
      job.pipeline = program.pipeline;
      if (const std::string cpu = find_cpu_in(notes, hardware_.cpus()); !cpu.empty()) {
        job.host_cpu = "2x" + cpu;  // servers with data-centre GPUs have two sockets
      }
    }
    job.precision = program.precision.empty() ? to_lower(row.text("precision")) : program.precision;

    const auto frameworks = hardware_.specs().framework_ids();
    if (std::find(frameworks.begin(), frameworks.end(), job.software.framework) ==
        frameworks.end()) {
      return skip("framework " + job.software.framework + " has no profile");
    }
    if (const std::string unasked = read_conditions(row, hardware_.specs(), job); !unasked.empty())
      return skip(unasked);
    const std::string date(row.text_or_empty("date"));
    job.software.date = date;
    const std::string name(row.text_or_empty("framework_name"));
    if (from_host) job.pipeline = find_loader_in(name, hardware_.specs());
    add_cudnn_of(job.software.version, {name});
    const std::optional<std::string> file =
        files_ ? files_->find(row.text("network_as_published"), row.text("image_size"))
               : std::nullopt;
    if (file) {
      job.network = *file;
    } else {
      job.network = meant_network(job.network, uncompiled(job.software, hardware_));
      const ZooEntry* entry = find_network(job.network);
      if (entry == nullptr) return skip("network " + job.network + " is not in the zoo");
      check_sizes_apply(*entry, job.image_size, job.seq_len);
    }
    SeveralGpus several;
    if (gpus > 1) {
      several.cluster = {.gpu = job.gpu,
                         .gpus = gpus,
                         .nodes = row.text_or_empty("nodes").empty() ? 1 : row.integer("nodes", 1),
                         .description = std::string(row.text_or_empty("interconnect")) + "; " +
                                        name + "; " +
                                        std::string(row.text_or_empty("framework_version")) + "; " +
                                        std::string(notes)};
      const StrategyProfile* reported =
          hardware_.specs().find_strategy_in(name + "; " + std::string(notes));
      if (reported == nullptr)
        reported = hardware_.specs().find_strategy_in(row.text_or_empty("framework_version"));
      if (reported != nullptr) several.options.strategy = reported->id;
    }
    RowResult result = report(job, several, date, measured, in_ms);
    result.metric = figure.name;
    result.from_file = file.has_value();
    return result;
  }

 private:
  /// The figure of the row; the table's first where the row has none, which is said when it is
  /// read.
  [[nodiscard]] const FigureColumn& figure_of(const RowFields& row) const {
    for (const FigureColumn& figure : kFigureColumns) {
      if (!row.text_or_empty(figure.name).empty()) return figure;
    }
    return *first_;
  }

  /// What a row of several GPUs was measured on.
  struct SeveralGpus {
    PublishedCluster cluster;
    DataParallel options;
  };

  RowResult report(PlacedJob& options, const SeveralGpus& several, const std::string& date,
                   double measured, bool in_ms) {
    SoftwareDefaults defaults;
    const std::string month =
        date.empty() ? month_of_container(options.software.version).value_or("") : date;
    const FrameworkProfile framework = uncompiled(options.software, hardware_);
    try {
      defaults = hardware_.specs().defaults_of(framework,
                                               {.version = options.software.version, .date = month},
                                               hardware_.gpus().find(options.gpu));
    } catch (const InputError&) {
      return skip("GPU " + options.gpu + " has no spec");
    }
    const std::string key =
        options.network + '|' + options.gpu + '|' + options.software.framework +
        (options.software.xla ? "+xla|" : "|") + options.precision + '|' + options.phase + '|' +
        options.data + '|' + options.optimizer +
        (options.software.cudnn_benchmark.value_or(false) ? "|tried|" : "|") +
        (options.software.channels_last.value_or(false) ? "last|" : "|") +
        (options.software.cuda_graphs ? "captured|" : "|") + options.software.attention + '|' +
        fmt::format("{}|", fmt::join(defaults.stepwise_attention, ",")) +
        (defaults.chooses_image_layout ? "laid|" : "|") + std::to_string(options.batch) + 'x' +
        std::to_string(options.image_size.value_or(0)) + 'x' +
        std::to_string(options.seq_len.value_or(0)) + 'x' +
        std::to_string(options.board.power_limit_w.value_or(0)) + '|' +
        std::to_string(defaults.cudnn_version) + '|' + month +
        (defaults.fp32_runs_as_tf32 ? "|tf32" : "|") +
        (defaults.tf32_spares_gemms ? "|spared|" : "|") + framework.id + '|' + options.host_cpu +
        '|' + (defaults.fuses_gemm_bias ? "bias|" : "|") + (defaults.early_gemms ? "early|" : "|") +
        (defaults.early_attention ? "warps|" : "|") +
        (options.data == "real" && options.pipeline.empty()
             ? hardware_.specs()
                   .input_pipeline_of(options.software.framework, options.software.version)
                   .id
             : options.pipeline) +
        key_of(several);
    auto known = reports_.find(key);
    if (known == reports_.end()) known = reports_.emplace(key, predict_job(options, several)).first;
    RowResult result = known->second.row;
    result.measured = measured;
    if (!result.skipped.empty()) return result;
    const double samples =
        static_cast<double>(options.batch) * static_cast<double>(several.cluster.gpus);
    result.out_of_reach = known->second.reach.fault_of(in_ms ? samples * 1e3 / measured : measured);
    if (in_ms) {
      const Interval rate = result.predicted;
      result.predicted = {samples * 1e3 / rate.value, samples * 1e3 / rate.high,
                          samples * 1e3 / rate.low};
    }
    return result;
  }

  [[nodiscard]] std::string key_of(const SeveralGpus& several) const {
    const PublishedCluster& row = several.cluster;
    if (row.gpus == 1) return "";
    std::string key = '|' + std::to_string(row.gpus) + '|' + std::to_string(row.nodes) + '|' +
                      several.options.strategy;
    try {
      const ClusterSpec cluster = read_published_cluster(row, hardware_);
      key += '|' + cluster.groups.front().machine + '|' + cluster.network.link;
    } catch (const InputError& error) {
      key += '|' + std::string(error.what());
    }
    return key;
  }

  struct Report {
    RowResult row;
    Reach reach;
  };

  Report predict_job(const PlacedJob& options, const SeveralGpus& several) const {
    try {
      if (several.cluster.gpus > 1) return predict_several(options, several);
      const ResolvedJob job = make_job(options, hardware_);
      const Prediction prediction = tracecast::predict(job, hardware_);
      return {.row = {.measured = 0,
                      .predicted = prediction.throughput_samples_per_s,
                      .basis = main_basis(prediction),
                      .skipped = {}},
              .reach = reach_of(job, prediction, 1)};
    } catch (const InputError& error) {
      return {.row = skip(error.what()), .reach = {}};
    }
  }

  Report predict_several(PlacedJob options, const SeveralGpus& several) const {
    const ClusterSpec cluster = read_published_cluster(several.cluster, hardware_);
    const MachineSpec& machine = hardware_.machines().find(cluster.groups.front().machine);
    if (options.data == "real" && options.host_cpu.empty()) {
      options.host_cpu = std::to_string(machine.sockets_of_host()) + 'x' + machine.cpu;
    }
    ResolvedJob job = make_job(options, hardware_);
    const ManyGpus many =
        predict_many(job, hardware_, build_fabric(cluster, hardware_.specs()), several.options);
    return {.row = {.measured = 0,
                    .predicted = many.throughput_samples_per_s,
                    .basis = main_basis(many.one_gpu),
                    .skipped = {}},
            .reach = reach_of(job, many.one_gpu, several.cluster.gpus)};
  }

  const Hardware& hardware_;
  PublishedRows records_;
  bool names_networks_;  ///< by columns network_as_published and image_size
  const FigureColumn* first_ = nullptr;
  std::optional<NetworkFolder> files_{};
  std::map<std::string, Report> reports_;
};

}  // namespace

std::vector<TableKind> network_tables() {
  const auto make = [](const CsvReader& reader,
                       const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
    return std::make_unique<NetworkTable>(reader, hardware);
  };
  return {{.name = "whole networks (core.csv, timm.csv)",
           .required = {"gpu", "gpus", "framework", "precision", "network", "phase",
                        "batch_per_gpu", "samples_per_s"},
           .make = make},
          {.name = "whole networks on one GPU (paddleclas.csv, aitemplate.csv)",
           .required = {"gpu", "framework", "precision", "network", "phase", "batch_per_gpu",
                        "samples_per_s"},
           .make = make},
          {.name = "latencies of whole networks (trt_bert.csv)",
           .required = {"gpu", "precision", "network", "batch_per_gpu", "latency_ms"},
           .make = make},
          {.name = "whole networks of a published source (vision_misc.csv)",
           .required = {"gpu", "precision", "network", "network_as_published", "batch_per_gpu",
                        "samples_per_s"},
           .make = make},
          {.name = "latencies of BERT by implementation (fastertransformer.csv)",
           .required = {"doc", "implementation", "front_end", "beam_or_sampling", "seq_len",
                        "value", "unit"},
           .make = make},
          {.name = "MLPerf inference (mlperf_inference.csv)",
           .required = {"gpu", "gpus", "precision", "network", "scenario", "samples_per_s",
                        "single_stream_p90_ms"},
           .make = make}};
}

}  // namespace tracecast
