#include "tools/plan/schedule_jobs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "calibrate/table/csv_reader.hpp"
#include "calibrate/table/row_fields.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/base/text.hpp"
#include "tools/command/only_rows.hpp"

namespace tracecast {
namespace {

using plan::JobKind;
using plan::JobMix;
using plan::KindId;
using plan::QueuedJob;
using plan::Time;
using Program = RateTables::Program;

constexpr std::int64_t kMostGpus = 100'000;
constexpr double kLongest = 1e11;  ///< seconds: 3,000 years

/// Seconds not below zero.
double moment(const CsvReader& reader, const RowFields& row, std::string_view name) {
  const std::string_view field = row.text(name);
  const auto value = parse_double(field);
  if (!value || *value < 0 || *value > kLongest) {
    throw InputError(reader.where() + ", " + std::string(name), "\"" + std::string(field) + "\"",
                     "seconds, not below 0");
  }
  return *value;
}

/// Seconds above zero.
double duration(const CsvReader& reader, const RowFields& row, std::string_view name) {
  const double value = row.positive(name);
  if (value > kLongest) {
    throw InputError(reader.where() + ", " + std::string(name),
                     "\"" + std::string(row.text(name)) + "\"",
                     fmt::format("seconds, at most {:g}", kLongest));
  }
  return value;
}

/// The clock must not run over even if all jobs run one after the other where they are slowest.
void check_clock(const JobMix& mix, const std::string& file) {
  constexpr double kMost = 4e12;
  double all_s = mix.jobs.back().submit.in_seconds().in_s();
  for (const QueuedJob& job : mix.jobs) {
    double slowest = 0;
    const auto consider = [&](const std::vector<double>& rates) {
      for (const double rate : rates) {
        if (rate > 0 && (slowest == 0 || rate < slowest)) slowest = rate;
      }
    };
    const JobKind& kind = mix.kinds[job.kind.index];
    consider(kind.rates);
    consider(kind.scattered_rates);
    for (const plan::GangSize& size : kind.sizes) {
      consider(size.rates);
      consider(size.scattered_rates);
    }
    all_s += job.steps / slowest;
  }
  if (!(all_s < kMost)) {
    throw InputError(file, fmt::format("jobs of {:.3g} s one after the other", all_s),
                     fmt::format("less than {:g} s", kMost));
  }
}

/// Seconds of the start of every model on so many GPUs.
class StartCosts {
 public:
  explicit StartCosts(const std::filesystem::path& file) {
    if (file.empty()) return;
    CsvReader reader(file);
    const RowFields row(reader);
    while (reader.next()) {
      costs_[{std::string(row.text("model")),
              static_cast<int>(row.integer("num_gpu", 1, kMostGpus))}] =
          moment(reader, row, "start_s");
    }
  }
  [[nodiscard]] Seconds find(const std::string& model, int gpus, Seconds otherwise) const {
    const auto known = costs_.find({model, gpus});
    return known == costs_.end() ? otherwise : Seconds(known->second);
  }

 private:
  std::map<std::pair<std::string, int>, double> costs_;
};

/// Phases of jobs whose batch changes: the table `job_id, epochs, steps_per_s, phase_s` beside a
/// trace, "x_phases.csv" of "x_jobs.csv".
class Phases {
 public:
  explicit Phases(const std::filesystem::path& jobs) {
    constexpr std::string_view kJobs = "_jobs.csv";
    std::string name = jobs.filename().string();
    if (!name.ends_with(kJobs)) return;
    name.replace(name.size() - kJobs.size(), kJobs.size(), "_phases.csv");
    const std::filesystem::path file = jobs.parent_path() / name;
    if (!std::filesystem::exists(file)) return;
    CsvReader reader(file);
    const RowFields row(reader);
    while (reader.next()) {
      phases_[std::string(row.text("job_id"))].push_back(
          {row.positive("phase_s"), row.positive("epochs"), row.positive("steps_per_s")});
    }
  }
  /// In parts of the job's steps.
  void give(QueuedJob& job) const {
    const auto known = phases_.find(job.name);
    if (known == phases_.end()) return;
    double all = 0;
    for (const plan::JobPhase& phase : known->second) all += phase.steps;
    for (const plan::JobPhase& phase : known->second)
      job.phases.push_back({job.steps * phase.steps / all, phase.epochs, phase.counted});
  }

