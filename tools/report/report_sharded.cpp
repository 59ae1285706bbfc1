#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/command/amounts.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"
#include "tools/predict/transformer_options.hpp"
#include "tools/report/common_json.hpp"
#include "tools/report/memory_headline.hpp"
#include "tools/report/nics.hpp"

namespace tracecast {
namespace {

struct NamedTime {
  const char* text;
  const char* key;
  Seconds time;
};
std::vector<NamedTime> times_of(const TransformerShares& s) {
  return {{"kernels", "compute", s.compute},
          {"slowed by collectives", "slowed_by_collectives", s.slowed},
          {"tensor parallel", "tensor_parallel", s.tensor},
          {"context parallel", "context_parallel", s.context},
          {"expert parallel", "expert_parallel", s.expert},
          {"waiting for the host", "host", s.host},
          {"pipeline bubble", "pipeline_bubble", s.bubble},
          {"data parallel, exposed", "data_parallel", s.data},
          {"update", "update", s.update},
          {"waiting for the slowest GPU", "stragglers", s.stragglers}};
}
struct NamedBytes {
  const char* text;
  const char* key;
  Bytes bytes;
};
std::vector<NamedBytes> bytes_of(const TransformerMemory& m) {
  return {
      {"weights", "weights", m.weights},           {"gradients", "gradients", m.gradients},
      {"optimizer", "optimizer", m.optimizer},     {"activations", "activations", m.activations},
      {"buffers", "buffers", m.buffers},           {"held by the allocator", "pool", m.pool},
      {"context, libraries", "context", m.context}};
}

std::string describe(const ParallelPlan& p) {
  std::string text =
      fmt::format("{} GPUs = tp {} x pp {} x dp {}", p.ranks(), p.tensor, p.pipeline, p.data);
  if (p.context > 1) text += fmt::format(" x cp {}", p.context);
  if (p.expert > 1) text += fmt::format(", experts over {}", p.expert);
  if (p.sequence_parallel) text += ", sequence parallel";
  if (p.pipeline > 1) {
    text += fmt::format(", {}", to_string(p.schedule));
    if (p.chunks > 1) text += fmt::format(" of {} chunks", p.chunks);
  }
  if (p.zero > 0) text += fmt::format(", ZeRO {} over {} ranks", p.zero, p.sharing_ranks());
  return text;
}

/// By piece of the network, one micro-batch on one rank.
void add_pieces(std::string& page, const TransformerPrediction& p) {
  page += fmt::format("\n{}{:>6}{:>11}{:>11}{:>12}{:>10}\n", fit("One rank, one micro-batch", 26),
                      "count", "forward ms", "backward", "communications", "kept MiB");
  for (const PieceTimes& piece : p.pieces) {
    page +=
        fmt::format("  {}{:>6}{:>11}{:>11}{:>12}{:>10}\n", fit(piece.name, 24, 2), piece.count,
                    three_digits(piece.forward.in_ms()), three_digits(piece.backward.in_ms()),
                    three_digits(piece.communications.in_ms()), three_digits(piece.kept.in_mib()));
  }
}

std::string pieces_csv(const TransformerPrediction& p) {
  std::string text = "piece,count,parameters,forward_s,backward_s,communications_s,kept_bytes\n";
  for (const PieceTimes& piece : p.pieces) {
    text += csv_line(piece.name, piece.count, piece.parameters, piece.forward.in_s(),
                     piece.backward.in_s(), piece.communications.in_s(), piece.kept.in_bytes());
  }
  return text;
}

std::string describe_batch(const ParallelPlan& p) {
  return fmt::format("{} sequences of {} tokens: {} micro-batches of {} per rank{}", p.global_batch,
                     p.tokens, p.micro_batches(), p.micro_batch,
                     p.recompute == Recompute::None
                         ? ""
                         : fmt::format(", {} recomputation", to_string(p.recompute)));
}

}  // namespace

std::string report_sharded_text(const ShardedStep& job, bool explains) {
  const TransformerPrediction& p = job.prediction;
  std::string page;
  add_line(page, "Memory",
           memory_headline(p.memory.fit(), p.memory.capacity, "micro-batch",
                           {job.largest_micro_batch, job.sure_micro_batch}));
  add_line(page, "Network",
           fmt::format("{}: {} parameters{}, {} layers of width {}", job.network,
                       short_count(p.parameters),
                       p.trained_parameters < p.parameters
                           ? fmt::format(", {} trained", short_count(p.trained_parameters))
                           : "",
                       job.layout.layers, job.layout.width));
  add_line(page, "GPUs", fmt::format("{} = {}", job.gpu, job.gpu_name));
  if (const std::string nics = nics_text(job.nics); !nics.empty()) add_line(page, "NICs", nics);
  add_line(page, "Job",
           fmt::format("train, {}, {}, {}", job.precision, job.optimizer, job.software.name));
  add_line(page, "Layout", describe(job.plan));
  add_line(page, "Batch", describe_batch(job.plan));
  for (const std::string& assumption : job.assumptions) add_line(page, "Assumed", assumption);
  for (const std::string& warning : job.warnings) add_line(page, "Warning", warning);
  page += '\n';
  const Interval& step = p.step_time_s;
  add_line(page, "Step time",
           fmt::format("{} s    (90 % interval: {} to {})", three_digits(step.value),
                       three_digits(step.low), three_digits(step.high)));
  add_line(
      page, "Throughput",
      fmt::format("{} tokens/s    (90 % interval: {} to {})", three_digits(p.tokens_per_s.value),
                  three_digits(p.tokens_per_s.low), three_digits(p.tokens_per_s.high)));
  add_line(page, "Per GPU",
           fmt::format("{} TFLOP/s of the network{}; MFU {:.1f} %", three_digits(p.tflops_per_gpu),
                       p.hardware_tflops_per_gpu > p.tflops_per_gpu
                           ? fmt::format(", {} with what is computed again",
                                         three_digits(p.hardware_tflops_per_gpu))
                           : "",
                       p.mfu * 100));
  if (p.power) {
    add_line(page, "Power limit",
             fmt::format("{:.0f} W: the layers' kernels run at {:.0f} MHz on average{}",
                         p.power->limit.in_w(), p.power->clock.in_mhz(),
                         p.power->throttles ? ", held back" : ", as without it"));
  }
  add_line(page, "Power",
           fmt::format("{:.0f} W of a board on average, {} W of all", p.board.avg.in_w(),
                       three_digits(p.board.avg.in_w() * static_cast<double>(job.plan.ranks()))));
  page += "\nWhere a step goes                   ms  share\n";
  for (const NamedTime& t : times_of(p.shares)) {
    if (!(t.time > Seconds())) continue;
    const double share = t.time.in_s() / step.value;
    page += fmt::format("  {}{:>10}  {:>3.0f} %  {}\n", fit(t.text, 26, 2),
                        three_digits(t.time.in_ms()), share * 100, bar(share, 32));
  }
  page += "\nMemory of the fullest rank         GiB\n";
  for (const NamedBytes& b : bytes_of(p.memory)) {
    page += fmt::format("  {}{:>10}\n", fit(b.text, 26, 2), three_digits(b.bytes.in_mib() / 1024));
  }
  page += fmt::format(
      "  {}{:>10}  of {}: {}\n", fit("total", 26), three_digits(p.memory.total().in_mib() / 1024),
      three_digits(p.memory.capacity.in_mib() / 1024), fit_words(p.memory.fit().probability));
  if (job.largest_micro_batch) {
    page += fmt::format("  {}{:>10}  with 50 %; {} with 95 %\n", fit("largest micro-batch", 26),
                        *job.largest_micro_batch, job.sure_micro_batch.value_or(0));
  }
  if (explains) add_pieces(page, p);
  page += '\n';
  add_line(
      page, "Simulated",
      fmt::format("{} of {} ranks; the others do the same", p.ranks_simulated, job.plan.ranks()));
  for (const InputRecord& input : job.inputs) {
    add_line(page, input.kind,
             fmt::format("{}, sha256 {}", input.name, input.sha256.text().substr(0, 12)));
  }
  add_line(page, "tracecast", TRACECAST_VERSION);
  return page;
}

std::string report_sharded_json(const ShardedStep& job, bool explains) {
  using Json = nlohmann::ordered_json;
  const TransformerPrediction& p = job.prediction;
  const ParallelPlan& plan = job.plan;
  Json json{{"schema", "tracecast.predict_sharded/" + std::to_string(kSchema)},
            {"version", kVersion},
            {"inputs", Json::array()},
            {"seed", 0},  // nothing is drawn at random
            {"network", job.network},
            {"gpu", job.gpu},
            {"gpus", plan.ranks()},
            {"nodes", job.nodes},
            {"machine", job.machine},
            {"phase", "train"},
            {"precision", job.precision},
            {"framework", job.framework},
            {"optimizer", job.optimizer},
            {"software", job.software.id},
            {"tensor_parallel", plan.tensor},
            {"pipeline_parallel", plan.pipeline},
            {"data_parallel", plan.data},
            {"context_parallel", plan.context},
            {"expert_parallel", plan.expert},
            {"sequence_parallel", plan.sequence_parallel},
            {"schedule", to_string(plan.schedule)},
            {"chunks", plan.chunks},
            {"zero", plan.zero},
            {"recompute", to_string(plan.recompute)},
            {"micro_batch", plan.micro_batch},
            {"micro_batches", plan.micro_batches()},
            {"global_batch", plan.global_batch},
            {"tokens_per_sequence", plan.tokens},
            {"parameters", p.parameters},
            {"step_time_s", interval_json(p.step_time_s)},
            {"throughput_samples_per_s", interval_json(samples_per_s(job))},
            {"throughput_tokens_per_s", interval_json(p.tokens_per_s)},
            {"model_tflop_per_s_per_gpu", p.tflops_per_gpu},
            {"hardware_tflop_per_s_per_gpu", p.hardware_tflops_per_gpu},
            {"mfu", p.mfu}};
  set_nics(json, job.nics);
  Json breakdown = Json::array();
  for (const NamedTime& t : times_of(p.shares)) {
    breakdown.push_back({{"class", t.key},
                         {"time_s", t.time.in_s()},
                         {"share", t.time.in_s() / p.step_time_s.value}});
  }
  json["breakdown"] = std::move(breakdown);
  const Seconds step(p.step_time_s.value);
  json["kernel_classes"] = shares_json(p.by_class, "class", step, true);
  json["basis"] = shares_json(p.by_basis, "basis", step, false);
  const double total_w = p.board.avg.in_w() * static_cast<double>(job.plan.ranks());
  json["power_w"] = {{"idle", p.board.idle.in_w()},
                     {"avg", p.board.avg.in_w()},
                     {"limit", p.board.limit.in_w()},
                     {"demand", p.board.demand.in_w()},
                     {"basis", "guess"}};
  json["board_power_total_w"] = total_w;
  json["energy_j_per_sample"] = total_w / samples_per_s(job).value;
  json["energy_j_per_token"] = p.energy_per_token.in_j();
  Json memory{
      {"total_bytes", p.memory.total().in_bytes()},
      {"capacity_bytes", p.memory.capacity.in_bytes()},
      {"fits", p.memory.fits()},
      {"fit_probability", p.memory.fit().probability},
      {"fit", fit_words(p.memory.fit().probability)},
      {"needed_interval_bytes", interval_json(p.memory.fit().needed)},
      {"largest_micro_batch", job.largest_micro_batch ? Json(*job.largest_micro_batch) : Json()},
      {"largest_micro_batch_at_95_percent",
       job.sure_micro_batch ? Json(*job.sure_micro_batch) : Json()}};
  for (const NamedBytes& b : bytes_of(p.memory))
    memory["by_class_bytes"][b.key] = b.bytes.in_bytes();
  json["memory"] = std::move(memory);
  if (p.power) {
    json["power_limit_w"] = p.power->limit.in_w();
    json["sm_clock_mhz"] = p.power->clock.in_mhz();
    json["power_limit_throttles"] = p.power->throttles;
  }
  if (explains) {
    for (const PieceTimes& piece : p.pieces) {
      json["pieces"].push_back({{"piece", piece.name},
                                {"count", piece.count},
                                {"parameters", piece.parameters},
                                {"forward_s", piece.forward.in_s()},
                                {"backward_s", piece.backward.in_s()},
                                {"communications_s", piece.communications.in_s()},
                                {"kept_bytes", piece.kept.in_bytes()}});
    }
  }
  json["ranks_simulated"] = p.ranks_simulated;
  json["assumptions"] = job.assumptions;
  json["warnings"] = job.warnings;
  for (const InputRecord& input : job.inputs) {
    json["inputs"].push_back(
        {{"kind", input.kind}, {"name", input.name}, {"sha256", input.sha256.text()}});
  }
  return json_text(json) + '\n';
}

std::string report_sharded_csv(const ShardedStep& job, bool explains) {
  if (explains) return pieces_csv(job.prediction);
  const TransformerPrediction& p = job.prediction;
  const ParallelPlan& plan = job.plan;
  CsvRecord record;  // the figures of report_sharded_json, under its keys
  record.add("network", job.network);
  record.add("gpu", job.gpu);
  record.add("gpus", plan.ranks());
  record.add("nodes", job.nodes);
  record.add("precision", job.precision);
  record.add("software", job.software.id);
  record.add("tensor_parallel", plan.tensor);
  record.add("pipeline_parallel", plan.pipeline);
  record.add("data_parallel", plan.data);
  record.add("context_parallel", plan.context);
  record.add("expert_parallel", plan.expert);
  record.add("micro_batch", plan.micro_batch);
  record.add("global_batch", plan.global_batch);
  record.add_interval("step_time", "s", p.step_time_s.value, p.step_time_s.low, p.step_time_s.high);
  const Interval samples = samples_per_s(job);
  record.add_interval("throughput", "samples_per_s", samples.value, samples.low, samples.high);
  record.add_interval("throughput", "tokens_per_s", p.tokens_per_s.value, p.tokens_per_s.low,
                      p.tokens_per_s.high);
  record.add("model_tflop_per_s_per_gpu", p.tflops_per_gpu);
  record.add("hardware_tflop_per_s_per_gpu", p.hardware_tflops_per_gpu);
  record.add("mfu", p.mfu);
  record.add("memory_total_bytes", p.memory.total().in_bytes());
  record.add("fits", p.memory.fits() ? "yes" : "no");
  record.add("fit_probability", p.memory.fit().probability);
  for (const NamedTime& t : times_of(p.shares))
    record.add(std::string(t.key) + "_s", t.time.in_s());
  record.add("energy_j_per_token", p.energy_per_token.in_j());
  if (p.power) {
    record.add("power_limit_w", p.power->limit.in_w());
    record.add("sm_clock_mhz", p.power->clock.in_mhz());
  }
  if (job.largest_micro_batch) record.add("largest_micro_batch", *job.largest_micro_batch);
  return record.text();
}

}  // namespace tracecast
