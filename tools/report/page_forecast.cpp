#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/base/text.hpp"
#include "sim/job/layer_table.hpp"
#include "sim/job/roofline.hpp"
#include "sim/job/step_curves.hpp"
#include "sim/parallel/many_gpus_timeline.hpp"
#include "sim/step/step_timeline.hpp"
#include "tools/command/amounts.hpp"
#include "tools/command/output.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

/// "144 to 242 ms", of the step.
std::string step_range(const Interval& step) {
  return fmt::format("{} to {} ms", three_digits(step.low * 1e3), three_digits(step.high * 1e3));
}

std::string basis_words(const Forecast& f) {
  std::string text;
  for (const StepPart& part : f.by_basis) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", part.name,
                        percent(part.time.in_s() / f.step_time_s.value));
  }
  return text;
}

/// Basis and interval of whatever is a part of the step.
std::string step_trust(const Forecast& f) {
  return fmt::format("Basis: {}. 90 % interval of the step: {}; its parts are at least as unsure.",
                     basis_words(f), step_range(f.step_time_s));
}

/// The basis of the greatest part of the time.
std::string main_basis(const Forecast& f) {
  const auto most =
      std::max_element(f.by_basis.begin(), f.by_basis.end(),
                       [](const StepPart& a, const StepPart& b) { return a.time < b.time; });
  return most == f.by_basis.end() ? "" : most->name;
}

std::string subtitle_of(const Forecast& f) {
  std::string text = fmt::format("{}, batch {}{}, {}, {}", f.phase, f.batch_per_gpu,
                                 f.gpus > 1 ? " per GPU" : "", f.precision, f.framework);
  if (!f.optimizer.empty()) text += ", " + f.optimizer;
  if (!f.parallel_layout.empty()) text += ", " + f.parallel_layout;
  if (!f.machine.empty()) text += ", on " + f.machine;
  if (!f.host_cpu.empty()) text += ", host " + f.host_cpu;
  return text;
}

std::string report_of(const Forecast& f) {
  const bool counts_tokens = f.throughput_tokens_per_s.has_value();
  const Interval& rate = counts_tokens ? *f.throughput_tokens_per_s : f.throughput_samples_per_s;
  const std::string_view unit = counts_tokens ? "tokens/s" : "samples/s";
  std::string text =
      fmt::format("{} {}, most likely; with 90 % probability between {} and {}.",
                  three_digits(rate.value), unit, three_digits(rate.low), three_digits(rate.high));
  if (!f.bottleneck.empty()) text += fmt::format(" What limits it: {}.", f.bottleneck);
  if (!f.fits()) text += " It does not fit into the memory of the device.";
  return text;
}

void add_headline(PageJson& page, const Forecast& f) {
  PageJson& list = page["headline"];
  const std::string basis = main_basis(f);
  if (f.throughput_tokens_per_s) {
    list.push_back(page_fact("Throughput", *f.throughput_tokens_per_s, "tokens/s", basis));
  } else {
    list.push_back(page_fact("Throughput", f.throughput_samples_per_s, "samples/s", basis));
  }
  list.push_back(page_fact("Step time", f.step_time_s, "s", basis));
  if (f.gpus > 1) {
    list.push_back(page_fact("Efficiency", f.efficiency, "share",
                             fmt::format("of {} such GPUs alone", f.gpus)));
  }
  const Bytes headroom = f.memory.capacity - f.memory.needed;
  list.push_back(page_fact(
      "Memory used", f.memory.used.in_bytes(), "B",
      fmt::format("of {}: {}", size_text(f.memory.capacity),
                  f.fits() ? "fits, " + size_text(headroom) + " to spare" : "does not fit")));
  if (f.gpu_utilization) {
    const std::string arithmetic =
        f.sm_efficiency ? percent(*f.sm_efficiency) + " of peak arithmetic" : "";
    list.push_back(page_fact("GPU utilisation", f.gpu_utilization->avg, "share", arithmetic));
  }
  if (f.power) {
    list.push_back(page_fact(
        "Board power", f.power->board.avg.in_w(), "W",
        fmt::format("{:.0f} to {:.0f} W; {} J per sample", f.power->board.min.in_w(),
                    f.power->board.max.in_w(), three_digits(f.power->energy_per_sample.in_j()))));
  }
}

