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

using plan::Residence;

std::string quoted(const std::string& text) { return json_text(nlohmann::json(text), -1); }

}  // namespace

void write_gantt(const std::filesystem::path& path, const ScheduleSetting& setting,
                 const ScheduleReport& report) {
  std::vector<Residence> residences = report.schedule.residences;
  std::stable_sort(residences.begin(), residences.end(),
                   [](const Residence& a, const Residence& b) { return a.begin < b.begin; });
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
    for (const Residence& residence : residences) {
      const std::string& name = setting.mix.jobs[residence.job.index].name;
      const plan::JobKind& kind = setting.mix.kind_of(residence.job);
      const std::string label =
          residence.partner ? name + " + " + setting.mix.jobs[residence.partner->index].name : name;
      for (const std::uint32_t gpu : numbers.take(residence, residence.gpus)) {
        if (named[residence.type.index].insert(gpu).second) {
          sink(
              fmt::format(",\n{{\"ph\":\"M\",\"pid\":{},\"tid\":{},\"name\":\"thread_name\","
                          "\"args\":{{\"name\":"
                          "\"GPU\"}}}}",
                          residence.type.index, gpu));
        }
        sink(
            fmt::format(",\n{{\"ph\":\"X\",\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{},\"name\":{},"
                        "\"args\":{{\"gpus\":{},\"model\":{}}}}}",
                        residence.type.index, gpu, residence.begin.count(),
                        (residence.end - residence.begin).count(), quoted(label), residence.gpus,
                        quoted(kind.model)));
      }
    }
    sink("\n]}\n");
  });
}

}  // namespace tracecast
