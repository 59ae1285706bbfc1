#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "sim/base/error.hpp"
#include "tools/command/json_text.hpp"
#include "tools/plan/schedule_report.hpp"
#include "traces/bytes/output_file.hpp"

#include <nlohmann/json.hpp>

namespace tracecast {
namespace {

using plan::Stay;
using plan::Time;

/// GPUs by number: those of a type in the order of its machines. Gives every stay GPUs that nobody else has meanwhile.
class GpuNumbers {
 public:
  explicit GpuNumbers(const plan::Fleet& fleet) : fleet_(fleet), first_(fleet.machines.size()) {
    std::vector<std::uint32_t> next(fleet.types.size());
    for (std::size_t m = 0; m < fleet.machines.size(); ++m) {
      const plan::FleetMachine& machine = fleet.machines[m];
      first_[m] = next[machine.type.index];
      next[machine.type.index] += static_cast<std::uint32_t>(machine.gpus);
    }
    for (const std::uint32_t count : next) free_at_.emplace_back(count);
  }
  /// Of a stay that does not begin before the one asked for before.
  std::vector<std::uint32_t> take(const Stay& stay, int gpus) {
    std::vector<std::uint32_t> taken;
    if (stay.held.empty()) {
      take_within(stay, 0, static_cast<std::uint32_t>(free_at_[stay.type.index].size()), gpus,
                  taken);
    }
    for (const plan::HeldGpus& part : stay.held) {
      const auto size = static_cast<std::uint32_t>(fleet_.machines[part.machine].gpus);
      take_within(stay, first_[part.machine], first_[part.machine] + size, part.gpus, taken);
    }
    return taken;
  }

 private:
  void take_within(const Stay& stay, std::uint32_t from, std::uint32_t to, int gpus,
                   std::vector<std::uint32_t>& taken) {
    std::vector<Time>& free_at = free_at_[stay.type.index];
    for (std::uint32_t gpu = from; gpu < to && gpus > 0; ++gpu) {
      if (free_at[gpu] > stay.begin) continue;
      free_at[gpu] = stay.end;
      taken.push_back(gpu);
      --gpus;
    }
    TRACECAST_CHECK(gpus == 0, "no GPU runs two gangs");
  }

  const plan::Fleet& fleet_;
  std::vector<std::uint32_t> first_;
  std::vector<std::vector<Time>> free_at_;
};

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
      for (const std::uint32_t gpu : numbers.take(stay, kind.gpus)) {
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
                        quoted(label), kind.gpus, quoted(kind.model)));
      }
    }
    sink("\n]}\n");
  });
}

}  // namespace tracecast