/// Kernels by class, the convolution's algorithms below it.
PageJson classes_section(const Forecast& f, const Prediction* one_gpu) {
  PageJson section = page_bars({.id = "classes",
                                .title = "Where a step goes",
                                .kind = "bars",
                                .text = "Time by class of the kernel that runs; idle: none runs.",
                                .trust = step_trust(f)},
                               f.by_class, Seconds(f.step_time_s.value));
  if (one_gpu == nullptr || one_gpu->convolutions.size() < 2) return section;
  PageJson bars = PageJson::array();
  for (PageJson& bar : section["bars"]) {
    bars.push_back(bar);
    if (bar["name"] != to_string(KernelClass::Convolution)) continue;
    for (const TimeShare& part : one_gpu->convolutions) {
      bars.push_back({{"name", part.name}, {"value", part.time.in_s()}, {"level", 1}});
    }
  }
  section["bars"] = std::move(bars);
  return section;
}

PageJson causes_section(const Forecast& f) {
  return page_bars(
      {.id = "causes",
       .title = "What a faster step would need",
       .kind = "bars",
       .text = "The critical path by cause: what, made faster, would make the step faster.",
       .trust = step_trust(f)},
      f.by_cause, Seconds(f.step_time_s.value));
}

std::string name_of(const ResolvedJob& job, OpId op) { return job.step->op(op).name; }

/// A line over all places that kernels lie at.
PageJson roof_series(std::string_view name, double left, double right, double peak,
                     double bandwidth) {
  const double knee = peak / bandwidth;
  PageJson x = PageJson::array(), y = PageJson::array();
  for (const double at : {left, knee, right}) {
    if (at < left || at > right) continue;
    x.push_back(at);
    y.push_back(std::min(peak, at * bandwidth));
  }
  return {{"name", name}, {"form", "reference"}, {"x", std::move(x)}, {"y", std::move(y)}};
}

PageJson roofline_section(const ResolvedJob& job, const Prediction& prediction,
                          const std::string& trust) {
  const Roofline roofline = make_roofline(job, prediction);
  const std::string left_out =
      roofline.without_arithmetic == 0
          ? ""
          : fmt::format(" {} kernels that only move data have no place here.",
                        roofline.without_arithmetic);
  PageJson section = new_section(
      {.id = "roofline",
       .title = "Roofline: every kernel",
       .kind = "chart",
       .text = "Arithmetic done per second over arithmetic per byte that must move. Below the "
               "slope memory limits, below the roof the units." +
               left_out,
       .trust = trust});
  double left = 1e30, right = 0;
  std::vector<std::string> order;
  std::map<std::string, PageJson> series;
  for (const RooflineKernel& k : roofline.kernels) {
    const double intensity = (k.kernel->flops / k.kernel->bytes()).in_flop_per_byte();
    left = std::min(left, intensity);
    right = std::max(right, intensity);
    const std::string name(to_string(k.kernel->kernel_class));
    auto [at, is_new] = series.try_emplace(name);
    PageJson& one = at->second;
    if (is_new) {
      order.push_back(name);
      one = {{"name", name},
             {"form", "points"},
             {"x", PageJson::array()},
             {"y", PageJson::array()},
             {"labels", PageJson::array()}};
    }
    one["x"].push_back(intensity);
    one["y"].push_back(k.kernel->flops.in_flop() / k.time.in_s());
    one["labels"].push_back(
        fmt::format("{}: {}, {}, {} ms ({}, basis {})", name_of(job, k.op), k.kernel->name,
                    k.kernel->algorithm == Algorithm::None ? "no choice of algorithm"
                                                           : to_string(k.kernel->algorithm),
                    three_digits(k.time.in_ms()), to_string(k.bound), to_string(k.basis)));
  }
  section["x"] = {{"label", "arithmetic intensity"}, {"unit", "FLOP/B"}, {"log", true}};
  section["y"] = {{"label", "arithmetic rate"}, {"unit", "flop/s"}, {"log", true}};
  section["tall"] = true;
  section["series"] = PageJson::array();
  for (const std::string& name : order) section["series"].push_back(std::move(series[name]));
  const double bandwidth = roofline.bandwidth.in_gb_per_s() * 1e9;
  for (const Roof& roof : roofline.roofs) {
    section["series"].push_back(
        roof_series(fmt::format("{} on {}", to_string(roof.precision),
                                roof.unit == MathUnit::TensorCore ? "tensor cores" : "CUDA cores"),
                    left / 2, right * 2, roof.peak.in_tflop_per_s() * 1e12, bandwidth));
  }
  return section;
}

