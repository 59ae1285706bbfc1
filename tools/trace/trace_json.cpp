#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/version.hpp"
#include "tools/trace/trace_report.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;
using namespace traces;

/// Divided, not multiplied by 1e-9: the nearest double prints as the decimal it is.
double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

Json or_null(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); }

Json steps_json(const Summary& s) {
  Json list = Json::array();
  for (const NamedTime& step : s.steps) list.push_back(seconds(step.tally.ns));
  return list;
}

/// The figures of one clock: those of one rank.
Json clock_json(const Summary& s) {
  return {{"rank", or_null(s.rank)},
          {"world_size", or_null(s.world_size)},
          {"streams", s.streams},
          {"span_s", seconds(s.span_ns)},
          {"busy_s", seconds(s.busy_ns)},
          {"concurrent_s", seconds(s.concurrent_ns)},
          {"most_concurrent_kernels", s.most_concurrent},
          {"collective_alone_s", seconds(s.collective_alone_ns)},
          {"work_span_s", seconds(s.work_span_ns)},
          {"idle_s", seconds(s.idle_ns)},
          {"steps_s", steps_json(s)}};
}

Json idle_json(const Summary& s) {
  Json list = Json::array();
  for (std::size_t i = 0; i < kIdleCauseCount; ++i) {
    if (s.idle[i].count == 0) continue;
    list.push_back({{"cause", to_string(static_cast<IdleCause>(i))},
                    {"time_s", seconds(s.idle[i].ns)},
                    {"share", share_of(s.idle[i].ns, s.work_span_ns)},
                    {"gaps", s.idle[i].count}});
  }
  return list;
}

Json copies_json(const Summary& s) {
  Json list = Json::array();
  for (const CopyTime& c : s.copy_kinds) {
    Json entry{{"kind", to_string(c.kind)},
               {"host_memory", to_string(c.memory)},
               {"count", c.copies.count},
               {"time_s", seconds(c.copies.ns)},
               {"beside_kernels_s", seconds(c.beside_kernels_ns)}};
    entry["bytes"] = c.sized > 0 ? Json(c.bytes) : Json();
    entry["median_bytes"] = c.sized > 0 ? Json(c.median_bytes) : Json();
    entry["bytes_per_s"] =
        c.sized_ns > 0 ? Json(static_cast<double>(c.bytes) / seconds(c.sized_ns)) : Json();
    list.push_back(std::move(entry));
  }
  return list;
}

Json calls_json(const Summary& s) {
  Json list = Json::array();
  for (std::size_t i = 0; i < kCallKindCount; ++i) {
    const Tally& t = s.call_kinds[i];
    if (t.count == 0) continue;
    list.push_back({{"kind", to_string(static_cast<CallKind>(i))},
                    {"count", t.count},
                    {"time_s", seconds(t.ns)}});
  }
  return list;
}

Json names_json(const std::vector<NamedTime>& names) {
  Json list = Json::array();
  for (const NamedTime& n : names) {
    list.push_back({{"name", n.name}, {"count", n.tally.count}, {"time_s", seconds(n.tally.ns)}});
  }
  return list;
}

Json nodes_json(const Summary& s) {
  Json list = Json::array();
  for (const NodeTime& n : s.node_kinds) {
    list.push_back({{"kind", to_string(n.kind)},
                    {"count", n.nodes.count},
                    {"time_s", seconds(n.nodes.ns)},
                    {"message_bytes", n.message_bytes}});
  }
  return list;
}

Json metrics_json(const Summary& s) {
  Json list = Json::array();
  for (const MetricSum& m : s.metrics) {
    list.push_back(
        {{"metric", m.metric}, {"rows", m.rows}, {"invocations", m.invocations}, {"sum", m.sum}});
  }
  return list;
}

Json left_out_json(const Summary& s) {
  Json list = Json::array();
  for (const auto& [kind, entry] : s.left_out) {
    list.push_back({{"kind", kind}, {"count", entry.count}, {"damaged", entry.is_damage}});
  }
  return list;
}

Json totals_json(const Summary& s) {
  Json doc;
  doc["classes"] = Json::array();
  for (const ClassTime& c : s.classes) {
    doc["classes"].push_back({{"class", to_string(c.kernel_class)},
                              {"time_s", seconds(c.kernels.ns)},
                              {"share", c.share},
                              {"count", c.kernels.count}});
  }
  doc["convolution_algorithms"] = Json::array();
  for (const AlgorithmTime& a : s.algorithms) {
    doc["convolution_algorithms"].push_back({{"algorithm", to_string(a.algorithm)},
                                             {"time_s", seconds(a.kernels.ns)},
                                             {"share", a.share},
                                             {"count", a.kernels.count}});
  }
  doc["top_kernels"] = Json::array();
  for (const KernelTime& k : s.top_kernels) {
    doc["top_kernels"].push_back({{"name", k.name},
                                  {"class", to_string(k.kernel_class)},
                                  {"count", k.kernels.count},
                                  {"time_s", seconds(k.kernels.ns)}});
  }
  doc["collectives"] = Json::array();
  for (const CollectiveTime& c : s.collectives) {
    doc["collectives"].push_back({{"name", c.name},
                                  {"count", c.kernels.count},
                                  {"time_s", seconds(c.kernels.ns)},
                                  {"elements", c.elements > 0 ? Json(c.elements) : Json()}});
  }
  return doc;
}

}  // namespace

