#include "tests/properties/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/error.hpp"
#include "sim/job/other_sizes.hpp"
#include "sim/job/predictor.hpp"
#include "tests/properties/arithmetic.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/command/captured_output.hpp"
#include "tools/command/run_command.hpp"
#include "tools/predict/predict_options.hpp"
#include "tools/serve/serve_flags.hpp"

namespace tracecast::test {
namespace {

using nlohmann::json;

std::string state_of(const Forecast& f) {
  std::string state = f.bottleneck.empty() ? f.parallel_layout : f.bottleneck;
  if (f.power && f.power->board.throttles) state += ", at its power limit";
  if (!f.fits()) state += ", does not fit";
  return state;
}

bool has_common_path(const Parallelism& parallelism) {
  const auto* servers = std::get_if<ParameterServers>(&parallelism);
  return servers == nullptr || !servers->asynchronous;
}

/// What the rows of a comparison say, which are those of `predict`.
Report compared(const json& doc) {
  Report report;
  for (const json& row : doc["rows"]) {
    if (!row["refused"].is_null()) continue;
    const json& rate = row["throughput_samples_per_s"];
    report.rows.push_back(
        {.what = fmt::format("{} batch {}", row["gpu"].get<std::string>(),
                             row["batch_per_gpu"].get<std::int64_t>()),
         .time_s = row["batch_per_gpu"].get<double>() / rate["value"].get<double>(),
         .per_s = rate["value"],
         .fits = row["fits"]});
  }
  return report;
}

/// GPU time of all jobs: a makespan may grow when jobs get shorter (Graham, 1969).
Report scheduled(const json& doc) {
  Report report;
  double busy = 0, gpus = 0;
  for (const json& type : doc["gpu_types"]) {
    busy += type["busy_gpu_s"].get<double>();
    gpus += type["gpus"].get<double>();
    const double share = type["busy_gpu_s"].get<double>() /
                         (type["gpus"].get<double>() * doc["makespan_s"].get<double>());
    if (std::abs(share - type["utilization"].get<double>()) > 1e-6)
      report.faults.push_back("utilisation is not busy GPU time over GPUs x makespan");
  }
  if (std::abs(busy / (gpus * doc["makespan_s"].get<double>()) - doc["utilization"].get<double>()) >
      1e-6)
    report.faults.push_back("utilisation of all is not that of its GPU types");
  const auto ordered = [&](const char* less, const char* more) {
    if (doc[less].get<double>() > doc[more].get<double>() * (1 + 1e-9))
      report.faults.push_back(fmt::format("{} is above {}", less, more));
  };
  ordered("avg_slowdown", "max_slowdown");
  ordered("median_jct_s", "p99_jct_s");
  ordered("p99_jct_s", "makespan_s");
  ordered("avg_wait_s", "avg_jct_s");
  report.rows.push_back({.time_s = busy});
  return report;
}

Report planned(const json& doc) {
  Report report;
  const json& plan = doc["plan"];
  if (plan.is_null()) return report;
  const auto figure = [&](const char* key) { return plan[key].get<double>(); };
  const auto equal = [&](const char* what, double a, double b) {
    if (std::abs(a - b) > 1e-6 * std::max(1.0, std::abs(b)))
      report.faults.push_back(fmt::format("{}: {} is not {}", what, a, b));
  };
  equal("cost and its parts", figure("cost_usd"),
        figure("charged_usd") + figure("energy_usd") + figure("hosting_usd") + figure("rent_usd"));
  equal("spend and its parts", figure("spend_usd"),
        figure("hardware_usd") + figure("energy_usd") + figure("hosting_usd") + figure("rent_usd"));
  std::map<std::string, std::int64_t> assigned, residences;
  for (const json& row : plan["assignment"])
    assigned[row["job"].get<std::string>()] += row["count"].get<std::int64_t>();
  if (plan.contains("schedule")) {
    for (const json& residence : plan["schedule"])
      ++residences[residence["job"].get<std::string>()];
    for (const auto& [job, count] : residences) {
      if (assigned[job] != count)
        report.faults.push_back(
            fmt::format("{}: {} stays of {} assigned", job, count, assigned[job]));
    }
  }
  report.rows.push_back({.time_s = figure("objective")});
  return report;
}

}  // namespace

struct Asker::Memory {
  struct Setting {
    Hardware hardware;
    std::optional<Predictor> predictor{};
  };
  std::map<std::vector<std::string>, Setting> settings;
  std::optional<Predictor> first;  ///< the others share its graphs
  PredictFlags predict_flags;
  ServeFlags serve_flags;
  TemporaryFolder folder;