PageJson layers_section(const ResolvedJob& job, const Prediction& prediction,
                        const std::string& trust) {
  PageJson section =
      new_section({.id = "layers",
                   .title = "Layer by layer",
                   .kind = "table",
                   .text = "Every op of the step that runs kernels, with what limits the longest "
                           "of them and what its time rests on. Heads sort.",
                   .trust = trust});
  section["columns"] = {{{"name", "layer"}},
                        {{"name", "kind"}},
                        {{"name", "pass"}},
                        {{"name", "shape"}},
                        {{"name", "time"}, {"unit", "s"}, {"bar", true}},
                        {{"name", "arithmetic"}, {"unit", "flop"}},
                        {{"name", "traffic"}, {"unit", "B"}},
                        {{"name", "FLOP per byte"}, {"unit", ""}},
                        {{"name", "algorithm"}},
                        {{"name", "kernels"}, {"unit", "count"}},
                        {{"name", "bound"}},
                        {{"name", "basis"}}};
  section["sort"] = 4;
  section["rows"] = PageJson::array();
  for (const LayerRow& row : layer_table(job, prediction)) {
    section["rows"].push_back({row.name, row.kind, row.pass, row.shape, row.time.in_s(),
                               row.flops.in_flop(), row.bytes.in_bytes(), row.intensity(),
                               row.algorithm, row.num_kernels, row.bound, row.basis});
  }
  return section;
}

PageJson memory_section(const Forecast& f) {
  PageJson section =
      new_section({.id = "memory",
                   .title = "Memory at its peak",
                   .kind = "bars",
                   .text = fmt::format("Of the fullest device: what nvidia-smi would show, {}, "
                                       "of {}.",
                                       size_text(f.memory.used), size_text(f.memory.capacity))});
  section["unit"] = "B";
  section["whole"] = f.memory.capacity.in_bytes();
  section["bars"] = PageJson::array();
  for (const auto& [name, bytes] : f.memory.by_class) {
    const std::string_view shown = name == "pool"      ? "held by the allocator"
                                   : name == "context" ? "context, libraries"
                                                       : std::string_view(name);
    if (bytes > Bytes(0)) {
      section["bars"].push_back({{"name", shown}, {"value", bytes.in_bytes()}});
    }
  }
  return section;
}

PageJson memory_curve_section(const ResolvedJob& job, const StepCurves& curves) {
  PageJson section =
      new_section({.id = "memory-over-time",
                   .title = "Memory over a step",
                   .kind = "chart",
                   .text = "What lives in device memory while each op runs; what the allocator "
                           "holds beyond that, and the context, stay the same."});
  section["x"] = {{"label", "time"}, {"unit", "s"}, {"min", 0}};
  section["y"] = {{"label", "live memory"}, {"unit", "B"}, {"min", 0}};
  section["series"] = PageJson::array();
  using Part = Bytes MemoryByClass::*;
  constexpr std::pair<const char*, Part> kParts[] = {{"weights", &MemoryByClass::weights},
                                                     {"gradients", &MemoryByClass::gradients},
                                                     {"optimizer", &MemoryByClass::optimizer},
                                                     {"activations", &MemoryByClass::activations},
                                                     {"workspace", &MemoryByClass::workspace}};
  for (const auto& [name, part] : kParts) {
    PageJson x = PageJson::array(), y = PageJson::array(), labels = PageJson::array();
    bool is_there = false;
    for (const MemoryMoment& moment : curves.memory) {
      x.push_back(moment.begin.in_s());
      y.push_back((moment.live.*part).in_bytes());
      labels.push_back(name_of(job, moment.op));
      is_there |= moment.live.*part > Bytes(0);
    }
    if (!is_there) continue;
    section["series"].push_back({{"name", name},
                                 {"form", "area"},
                                 {"x", std::move(x)},
                                 {"y", std::move(y)},
                                 {"labels", std::move(labels)}});
  }
  return section;
}

PageJson curve_series(std::string_view name, const SampledCurve& curve) {
  PageJson x = PageJson::array(), y = PageJson::array();
  for (std::size_t w = 0; w < curve.values.size(); ++w) {
    x.push_back(curve.window.in_s() * static_cast<double>(w));
    y.push_back(curve.values[w]);
  }
  return {{"name", name}, {"form", "steps"}, {"x", std::move(x)}, {"y", std::move(y)}};
}

