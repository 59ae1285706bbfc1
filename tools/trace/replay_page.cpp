#include "tools/trace/replay_page.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>

#include "sim/base/text.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

std::string milliseconds(double s) { return three_digits(s * 1e3) + " ms"; }

/// Steps of a rank: recorded and replayed.
PageJson steps_section(const PageJson& rank) {
  PageJson section = new_section({.id = "steps",
                                  .title = "Step by step",
                                  .kind = "chart",
                                  .text = "Each step that the recording marks, and its replay."});
  PageJson names = PageJson::array(), places = names, recorded = names, predicted = names;
  for (const PageJson& step : rank["steps"]) {
    places.push_back(names.size());
    names.push_back(step["name"]);
    recorded.push_back(step["recorded_s"]);
    predicted.push_back(step["predicted_s"]);
  }
  section["x"] = {{"label", "step"}, {"unit", ""}, {"names", std::move(names)}};
  section["y"] = {{"label", "time"}, {"unit", "s"}, {"min", 0}};
  section["series"] = {
      {{"name", "recorded"}, {"form", "points"}, {"x", places}, {"y", std::move(recorded)}},
      {{"name", "replayed"}, {"form", "points"}, {"x", places}, {"y", std::move(predicted)}}};
  return section;
}

/// Recorded and predicted times by what `key` names.
PageJson moved_section(const SectionHead& head, const PageJson& rows, const char* key) {
  PageJson section = new_section(head);
  section["columns"] = {{{"name", key}},
                        {{"name", "share"}, {"unit", "share"}},
                        {{"name", "recorded"}, {"unit", "s"}, {"bar", true}},
                        {{"name", "predicted"}, {"unit", "s"}},
                        {{"name", "predicted / recorded"}, {"unit", ""}}};
  section["rows"] = PageJson::array();
  for (const PageJson& row : rows) {
    const double recorded = row["recorded_s"], predicted = row["predicted_s"];
    section["rows"].push_back({row[key], row["share"], recorded, predicted,
                               recorded > 0 ? PageJson(predicted / recorded) : PageJson()});
  }
  return section;
}

PageJson ranks_section(const PageJson& ranks) {
  PageJson section = new_section({.id = "ranks",
                                  .title = "Rank by rank",
                                  .kind = "table",
                                  .text = "Median step, and the time in which a kernel ran."});
  section["columns"] = {{{"name", "rank"}, {"unit", "count"}},
                        {{"name", "GPU"}},
                        {{"name", "step recorded"}, {"unit", "s"}},
                        {{"name", "step replayed"}, {"unit", "s"}, {"bar", true}},
                        {{"name", "busy recorded"}, {"unit", "s"}},
                        {{"name", "busy replayed"}, {"unit", "s"}}};
  section["rows"] = PageJson::array();
  for (const PageJson& rank : ranks) {
    section["rows"].push_back({rank["rank"], rank["gpu"], rank["recorded_step_s"],
                               rank["predicted_step_s"], rank["recorded_busy_s"],
                               rank["predicted_busy_s"]});
  }
  return section;
}

/// How the recording was made a program: what waits for what.
PageJson account_section(const PageJson& account) {
  PageJson section = new_section(
      {.id = "account",
       .title = "How the recording was rebuilt",
       .kind = "facts",
       .text = "What the replay knows of causes. Work that starts later than anything recorded "
               "explains is held to be caused by what was not recorded."});
  section["facts"] = PageJson::array();
  const std::pair<const char*, const char*> counts[] = {
      {"gpu_work", "kernels and copies"},
      {"tasks", "tasks"},
      {"dependencies", "dependencies"},
      {"host_waits", "waits of the host"},
      {"stream_waits_recorded", "waits of streams, recorded"},
      {"stream_waits_inferred", "waits of streams, inferred"},
      {"handoffs", "turns of threads"},
      {"launch_queue_waits", "launches that found the queue full"},
      {"unlaunched", "GPU work without a recorded launch"},
      {"before_launch", "begin before their launch"},
      {"waits_refuted", "waits that recorded times refute"},
      {"late", "begin later than explained"}};
  for (const auto& [key, label] : counts) {
    const auto count = account[key].get<std::uint64_t>();
    if (count > 0) section["facts"].push_back(page_words(label, fmt::format("{}", count)));
  }
  if (account["late_s"] > 0.0)
    section["facts"].push_back(page_fact("unexplained, in all", account["late_s"], "s"));
  return section;
}

