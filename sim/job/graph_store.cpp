#include "sim/job/graph_store.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "hwspecs/loaders/known_names.hpp"
#include "models/graph_text.hpp"
#include "models/unroll.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/file.hpp"
#include "sim/job/network_file.hpp"
#include "sim/job/resolved_job.hpp"
#include "sim/job/sha256.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kMostGraphs = 256;  ///< remembered; then all are forgotten

/// Forgets everything rather than grow without end.
template <class Value>
const Value& remember(std::map<std::string, Value>& known, const std::string& key, Value value) {
  if (known.size() >= kMostGraphs) known.clear();
  return known.emplace(key, std::move(value)).first->second;
}

std::string key_of(const Job& job, std::string_view network, bool training,
                   const NetworkCode& code) {
  const auto number = [](const std::optional<std::int64_t>& size) { return size.value_or(-1); };
  return fmt::format(
      "{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}|{}", network, job.batch, number(job.image_size),
      number(job.seq_len), number(job.classes), training, static_cast<int>(code.attention),
      static_cast<int>(code.grouped_attention.value_or(code.attention)), code.casts_as_written,
      job.lora_rank, job.lora_targets, fmt::join(job.fan_out, ","), fmt::join(code.stepwise, ","));
}

BuildOptions options_of(const Job& job, bool training, const NetworkCode& code) {
  return {.batch = job.batch,
          .image_size = job.image_size,
          .seq_len = job.seq_len,
          .training = training,
          .attention = code.attention,
          .grouped_attention = code.grouped_attention,
          .casts_as_written = code.casts_as_written,
          .stepwise = code.stepwise};
}

ForwardGraph build_zoo(const Job& job, bool training, const NetworkCode& code) {
  BuildOptions options = options_of(job, training, code);
  if (const ZooEntry* entry = find_network(job.network)) {
    options.attention = code.attention_of(entry->code.empty() && entry->language != nullptr
                                              ? entry->language().family
                                              : std::string(entry->code));
  }
  options.classes = job.classes;
  options.fan_out = job.fan_out;
  auto graph = std::make_shared<const NetworkGraph>(build_network(job.network, options));
  InputRecord record{"network", "zoo:" + graph->name,
                     Hash([graph] { return sha256(graph_text(*graph)); })};
  return {
      .graph = std::move(graph), .record = std::move(record), .warnings = {}, .from_file = false};
}

ForwardGraph import(const Job& job, bool training, const NetworkCode& code,
                    const std::string& bytes, InputRecord record) {
  NetworkFile file = read_network_file(bytes, job.network, options_of(job, training, code));
  return {.graph = std::make_shared<const NetworkGraph>(std::move(file.graph)),
          .record = std::move(record),
          .warnings = std::move(file.warnings),
          .from_file = true};
}

}  // namespace

ForwardGraph GraphStore::forward(const Job& job, Phase phase, const NetworkCode& code) {
  const bool training = phase != Phase::Infer;
  const bool is_file = is_network_path(job.network);
  std::string bytes;
  InputRecord record;
  if (is_file) {  // a file may change: its bytes are its name
    refuse_other_file(job.network);
    bytes = read_file(job.network, kMostNetworkBytes);
    record = {"network", std::filesystem::path(job.network).filename().string(), sha256(bytes)};
  }
  const std::string key =
      key_of(job, is_file ? job.network + '@' + record.sha256.text() : job.network, training, code);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = forwards_.find(key); known != forwards_.end()) return known->second;
  }
  ForwardGraph built = is_file ? import(job, training, code, bytes, std::move(record))
                               : build_zoo(job, training, code);
  if (const LowRankAdapters adapters = adapters_of(job); adapters.any())
    built.graph = std::make_shared<const NetworkGraph>(add_adapters(*built.graph, adapters));
  const std::lock_guard lock(mutex_);
  return remember(forwards_, key, std::move(built));
}

std::shared_ptr<const NetworkGraph> GraphStore::step(
    const std::shared_ptr<const NetworkGraph>& forward, Phase phase, const StepOptions& options,
    bool unrolls) {
  const std::string key =
      fmt::format("{}|{}|{}|{}|{}|{}|{}|{}|{}", static_cast<const void*>(forward.get()),
                  static_cast<int>(phase), options.optimizer, static_cast<int>(options.recompute),
                  options.adds_gradients, options.differentiates_input,
                  options.copies_first_gradient, options.with_update, unrolls);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = steps_.find(key); known != steps_.end()) return known->second.graph;
  }
  auto graph = std::make_shared<const NetworkGraph>(
      make_step_graph(unrolls ? unroll_recurrent(*forward) : *forward, phase, options));
  const std::lock_guard lock(mutex_);
  return remember(steps_, key, {forward, std::move(graph)}).graph;
}

}  // namespace tracecast