struct CurveWords {
  std::string_view id, title, label, unit;
  std::string text;
};
PageJson curve_section(const CurveWords& words, const SampledCurve& curve,
                       const std::string& trust) {
  PageJson section = new_section(
      {.id = words.id, .title = words.title, .kind = "chart", .text = words.text, .trust = trust});
  section["x"] = {{"label", "time"}, {"unit", "s"}, {"min", 0}};
  section["y"] = {{"label", words.label}, {"unit", words.unit}, {"min", 0}};
  if (words.unit == "share") section["y"]["max"] = 1;
  section["series"] = {curve_series(words.label, curve)};
  return section;
}

void add_curves(PageJson& sections, const ResolvedJob& job, const Prediction& p,
                const StepCurves& curves, const std::string& trust) {
  if (!curves.memory.empty()) sections.push_back(memory_curve_section(job, curves));
  if (curves.busy.values.empty()) return;
  sections.push_back(curve_section(
      {"utilisation", "GPU utilisation as nvidia-smi samples it", "GPU utilisation", "share",
       fmt::format("Share of each window of {} ms in which a kernel runs, steps one after the "
                   "other.",
                   three_digits(curves.busy.window.in_ms()))},
      curves.busy, trust));
  sections.push_back(
      curve_section({"utilisation-in-step", "The GPU within one step", "GPU utilisation", "share",
                     "Where kernels run and where the GPU waits, finer than any "
                     "tool samples."},
                    curves.busy_in_step, trust));
  if (curves.power_w.values.empty()) return;
  const std::string power_trust = fmt::format(
      "Basis: {}. {}", p.power.is_guess ? "a guess, tensor cores take part" : "transferred",
      p.power.throttles ? fmt::format("The limit of {:.0f} W holds the clock at {:.0f} MHz.",
                                      p.power.limit.in_w(), p.power.clock.in_mhz())
                        : fmt::format("The step asks for {:.0f} W, the limit is {:.0f} W.",
                                      p.power.demand.in_w(), p.power.limit.in_w()));
  sections.push_back(
      curve_section({"power", "Board power as nvidia-smi shows it", "board power", "W",
                     fmt::format("Means over {} ms, steps one after the other.",
                                 three_digits(curves.power_w.window.in_ms()))},
                    curves.power_w, power_trust));
  sections.push_back(curve_section({"power-in-step", "Board power within one step", "board power",
                                    "W", "What the kernels draw, before any averaging."},
                                   curves.power_in_step_w, power_trust));
}

PageJson scaling_section(const Forecast& f, const ScalingCurve& scaling) {
  std::string text =
      "Throughput of this job on so many GPUs, each with the same batch; dashed: as many times "
      "the first.";
  for (const std::string& line : scaling.left_out) text += " " + line;
  PageJson section = new_section(
      {.id = "scaling",
       .title = "Scaling",
       .kind = "chart",
       .text = text,
       .trust = fmt::format("Basis: {}. Whiskers are 90 % intervals.", basis_words(f))});
  PageJson x = PageJson::array(), y = PageJson::array(), low = PageJson::array(),
           high = PageJson::array(), labels = PageJson::array(), ideal = PageJson::array();
  const ScalingPoint& first = scaling.points.front();
  for (const ScalingPoint& point : scaling.points) {
    x.push_back(point.gpus);
    y.push_back(point.samples_per_s.value);
    low.push_back(point.samples_per_s.low);
    high.push_back(point.samples_per_s.high);
    labels.push_back(fmt::format("{} GPUs, efficiency {}", point.gpus, percent(point.efficiency)));
    ideal.push_back(first.samples_per_s.value * static_cast<double>(point.gpus) /
                    static_cast<double>(first.gpus));
  }
  section["x"] = {{"label", "GPUs"}, {"unit", ""}, {"min", 0}};
  section["y"] = {{"label", "throughput"}, {"unit", "samples/s"}, {"min", 0}};
  section["series"] = {
      {{"name", "predicted"},
       {"form", "line"},
       {"x", x},
       {"y", std::move(y)},
       {"low", std::move(low)},
       {"high", std::move(high)},
       {"labels", std::move(labels)}},
      {{"name", "linear"}, {"form", "reference"}, {"x", x}, {"y", std::move(ideal)}}};
  return section;
}