  Setting& setting_of(const Command& command) {
    const auto known = settings.find(command.sets);
    if (known != settings.end()) return known->second;
    Hardware hardware = Hardware::embedded();
    for (const std::string& set : command.sets) hardware = hardware.with(set);
    return settings.emplace(command.sets, Setting{std::move(hardware)}).first->second;
  }

  const Predictor& predictor_of(Setting& setting) {
    if (!first) first.emplace(Hardware::embedded());
    if (!setting.predictor) setting.predictor.emplace(first->for_hardware(setting.hardware));
    return *setting.predictor;
  }

  Report predict(const Command& command) {
    Setting& setting = setting_of(command);
    const Predictor& predictor = predictor_of(setting);
    const PredictQuestion question = predict_flags.read(command.words(), setting.hardware);
    const Forecast f = predictor.predict(question.job, question.job, question.parallelism);
    Report report;
    report.rows.push_back({.time_s = f.step_time_s.value,
                           .per_s = f.throughput_samples_per_s.value,
                           .fits = f.fits(),
                           .state = state_of(f)});
    report.faults = faults_of(f, has_common_path(question.parallelism));
    return report;
  }

  struct OtherKernels {
    bool names_shortage = false;  ///< of workspace, with the op and its algorithms
    std::vector<OtherSize> sizes;
  };
  OtherKernels other_kernels(const Command& command) {
    Setting& setting = setting_of(command);
    const Predictor& predictor = predictor_of(setting);
    const PredictQuestion q = predict_flags.read(command.words(), setting.hardware);
    const Forecast forecast = predictor.predict(q.job, q.job, q.parallelism);
    const bool names_shortage =
        std::any_of(forecast.warnings.begin(), forecast.warnings.end(), [](const auto& warning) {
          return warning.find("slower algorithms for want of workspace") != warning.npos;
        });
    return {names_shortage, find_better_sizes(predictor, q.job, q.job, q.parallelism, forecast)};
  }

  Report serve(const Command& command) {
    const ServedPlace asked = serve_flags.read(command.words());
    Served served(asked.question.job, asked.place, setting_of(command).hardware);
    const ServingReport a = served.report(asked.question.load);
    if (!a.fits) return {};
    Report report;
    report.rows.push_back({.time_s = a.e2e_ms.mean.interval.value / 1e3,
                           .per_s = a.tokens_per_s,
                           .state = a.limited_by});
    report.faults = faults_of(a);
    return report;
  }

  /// The JSON page of the program itself.
  json run(const Command& command) {
    std::vector<std::string> words{command.subcommand};
    for (const auto& [name, holds] : command.files) std::ofstream(folder.path() / name) << holds;
    for (const std::string& word : command.words())
      words.push_back(command.files.contains(word) ? (folder.path() / word).string() : word);
    for (const std::string& set : command.sets) words.insert(words.end(), {"--set", set});
    words.insert(words.end(), {"--format", "json"});
    const CapturedOutput output;
    (void)run_command(words);
    return json::parse(output.report);
  }
};

Asker::Asker() : memory_(std::make_unique<Memory>()) {}
Asker::~Asker() = default;

void Asker::forget() {
  memory_->first.reset();
  for (auto& [sets, setting] : memory_->settings) setting.predictor.reset();
}

std::optional<Report> Asker::ask(const Command& command) {
  try {
    if (command.subcommand == "predict") return memory_->predict(command);
    if (command.subcommand == "serve") return memory_->serve(command);
    const json doc = memory_->run(command);
    Report report = command.subcommand == "compare"    ? compared(doc)
                    : command.subcommand == "schedule" ? scheduled(doc)
                                                       : planned(doc);
    for (std::string& fault : faults_of(doc)) report.faults.push_back(std::move(fault));
    return report;
  } catch (const InputError& error) {
    refusal_ = error.what();
    return std::nullopt;
  } catch (const std::exception& bug) {
    return Report{.rows = {}, .faults = {std::string("a bug of ours: ") + bug.what()}};
  }
}

bool Asker::names_kernels(const Command& command, bool is_length, std::int64_t least,
                          std::int64_t most) {
  const auto [names_shortage, sizes] = memory_->other_kernels(command);
  return names_shortage || std::any_of(sizes.begin(), sizes.end(), [&](const OtherSize& other) {
           return (other.what == OtherSize::What::Length) == is_length && other.size >= least &&
                  other.size <= most;
         });
}

std::vector<std::string> Asker::faults_in_json(const Command& command) {
  try {
    return faults_of(memory_->run(command));
  } catch (const InputError& error) {
    return {std::string("refused as a command: ") + error.what()};
  }
}

}  // namespace tracecast::test
