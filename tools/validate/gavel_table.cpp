#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/cluster.hpp"
#include "sim/job/many_gpus.hpp"
#include "sim/job/mode/colocation_job.hpp"
#include "sim/sharing/known_rate.hpp"
#include "tools/predict/cluster_options.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// A job on a GPU of the table, predicted once.
struct KnownProgram {
  std::optional<ResolvedJob> job;
  std::optional<Prediction> prediction;
  std::string unknown;  ///< why there is none
};

/// What both tables of data/jobs share: training programs by their ids, on GPUs of machines that
/// are not described.
class GavelJobs {
 public:
  GavelJobs(const CsvReader& table, const Hardware& hardware)
      : hardware_(hardware), records_(hardware.specs(), table) {}

  /// A set may have a program of its own ("lstm_wikitext2_single2019").
  const KnownProgram& find(std::string_view set, std::string_view gpu, std::string_view job,
                           std::int64_t batch, const std::string& machine) {
    std::string id = std::string(job) + '_' + std::string(set);
    if (hardware_.specs().find_job_spec_or_null(id) == nullptr) id = job;
    const std::string key =
        std::string(gpu) + '|' + id + '|' + std::to_string(batch) + '|' + machine;
    const auto known = jobs_.find(key);
    if (known != jobs_.end()) return known->second;
    return jobs_.emplace(key, make(gpu, id, batch, machine)).first->second;
  }
  /// What is known of the program behind a row, and of the machine it ran on.
  [[nodiscard]] PublishedProgram program_of(const CsvReader& row) const {
    return records_.program_of(row);
  }
  [[nodiscard]] const Hardware& hardware() const { return hardware_; }

 private:
  KnownProgram make(std::string_view gpu, std::string_view job, std::int64_t batch,
                    const std::string& machine) const {
    KnownProgram known;
    if (hardware_.specs().find_job_spec_or_null(job) == nullptr) {
      known.unknown = "job " + std::string(job) + " has no description";
      return known;
    }
    PlacedJob options;
    options.network = std::string(kJobPrefix) + std::string(job);
    options.gpu = gpu;
    options.batch = batch;
    options.machine = machine;
    try {
      known.job = make_job(options, hardware_);
      known.prediction = predict_program(*known.job, hardware_);
    } catch (const InputError& error) {
      known.unknown = error.what();
    }
    return known;
  }

  const Hardware& hardware_;
  PublishedRows records_;
  std::map<std::string, KnownProgram> jobs_;
};

/// Training programs alone, on one or several GPUs (jobs/gavel_throughputs.csv).
class GavelThroughputs final : public RowPredictor {
 public:
  GavelThroughputs(const CsvReader& table, const Hardware& hardware) : jobs_(table, hardware) {}
  std::string_view table() const override { return "training programs"; }
  std::string_view unit() const override { return "samples_per_s"; }
  std::string_view convention() const override {
    return "Whole loops: loading, waits and the host's work in a step. The machines are not "
           "described.";
  }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const double measured = row.positive("samples_per_s");
    const auto gpus = row.integer("gpus", 1, 64);
    const PublishedProgram program = jobs_.program_of(reader);
    const KnownProgram& known = jobs_.find(row.text("set"), row.text("gpu"), row.text("job"),
                                           row.integer("batch", 1, 1'000'000), program.machine);
    if (!known.prediction) return skip(known.unknown);
    RowResult report{.measured = measured,
                     .predicted = known.prediction->throughput_samples_per_s,
                     .basis = main_basis(*known.prediction),
                     .skipped = {}};
    if (gpus == 1) return report;
    try {
      report.predicted = on_several(row, program, *known.job, gpus);
    } catch (const InputError& error) {
      return skip(error.what());
    }
    return report;
  }

 private:
  /// Over one machine, or with one GPU in each.
  const Interval& on_several(const RowFields& row, const PublishedProgram& program,
                             const ResolvedJob& job, std::int64_t gpus) {
    const bool apart = row.text("placement") == "unconsolidated";
    const std::string key = std::string(row.text("gpu")) + '|' + std::string(row.text("job")) +
                            '|' + std::string(row.text("batch")) + '|' + std::to_string(gpus) +
                            (apart ? "|apart|" + program.machine : "|packed|" + program.box);
    const auto known = several_.find(key);
    if (known != several_.end()) return known->second;
    Place options;
    options.gpus = gpus;
    options.machine = apart ? program.machine : program.box;
    if (apart) options.nodes = gpus;
    Cluster cluster = make_cluster(options, job.gpu.id, jobs_.hardware());
    ResolvedJob own = job;
    const ManyGpus many =
        predict_many(own, jobs_.hardware(), std::move(cluster.fabric), DataParallel{});
    return several_.emplace(key, many.throughput_samples_per_s).first->second;
  }

  GavelJobs jobs_;
  std::map<std::string, Interval> several_;
};

