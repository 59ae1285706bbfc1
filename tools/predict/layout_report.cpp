#include "tools/predict/layout_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/command/csv.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;
using plan::LayoutSearch;
using plan::ParallelLayout;
constexpr std::size_t kShown = 12;

/// 80 columns with `why` of 14.
std::string row(const ParallelLayout& d, const std::string& why) {
  std::string line = fmt::format("{:>3} {:>3} {:>5} {:>3} {:>4} {:>5} {:<9} {:<13} {:>7} {:>4} {}",
                                 d.tensor, d.pipeline, d.data, d.expert, d.zero, d.micro_batch,
                                 d.recompute, d.schedule, low_precision(d.samples_per_s.value, 7),
                                 low_precision(d.memory.in_gib(), 4), cut_text(why, 14));
  line.erase(line.find_last_not_of(' ') + 1);
  return line + '\n';
}

/// "tensor 7 %", of tensor_parallel.
std::string why_slower(const ParallelLayout& d) {
  const std::string_view name = d.bottleneck;
  return fmt::format("{} {}", cut_text(std::string(name.substr(0, name.find('_'))), 10),
                     percent(d.bottleneck_share));
}

Json layout_json(const ParallelLayout& d) {
  return {{"tp", d.tensor},
          {"pp", d.pipeline},
          {"dp", d.data},
          {"ep", d.expert},
          {"zero", d.zero},
          {"micro_batch", d.micro_batch},
          {"recompute", d.recompute},
          {"schedule", d.schedule},
          {"throughput", interval_json(d.samples_per_s)},
          {"step_time_s", interval_json(d.step_time_s)},
          {"memory_bytes", d.memory.in_bytes()},
          {"memory_capacity_bytes", d.capacity.in_bytes()},
          {"fits", d.fits},
          {"bottleneck", d.bottleneck},
          {"bottleneck_share", d.bottleneck_share}};
}

}  // namespace

std::string layouts_text(const LayoutSearch& search, const Job& job) {
  std::string page;
  add_line(page, "Network", job.network);
  add_line(page, "Searched",
           fmt::format("{} parallel layouts predicted, {} left out that cannot be better",
                       search.predicted, search.left_out));
  const std::string head = fmt::format(
      "{:>3} {:>3} {:>5} {:>3} {:>4} {:>5} {:<9} {:<13} {:>7} {:>4} {}\n", "tp", "pp", "dp", "ep",
      "zero", "micro", "recompute", "schedule", "seq/s", "GiB", "waits most for");
  page += "\nFastest that fit\n" + head;
  std::size_t shown = 0;
  for (const ParallelLayout& d : search.parallel_layouts) {
    if (!d.fits || shown++ == kShown) break;
    page += row(d, why_slower(d));
  }
  if (shown == 0) page += "none\n";
  page += "\nSpeed against memory: none is faster with less\n" + head;
  for (std::size_t f = 0; f < std::min(kShown, search.front.size()); ++f)
    page += row(search.parallel_layouts[search.front[f]], "");
  std::size_t over = 0;
  for (const ParallelLayout& d : search.parallel_layouts) {
    const ParallelLayout& best = search.parallel_layouts.front();
    if (d.fits || over == 5) continue;
    if (best.fits && d.samples_per_s.value <= best.samples_per_s.value) continue;
    if (over++ == 0)
      page += (best.fits ? "\nFaster ones that do not fit\n" : "\nNone fits\n") + head;
    page += row(d, fmt::format("{:.1f} GiB over", (d.memory - d.capacity).in_gib()));
  }
  return page;
}

std::string layouts_json(const LayoutSearch& search, const Job& job) {
  Json doc{{"schema", fmt::format("tracecast.divisions/{}", kSchema)},
           {"version", kVersion},
           {"network", job.network},
           {"predicted", search.predicted},
           {"left_out", search.left_out}};
  doc["divisions"] = Json::array();
  for (const ParallelLayout& d : search.parallel_layouts)
    doc["divisions"].push_back(layout_json(d));
  doc["front"] = search.front;
  return json_text(doc) + "\n";
}

std::string layouts_csv(const LayoutSearch& search) {
  std::string text =
      "tp,pp,dp,ep,zero,micro_batch,recompute,schedule,samples_per_s,low,high,memory_bytes,fits\n";
  for (const ParallelLayout& d : search.parallel_layouts) {
    text += csv_line(d.tensor, d.pipeline, d.data, d.expert, d.zero, d.micro_batch, d.recompute,
                     d.schedule, d.samples_per_s.value, d.samples_per_s.low, d.samples_per_s.high,
                     d.memory.in_bytes(), d.fits ? "yes" : "no");
  }
  return text;
}

}  // namespace tracecast
