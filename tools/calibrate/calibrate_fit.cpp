#include "tools/calibrate/calibrate_fit.hpp"
#include "tools/calibrate/calibrate_page.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/csv.hpp"
#include "tools/report/page.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "calibrate/fit/check.hpp"
#include "calibrate/fit/fit_profile.hpp"
#include "calibrate/fit/fit_stages.hpp"
#include "calibrate/fit/uncertainty.hpp"
#include "calibrate/table/measurement_set.hpp"
#include "hwspecs/parameter_access.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/job/sha256.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

/// Rows of a cell that a fit sees: more change nothing but the time it takes.
constexpr std::size_t kRowsPerCell = 60, kStepsPerCell = 12;
constexpr Seconds kShortestRow(50e-6), kShortestGemm(3e-6);

/// Files as given; of a folder, its tables of measurements, by name.
std::vector<fs::path> expand(const std::vector<std::string>& from,
                             const MeasurementContext& context) {
  std::vector<fs::path> files;
  for (const std::string& text : from) {
    if (!fs::is_directory(text)) {
      files.emplace_back(text);
      continue;
    }
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(text)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file() || (!name.ends_with(".csv") && !name.ends_with(".csv.gz")))
        continue;
      if (find_measurement_reader(CsvReader(entry.path()), context)) {
        found.push_back(entry.path());
      } else {
        say(fmt::format("{}: no table of measured kernels, left out", name));
      }
    }
    if (found.empty()) throw InputError("--from", "\"" + text + "\"", "a folder with tables");
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::string account_text(const std::vector<TableAccount>& tables, bool all) {
  constexpr std::size_t kFirst = 5;
  std::string text = fmt::format("{:<26} {:>8} {:>8} {:>8} {:>8}\n", "table", "rows", "usable",
                                 "no model", "refused");
  for (const TableAccount& t : tables) {
    text += fmt::format("{} {:>8} {:>8} {:>8} {:>8}\n", fit(t.file, 26), t.num_rows, t.num_usable,
                        t.num_unpredicted, t.refused.size());
  }
  for (const TableAccount& t : tables) {
    std::size_t shown = 0;
    for (const RefusedRow& row : t.refused) {
      if (!all && ++shown > kFirst) break;
      text += fmt::format("{}:{}: {}\n", printable(t.file), row.line, printable(row.reason));
    }
    if (!all && t.refused.size() > kFirst) {
      text += fmt::format("{}: {} more refused; --list-refused names each\n", printable(t.file),
                          t.refused.size() - kFirst);
    }
  }
  return text;
}

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(now));
}

/// Sources of the fit as data sets of the profile: which tables, their hashes, how many rows of
/// which GPUs.
std::vector<ProfileDataSet> data_sets(const MeasurementSet& sample, const std::string& date) {
  struct Part {
    std::size_t rows = 0;
    std::set<std::string> gpus, groups;
  };
  std::map<std::string, Part> parts;
  for (const Measurement& row : sample.rows) {
    Part& part = parts[std::string(origin(row))];
    ++part.rows;
    part.gpus.insert(row.gpu);
    part.groups.insert(row.group);
  }
  std::vector<ProfileDataSet> sets;
  for (const auto& [key, part] : parts) {
    sets.push_back({key, fmt::format("{}", fmt::join(part.groups, ", ")),
                    fmt::format("{} rows fitted, of {}", part.rows, fmt::join(part.gpus, ", ")),
                    date});
  }
  std::string files;
  for (const TableAccount& table : sample.tables) {
    if (!files.empty()) files += "; ";
    files += fmt::format("{} {:.12}", table.file, sha256(read_file(table.path, 1ULL << 30)));
  }
  const auto key_of = [](const Measurement& row) {
    return std::holds_alternative<GemmCall>(row.work)     ? "left_out_gemms"
           : std::holds_alternative<EngineCall>(row.work) ? "left_out_calls"
                                                          : "left_out";
  };
  for (const std::string_view key : {"left_out", "left_out_gemms", "left_out_calls"}) {
    const bool any = std::any_of(sample.rows.begin(), sample.rows.end(),
                                 [&](const Measurement& row) { return key_of(row) == key; });
    if (!any) continue;
    sets.push_back({std::string(key),
                    "Expected errors: rows of GPUs and generations left out of the fit",
                    "tables and the first digits of their SHA-256: " + files, date});
  }
  return sets;
}