/// The shortest steps that a set has of every program and batch alone, on any GPU.
class FastestSteps {
 public:
  /// Reads the whole table. Throws InputError.
  explicit FastestSteps(const std::filesystem::path& table) {
    CsvReader reader(table);
    while (reader.next()) {
      const RowFields row(reader);
      if (row.text("status") == "failed") continue;
      for (const char which : {'a', 'b'}) {
        const auto [known, first] = steps_.emplace(key(row, which), step(row, which));
        if (!first) known->second = min(known->second, step(row, which));
      }
    }
  }
  /// Of a job of a row of the table, 'a' or 'b'.
  [[nodiscard]] KnownSteps find(const RowFields& row, char which) const {
    const Seconds here = step(row, which);
    const auto known = steps_.find(key(row, which));  // a pair that failed may have the only one
    return {.here = here, .fastest = known == steps_.end() ? here : min(known->second, here)};
  }

 private:
  static std::string key(const RowFields& row, char which) {
    return std::string(row.text("set")) + '|' + std::string(row.text(std::string("job_") + which)) +
           '|' + std::string(row.text(std::string("batch_") + which));
  }
  static Seconds step(const RowFields& row, char which) {
    return Seconds(1 / row.positive(std::string("alone_") + which));
  }

  std::map<std::string, Seconds> steps_;
};

