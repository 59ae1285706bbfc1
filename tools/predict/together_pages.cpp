#include "tools/predict/together_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "sim/base/text.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

constexpr std::string_view kNoUncertainty =
    "These figures have no interval: no spread of their errors is told apart from that of a step.";

/// "resnet50, batch 64, GPU 0", the second of two alike with its number.
std::string job_label(const PageJson& jobs, std::size_t j) {
  const auto name = [&](std::size_t i) {
    return fmt::format("{}, batch {}, GPU {}", jobs[i]["network"].get<std::string>(),
                       jobs[i]["batch_per_gpu"].get<std::int64_t>(),
                       jobs[i]["gpu_index"].get<std::int64_t>());
  };
  std::size_t before = 0;
  for (std::size_t i = 0; i < j; ++i) before += name(i) == name(j) ? 1 : 0;
  return before == 0 ? name(j) : fmt::format("{} ({})", name(j), before + 1);
}

PageJson rates_of_jobs(const PageJson& jobs) {
  PageJson section = new_section({.id = "rates",
                                  .title = "Together and alone",
                                  .kind = "chart",
                                  .text = "Samples a second of each job beside the others, and of "
                                          "the same job with the box to itself.",
                                  .trust = std::string(kNoUncertainty)});
  PageJson names = PageJson::array(), at = PageJson::array();
  PageJson together = PageJson::array(), alone = PageJson::array();
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    names.push_back(job_label(jobs, j));
    at.push_back(j);
    together.push_back(jobs[j]["throughput_samples_per_s"]);
    alone.push_back(jobs[j]["alone_samples_per_s"]);
  }
  section["x"] = {{"label", "job"}, {"unit", ""}, {"names", std::move(names)}};
  section["y"] = {{"label", "throughput"}, {"unit", "samples/s"}, {"min", 0}};
  section["series"] = {{{"name", "together"}, {"form", "bars"}, {"x", at}, {"y", together}},
                       {{"name", "alone"}, {"form", "bars"}, {"x", at}, {"y", alone}}};
  return section;
}

PageJson table_of_jobs(const PageJson& jobs, bool fits) {
  PageJson section = new_section(
      {.id = "jobs",
       .title = "Job by job",
       .kind = "table",
       .text = "Of its rate alone: 1 is a job that does not notice the others. GPU: share of the "
               "time in which its kernels run."});
  section["columns"] = {{{"name", "job"}},
                        {{"name", "batch"}, {"unit", ""}},
                        {{"name", "GPU of the box"}, {"unit", ""}},
                        {{"name", "together"}, {"unit", "samples/s"}},
                        {{"name", "alone"}, {"unit", "samples/s"}},
                        {{"name", "of its rate alone"}, {"unit", "share"}, {"bar", true}},
                        {{"name", "GPU"}, {"unit", "share"}, {"bar", true}}};
  section["rows"] = PageJson::array();
  for (const PageJson& job : jobs) {
    PageJson row = {job["network"], job["batch_per_gpu"], job["gpu_index"]};
    for (const char* key :
         {"throughput_samples_per_s", "alone_samples_per_s", "normalized_rate", "gpu_share"}) {
      row.push_back(fits ? job[key] : PageJson());
    }
    section["rows"].push_back(std::move(row));
  }
  return section;
}

/// A chart over the sizes of buffers.
PageJson by_size(const SectionHead& head, const PageJson& sizes, PageJson y,
                 const std::vector<std::pair<const char*, const char*>>& series, double factor) {
  PageJson section = new_section(head);
  section["x"] = {{"label", "buffer of a GPU"}, {"unit", "B"}, {"log", true}};
  section["y"] = std::move(y);
  section["series"] = PageJson::array();
  for (const auto& [key, name] : series) {
    PageJson one = {{"name", name},
                    {"form", "line"},
                    {"x", PageJson::array()},
                    {"y", PageJson::array()},
                    {"labels", PageJson::array()}};
    for (const PageJson& size : sizes) {
      one["x"].push_back(size["size_bytes"]);
      one["y"].push_back(size[key].get<double>() * factor);
      one["labels"].push_back(
          fmt::format("{}, {}, {} channels", size["algorithm"].get<std::string>(),
                      size["protocol"].get<std::string>(), size["channels"].get<std::int64_t>()));
    }
    section["series"].push_back(std::move(one));
  }
  return section;
}

