#include "tools/calibrate/calibrate_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "tools/command/output.hpp"

namespace tracecast {

using namespace calibrate;

namespace {

/// The accepted measurement of an experiment, or null.
const TimedExperiment* find(const Journal& journal, const Experiment& experiment) {
  const auto at = journal.measurements().find(describe(experiment));
  return at != journal.measurements().end() && at->second.outcome == TimedOutcome::Accepted
             ? &at->second
             : nullptr;
}

double tera_per_s(const Experiment& experiment, Seconds time) {
  return work_of(experiment).flops.in_flop() / time.in_s() * 1e-12;
}
double giga_bytes_per_s(const Experiment& experiment, Seconds time) {
  return work_of(experiment).bytes.in_bytes() / time.in_s() * 1e-9;
}

std::string product_line(const Experiment& experiment, const TimedExperiment& t) {
  std::string line = fmt::format("{} {} T{}/s", to_string(experiment.precision),
                                 three_digits(tera_per_s(experiment, t.time)),
                                 experiment.precision == Precision::Int8 ? "OP" : "FLOP");
  // Burst and sustained differ where power or heat sets in.
  if (t.burst < t.time * 0.97) {
    line += fmt::format(", {} in bursts", three_digits(tera_per_s(experiment, t.burst)));
  }
  if (t.sensors.sm_clock) line += fmt::format(", {:.0f} MHz", t.sensors.sm_clock->in_mhz());
  if (t.sensors.power) line += fmt::format(", {:.0f} W", t.sensors.power->in_w());
  if (t.sensors.throttle.power_cap) line += " (power limit)";
  return line;
}

/// The biggest of the plan's experiments that `is_wanted` and was measured.
template <class Wanted>
std::optional<std::pair<Experiment, const TimedExperiment*>> biggest(const Plan& plan,
                                                                     const Journal& journal,
                                                                     Wanted is_wanted) {
  std::optional<std::pair<Experiment, const TimedExperiment*>> best;
  for (const PlannedExperiment& planned : plan.experiments) {
    const Experiment& experiment = planned.experiment;
    if (!is_wanted(planned)) continue;
    const TimedExperiment* timed = find(journal, experiment);
    if (timed == nullptr) continue;
    if (!best || work_of(experiment).bytes > work_of(best->first).bytes) {
      best = {experiment, timed};
    }
  }
  return best;
}

std::string copies_line(const Plan& plan, const Journal& journal, CopyDirection direction,
                        const char* name) {
  std::string line;
  for (const bool pinned : {true, false}) {
    const auto copy = biggest(plan, journal, [&](const PlannedExperiment& planned) {
      const auto* shape = std::get_if<CopyShape>(&planned.experiment.shape);
      return shape != nullptr && shape->direction == direction && shape->pinned == pinned;
    });
    if (!copy) continue;
    line += fmt::format("{}{} {}", line.empty() ? fmt::format("{} ", name) : ", ",
                        three_digits(giga_bytes_per_s(copy->first, copy->second->time)),
                        pinned ? "GB/s page-locked" : "pageable");
  }
  return line;
}

class Lines {
 public:
  explicit Lines(const char* name) : name_(name) {}
  void add(const std::string& line) {
    if (line.empty()) return;
    text_ += fmt::format("{:<14}{}\n", text_.empty() ? name_ : "", line);
  }
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  const char* name_;
  std::string text_;
};

}  // namespace

std::string device_text(const DeviceIdentity& device, const GpuSpec& gpu) {
  std::string text =
      fmt::format("{:<14}{}\n", "GPU", wrap(fmt::format("{} ({})", gpu.id, device.name), 66, 14));
  std::string software = "driver " + (device.driver.empty() ? "unknown" : device.driver);
  const auto add = [&](const char* name, const std::string& version) {
    software += fmt::format(", {} {}", name, version.empty() ? "none" : version);
  };
  add("CUDA", device.cuda), add("cuDNN", device.cudnn), add("cuBLAS", device.cublas);
  text += fmt::format("{:<14}{}\n", "software", wrap(software, 65, 14));
  if (device.pinned_clock > Hertz(0)) {
    text += fmt::format("{:<14}held at {:.0f} MHz\n", "clock", device.pinned_clock.in_mhz());
  }
  for (const std::string& remark : device.remarks) {
    text += fmt::format("{:<14}{}\n", "note", wrap(remark, 65, 14));
  }
  return text;
}

std::string counts_text(const CollectCounts& c) {
  std::string text = fmt::format("{:<14}{} of {} experiments\n", "measured", c.accepted, c.planned);
  const auto line = [&](const char* name, std::size_t value, const char* what) {
    if (value > 0) text += fmt::format("  {:<12}{} {}\n", name, value, what);
  };
  line("repeated", c.repeated, "since a sample showed throttling");
  line("rejected", c.rejected, "throttled in every attempt; not in the tables");
  line("capped", c.power_capped, "at the power limit: the rate that lasts, kept");
  line("unsupported", c.unsupported, "by this card or its libraries");
  line("by events", c.by_events, "kernel records refused: launch time included");
  text += fmt::format("  {:<12}{} of {} repetitions\n", "outliers", c.outliers, c.repetitions);
  return text;
}

std::string rates_text(const Plan& plan, const Journal& journal) {
  Lines arithmetic("arithmetic"), memory("memory"), copies("copies"), launch("launch");
  for (const Precision precision :
       {Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Bf16, Precision::Int8}) {
    const auto gemm = biggest(plan, journal, [&](const PlannedExperiment& planned) {
      return planned.sustained && planned.experiment.precision == precision &&
             std::holds_alternative<GemmShape>(planned.experiment.shape);
    });
    if (gemm) arithmetic.add(product_line(gemm->first, *gemm->second));
  }
  const auto stream = biggest(plan, journal, [](const PlannedExperiment& planned) {
    return planned.sustained && std::holds_alternative<ElementwiseShape>(planned.experiment.shape);
  });
  if (stream) {
    memory.add(fmt::format("{} GB/s read and written",
                           three_digits(giga_bytes_per_s(stream->first, stream->second->time))));
  }
  copies.add(copies_line(plan, journal, CopyDirection::HostToDevice, "to the GPU"));
  copies.add(copies_line(plan, journal, CopyDirection::DeviceToHost, "from the GPU"));
  const TimedExperiment* empty = find(journal, {LaunchShape{1}, Precision::Fp32});
  const TimedExperiment* many = find(journal, {LaunchShape{1000}, Precision::Fp32});
  std::string line;
  if (many != nullptr) line += fmt::format("{} us on the host", three_digits(many->time.in_us()));
  if (empty != nullptr) {
    line += fmt::format("{}{} us for an empty kernel", line.empty() ? "" : ", ",
                        three_digits(empty->time.in_us()));
  }
  launch.add(line);
  return arithmetic.text() + memory.text() + copies.text() + launch.text();
}

}  // namespace tracecast