PageJson links_section(const ManyGpus& many) {
  PageJson section = new_section({.id = "links",
                                  .title = "Busiest links",
                                  .kind = "table",
                                  .text = "Share of a link's bandwidth in use, over a step."});
  section["columns"] = {{{"name", "link"}},
                        {{"name", "bandwidth"}, {"unit", "B/s"}},
                        {{"name", "in use"}, {"unit", "share"}, {"bar", true}}};
  section["rows"] = PageJson::array();
  for (const LinkLoad& load : many.step.busiest) {
    section["rows"].push_back({many.fabric.name_of(load.link),
                               many.fabric.link(load.link).bandwidth.in_gb_per_s() * 1e9,
                               load.share});
  }
  return section;
}

/// What one GPU does, of an answer for one or for many.
void add_one_gpu(PageJson& sections, const ResolvedJob& job, const Prediction& p,
                 const std::string& trust) {
  sections.push_back(roofline_section(job, p, trust));
  sections.push_back(layers_section(job, p, trust));
}

/// The sections that the details of an answer give.
struct Details {
  const Forecast& forecast;
  const ScalingCurve& scaling;
  PageJson& sections;
  std::string trust = step_trust(forecast);

  void timeline(Timeline shown, std::string_view text) const {
    sections.push_back(page_timeline({.id = "timeline",
                                      .title = "What runs when",
                                      .kind = "timeline",
                                      .text = std::string(text),
                                      .trust = trust},
                                     shown));
  }
  void operator()(const OneGpuDetails& d) const {
    const Prediction& p = d.prediction;
    sections.push_back(classes_section(forecast, &p));
    sections.push_back(causes_section(forecast));
    timeline(
        step_timeline(p.program, p.priced, *d.job.step, p.timeline.steps_simulated, d.job.gpu.name),
        "Simulated steps: what the host issues, what is copied, what the GPU runs.");
    add_one_gpu(sections, d.job, p, trust);
    sections.push_back(memory_section(forecast));
    add_curves(sections, d.job, p, step_curves(d.job, p), trust);
  }
  void operator()(const ManyGpusDetails& d) const {
    const ManyGpus& many = d.prediction;
    if (scaling.points.size() > 1) sections.push_back(scaling_section(forecast, scaling));
    sections.push_back(classes_section(forecast, nullptr));
    sections.push_back(causes_section(forecast));
    timeline(
        many_gpus_timeline(many.step, many.kind_of, many.groups.size() == 1 ? d.job.gpu.name : ""),
        "A step of every GPU: slices between gradients that get ready, and their "
        "communication.");
    if (!many.step.busiest.empty()) sections.push_back(links_section(many));
    add_one_gpu(sections, d.job, many.one_gpu, trust + " Of one GPU alone.");
    sections.push_back(memory_section(forecast));
    const StepCurves curves = step_curves(d.job, many.one_gpu);
    if (!curves.memory.empty()) sections.push_back(memory_curve_section(d.job, curves));
  }
  void operator()(const ServerDetails& d) const {
    sections.push_back(classes_section(forecast, nullptr));
    if (!forecast.by_cause.empty()) sections.push_back(causes_section(forecast));
    add_one_gpu(sections, d.job, d.prediction.one_gpu, trust + " Of one worker alone.");
    sections.push_back(memory_section(forecast));
  }
  void operator()(const ShardedStep&) const {
    sections.push_back(classes_section(forecast, nullptr));
    if (!forecast.by_cause.empty()) sections.push_back(causes_section(forecast));
    sections.push_back(memory_section(forecast));
  }
};

}  // namespace

PageJson forecast_page(const Forecast& f, const ScalingCurve& scaling) {
  const std::string place = f.gpus == 1 ? f.gpu : fmt::format("{} x {}", f.gpus, f.gpu);
  PageJson page = new_page({.subcommand = "predict",
                            .title = fmt::format("{} on {}", f.network, place),
                            .subtitle = subtitle_of(f),
                            .report = report_of(f)});
  add_headline(page, f);
  page["basis"] = PageJson::array();
  for (const StepPart& part : f.by_basis) {
    page["basis"].push_back(
        {{"name", part.name}, {"share", part.time.in_s() / f.step_time_s.value}});
  }
  page["warnings"] = f.warnings;
  page["assumptions"] = f.assumptions;
  std::visit(Details{f, scaling, page["sections"]}, *f.details);
  add_inputs(page, f.inputs);
  return page;
}

}  // namespace tracecast
