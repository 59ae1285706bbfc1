#include "tools/trace/trace_diff.hpp"
#include "tools/command/cell.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "sim/base/error.hpp"
#include "sim/job/sha256.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/standard_input.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "traces/diff.hpp"
#include "traces/ranks/read.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;
using traces::Change;
using traces::Diff;
using traces::Summary;
using traces::Tally;

struct DiffCommand {
  std::string a, b;
  std::string format = "text";
  bool per_step = false;
  std::size_t most = 12;  ///< lines of a table; 0 = all
};

/// One figure of both recordings, in seconds.
struct Figure {
  const char *name, *key;
  std::optional<double> a, b;
};

/// How a recording's counts and times become those that are compared.
struct Scale {
  double a = 1, b = 1;
  [[nodiscard]] double time_a(const Change& c) const {
    return static_cast<double>(c.a.ns) / 1e9 / a;
  }
  [[nodiscard]] double time_b(const Change& c) const {
    return static_cast<double>(c.b.ns) / 1e9 / b;
  }
  [[nodiscard]] double difference(const Change& c) const { return time_b(c) - time_a(c); }
};

std::string file_name(const std::string& path) {
  return std::filesystem::path(path).filename().string();
}

std::optional<double> step_seconds(const Summary& s) {
  if (s.steps.empty()) return std::nullopt;
  std::vector<std::int64_t> times;
  for (const traces::NamedTime& step : s.steps) times.push_back(step.tally.ns);
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return static_cast<double>(*middle) / 1e9;
}

std::vector<Figure> figures(const Diff& d, const Scale& scale) {
  const auto both = [&](const char* name, const char* key, auto member) {
    const auto of = [&](const Summary& s, double steps) -> std::optional<double> {
      if (s.span_ns == 0) return std::nullopt;
      return static_cast<double>(s.*member) / 1e9 / steps;
    };
    return Figure{name, key, of(d.a, scale.a), of(d.b, scale.b)};
  };
  Figure gpu_time{"GPU time", "gpu_time_s", static_cast<double>(d.a.gpu_time_ns) / 1e9 / scale.a,
                  static_cast<double>(d.b.gpu_time_ns) / 1e9 / scale.b};
  return {{"Step", "step_s", step_seconds(d.a), step_seconds(d.b)},
          both("First to last", "span_s", &Summary::span_ns),
          both("GPU busy", "busy_s", &Summary::busy_ns),
          both("GPU idle", "idle_s", &Summary::idle_ns),
          gpu_time};
}

/// Needed where each step is compared. Throws InputError when a recording marks none.
double steps_of(const Summary& s, const std::string& file) {
  if (s.steps.empty())
    throw InputError(file, "no step marks", "a recording with steps, or no --per-step");
  return static_cast<double>(s.steps.size());
}

void sort_by_difference(std::vector<Change>& changes, const Scale& scale) {
  std::stable_sort(changes.begin(), changes.end(), [&](const Change& x, const Change& y) {
    return std::abs(scale.difference(x)) > std::abs(scale.difference(y));
  });
}

// --- text

std::string ms(double s) { return low_precision(s * 1e3, 9); }

std::string signed_ms(double s) {
  return (s < 0 ? "-" : "+") + low_precision(std::abs(s) * 1e3, 8);
}

/// "+12 %"; "new" and "gone" where one side has none.
std::string relative(double a, double b) {
  if (a == 0 && b == 0) return "";
  if (a == 0) return "new";
  if (b == 0) return "gone";
  const double percent = (b / a - 1) * 100;
  if (std::abs(percent) < 0.5) return "0 %";
  return std::abs(percent) < 1000 ? fmt::format("{:+.0f} %", percent)
                                  : fmt::format("x {}", low_precision(b / a, 5));
}

std::string count(double number, double steps) {
  return steps == 1 ? fmt::format("{:.0f}", number) : low_precision(number / steps, 7);
}

std::string shorten(std::string line) {
  while (line.ends_with(' ')) line.pop_back();
  return line + '\n';
}

std::string side_text(char side, const std::string& file, const Summary& s) {
  std::string what = file + ": " + s.format;
  if (!s.gpu.empty()) what += ", " + s.gpu;
  if (!s.steps.empty())
    what += fmt::format(", {} step{}", s.steps.size(), s.steps.size() == 1 ? "" : "s");
  return fmt::format("{:<16}{}\n", side, wrap(what, 64, 16));
}

