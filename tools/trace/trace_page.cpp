#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "sim/base/text.hpp"
#include "tools/command/output.hpp"
#include "tools/report/page.hpp"
#include "tools/trace/trace_report.hpp"

namespace tracecast {
namespace {

constexpr double kNs = 1e-9;

PageJson bar(std::string_view name, const traces::Tally& tally, int level = 0) {
  PageJson made{{"name", name},
                {"value", static_cast<double>(tally.ns) * kNs},
                {"note", fmt::format("{} times", tally.count)}};
  if (level > 0) made["level"] = level;
  return made;
}

PageJson classes_section(const traces::Summary& s) {
  PageJson section =
      new_section({.id = "classes",
                   .title = "What the GPU did",
                   .kind = "bars",
                   .text = "Time of kernels by class; share of all GPU work, copies and memsets "
                           "included.",
                   .trust = "Basis: recorded."});
  section["unit"] = "s";
  section["whole"] = static_cast<double>(s.gpu_time_ns) * kNs;
  section["bars"] = PageJson::array();
  for (const traces::ClassTime& entry : s.classes) {
    section["bars"].push_back(bar(to_string(entry.kernel_class), entry.kernels));
    if (entry.kernel_class != KernelClass::Convolution) continue;
    for (const traces::AlgorithmTime& part : s.algorithms) {
      const bool is_known = part.algorithm != Algorithm::None;
      section["bars"].push_back(
          bar(is_known ? to_string(part.algorithm) : "algorithm not recorded", part.kernels, 1));
    }
  }
  return section;
}

PageJson idle_section(const traces::Summary& s) {
  PageJson section = new_section({.id = "idle",
                                  .title = "Why the GPU was idle",
                                  .kind = "bars",
                                  .text = "Gaps between GPU work, each charged to one cause; "
                                          "share of the time from first to last GPU work.",
                                  .trust = "Basis: recorded; the cause is a rule of thumb."});
  section["unit"] = "s";
  section["whole"] = static_cast<double>(s.work_span_ns) * kNs;
  section["bars"] = PageJson::array();
  for (std::size_t c = 0; c < traces::kIdleCauseCount; ++c) {
    if (s.idle[c].count == 0) continue;
    section["bars"].push_back(bar(to_string(static_cast<traces::IdleCause>(c)), s.idle[c]));
  }
  return section;
}

PageJson kernels_section(const traces::Summary& s) {
  PageJson section = new_section(
      {.id = "kernels", .title = "Longest kernels", .kind = "table", .trust = "Basis: recorded."});
  section["columns"] = {{{"name", "kernel"}},
                        {{"name", "class"}},
                        {{"name", "runs"}, {"unit", "count"}},
                        {{"name", "time"}, {"unit", "s"}, {"bar", true}}};
  section["sort"] = 3;
  section["rows"] = PageJson::array();
  for (const traces::KernelTime& kernel : s.top_kernels) {
    section["rows"].push_back({kernel.name, to_string(kernel.kernel_class), kernel.kernels.count,
                               static_cast<double>(kernel.kernels.ns) * kNs});
  }
  return section;
}

PageJson calls_section(const traces::Summary& s) {
  PageJson section = new_section({.id = "calls",
                                  .title = "Calls that cost the host most",
                                  .kind = "table",
                                  .trust = "Basis: recorded."});
  section["columns"] = {{{"name", "call"}},
                        {{"name", "calls"}, {"unit", "count"}},
                        {{"name", "time"}, {"unit", "s"}, {"bar", true}}};
  section["rows"] = PageJson::array();
  for (const traces::NamedTime& call : s.top_calls) {
    section["rows"].push_back(
        {call.name, call.tally.count, static_cast<double>(call.tally.ns) * kNs});
  }
  return section;
}

PageJson steps_section(const traces::Summary& s) {
  PageJson section = new_section({.id = "steps",
                                  .title = "Step by step",
                                  .kind = "chart",
                                  .text = "How long each recorded step took.",
                                  .trust = "Basis: recorded."});
  PageJson names = PageJson::array(), x = PageJson::array(), y = PageJson::array();
  for (const traces::NamedTime& step : s.steps) {
    x.push_back(names.size());
    names.push_back(step.name);
    y.push_back(static_cast<double>(step.tally.ns) * kNs);
  }
  section["x"] = {{"label", "step"}, {"unit", ""}, {"names", std::move(names)}};
  section["y"] = {{"label", "time"}, {"unit", "s"}, {"min", 0}};
  section["series"] = {{{"name", "recorded"}, {"form", "bars"}, {"x", x}, {"y", y}}};
  return section;
}

double share(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

}  // namespace

PageJson trace_page(const TraceReport& report, const Timeline* timeline) {
  const traces::Summary& s = report.total;
  const std::string gpu = s.gpu.empty() ? "a GPU that is not named" : s.gpu;
  const double busy = share(s.busy_ns, s.span_ns);
  PageJson page = new_page(
      {.subcommand = "trace",
       .title = s.source.empty() ? "Recording" : s.source,
       .subtitle = fmt::format("{}, {}, {} kernels of {} names", s.format, gpu, s.kernels,
                               s.distinct_kernels),
       .report = s.span_ns > 0
                     ? fmt::format("The GPU was busy {} of the time from the first kernel to the "
                                   "last.",
                                   percent(busy))
                     : "The recording holds sums, not when work ran."});
  PageJson& list = page["headline"];
  if (!s.steps.empty()) {
    std::int64_t all = 0;
    for (const traces::NamedTime& step : s.steps) all += step.tally.ns;
    list.push_back(page_fact("Step time",
                             static_cast<double>(all) * kNs / static_cast<double>(s.steps.size()),
                             "s", fmt::format("mean of {} steps, recorded", s.steps.size())));
  }
  if (s.span_ns > 0) {
    list.push_back(page_fact("GPU busy", busy, "share", "of the recording, recorded"));
    list.push_back(page_fact("Kernels at once", share(s.concurrent_ns, s.busy_ns), "share",
                             "of the busy time, two or more"));
  }
  list.push_back(page_fact("Kernels", static_cast<double>(s.kernels), "count"));
  if (s.peak_allocated_bytes >= 0) {
    list.push_back(page_fact("Memory", static_cast<double>(s.peak_allocated_bytes), "B",
                             "most that the framework's allocator gave out"));
  }
  PageJson& sections = page["sections"];
  if (!s.classes.empty()) sections.push_back(classes_section(s));
  if (s.idle_ns > 0) sections.push_back(idle_section(s));
  if (s.steps.size() > 1) sections.push_back(steps_section(s));
  if (timeline != nullptr) {
    sections.push_back(page_timeline({.id = "timeline",
                                      .title = "What ran when",
                                      .kind = "timeline",
                                      .text = "The recording: host threads, streams, and what "
                                              "they launched.",
                                      .trust = "Basis: recorded."},
                                     *timeline));
  }
  if (!s.top_kernels.empty()) sections.push_back(kernels_section(s));
  if (!s.top_calls.empty()) sections.push_back(calls_section(s));
  if (std::string warning = overrun_warning(s); !warning.empty()) {
    page["warnings"] = {std::move(warning)};
  }
  return page;
}

}  // namespace tracecast