/// Two training programs on one GPU (jobs/gavel_colocation.csv): the sum of their rates, each over
/// its rate alone.
class GavelColocation final : public RowPredictor {
 public:
  GavelColocation(const CsvReader& table, const Hardware& hardware)
      : jobs_(table, hardware), fastest_(table.path()) {}
  std::string_view table() const override { return "two training programs on one GPU"; }
  std::string_view unit() const override { return "normalized_sum"; }
  std::string_view convention() const override {
    return "a / a alone + b / b alone, errors as differences. Rates alone are given; what is left "
           "of "
           "them is predicted.";
  }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const std::string_view set = row.text("set"), gpu = row.text("gpu");
    const PublishedProgram program = jobs_.program_of(reader);
    const KnownProgram& a = jobs_.find(set, gpu, row.text("job_a"),
                                       row.integer("batch_a", 1, 1'000'000), program.machine);
    const KnownProgram& b = jobs_.find(set, gpu, row.text("job_b"),
                                       row.integer("batch_b", 1, 1'000'000), program.machine);
    if (!a.prediction) return skip(a.unknown);
    if (!b.prediction) return skip(b.unknown);
    const Colocation& shared = together(row, a, b, program.mps.value_or(false));
    if (row.text("status") == "failed") {
      return skip(shared.fits ? "did not run; predicted to fit"
                              : "did not run; predicted not to fit");
    }
    if (!shared.fits) return skip("predicted not to fit, and it ran");
    const double measured = row.positive("steps_per_s_a") / row.positive("alone_a") +
                            row.positive("steps_per_s_b") / row.positive("alone_b");
    return {.measured = measured,
            .predicted = interval90(shared.normalized_sum(), 0.15),
            .basis = main_basis(*a.prediction),
            .skipped = {},
            .error_in_points = true};
  }

 private:
  const Colocation& together(const RowFields& row, const KnownProgram& a, const KnownProgram& b,
                             bool mps) {
    const std::string key = std::string(row.text("set")) + '|' + std::string(row.text("gpu")) +
                            '|' + std::string(row.text("job_a")) + '|' +
                            std::string(row.text("batch_a")) + '|' +
                            std::string(row.text("job_b")) + '|' +
                            std::string(row.text("batch_b")) + (mps ? "|mps" : "");
    const auto known = shared_.find(key);
    if (known != shared_.end()) return known->second;
    const ResolvedJob& loads = a.job->input ? *a.job : *b.job;
    const SharedBox box = shared_box(loads, jobs_.hardware(), mps);
    const ColocatedJob& first = measured_alone(row, a, 'a', box);
    const ColocatedJob& second = measured_alone(row, b, 'b', box);
    const ColocatedJob pair[] = {first, second};
    const Seconds alone[] = {known_step_alone(first, box), known_step_alone(second, box)};
    return shared_.emplace(key, colocate(pair, box, alone)).first->second;
  }

  /// Most pairs of a program have it in a box like the last one.
  Seconds known_step_alone(const ColocatedJob& job, const SharedBox& box) {
    const HostThreads host = box.host.value_or(HostThreads{});
    const BoxedJob key{&job,
                       box.mps,
                       box.host.has_value(),
                       host.cores,
                       host.threads,
                       host.core_speed.in_si(),
                       host.second_thread_gain,
                       box.sharing.time_slice.in_s(),
                       box.sharing.context_switch.in_s(),
                       box.sharing.idle_hold.in_s()};
    const auto known = steps_alone_.find(key);
    if (known != steps_alone_.end()) return known->second;
    return steps_alone_.emplace(key, step_alone(job, box)).first->second;
  }

  /// The job at the rate that it was measured with alone.
  const ColocatedJob& measured_alone(const RowFields& row, const KnownProgram& known, char which,
                                     const SharedBox& box) {
    const std::string rate_name = std::string("alone_") + which;
    const std::string key = std::string(row.text("set")) + '|' + std::string(row.text("gpu")) +
                            '|' + std::string(row.text(std::string("job_") + which)) + '|' +
                            std::string(row.text(std::string("batch_") + which)) + '|' +
                            std::string(row.text(rate_name)) + (box.mps ? "|mps" : "");
    const auto found = alone_.find(key);
    if (found != alone_.end()) return found->second;
    return alone_
        .emplace(key, with_rate_alone(colocated(*known.job, *known.prediction), box,
                                      fastest_.find(row, which)))
        .first->second;
  }

  /// One of `alone_`, and all of a box that decides how fast a job runs in it.
  using BoxedJob =
      std::tuple<const ColocatedJob*, bool, bool, int, int, double, double, double, double, double>;

  GavelJobs jobs_;
  FastestSteps fastest_;
  std::map<std::string, Colocation> shared_;
  std::map<std::string, ColocatedJob> alone_;
  std::map<BoxedJob, Seconds> steps_alone_;
};

template <class Table>
std::unique_ptr<RowPredictor> make_table(const CsvReader& table, const Hardware& hardware) {
  return std::make_unique<Table>(table, hardware);
}

}  // namespace

std::vector<TableKind> gavel_tables() {
  return {{.name = "training programs (gavel_throughputs.csv)",
           .required = {"set", "gpu", "job", "batch", "gpus", "placement", "samples_per_s"},
           .make = make_table<GavelThroughputs>},
          {.name = "two training programs on one GPU (gavel_colocation.csv)",
           .required = {"set", "gpu", "job_a", "batch_a", "job_b", "batch_b", "steps_per_s_a",
                        "steps_per_s_b", "alone_a", "alone_b", "status"},
           .make = make_table<GavelColocation>}};
}

}  // namespace tracecast
