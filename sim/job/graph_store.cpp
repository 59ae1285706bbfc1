#include "sim/job/graph_store.hpp"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "hwspecs/loaders/known_names.hpp"
#include "models/graph_text.hpp"
#include "models/unroll.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/file.hpp"
#include "sim/base/key_text.hpp"
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

/// Of the options every one, of the job what else GraphStore::forward reads.
std::string key_of(std::string_view network, const BuildOptions& options,
                   const LowRankAdapters& adapters) {
  KeyText key;
  key.add(network);
  TRACECAST_ADD_MEMBERS(key, options, batch, image_size, seq_len, training, classes, fan_out,
                        attention, grouped_attention, casts_as_written, is_compiled, stepwise,
                        as_written, channels_last);
  TRACECAST_ADD_MEMBERS(key, adapters, rank, targets, base);
  return std::move(key).text();
}

BuildOptions options_of(const Job& job, bool training, const NetworkCode& code) {
  return {.batch = job.batch,
          .image_size = job.image_size,
          .seq_len = job.seq_len,
          .training = training,
          .classes = job.classes,
          .fan_out = job.fan_out,
          .attention = code.attention,
          .grouped_attention = code.grouped_attention,
          .casts_as_written = code.casts_as_written,
          .is_compiled = code.is_compiled,
          .stepwise = code.stepwise,
          .as_written = job.as_written,
          .channels_last = job.software.channels_last.value_or(false)};
}

ForwardGraph build_zoo(std::string_view network, const BuildOptions& options) {
  auto graph = std::make_shared<const NetworkGraph>(build_network(network, options));
  InputRecord record{"network", "zoo:" + graph->name,
                     Hash([graph] { return sha256(graph_text(*graph)); })};
  const ZooEntry* entry = find_network(network);
  return {.graph = std::move(graph),
          .record = std::move(record),
          .warnings = entry->language != nullptr ? left_out_of_graph(entry->language())
                                                 : std::vector<std::string>(),
          .from_file = false};
}

/// Of an exported program what is read of it counts, of other files all bytes, weights too: they
/// are read where somebody asks for the hash.
Hash hash_of_file(const std::string& path, const std::string& read) {
  if (path.ends_with(".pt2")) return sha256(read);
  return Hash([path] { return sha256_of_file(path); });
}

ForwardGraph import(const std::string& path, const BuildOptions& options, const std::string& bytes,
                    InputRecord record) {
  NetworkFile file = read_network_file(bytes, path, options);
  return {.graph = std::make_shared<const NetworkGraph>(std::move(file.graph)),
          .record = std::move(record),
          .warnings = std::move(file.warnings),
          .rewrites = std::move(file.rewrites),
          .from_file = true};
}

}  // namespace

ForwardGraph GraphStore::forward(const Job& job, Phase phase, const NetworkCode& code) {
  const bool training = phase != Phase::Infer;
  const bool is_file = is_network_path(job.network);
  std::string bytes;
  InputRecord record;
  std::string name = job.network;
  if (is_file) {  // a file may change: its bytes are its name
    refuse_other_file(job.network);
    bytes = read_network_bytes(job.network);
    name += '@' + sha256(bytes);
    record = {"network", std::filesystem::path(job.network).filename().string(),
              hash_of_file(job.network, bytes)};
  }
  BuildOptions options = options_of(job, training, code);
  if (const ZooEntry* entry = is_file ? nullptr : find_network(job.network)) {
    options.attention = code.attention_of(entry->code.empty() && entry->language != nullptr
                                              ? entry->language().family
                                              : std::string(entry->code));
  }
  const LowRankAdapters adapters = adapters_of(job);
  const std::string key = key_of(name, options, adapters);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = forwards_.find(key); known != forwards_.end()) return known->second;
  }
  ForwardGraph built = is_file ? import(job.network, options, bytes, std::move(record))
                               : build_zoo(job.network, options);
  if (adapters.any())
    built.graph = std::make_shared<const NetworkGraph>(add_adapters(*built.graph, adapters));
  const std::lock_guard lock(mutex_);
  return remember(forwards_, key, std::move(built));
}

std::shared_ptr<const NetworkGraph> GraphStore::step(
    const std::shared_ptr<const NetworkGraph>& forward, Phase phase, const StepOptions& options,
    bool unrolls) {
  KeyText text;
  text.add(reinterpret_cast<std::uintptr_t>(forward.get()), phase, unrolls);
  TRACECAST_ADD_MEMBERS(text, options, optimizer, recompute, adds_gradients, differentiates_input,
                        copies_first_gradient, with_update);
  const std::string key = std::move(text).text();
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