Interval interval_of(const PageJson& json) { return {json["value"], json["low"], json["high"]}; }

void add_replay_headline(PageJson& page, const PageJson& report) {
  PageJson& facts = page["headline"];
  const bool is_moved = report.contains("transfer");
  if (is_moved && !report["transfer"]["step_time_s"].is_null()) {
    facts.push_back(
        page_fact("Step", interval_of(report["transfer"]["step_time_s"]), "s", "transferred"));
  } else if (!report["predicted_step_s"].is_null()) {
    facts.push_back(page_fact("Step", report["predicted_step_s"].get<double>(), "s"));
  }
  if (!report["recorded_step_s"].is_null())
    facts.push_back(page_fact("Step recorded", report["recorded_step_s"].get<double>(), "s"));
  if (is_moved)
    facts.push_back(
        page_fact("Kernels", interval_of(report["transfer"]["kernel_time_s"]), "s", "transferred"));
  facts.push_back(page_fact("GPU busy", report["predicted_busy_s"].get<double>(), "s"));
  facts.push_back(page_fact("GPU busy recorded", report["recorded_busy_s"].get<double>(), "s"));
  facts.push_back(page_fact("All of it", report["predicted_span_s"].get<double>(), "s"));
}

std::string sentence_of(const PageJson& report) {
  const PageJson& recorded = report["recorded_step_s"];
  const PageJson& predicted = report["predicted_step_s"];
  const std::string place = report.contains("transfer")
                                ? " on " + report["transfer"]["to"].get<std::string>()
                                : std::string();
  if (recorded.is_null() || predicted.is_null()) {
    return fmt::format("The GPU is busy for {}{}; recorded {}.",
                       milliseconds(report["predicted_busy_s"]), place,
                       milliseconds(report["recorded_busy_s"]));
  }
  return fmt::format("A step takes {}{}; recorded {}.", milliseconds(predicted), place,
                     milliseconds(recorded));
}

}  // namespace

void write_replay_page(const PageJson& report, const Timeline* timeline, const std::string& file) {
  std::string title;
  for (const PageJson& input : report["inputs"])
    title += (title.empty() ? "" : ", ") + input["name"].get<std::string>();
  PageJson page = new_page(
      {.subcommand = "trace replay",
       .title = title,
       .subtitle = "recorded on " + (report["gpu"] == "" ? std::string("an unnamed GPU")
                                                         : report["gpu"].get<std::string>()),
       .report = sentence_of(report)});
  add_replay_headline(page, report);
  PageJson& sections = page["sections"];
  if (report.contains("transfer")) {
    const PageJson& moved = report["transfer"];
    sections.push_back(moved_section({.id = "classes",
                                      .title = "By class of kernel",
                                      .kind = "table",
                                      .text = "Recorded times moved to the other GPU."},
                                     moved["classes"], "class"));
    sections.push_back(moved_section(
        {.id = "ways",
         .title = "By way of moving",
         .kind = "table",
         .text = "Kernels whose shapes are known are priced on both GPUs; others scale by what "
                 "binds them."},
        moved["ways"], "way"));
  }
  if (!report["steps"].empty()) sections.push_back(steps_section(report));
  if (report.contains("ranks")) sections.push_back(ranks_section(report["ranks"]));
  if (timeline != nullptr)
    sections.push_back(page_timeline({.id = "timeline",
                                      .title = "What ran when, replayed",
                                      .kind = "timeline",
                                      .text = "Streams and threads of the replay."},
                                     *timeline));
  sections.push_back(account_section(report["account"]));
  page["inputs"] = report["inputs"];
  write_page(std::move(page), file);
}

}  // namespace tracecast