PageJson table_of_sizes(const PageJson& sizes) {
  PageJson section = new_section({.id = "sizes",
                                  .title = "Size by size",
                                  .kind = "table",
                                  .text = "What the library chooses, and what holds the rate."});
  section["columns"] = {{{"name", "size"}, {"unit", "B"}},
                        {{"name", "time"}, {"unit", "s"}},
                        {{"name", "of it latency"}, {"unit", "s"}},
                        {{"name", "size over time"}, {"unit", "B/s"}},
                        {{"name", "bus"}, {"unit", "B/s"}, {"bar", true}},
                        {{"name", "algorithm"}},
                        {{"name", "protocol"}},
                        {{"name", "channels"}, {"unit", ""}},
                        {{"name", "held by"}}};
  section["rows"] = PageJson::array();
  for (const PageJson& size : sizes) {
    const std::string link = size["bottleneck"].get<std::string>();
    section["rows"].push_back(
        {size["size_bytes"], size["time_us"].get<double>() * 1e-6,
         size["latency_us"].get<double>() * 1e-6, size["algorithm_gb_per_s"].get<double>() * 1e9,
         size["bus_gb_per_s"].get<double>() * 1e9, size["algorithm"], size["protocol"],
         size["channels"], link.empty() ? "the library's own limit" : link});
  }
  return section;
}

}  // namespace

void write_colocate_page(const PageJson& report, const std::string& file) {
  const PageJson& jobs = report["jobs"];
  const bool fits = report["fits"].get<bool>();
  const std::string says =
      fits ? fmt::format("Together they do the work of {} jobs that have the box to themselves.",
                         three_digits(report["normalized_sum"].get<double>()))
           : "They do not fit into the memory of the GPU together.";
  PageJson page = new_page(
      {.subcommand = "colocate",
       .title = fmt::format("{} job{} on {}", jobs.size(), jobs.size() == 1 ? "" : "s",
                            report["gpu"].get<std::string>()),
       .subtitle = report["mps"].get<bool>() ? "Kernels of all jobs overlap (CUDA MPS)."
                                             : "Jobs take turns on the GPU, in time slices.",
       .report = says});
  PageJson& headline = page["headline"];
  headline = PageJson::array();
  if (fits) {
    headline.push_back(page_fact("Jobs' worth", report["normalized_sum"].get<double>(), "",
                                 "sum of each one's rate over its rate alone"));
    headline.push_back(page_fact("CPU threads busy", report["busy_threads"].get<double>(), "",
                                 fmt::format("each at {:.0f} % of a core of its own",
                                             100 * report["cpu_speed"].get<double>())));
  }
  headline.push_back(page_fact("Device memory", report["device_memory_bytes"].get<double>(), "B",
                               fits ? "of the fullest GPU" : "more than the GPU has"));
  page["sections"] = PageJson::array();
  if (fits) page["sections"].push_back(rates_of_jobs(jobs));
  page["sections"].push_back(table_of_jobs(jobs, fits));
  write_page(std::move(page), file);
}

void write_collectives_page(const PageJson& report, const std::string& file) {
  const PageJson& sizes = report["sizes"];
  const auto largest =
      std::max_element(sizes.begin(), sizes.end(), [](const PageJson& a, const PageJson& b) {
        return a["size_bytes"].get<double>() < b["size_bytes"].get<double>();
      });
  const double bus = largest == sizes.end() ? 0 : (*largest)["bus_gb_per_s"].get<double>();
  const std::string collective = report["collective"].get<std::string>();
  PageJson page = new_page(
      {.subcommand = "collectives",
       .title = fmt::format("{} of {} GPUs", collective, report["gpus"].get<std::int64_t>()),
       .subtitle = fmt::format("{} on {} node{}", report["library"].get<std::string>(),
                               report["nodes"].get<std::int64_t>(),
                               report["nodes"].get<std::int64_t>() == 1 ? "" : "s"),
       .report = fmt::format("The largest buffer moves at {} GB/s of bus bandwidth.",
                             three_digits(bus))});
  page["headline"] = PageJson::array();
  if (largest != sizes.end()) {
    page["headline"].push_back(
        page_fact("Bus bandwidth", bus * 1e9, "B/s", "of the largest buffer"));
    page["headline"].push_back(
        page_fact("Its time", (*largest)["time_us"].get<double>() * 1e-6, "s"));
  }
  page["assumptions"] = report["assumptions"];
  page["sections"] = PageJson::array();
  page["sections"].push_back(
      by_size({.id = "bandwidth",
               .title = "Bandwidth by size",
               .kind = "chart",
               .text = "As nccl-tests shows it: size over time, and the same counted on the bus.",
               .trust = std::string(kNoUncertainty)},
              sizes, {{"label", "bandwidth"}, {"unit", "B/s"}, {"min", 0}},
              {{"bus_gb_per_s", "bus"}, {"algorithm_gb_per_s", "size over time"}}, 1e9));
  page["sections"].push_back(by_size({.id = "time",
                                      .title = "Time by size",
                                      .kind = "chart",
                                      .text = "The latency is what an empty buffer would take."},
                                     sizes, {{"label", "time"}, {"unit", "s"}, {"log", true}},
                                     {{"time_us", "time"}, {"latency_us", "latency"}}, 1e-6));
  page["sections"].push_back(table_of_sizes(sizes));
  if (report.contains("cluster")) {
    const PageJson& cluster = report["cluster"];
    page["inputs"] = {
        {{"kind", "cluster"}, {"name", cluster["name"]}, {"sha256", cluster["sha256"]}}};
  }
  write_page(std::move(page), file);
}

}  // namespace tracecast
