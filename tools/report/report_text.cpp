#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "sim/job/network_file.hpp"
#include "tools/command/amounts.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"
#include "tools/report/memory_headline.hpp"
#include "tools/report/report.hpp"

namespace tracecast {
namespace {

/// Grows a report line by line; a label stands in the first columns.
class Page {
 public:
  template <class... Args>
  void line(std::string_view label, fmt::format_string<Args...> format, Args&&... args) {
    const std::string value = fmt::format(format, std::forward<Args>(args)...);
    add_line(text_, label, value);
  }
  void blank() { text_ += '\n'; }
  void raw(std::string_view line) {
    text_.append(line.substr(0, line.find_last_not_of(' ') + 1)) += '\n';
  }
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

/// Seconds in the unit that suits `like`.
struct TimeUnit {
  explicit TimeUnit(double like_s)
      : name(like_s >= 1      ? "s"
             : like_s >= 1e-3 ? "ms"
                              : "us"),
        factor(like_s >= 1      ? 1
               : like_s >= 1e-3 ? 1e3
                                : 1e6) {}
  [[nodiscard]] std::string operator()(double seconds) const {
    return three_digits(seconds * factor);
  }
  const char* name;
  double factor;
};

std::string_view meaning_of(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::Compute:
      return "the arithmetic of the kernels";
    case Bottleneck::Memory:
      return "the bandwidth of device memory";
    case Bottleneck::Launch:
      return "the host's dispatch and kernels too small to fill the GPU";
    case Bottleneck::Input:
      return "loading and copying the input";
  }
  return "";
}

}  // namespace

std::string chosen_for(const std::string& word, const GpuSpec& gpu) {
  return word.empty() || word == gpu.id ? "" : fmt::format(" (chosen for \"{}\")", word);
}

namespace {

void add_job(Page& page, const ResolvedJob& job) {
  const PlacedJob& o = job.options;
  const std::int64_t all = job.forward->parameter_count();
  const std::int64_t trained = all - job.forward->frozen_parameters;
  page.line(
      "Network", "{}{}: {} parameters{}, {} multiply-adds per sample", job.forward->name,
      !job.from_file              ? ""
      : is_config_path(o.network) ? " (config.json)"
                                  : " (ONNX file)",
      short_count(static_cast<double>(all)),
      trained < all ? fmt::format(", {} trained", short_count(static_cast<double>(trained))) : "",
      short_count(job.forward->forward_macs() / static_cast<double>(job.forward->batch)));
  page.line(job.cpu ? "CPU" : "GPU", "{} = {}{}", job.gpu.id, job.gpu.name,
            chosen_for(o.gpu, job.gpu));
  page.line("Job", "{}, batch {}{}{}, {}, {}{}, {}", o.phase, o.batch,
            o.accumulate > 1 ? fmt::format(" x {} per update", o.accumulate) : "",
            o.recompute == "none" ? "" : fmt::format(", {} recomputation", o.recompute),
            o.precision, job.framework.name, job.phase == Phase::Train ? ", " + o.optimizer : "",
            job.cpu     ? "input in memory"
            : job.input ? job.input->data.name + " loaded by " + job.input->pipeline.name
            : o.data == "synthetic" ? "input already on the GPU"
                                    : "input copied every step");
  if (job.machine) page.line("Machine", "{} = {}", job.machine->id, job.machine->name);
  for (const std::string& assumption : job.assumptions) page.line("", "{}", assumption);
  for (const std::string& warning : job.warnings) page.line("Warning", "{}", warning);
}

void add_step(Page& page, const Prediction& p) {
  const double step = p.step_time_s.value;
  const TimeUnit unit(step);
  std::vector<std::pair<std::string, double>> rows;
  for (const TimeShare& share : p.by_class) {
    rows.emplace_back(share.name, share.time.in_s());
    if (share.name == to_string(KernelClass::Convolution) && p.convolutions.size() > 1) {
      for (const TimeShare& part : p.convolutions) {
        rows.emplace_back("  " + std::string(part.name), part.time.in_s());
      }
    }
  }
  page.raw(fmt::format("{}{:>8}  {:>5}", fit("Where a step goes", 30), unit.name, "share"));
  for (const auto& [name, time] : rows) {
    page.raw(fmt::format("  {}{:>8}  {:>5}  {}", fit(name, 28, 2), unit(time), percent(time / step),
                         name.starts_with(" ") ? "" : bar(time / step, 32)));
  }
}

void add_greatest(Page& page, const ResolvedJob& job, const Prediction& p) {
  const double step = p.step_time_s.value;
  const TimeUnit unit(step);
  constexpr std::size_t kWhatAt = 47;  // columns before the last
  page.raw(fmt::format("{}{:>8}  {:>5}", fit("What costs most", 30), unit.name, "share"));
  for (const Cost& cost : p.greatest) {
    std::string name(cost.cause);
    std::string what;
    if (cost.layer) {
      const Op& op = job.step->op(*cost.layer);
      name = op.name;
      what = to_string(op.kind);
      if (!op.outputs.empty()) what += " -> " + to_string(job.step->tensor(op.outputs[0]).shape);
    }
    page.raw(fmt::format("  {}{:>8}  {:>5}  {}", fit(name, 28, 2), unit(cost.time.in_s()),
                         percent(cost.time.in_s() / step), last_cell(what, kWhatAt)));
  }
}

/// What the loader does, and what would keep the GPU busy.
void add_input(Page& page, const ResolvedJob& job, const InputUse& use) {
  const auto batch = static_cast<double>(job.options.batch);
  page.line("Input", "the GPU waits {} of the time; the loader could supply {} samples/s ({})",
            percent(use.waiting), three_digits(batch / use.supply.in_s()), use.slowest);
  page.line("", "{} on {}; {} ms of one core per sample{}",
            use.workers == 0   ? "no workers: the dispatch thread loads,"
            : use.workers == 1 ? "1 worker"
                               : fmt::format("{} workers", use.workers),
            processors_text(use), three_digits(use.sample_cpu_time.in_ms()),
            use.cpu_speed < 0.995 ? fmt::format("; threads share cores: {} of that speed each",
                                                percent(use.cpu_speed))
                                  : "");
  if (use.supply > use.step_without) {
    page.line("", "{}",
              use.workers_needed ? fmt::format("{} workers with a core each would keep it busy",
                                               *use.workers_needed)
                                 : "no number of workers would keep it busy");
  }
}

void add_cpu(Page& page, const Prediction& p) {
  if (p.input) {
    page.line("CPU utilisation", "{} of {}: {} at work, loading and dispatching",
              percent(p.cpu_utilization), utilization_of(*p.input),
              three_digits(p.input->busy_threads));
  } else {
    page.line("CPU utilisation", "{} of one core: the dispatch thread", percent(p.cpu_utilization));
  }
}

std::string help_for_input(const InputUse& use) {
  if (use.slowest != "workers") return fmt::format("a faster {} for the input", use.slowest);
  return use.workers < use.cpu_threads
             ? fmt::format("more workers: --workers, now {}", use.workers)
             : fmt::format("more CPU threads: --cpu-threads, now {}", use.cpu_threads);
}

std::string effect_of_limit(const PowerRange& power) {
  const double limit = power.limit.in_w(), asked = power.demand.in_w();
  if (!power.holds_limit)
    return fmt::format("; the limit of {:.0f} W cannot be held, the step asks for {:.0f} W", limit,
                       asked);
  if (!power.throttles)
    return fmt::format("; the step asks for {:.0f} W, the limit is {:.0f} W", asked, limit);
  return fmt::format(": the limit of {:.0f} W holds them back, the step asks for {:.0f} W", limit,
                     asked);
}

void add_power(Page& page, const ResolvedJob& job, const Prediction& p) {
  const PowerRange& power = p.power;
  std::string energy = three_digits(p.energy_per_sample.in_j()) + " J per sample";
  if (const auto samples = epoch_samples(job)) {
    const double joules = p.energy_per_sample.in_j() * static_cast<double>(*samples);
    energy += fmt::format(", {} kWh per epoch", three_digits(joules / 3.6e6));
  }
  page.line("Power", "{:.0f} W ({:.0f} to {:.0f}, idle {:.0f}), {}", power.avg.in_w(),
            power.min.in_w(), power.max.in_w(), power.idle.in_w(), energy);
  page.line("", "SMs at {:.0f} MHz on average{}", power.clock.in_mhz(), effect_of_limit(power));
  if (power.is_guess) page.line("", "a guess: energy of tensor cores is hardly fitted");
}

void add_basis(Page& page, const ResolvedJob& job, const Prediction& p) {
  std::string shares;
  for (const TimeShare& share : p.by_basis) {
    if (!shares.empty()) shares += ", ";
    shares += fmt::format("{} {}", share.name, percent(share.time.in_s() / p.step_time_s.value));
  }
  page.line("Basis", "{} of the time", shares);
  if (p.bottleneck == Bottleneck::Input && p.input) {
    page.line("Would help most", "{}", help_for_input(*p.input));
    return;
  }
  const double host = p.timeline.critical_host.in_s() / p.step_time_s.value;
  page.line(
      "Would help most", "{}",
      host > 0.5 ? fmt::format("your host's launch cost: --set framework.launch_us=...; now {} us",
                               three_digits(job.framework.host.launch_per_kernel.in_us()))
      : job.cpu
          ? fmt::format("measured steps of a {}: every CPU parameter is a prior", job.gpu.name)
          : fmt::format("parameters fitted on a {}: --profile FILE", job.gpu.name));
}

}  // namespace

std::string report_text(const ResolvedJob& job, const Prediction& p, const MemoryAdvice& advice) {
  Page page;
  page.line("Memory", "{}", memory_headline(p.memory, advice));
  add_job(page, job);
  page.blank();
  const TimeUnit unit(p.step_time_s.value);
  page.line("Throughput", "{} samples/s{:>4}({}90 % interval: {} to {})",
            three_digits(p.throughput_samples_per_s.value), "",
            p.memory.fits ? "" : "if it fitted; ", three_digits(p.throughput_samples_per_s.low),
            three_digits(p.throughput_samples_per_s.high));
  page.line("Step time", "{} {} (90 % interval: {} to {})", unit(p.step_time_s.value), unit.name,
            unit(p.step_time_s.low), unit(p.step_time_s.high));
  page.line("Limited by", "{}: {}", to_string(p.bottleneck), meaning_of(p.bottleneck));
  page.blank();
  add_step(page, p);
  page.blank();
  add_greatest(page, job, p);
  page.blank();
  for (const std::string& line : memory_lines(job, p, p.memory, advice)) page.raw(line);
  page.blank();
  const StepTimeline& t = p.timeline;
  const double step = p.step_time_s.value;
  page.line("Critical path", "kernels {}, waiting for the host {}, for input {}",
            percent(t.critical_kernels.in_s() / step), percent(t.critical_host.in_s() / step),
            percent(t.critical_input.in_s() / step));
  if (job.cpu) {
    page.line("CPU utilisation", "{} of {} cores; {} of peak arithmetic",
              percent(p.cpu_utilization), job.cpu->cores(), percent(p.sm_efficiency));
    page.line("Power", "not predicted without a GPU; {} x TDP {:.0f} W", job.cpu->sockets,
              job.cpu->cpu.tdp.in_w());
  } else {
    page.line("GPU utilisation", "{} (nvidia-smi: {} to {}); SM efficiency {} of peak arithmetic",
              percent(p.gpu_utilization.avg), percent(p.gpu_utilization.min),
              percent(p.gpu_utilization.max), percent(p.sm_efficiency));
    if (p.input) add_input(page, job, *p.input);
    add_cpu(page, p);
    add_power(page, job, p);
  }
  page.blank();
  add_basis(page, job, p);
  return page.take();
}

}  // namespace tracecast