std::string figures_text(const std::vector<Figure>& list) {
  std::string text = fmt::format("\n{:<16}{:>12}{:>12}{:>12}\n", "ms", "A", "B", "B - A");
  for (const Figure& f : list) {
    if (!f.a && !f.b) continue;
    const auto one = [](const std::optional<double>& s) { return s ? ms(*s) : std::string("-"); };
    text += shorten(fmt::format("{:<16}{:>12}{:>12}{:>12}{:>9}", f.name, one(f.a), one(f.b),
                                f.a && f.b ? signed_ms(*f.b - *f.a) : "",
                                f.a && f.b ? relative(*f.a, *f.b) : ""));
  }
  return text;
}

std::string table(const char* title, const std::vector<Change>& changes, const Scale& scale,
                  std::size_t most) {
  if (changes.empty()) return "";
  std::string text = fmt::format("\n{:<28}{:>10}{:>10}{:>10}{:>8}{:>7}{:>7}\n", title, "A ms",
                                 "B ms", "B - A", "", "A n", "B n");
  const std::size_t shown = most == 0 ? changes.size() : std::min(most, changes.size());
  for (std::size_t i = 0; i < shown; ++i) {
    const Change& c = changes[i];
    const double a = scale.time_a(c), b = scale.time_b(c);
    const std::string name = c.name.empty() ? "not recorded" : c.name;
    const std::string change = c.appeared() ? "new" : c.vanished() ? "gone" : relative(a, b);
    text += shorten(fmt::format("  {}{:>10}{:>10}{:>10}{:>8}{:>7}{:>7}", fit(name, 26, 2), ms(a),
                                ms(b), signed_ms(b - a), change,
                                count(static_cast<double>(c.a.count), scale.a),
                                count(static_cast<double>(c.b.count), scale.b)));
  }
  if (shown == changes.size()) return text;
  std::size_t appeared = 0, vanished = 0;
  double rest = 0;
  for (std::size_t i = shown; i < changes.size(); ++i) {
    appeared += changes[i].appeared();
    vanished += changes[i].vanished();
    rest += scale.difference(changes[i]);
  }
  return text + "  " +
         wrap(fmt::format("and {} more, {} ms together; of them {} only in A, {} only in B "
                          "(--top 0 shows all)",
                          changes.size() - shown, signed_ms(rest), vanished, appeared),
              76, 2) +
         '\n';
}

std::string diff_text(const DiffCommand& command, const Diff& d, const Scale& scale) {
  std::string text =
      side_text('A', file_name(command.a), d.a) + side_text('B', file_name(command.b), d.b);
  text += figures_text(figures(d, scale));
  if (command.per_step) text += "  of each step: the whole recording divided by its step marks\n";
  text += table("Kernel classes", d.classes, scale, 0) +
          table("Convolution algorithms", d.algorithms, scale, command.most) +
          table("Kernels", d.kernels, scale, command.most) +
          table("Operators, by GPU time", d.operators, scale, command.most) +
          table("Calls of the API", d.calls, scale, command.most) +
          table("Why the GPU was idle", d.idle, scale, 0);
  return text;
}

// --- JSON, CSV

Json changes_json(const std::vector<Change>& changes, const Scale& scale, bool has_class) {
  Json list = Json::array();
  for (const Change& c : changes) {
    Json entry{{"name", c.name}};
    if (has_class) entry["class"] = to_string(c.kernel_class);
    entry.update({{"count_a", static_cast<double>(c.a.count) / scale.a},
                  {"count_b", static_cast<double>(c.b.count) / scale.b},
                  {"time_a_s", scale.time_a(c)},
                  {"time_b_s", scale.time_b(c)},
                  {"difference_s", scale.difference(c)},
                  {"change", c.appeared()   ? "appeared"
                             : c.vanished() ? "vanished"
                                            : "both"}});
    list.push_back(std::move(entry));
  }
  return list;
}