/// The profile with what it says of itself: id, data sets, where each fitted parameter comes from.
CostProfile completed(CostProfile profile, const FitResult& fit, const MeasurementSet& sample,
                      const FitCommandOptions& options) {
  const std::string date = options.date.empty() ? today() : options.date;
  profile.id = options.id;
  profile.title = options.title.empty()
                      ? fmt::format("Fitted to {} rows of measured kernels", fit.num_rows)
                      : options.title;
  std::vector<ProfileDataSet> sets = data_sets(sample, date);
  // Sets that parameters outside this fit still name; all others, too, where it holds calls or
  // GEMMs alone.
  const bool is_of_part =
      std::all_of(sample.rows.begin(), sample.rows.end(), [](const Measurement& row) {
        return std::holds_alternative<EngineCall>(row.work) ||
               std::holds_alternative<GemmCall>(row.work);
      });
  for (const ProfileDataSet& old : profile.data_sets) {
    const bool is_new = std::any_of(sets.begin(), sets.end(),
                                    [&](const ProfileDataSet& s) { return s.key == old.key; });
    const auto names_it = [&](const ProfileParameter& p) {
      return p.data_set == old.key &&
             std::none_of(fit.parameters.begin(), fit.parameters.end(),
                          [&](const FittedParameter& f) { return f.name == p.name; });
    };
    if (!is_new &&
        (is_of_part || std::any_of(profile.parameters.begin(), profile.parameters.end(), names_it)))
      sets.push_back(old);
  }
  for (const FittedParameter& fitted : fit.parameters) {
    for (ProfileParameter& p : profile.parameters) {
      if (p.name != fitted.name) continue;
      p.log_sd = fitted.log_sd;
      p.data_set = fitted.main_source.empty() ? "prior" : fitted.main_source;
    }
  }
  profile.data_sets = std::move(sets);
  return profile;
}

std::string fit_text(const FitResult& fit) {
  std::string text = fmt::format(
      "\n{} rows, {} iterations, {}\n\n{:<38} {:>8} {:>6} {:>8} {:>6}  {}\n", fit.num_rows,
      fit.iterations,
      fit.termination == FitTermination::Converged ? "converged" : "stopped before it converged",
      "parameter", "value", "+-%", "prior", "+-%", "rows of");
  for (const FittedParameter& p : fit.parameters) {
    text += fmt::format("{} {:>8.4g} {:>6.1f} {:>8.4g} {:>6.1f}  {}\n", tracecast::fit(p.name, 38),
                        p.value, 100 * p.log_sd, p.prior_value, 100 * p.prior_log_sd,
                        p.main_source.empty() ? "-" : p.main_source);
  }
  text += fmt::format("\n{:<20} {:>10} {:>10}\n", "GPU over its spec", "arithmetic", "bandwidth");
  for (const auto& [gpu, board] : fit.boards) {
    text += fmt::format("{} {:>10.3f} {:>10.3f}\n", tracecast::fit(gpu, 20), board.arithmetic,
                        board.bandwidth);
  }
  if (!fit.floors.empty()) text += fmt::format("\n{:<52} {:>9}\n", "session", "floor us");
  for (const auto& [key, floor] : fit.floors) {
    text += fmt::format("{} {:>9.1f}\n",
                        tracecast::fit(key.source + " " + key.gpu + " " + key.group, 52),
                        floor.in_us());
  }
  return text;
}

std::string fit_json(const FitResult& fit, const MeasurementSet& sample) {
  nlohmann::ordered_json json;
  json["schema"] = "tracecast.calibrate.fit";
  json["version"] = kVersion;
  json["rows"] = fit.num_rows;
  json["iterations"] = fit.iterations;
  json["converged"] = fit.termination == FitTermination::Converged;
  for (const TableAccount& t : sample.tables) {
    nlohmann::ordered_json table = {{"file", t.file},
                                    {"sha256", sha256(read_file(t.path, 1ULL << 30))},
                                    {"rows", t.num_rows},
                                    {"usable", t.num_usable},
                                    {"unpredicted", t.num_unpredicted}};
    table["refused"] = nlohmann::ordered_json::array();
    for (const RefusedRow& row : t.refused)
      table["refused"].push_back({{"line", row.line}, {"reason", row.reason}});
    json["tables"].push_back(std::move(table));
  }
  for (const FittedParameter& p : fit.parameters) {
    json["parameters"].push_back({{"name", p.name},
                                  {"value", p.value},
                                  {"log_sd", p.log_sd},
                                  {"prior_value", p.prior_value},
                                  {"prior_log_sd", p.prior_log_sd},
                                  {"main_source", p.main_source}});
  }
  for (const auto& [gpu, board] : fit.boards) {
    json["gpus"].push_back(
        {{"gpu", gpu}, {"arithmetic", board.arithmetic}, {"bandwidth", board.bandwidth}});
  }
  return json_text(json, 1) + "\n";
}