 private:
  std::map<std::string, std::vector<plan::JobPhase>> phases_;
};

/// What an elastic gang may have.
struct Bounds {
  int least = 0, most = 0;  ///< GPUs; 0: it is not elastic
  double resize_s = 0;
  friend auto operator<=>(const Bounds&, const Bounds&) = default;
};

/// Kinds by what tells them apart.
class Kinds {
 public:
  Kinds(JobMix& mix, const plan::Fleet& fleet, const plan::Rules& rules, const RateTables& tables,
        const RateSource& predicted, const std::filesystem::path& start_costs)
      : mix_(mix),
        fleet_(fleet),
        rules_(rules),
        tables_(tables),
        predicted_(predicted),
        starts_(start_costs) {}

  /// A program that takes `step_s` per step wherever it may run.
  KindId timed(const Program& program, double step_s, const std::string& allowed,
               const std::string& where) {
    return find(program, step_s, allowed, {}, where,
                [&](const std::string&) { return 1 / step_s; });
  }
  /// A program whose rates the tables know or somebody predicts.
  KindId rated(const Program& program, const std::string& allowed, const Bounds& bounds,
               const std::string& where) {
    return find(program, 0, allowed, bounds, where, [&](const std::string& type) {
      std::optional<double> rate = tables_.find(program, type);
      try {
        if (!rate) rate = predicted_(program, type);
      } catch (const InputError& error) {
        throw InputError(where, error);
      }
      if (rate) return *rate;
      if (!tables_.empty() && !tables_.knows_type(type)) {
        throw InputError(where, fmt::format("GPU type {}", type),
                         "one that the throughputs speak of");
      }
      throw InputError(where,
                       fmt::format("{}, batch {}, {} GPUs: no rate on {}", program.model,
                                   program.batch, program.gpus, type),
                       "a row in --throughputs");
    });
  }
  [[nodiscard]] bool knows(const Program& program) const {
    return std::any_of(fleet_.types.begin(), fleet_.types.end(), [&](const plan::GpuType& type) {
      return tables_.find(program, type.id).has_value();
    });
  }
  /// Of a program on a GPU type that the fleet need not have.
  [[nodiscard]] double reference_rate(const Program& program, const std::string& type,
                                      const std::string& where) const {
    std::optional<double> rate = tables_.find(program, type);
    if (!rate) rate = predicted_(program, type);
    if (rate && *rate > 0) return *rate;
    throw InputError(where,
                     fmt::format("{}, batch {}, {} GPUs: no rate on {}", program.model,
                                 program.batch, program.gpus, type),
                     "a row in --throughputs");
  }
  [[nodiscard]] double best_rate(KindId kind) const {
    const std::vector<double>& rates = mix_.kinds[kind.index].rates;
    return *std::max_element(rates.begin(), rates.end());
  }