std::string diff_json(const DiffCommand& command, const Diff& d, const Scale& scale) {
  Json inputs = Json::array();
  const auto add_inputs = [&inputs](const char* side, const std::string& path) {
    for (const std::filesystem::path& file : traces::recorded_files({path})) {
      inputs.push_back({{"kind", "trace"},
                        {"side", side},
                        {"name", file.filename().string()},
                        {"sha256", sha256_of_file(file)}});
    }
  };
  add_inputs("a", command.a);
  add_inputs("b", command.b);
  const auto side = [](const Summary& s) {
    return Json{{"format", s.format},
                {"gpu", s.gpu.empty() ? Json() : Json(s.gpu)},
                {"steps", s.steps.size()},
                {"kernels", s.kernels}};
  };
  Json doc{
      {"schema", "tracecast.trace_diff/2"}, {"version", kVersion}, {"inputs", std::move(inputs)},
      {"per_step", command.per_step},       {"a", side(d.a)},      {"b", side(d.b)}};
  for (const Figure& f : figures(d, scale)) {
    Json& entry = doc[f.key];
    entry["a"] = f.a ? Json(*f.a) : Json();
    entry["b"] = f.b ? Json(*f.b) : Json();
    entry["difference"] = f.a && f.b ? Json(*f.b - *f.a) : Json();
  }
  doc["classes"] = changes_json(d.classes, scale, false);
  doc["convolution_algorithms"] = changes_json(d.algorithms, scale, false);
  doc["kernels"] = changes_json(d.kernels, scale, true);
  doc["operators"] = changes_json(d.operators, scale, false);
  doc["calls"] = changes_json(d.calls, scale, false);
  doc["idle"] = changes_json(d.idle, scale, false);
  // Names come from the files and may be no UTF-8.
  return json_text(doc) + '\n';
}

std::string diff_csv(const Diff& d, const Scale& scale) {
  std::string text = "section,name,class,count_a,count_b,time_a_s,time_b_s,difference_s\n";
  const auto rows = [&](std::string_view section, const std::vector<Change>& changes,
                        bool has_class) {
    for (const Change& c : changes) {
      text += csv_line(section, c.name, has_class ? to_string(c.kernel_class) : "",
                       static_cast<double>(c.a.count) / scale.a,
                       static_cast<double>(c.b.count) / scale.b, scale.time_a(c), scale.time_b(c),
                       scale.difference(c));
    }
  };
  rows("class", d.classes, false);
  rows("convolution_algorithm", d.algorithms, false);
  rows("kernel", d.kernels, true);
  rows("operator", d.operators, false);
  rows("call", d.calls, false);
  rows("idle", d.idle, false);
  return text;
}

int print_diff(DiffCommand& command) {
  StandardInput input;
  input.resolve(command.a, kMostPipedTrace);
  input.resolve(command.b, kMostPipedTrace);
  Diff d = traces::diff(traces::read_ranks({command.a}), traces::read_ranks({command.b}),
                        traces::KernelNames::builtin());
  Scale scale;
  if (command.per_step) {
    scale = {steps_of(d.a, file_name(command.a)), steps_of(d.b, file_name(command.b))};
    for (auto* list : {&d.classes, &d.algorithms, &d.kernels, &d.operators, &d.calls, &d.idle})
      sort_by_difference(*list, scale);
  }
  write_report(command.format == "json"  ? diff_json(command, d, scale)
               : command.format == "csv" ? diff_csv(d, scale)
                                         : diff_text(command, d, scale));
  return kExitDone;
}

}  // namespace

void add_trace_diff(CLI::App& trace, int& exit_code) {
  auto command = std::make_shared<DiffCommand>();
  CLI::App* subcommand =
      trace.add_subcommand("diff", "Compare two recorded profiles, of any formats");
  subcommand->add_option("a", command->a, "Recorded profile, as for summary")
      ->type_name("A")
      ->required();
  subcommand->add_option("b", command->b, "The one to compare with it")->type_name("B")->required();
  subcommand->add_flag("--per-step", command->per_step,
                       "Counts and times of a step, not of everything");
  subcommand->add_option("--top", command->most, "Lines of each table; 0: all")
      ->type_name("N")
      ->capture_default_str();
  add_format_option(*subcommand, command->format);
  subcommand->callback([command, &exit_code] { exit_code = print_diff(*command); });
}

}  // namespace tracecast