std::string check_text(const std::vector<CheckedGroup>& groups) {
  if (groups.empty()) return "No row could be judged\n";
  std::string text =
      fmt::format("{:<40} {:>6} {:>6} {:>6} {:>6} {:>6} {:>4} {:>4}\n", "left out, rows of", "n",
                  "mean%", "med%", "p90%", "bias%", "in90", "+-%");
  std::string last;
  for (const CheckedGroup& g : groups) {
    if (g.left_out != last) text += printable(g.left_out) + "\n";
    last = g.left_out;
    const std::string what = g.gpu + " " + g.source + " " + g.group + " " + g.split;
    text += fmt::format("  {} {:>6} {:>6.1f} {:>6.1f} {:>6.1f} {:>+6.1f} {:>4.0f} {:>4.0f}\n",
                        fit(what, 38, 2), g.errors.n, 100 * g.errors.mape,
                        100 * g.errors.median_ape, 100 * g.errors.p90_ape, 100 * g.errors.bias,
                        100 * g.errors.coverage90, 100 * g.errors.median_half_width);
  }
  return text;
}

std::string check_csv(const std::vector<CheckedGroup>& groups) {
  std::string text =
      "left_out,gpu,source,group,split,n,mape,median_ape,p90_ape,bias,coverage90,"
      "half_width90\n";
  for (const CheckedGroup& g : groups) {
    text += csv_line(g.left_out, g.gpu, g.source, g.group, g.split, g.errors.n, g.errors.mape,
                     g.errors.median_ape, g.errors.p90_ape, g.errors.bias, g.errors.coverage90,
                     g.errors.median_half_width);
  }
  return text;
}

std::string check_json(const std::vector<CheckedGroup>& groups) {
  nlohmann::ordered_json json;
  json["schema"] = "tracecast.calibrate.check";
  json["version"] = kVersion;
  json["groups"] = nlohmann::ordered_json::array();
  for (const CheckedGroup& g : groups) {
    json["groups"].push_back({{"left_out", g.left_out},
                              {"gpu", g.gpu},
                              {"source", g.source},
                              {"group", g.group},
                              {"split", g.split},
                              {"n", g.errors.n},
                              {"mape", g.errors.mape},
                              {"median_ape", g.errors.median_ape},
                              {"p90_ape", g.errors.p90_ape},
                              {"bias", g.errors.bias},
                              {"coverage90", g.errors.coverage90},
                              {"half_width90", g.errors.median_half_width}});
  }
  return json_text(json, 1) + "\n";
}

LeaveOut parse_leave_out(const std::string& text) {
  if (text == "board") return LeaveOut::Board;
  if (text == "class") return LeaveOut::Class;
  if (text == "generation") return LeaveOut::Generation;
  if (text == "range") return LeaveOut::Range;
  if (text == "all-but-one") return LeaveOut::AllButOneGpu;
  return LeaveOut::Gpu;
}

/// Power of a GEMM below 16 bits is the mean over engines that do different work.
bool is_power_reported(const GemmCall& call) {
  return call.gemms.front().format == GemmFormat::Half;
}

/// Rows that a fit sees: long enough, not set apart by their table; below 16 bits engine by engine.
bool is_wanted(const Measurement& row) {
  if (std::holds_alternative<EngineCall>(row.work))
    return row.flag.empty() && row.source != "engine calls";
  const auto* call = std::get_if<GemmCall>(&row.work);
  if (!call) return row.time >= kShortestRow;
  const bool by_engine = call->gemms.front().engine.has_value();
  const bool is_median = row.source == "engines";
  if (call->is_power) return row.flag.empty() && is_power_reported(*call);
  const bool is_half = call->gemms.front().format == GemmFormat::Half;
  return row.flag.empty() && (is_half ? !by_engine && (is_median || !call->in_graph) : !is_median);
}

MeasurementSet load_sample(const std::vector<fs::path>& files, const MeasurementContext& context,
                           const CostProfile& profile) {
  const auto load = [&](std::span<const fs::path> tables, const MeasurementContext& as) {
    return load_measurements(tables, as, profile,
                             {.most_rows_per_cell = kRowsPerCell,
                              .most_steps_per_cell = kStepsPerCell,
                              .min_time = kShortestGemm,
                              .wanted = is_wanted});
  };
  MeasurementSet sample = load(files, context);
  // Tables that hold a column for each engine: these once more, since engines do different work
  // below 16 bits.
  std::vector<fs::path> with_engines;
  for (const fs::path& file : files) {
    const auto reader = find_measurement_reader(CsvReader(file), context);
    if (reader->use_engine(GemmEngine::TensorRtLlm)) with_engines.push_back(file);
  }
  for (std::size_t e = 0; !with_engines.empty() && e < kGemmEngineCount; ++e) {
    MeasurementContext own = context;
    own.engine = static_cast<GemmEngine>(e);
    MeasurementSet rows = load(with_engines, own);
    std::move(rows.rows.begin(), rows.rows.end(), std::back_inserter(sample.rows));
  }
  std::vector<fs::path> with_power;
  for (const fs::path& file : with_engines) {
    if (find_measurement_reader(CsvReader(file), context)->use_power()) with_power.push_back(file);
  }
  if (!with_power.empty()) {  // and for the board's power
    MeasurementContext power = context;
    power.power = true;
    MeasurementSet rows = load(with_power, power);
    std::move(rows.rows.begin(), rows.rows.end(), std::back_inserter(sample.rows));
  }
  return sample;
}