std::string trace_json(const TraceReport& report, const std::vector<TraceFile>& files) {
  const Summary& s = report.total;
  Json inputs = Json::array();
  for (const TraceFile& file : files)
    inputs.push_back({{"kind", "trace"}, {"name", file.name}, {"sha256", file.sha256}});
  Json doc{{"schema", "tracecast.trace_summary/" + std::to_string(kSchema)},
           {"version", kVersion},
           {"inputs", std::move(inputs)},
           {"format", s.format},
           {"gpu", s.gpu.empty() ? Json() : Json(s.gpu)},
           {"gpus_in_host", s.gpus_in_host},
           {"gpus_used", s.gpus_used},
           {"ranks", report.ranks.size()},
           {"kernels", s.kernels},
           {"distinct_kernels", s.distinct_kernels},
           {"collective_kernels", s.collective_kernels},
           {"copies_count", s.copies},
           {"memsets_count", s.memsets},
           {"calls_count", s.calls},
           {"ops_count", s.ops},
           {"gpu_time_s", seconds(s.gpu_time_ns)}};
  doc.update(clock_json(s));
  doc.update(totals_json(s));
  doc["ranks_together"] = waiting_json(report.findings);
  doc["critical_path"] = critical_path_json(report.findings);
  doc["idle"] = idle_json(s);
  doc["copies"] = copies_json(s);
  doc["memsets"] = {{"count", s.memset_time.count}, {"time_s", seconds(s.memset_time.ns)}};
  doc["calls"] = calls_json(s);
  doc["top_calls"] = names_json(s.top_calls);
  doc["nodes_count"] = s.nodes;
  doc["gpu_nodes_count"] = s.gpu_nodes;
  doc["gpu_nodes_s"] = seconds(s.gpu_nodes_ns);
  doc["nodes"] = nodes_json(s);
  doc["metrics"] = metrics_json(s);
  doc["peak_allocated_bytes"] = s.peak_allocated_bytes > 0 ? Json(s.peak_allocated_bytes) : Json();
  doc["left_out"] = left_out_json(s);
  doc["overruns"] = {{"records", s.overrunning}, {"successors", s.overrun}};
  if (report.ranks.size() > 1) {
    doc["by_rank"] = Json::array();
    for (const Summary& rank : report.ranks) {
      Json entry = clock_json(rank);
      entry["kernels"] = rank.kernels;
      entry["collective_kernels"] = rank.collective_kernels;
      doc["by_rank"].push_back(std::move(entry));
    }
  }
  // Names come from the file and may be no UTF-8.
  return json_text(doc) + '\n';
}

std::string trace_csv(const TraceReport& report) {
  const Summary& s = report.total;
  std::string text = "section,name,count,time_s,share\n";
  const auto row = [&text](std::string_view section, std::string_view name, std::uint64_t count,
                           std::int64_t ns, double share) {
    text += csv_line(section, name, count, seconds(ns), share);
  };
  for (const ClassTime& c : s.classes)
    row("class", to_string(c.kernel_class), c.kernels.count, c.kernels.ns, c.share);
  for (const AlgorithmTime& a : s.algorithms) {
    row("convolution_algorithm", to_string(a.algorithm), a.kernels.count, a.kernels.ns, a.share);
  }
  for (std::size_t i = 0; i < kIdleCauseCount; ++i) {
    if (s.idle[i].count == 0) continue;
    row("idle", to_string(static_cast<IdleCause>(i)), s.idle[i].count, s.idle[i].ns,
        share_of(s.idle[i].ns, s.work_span_ns));
  }
  for (const CopyTime& c : s.copy_kinds) {
    row("copy", fmt::format("{}.{}", to_string(c.kind), to_string(c.memory)), c.copies.count,
        c.copies.ns, share_of(c.copies.ns, s.gpu_time_ns));
  }
  Tally calls;
  for (const Tally& t : s.call_kinds) calls.add(t);
  for (std::size_t i = 0; i < kCallKindCount; ++i) {
    const Tally& t = s.call_kinds[i];
    if (t.count > 0)
      row("call", to_string(static_cast<CallKind>(i)), t.count, t.ns, share_of(t.ns, calls.ns));
  }
  for (const KernelTime& k : s.top_kernels) {
    row("kernel", k.name, k.kernels.count, k.kernels.ns, share_of(k.kernels.ns, s.gpu_time_ns));
  }
  return text;
}

}  // namespace tracecast
