#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "tools/command/json_text.hpp"
#include "tools/plan/gpu_numbers.hpp"
#include "tools/plan/schedule_report.hpp"
#include "traces/bytes/output_file.hpp"

#include <nlohmann/json.hpp>

namespace tracecast {
namespace {

using plan::Stay;

std::string quoted(const std::string& text) { return json_text(nlohmann::json(text), -1); }

}  // namespace

void write_gantt(const std::filesystem::path& path, const ScheduleSetting& setting,
                 const ScheduleAnswer& answer) {
  std::vector<Stay> stays = answer.schedule.stays;
  std::stable_sort(stays.begin(), stays.end(),
                   [](const Stay& a, const Stay& b) { return a.begin < b.begin; });
  GpuNumbers numbers(setting.fleet);
  traces::write_output_file(path, [&](const traces::ByteSink& sink) {
    sink("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    std::vector<std::set<std::uint32_t>> named(setting.fleet.types.size());
    bool first = true;
    for (std::size_t t = 0; t < setting.fleet.types.size(); ++t) {
      sink(fmt::format(
          "{}\n{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}",
          first ? "" : ",", t, quoted(setting.fleet.types[t].id)));
      first = false;
    }
    for (const Stay& stay : stays) {
      const std::string& name = setting.mix.jobs[stay.job.index].name;
      const plan::JobKind& kind = setting.mix.kind_of(stay.job);
      const std::string label =
          stay.partner ? name + " + " + setting.mix.jobs[stay.partner->index].name : name;
      for (const std::uint32_t gpu : numbers.take(stay, stay.gpus)) {
        if (named[stay.type.index].insert(gpu).second) {
          sink(
              fmt::format(",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\","
                          "\"args\":{{\"name\":"
                          "\"GPU\"}}}}",
                          stay.type.index, gpu));
        }
        sink(
            fmt::format(",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},"
                        "\"args\":{{\"gpus\":{},\"model\":{}}}}}",
                        stay.type.index, gpu, stay.begin.count(), (stay.end - stay.begin).count(),
                        quoted(label), stay.gpus, quoted(kind.model)));
      }
    }
    sink("\n]}\n");
  });
}

}  // namespace tracecast