/// The profile that knows of no measurement; `priors` may be those of a user's folder.
CostProfile before_measurement(const std::vector<ProfileParameter>& priors) {
  CostProfile profile = prior_cost_profile();
  for (const ProfileParameter& p : priors)
    profile = with_parameter(std::move(profile), p.name, p.value);
  return profile;
}

}  // namespace

int run_fit(const FitCommandOptions& options) {
  check_report(options.report);
  const Hardware hardware = load_hardware(options.sources);
  const MeasurementContext context = measurement_context(hardware);
  const std::vector<fs::path> files = expand(options.from, context);
  const std::vector<ProfileParameter>& priors = hardware.specs().prior_parameters();
  const CostProfile begin = options.from_priors ? before_measurement(priors) : hardware.cost();
  const MeasurementSet sample = load_sample(files, context, begin);
  std::vector<const Measurement*> rows;
  for (const Measurement& row : sample.rows) rows.push_back(&row);
  FitOptions how;
  how.progress = [](int iteration, double cost) {
    say_progress(fmt::format("fit: iteration {}, sum of squares {:.4g}", iteration, cost));
  };
  FitResult fit = options.no_uncertainty
                      ? fit_in_stages(rows, begin, priors, how)
                      : fit_with_errors(sample, begin, priors, how, [](std::string_view left_out) {
                          say_progress(fmt::format("expected errors: without {}", left_out));
                        });
  fit.profile = with_coverage(std::move(fit.profile), rows);  // of all stages
  fit.profile = completed(fit.profile, fit, sample, options);
  say_progress("");
  if (!options.out.empty()) write_file(options.out, format_cost_profile(fit.profile));
  if (!options.report.empty()) write_fit_page(fit_json(fit, sample), options.report);
  if (options.format == "json") {
    write_report(fit_json(fit, sample));
  } else {
    write_report(account_text(sample.tables, options.list_refused) + fit_text(fit) +
                 (options.out.empty() ? "" : "\nProfile written to " + options.out + "\n"));
  }
  return kExitDone;
}

int run_check(const FitCommandOptions& options) {
  check_report(options.report);
  const Hardware hardware = load_hardware(options.sources);
  const MeasurementContext context = measurement_context(hardware);
  const std::vector<fs::path> files = expand(options.from, context);
  // What is left out shall not speak through parameters that others' rows do not move.
  const std::vector<ProfileParameter>& priors = hardware.specs().prior_parameters();
  const CostProfile begin = before_measurement(priors);
  const MeasurementSet sample = load_sample(files, context, begin);
  CheckOptions how;
  how.leave_out = parse_leave_out(options.leave_out);
  how.only = options.only;
  how.min_time = Seconds(options.min_us * 1e-6);
  how.learn_errors = options.learn_errors;
  how.progress = [](std::string_view left_out, std::size_t done, std::size_t total) {
    say_progress(fmt::format("check {} of {}: without {}", done + 1, total, left_out));
  };
  if (!options.profiles.empty()) {
    fs::create_directories(options.profiles);
    how.fitted = [&](std::string_view left_out, const FitResult& fit) {
      std::string name(left_out);
      std::replace_if(
          name.begin(), name.end(), [](char c) { return c == ' ' || c == '/'; }, '_');
      CostProfile profile = completed(fit.profile, fit, sample, options);
      profile.id = name;
      write_file(fs::path(options.profiles) / (name + ".textproto"), format_cost_profile(profile));
    };
  }
  const auto groups = check_fit(sample, files, context, begin, priors, how);
  say_progress("");
  if (!options.report.empty()) write_check_page(check_json(groups), options.report);
  write_report(options.format == "json"  ? check_json(groups)
               : options.format == "csv" ? check_csv(groups)
                                         : check_text(groups));
  return groups.empty() ? kExitNo : kExitDone;
}

}  // namespace tracecast
