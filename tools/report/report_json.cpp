#include <nlohmann/json.hpp>

#include "sim/job/layer_table.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/version.hpp"
#include "tools/report/common_json.hpp"
#include "tools/report/report.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

Json layers_json(const ResolvedJob& job, const Prediction& prediction) {
  Json list = Json::array();
  for (const LayerRow& row : layer_table(job, prediction)) {
    list.push_back({{"layer", row.name},
                    {"kind", row.kind},
                    {"pass", row.pass},
                    {"shape", row.shape},
                    {"flops", row.flops.in_flop()},
                    {"bytes", row.bytes.in_bytes()},
                    {"arithmetic_intensity_flop_per_byte", row.intensity()},
                    {"algorithm", row.algorithm},
                    {"kernels", row.num_kernels},
                    {"bound", row.bound},
                    {"time_s", row.time.in_s()},
                    {"basis", row.basis}});
  }
  return list;
}

Json greatest_json(const ResolvedJob& job, const Prediction& prediction, Seconds step) {
  Json list = Json::array();
  for (const Cost& cost : prediction.greatest) {
    list.push_back({{"what", cost.layer ? job.step->op(*cost.layer).name : std::string(cost.cause)},
                    {"is_layer", cost.layer.has_value()},
                    {"time_s", cost.time.in_s()},
                    {"share", cost.time / step}});
  }
  return list;
}

}  // namespace

std::string report_json(const ResolvedJob& job, const Prediction& p, const MemoryAdvice& advice,
                        bool with_layers) {
  const Seconds step(p.step_time_s.value);
  Json doc;
  doc["schema"] = "tracecast.predict/" + std::to_string(kSchema);
  doc["version"] = kVersion;
  doc["inputs"] = Json::array();
  for (const InputRecord& input : job.inputs) {
    doc["inputs"].push_back(
        {{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  }
  doc["seed"] = 0;  // nothing is drawn at random
  doc["network"] = job.forward->name;
  doc["gpu"] = job.gpu.id;
  doc["gpus"] = 1;
  doc["nodes"] = 1;
  if (job.machine) doc["machine"] = job.machine->id;
  if (job.host) doc["host_cpu"] = job.host->id;
  doc["batch_per_gpu"] = job.options.batch;
  doc["phase"] = to_string(job.phase);
  doc["precision"] = to_string(job.precision);
  doc["framework"] = job.framework.id;
  doc["framework_version"] = job.options.software.version;
  doc["optimizer"] = job.phase == Phase::Train ? Json(job.options.optimizer) : Json();
  doc["recompute"] = job.options.recompute;
  doc["accumulate"] = job.options.accumulate;
  doc["data"] = job.options.data;
  doc["assumptions"] = job.assumptions;
  doc["warnings"] = job.warnings;
  if (with_layers && job.from_file) {
    doc["rewritten"] = Json::array();
    for (const Rewrite& line : job.rewrites)
      doc["rewritten"].push_back({{"rule", line.rule}, {"count", line.count}, {"ops", line.ops}});
  }
  doc["parameters"] = job.forward->parameter_count();
  doc["forward_macs_per_sample"] =
      job.forward->forward_macs() / static_cast<double>(job.forward->batch);
  doc["throughput_samples_per_s"] = interval_json(p.throughput_samples_per_s);
  doc["step_time_s"] = interval_json(p.step_time_s);
  doc["gpu_utilization"] = job.cpu ? Json() : range_json(p.gpu_utilization);
  doc["sm_efficiency"] = p.sm_efficiency;
  doc["cpu_utilization"] = p.cpu_utilization;
  doc["cpu_utilization_of"] = job.cpu   ? fmt::format("{} cores", job.cpu->cores())
                              : p.input ? utilization_of(*p.input)
                                        : std::string("one core");
  doc["memory"] = memory_json(p.memory, advice);
  if (job.cpu) {
    doc["power_w"] = doc["energy_j_per_sample"] = Json();
  } else {
    set_power(doc, job, p.power, 1, p.throughput_samples_per_s.value);
  }
  doc["breakdown"] = shares_json(p.by_class, "class", step, true);
  doc["convolution_algorithms"] = shares_json(p.convolutions, "algorithm", step, true);
  doc["critical_path"] =
      shares_json(std::vector<TimeShare>{{"kernels", p.timeline.critical_kernels},
                                         {"host", p.timeline.critical_host},
                                         {"input", p.timeline.critical_input}},
                  "cause", step, true);
  doc["greatest_costs"] = greatest_json(job, p, step);
  if (p.input) doc["input"] = input_json(job, *p.input);
  doc["basis"] = shares_json(p.by_basis, "basis", step, false);
  doc["bottleneck"] = to_string(p.bottleneck);
  doc["kernel_time_s"] = p.timeline.kernel_busy.in_s();
  doc["kernel_launches"] = p.num_kernels;
  if (with_layers) doc["layers"] = layers_json(job, p);
  return json_text(doc) + '\n';
}

}  // namespace tracecast