 private:
  template <class Rate>
  KindId find(const Program& program, double step_s, const std::string& allowed,
              const Bounds& bounds, const std::string& where, Rate rate) {
    const auto key = std::make_tuple(program, step_s, allowed, bounds);
    const auto known = ids_.find(key);
    if (known != ids_.end()) return known->second;
    JobKind kind;
    kind.model = program.model;
    kind.batch = program.global_batch > 0 ? program.global_batch / program.gpus : program.batch;
    kind.gpus = program.gpus;
    kind.start_cost = starts_.find(program.model, program.gpus, rules_.start_cost);
    bool any = false;
    for (const plan::GpuType& type : fleet_.types) {
      kind.rates.push_back(may_use(type.id, allowed) ? rate(type.id) : 0);
      any = any || kind.rates.back() > 0;
    }
    kind.scattered_rates = scattered_rates(program);
    if (!any) {
      throw InputError(where,
                       allowed.empty() ? "a job that runs on no GPU of the fleet"
                                       : fmt::format("GPU types {}", allowed),
                       "a type of the fleet");
    }
    if (bounds.least < bounds.most) add_sizes(program, allowed, bounds, where, kind);
    const KindId id{static_cast<std::uint32_t>(mix_.kinds.size())};
    mix_.kinds.push_back(std::move(kind));
    ids_.emplace(key, id);
    return id;
  }
  /// Sizes within the bounds: the bounds, the stated size halved and doubled, and those that the
  /// tables know. Where they know the program on a type at any size, they alone speak of it there;
  /// a size without a rate anywhere is left out.
  void add_sizes(const Program& program, const std::string& allowed, const Bounds& bounds,
                 const std::string& where, JobKind& kind) const {
    const std::vector<int> measured = tables_.sizes_of(program);
    std::set<int> numbers{bounds.least, bounds.most, program.gpus};
    for (int n = program.gpus; n >= bounds.least; n /= 2) numbers.insert(n);
    for (int n = program.gpus; n <= bounds.most; n *= 2) numbers.insert(n);
    for (const int n : measured) {
      if (n >= bounds.least && n <= bounds.most) numbers.insert(n);
    }
    std::vector<bool> tables_speak;
    for (const plan::GpuType& type : fleet_.types) {
      tables_speak.push_back(std::any_of(measured.begin(), measured.end(), [&](int n) {
        return tables_.find(on(program, n), type.id).has_value();
      }));
    }
    for (const int n : numbers) {
      plan::GangSize size;
      size.gpus = n;
      size.start_cost = starts_.find(program.model, n, rules_.start_cost);
      if (n == program.gpus) {
        size.rates = kind.rates;
        size.scattered_rates = kind.scattered_rates;
      } else {
        size.scattered_rates = scattered_rates(on(program, n));
        for (std::size_t t = 0; t < fleet_.types.size(); ++t) {
          const std::string& type = fleet_.types[t].id;
          std::optional<double> rate;
          if (may_use(type, allowed)) {
            rate = tables_speak[t] ? tables_.find(on(program, n), type)
                                   : predicted_(on(program, n), type);
          }
          size.rates.push_back(rate.value_or(0));
        }
      }
      if (*std::max_element(size.rates.begin(), size.rates.end()) > 0)
        kind.sizes.push_back(std::move(size));
    }
    if (kind.sizes.size() < 2) {
      throw InputError(where,
                       fmt::format("{} on {} to {} GPUs: no rate but on {}", program.model,
                                   bounds.least, bounds.most, program.gpus),
                       "a row in --throughputs for another size");
    }
    kind.resize_cost = Seconds(bounds.resize_s);
  }
  /// Empty where no table speaks of the program in more machines than it needs.
  [[nodiscard]] std::vector<double> scattered_rates(const Program& program) const {
    std::vector<double> rates;
    bool any = false;
    for (const plan::GpuType& type : fleet_.types) {
      rates.push_back(tables_.find_uncertainty(program, type.id).value_or(0));
      any = any || rates.back() > 0;
    }
    return any ? rates : std::vector<double>();
  }
  static Program on(Program program, int gpus) {
    program.gpus = gpus;
    return program;
  }
  /// `allowed`: words joined by a bar; empty: all.
  static bool may_use(const std::string& type, const std::string& allowed) {
    if (allowed.empty()) return true;
    std::istringstream words(allowed);
    for (std::string word; std::getline(words, word, '|');) {
      if (RateTables::means(to_lower(word), type)) return true;
    }
    return false;
  }

  JobMix& mix_;
  const plan::Fleet& fleet_;
  const plan::Rules& rules_;
  const RateTables& tables_;
  const RateSource& predicted_;
  StartCosts starts_;
  std::map<std::tuple<Program, double, std::string, Bounds>, KindId> ids_;
};

/// What a reader of one format needs.
struct Reading {
  const JobFileOptions& options;
  const CsvReader& reader;
  RowFields row;
  Kinds& kinds;
  const std::vector<Program>& drawable;
  Random random;
  Phases phases;
  double unit_gaps = 0;

  /// One of the programs on so many GPUs that the tables know; none: a job without a program.
  [[nodiscard]] Program draw(int gpus) {
    const auto count = static_cast<std::uint64_t>(
        std::count_if(drawable.begin(), drawable.end(),
                      [&](const Program& program) { return program.gpus == gpus; }));
    if (count == 0) return {"", 0, gpus};
    std::uint64_t which = random.below(count);
    return *std::find_if(drawable.begin(), drawable.end(), [&](const Program& program) {
      return program.gpus == gpus && which-- == 0;
    });
  }
};

/// A row as a job; nothing: not a job for GPUs.
using RowReader = std::optional<QueuedJob> (*)(Reading&);

QueuedJob named(const Reading& in, std::string_view column, double submit_s) {
  QueuedJob job;
  const std::string_view name = in.row.text_or_empty(column);
  job.name = name.empty() ? std::to_string(in.reader.line()) : std::string(name);
  job.submit = Time(engine::to_ticks<Time>(Seconds(submit_s)));
  return job;
}

std::optional<QueuedJob> read_muri(Reading& in) {
  QueuedJob job = named(in, "job_id", moment(in.reader, in.row, "submit_s"));
  const Program program{std::string(in.row.text_or_empty("model")),
                        in.reader.find_column("batch") ? in.row.integer("batch", 0) : 0,
                        static_cast<int>(in.row.integer("num_gpu", 1, kMostGpus))};
  job.kind =
      in.kinds.timed(program, duration(in.reader, in.row, "iteration_s"), "", in.reader.where());
  job.steps = in.row.positive("iterations");
  return job;
}

std::optional<QueuedJob> read_gavel(Reading& in) {
  if (!in.options.jobs_per_hour) {
    throw InputError(in.reader.file_name(), "arrivals in units of the mean gap",
                     "--jobs-per-hour R");
  }
  in.unit_gaps += moment(in.reader, in.row, "unit_gap");
  QueuedJob job = named(in, "job_id", 3600 / *in.options.jobs_per_hour * in.unit_gaps);
  const Program program{std::string(in.row.text("model")), in.row.integer("batch", 0),
                        static_cast<int>(in.row.integer("gpus", 1, kMostGpus))};
  job.kind = in.kinds.rated(program, "", {}, in.reader.where());
  job.steps = duration(in.reader, in.row, "v100_s") *
              in.kinds.reference_rate(program, "v100", in.reader.where());
  return job;
}

std::optional<QueuedJob> read_shockwave(Reading& in) {
  QueuedJob job = named(in, "job_id", moment(in.reader, in.row, "arrival_s"));
  const Program program{std::string(in.row.text_or_empty("model")), in.row.integer("batch", 0),
                        static_cast<int>(in.row.integer("gpus", 1, kMostGpus))};
  job.kind = in.kinds.timed(program, 1, "", in.reader.where());
  job.steps = duration(in.reader, in.row, "adaptive_s");
  in.phases.give(job);
  return job;
}

std::optional<QueuedJob> read_openb(Reading& in) {
  const std::int64_t gpus = in.row.integer("num_gpu", 0, kMostGpus);
  const double created = moment(in.reader, in.row, "creation_s");
  const double ran = moment(in.reader, in.row, "deletion_s") - created;
  if (gpus == 0 || ran <= 0) return std::nullopt;
  QueuedJob job = named(in, "pod", created);
  job.kind = in.kinds.timed({"", 0, static_cast<int>(gpus)}, 1,
                            std::string(in.row.text_or_empty("gpu_spec")), in.reader.where());
  job.steps = ran;
  return job;
}

/// `min_gpus` and `max_gpus`, around what the row states; where one is left out it is that.
Bounds bounds_of(const Reading& in, int stated) {
  Bounds bounds{stated, stated, 0};
  const auto has = [&](std::string_view name) { return !in.row.text_or_empty(name).empty(); };
  if (has("min_gpus")) bounds.least = static_cast<int>(in.row.integer("min_gpus", 1, stated));
  if (has("max_gpus"))
    bounds.most = static_cast<int>(in.row.integer("max_gpus", stated, kMostGpus));
  if (has("resize_s")) bounds.resize_s = moment(in.reader, in.row, "resize_s");
  return bounds;
}

/// Columns that are flags of `predict`, for jobs whose rates are predicted.
constexpr std::array kPredictColumns{
    "data",         "pipeline",   "workers",   "cpu_threads", "cpu_quota",
    "host_cpu",     "machine",    "disk",      "nic",         "no_p2p",
    "precision",    "framework",  "optimizer", "recompute",   "framework_version",
    "accumulate",   "image_size", "seq_len",   "strategy",    "channels_last",
    "power_limit_w"};

/// "no-p2p" of a column no_p2p; a unit belongs to the column alone.
std::string flag_of(std::string_view column) {
  if (column.ends_with("_w")) column.remove_suffix(2);
  std::string flag(column);
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

/// What a row says of a column that is yes or no.
bool says_yes(const Reading& in, std::string_view column, std::string_view value) {
  const std::string word = to_lower(value);
  for (const char* yes : {"yes", "true", "1"})
    if (word == yes) return true;
  for (const char* no : {"no", "false", "0"})
    if (word == no) return false;
  throw InputError(in.reader.where() + ", " + std::string(column), "\"" + std::string(value) + "\"",
                   "yes or no");
}

/// Flags with which the rate of a row's program is predicted. Rates that are stated or measured
/// have all of it in them already, and a GPU is the fleet's.
std::vector<std::pair<std::string, std::string>> flags_of(const Reading& in, const Program& program,
                                                          bool states_steps) {
  const auto refuse = [&](std::string_view column, const std::string& expected) {
    throw InputError(in.reader.where() + ", " + std::string(column),
                     "\"" + std::string(in.row.text_or_empty(column)) + "\"", expected);
  };
  if (!in.row.text_or_empty("gpu").empty() && states_steps && !in.kinds.knows(program))
    refuse("gpu", "no such column: GPUs are the fleet's; gpu_types says which of them");
  const bool is_measured = in.kinds.knows(program);
  std::vector<std::pair<std::string, std::string>> flags;
  for (const std::string_view column : kPredictColumns) {
    const std::string value(in.row.text_or_empty(column));
    if (value.empty()) continue;
    if (is_measured && column == "data")
      refuse(column, "none: the table of throughputs knows how fast this program is");
    if (is_measured) continue;
    if (!states_steps && column == "data")
      refuse(column, "none: the job states how long it takes; or steps instead");
    if (!states_steps) continue;
    if (column == "no_p2p" || column == "channels_last") {
      const bool yes = says_yes(in, column, value);
      if (yes) {
        flags.emplace_back(flag_of(column), "");
      } else if (column == "channels_last") {
        flags.emplace_back("no-channels-last", "");
      }
      continue;
    }
    flags.emplace_back(flag_of(column), value);
  }
  return flags;
}

std::optional<QueuedJob> read_plain(Reading& in) {
  const RowFields& row = in.row;
  QueuedJob job = named(in, "job_id", moment(in.reader, row, "submit_s"));
  const std::string_view size = in.reader.find_column("num_gpu") ? "num_gpu" : "gpus";
  Program program{std::string(row.text_or_empty("model")), 0,
                  static_cast<int>(row.integer(size, 1, kMostGpus))};
  if (!row.text_or_empty("batch").empty()) program.batch = row.integer("batch", 0);
  if (!row.text_or_empty("global_batch").empty()) {
    if (program.batch > 0) {
      throw InputError(in.reader.where() + ", global_batch", "a batch of each GPU as well",
                       "one of batch and global_batch");
    }
    program.global_batch = row.integer("global_batch", 1);
  }
  const Bounds bounds = bounds_of(in, program.gpus);
  if (!row.text_or_empty("deadline_s").empty())
    job.deadline = engine::to_ticks<Time>(Seconds(moment(in.reader, row, "deadline_s")));
  if (!row.text_or_empty("weight").empty()) job.weight = row.positive("weight");
  const std::string allowed(row.text_or_empty("gpu_types"));
  const bool states_steps = !row.text_or_empty("steps").empty();
  if (program.model.empty() && !in.drawable.empty() && !states_steps)
    program = in.draw(program.gpus);
  program.flags = flags_of(in, program, states_steps);
  if (states_steps || in.kinds.knows(program)) {
    job.kind = in.kinds.rated(program, allowed, bounds, in.reader.where());
    job.steps = states_steps
                    ? row.positive("steps")
                    : duration(in.reader, row, "duration_s") * in.kinds.best_rate(job.kind);
  } else {
    if (bounds.least < bounds.most) {
      throw InputError(in.reader.where(), "an elastic gang without rates by size",
                       "steps, or a model that --throughputs knows");
    }
    job.kind = in.kinds.timed(program, 1, allowed, in.reader.where());
    job.steps = duration(in.reader, row, "duration_s");
  }
  return job;
}

RowReader find_reader(const CsvReader& reader) {
  const auto has = [&](std::string_view name) { return reader.find_column(name).has_value(); };
  if (has("iterations") && has("iteration_s") && has("num_gpu")) return read_muri;
  if (has("unit_gap") && has("v100_s")) return read_gavel;
  if (has("arrival_s") && has("adaptive_s")) return read_shockwave;
  if (has("pod") && has("deletion_s")) return read_openb;
  if (has("submit_s") && (has("num_gpu") || has("gpus")) && (has("duration_s") || has("steps")))
    return read_plain;
  throw InputError(reader.file_name() + ":1", "not a trace of jobs",
                   "columns submit_s, num_gpu and duration_s (see tracecast schedule --help)");
}

/// Refuses arrivals that go back: within one cluster, where the file has several one after the
/// other.
class ArrivalOrder {
 public:
  explicit ArrivalOrder(const CsvReader& reader)
      : column_(reader.find_column("cluster") ? reader.find_column("cluster")
                                              : reader.find_column("vc")) {}
  void check(const CsvReader& reader, const QueuedJob& job) {
    Time& last = last_[column_ ? std::string(reader.field(*column_)) : std::string()];
    if (job.submit < last) {
      throw InputError(reader.where(),
                       fmt::format("an arrival at {} s", job.submit.in_seconds().in_s()),
                       fmt::format("not before the one above, {} s", last.in_seconds().in_s()));
    }
    last = job.submit;
  }

 private:
  std::optional<std::size_t> column_;
  std::map<std::string, Time> last_;
};

/// Pairs of kinds of the mix on types of the fleet.
void add_shared_rates(JobMix& mix, const plan::Fleet& fleet, const RateTables& tables) {
  std::map<Program, KindId> kinds;
  for (std::uint32_t k = 0; k < mix.kinds.size(); ++k)
    kinds.emplace(Program{mix.kinds[k].model, mix.kinds[k].batch, mix.kinds[k].gpus}, KindId{k});
  for (const RateTables::Pair& pair : tables.pairs()) {
    const auto a = kinds.find(pair.a), b = kinds.find(pair.b);
    if (a == kinds.end() || b == kinds.end()) continue;
    for (std::uint32_t t = 0; t < fleet.types.size(); ++t) {
      if (RateTables::means(pair.gpu, fleet.types[t].id))
        mix.shared.push_back({a->second, b->second, {t}, pair.rate_a, pair.rate_b});
    }
  }
}

}  // namespace

JobMix read_job_mix(const JobFileOptions& options, const plan::Fleet& fleet,
                    const plan::Rules& rules, const RateTables& tables,
                    const RateSource& predicted) {
  CsvReader reader(options.file);
  const RowReader read = find_reader(reader);
  OnlyRows selection(options.only, reader);
  ArrivalOrder order(reader);
  JobMix mix;
  Kinds kinds(mix, fleet, rules, tables, predicted, options.start_costs);
  const std::vector<Program> drawable =
      options.draw_programs ? tables.programs() : std::vector<Program>();
  Reading in{options,
             reader,
             RowFields(reader),
             kinds,
             drawable,
             Random(options.draw_programs.value_or(0)),
             Phases(options.file)};
  while (reader.next()) {
    if (!selection.passes(reader)) continue;
    auto job = read(in);
    if (!job) continue;
    order.check(reader, *job);
    mix.jobs.push_back(std::move(*job));
  }
  selection.check(!mix.jobs.empty());
  if (mix.jobs.empty()) throw InputError(reader.file_name(), "no job for GPUs", "one row at least");
  std::stable_sort(mix.jobs.begin(), mix.jobs.end(),
                   [](const QueuedJob& a, const QueuedJob& b) { return a.submit < b.submit; });
  check_clock(mix, reader.file_name());
  add_shared_rates(mix, fleet, tables);
  return mix;
}

}  // namespace tracecast
