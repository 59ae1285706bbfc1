#include "traces/nvprof/reader.hpp"

#include <algorithm>
#include <array>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "traces/bytes/line_reader.hpp"
#include "traces/contains.hpp"
#include "traces/nvprof/table.hpp"
#include "traces/trace_builder.hpp"

namespace tracecast::traces {
namespace {

using nvprof::bytes, nvprof::time_ns;

/// nvprof prints some twenty. Rows cost time by the number of columns.
constexpr std::size_t kMostColumns = 256;

enum class Table { None, GpuTrace, Sums, Metrics, UnifiedMemory };

/// The table that a header with these columns begins.
Table table_of(const std::vector<std::string>& columns) {
  const auto has = [&columns](std::string_view name) {
    return std::find(columns.begin(), columns.end(), name) != columns.end();
  };
  if (has("Start") && has("Duration") && has("Name")) return Table::GpuTrace;
  if (has("Time(%)") && has("Calls") && has("Name")) return Table::Sums;
  if (has("Kernel") && has("Metric Name")) return Table::Metrics;
  if (has("Count") && has("Avg Size") && has("Total Size")) return Table::UnifiedMemory;
  return Table::None;
}

CopyKind copy_kind(std::string_view name) {
  if (contains(name, "HtoD")) return CopyKind::HostToDevice;
  if (contains(name, "DtoH")) return CopyKind::DeviceToHost;
  if (contains(name, "DtoD")) return CopyKind::DeviceToDevice;
  if (contains(name, "PtoP")) return CopyKind::PeerToPeer;
  if (contains(name, "HtoH")) return CopyKind::HostToHost;
  return CopyKind::Unknown;
}

HostMemory host_memory(std::string_view from, std::string_view to) {
  for (const std::string_view memory : {from, to}) {
    if (memory == "Pageable") return HostMemory::Pageable;
    if (memory == "Pinned") return HostMemory::Pinned;
    if (memory == "Managed") return HostMemory::Managed;
  }
  return HostMemory::Unknown;
}

/// "(32768 1 1)".
std::array<std::uint32_t, 3> extent_of(std::string_view text) {
  std::array<std::uint32_t, 3> sizes{};
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size() && count < 3; ++at) {
    const std::size_t first = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    const auto value = parse_integer(text.substr(first, at - first));
    if (value && *value <= 0xFFFFFFFF) sizes[count++] = static_cast<std::uint32_t>(*value);
  }
  return sizes;
}

std::uint32_t small_number(std::string_view text) {
  const auto value = parse_integer(text);
  return value && *value > 0 && *value <= 0xFFFFFFFF ? static_cast<std::uint32_t>(*value) : 0;
}

class NvprofReader {
 public:
  NvprofReader(ByteSource& source, const std::string& name)
      : lines_(source, name), builder_(trace_) {
    trace_.source = name;
    trace_.format = "nvprof";
  }

  Trace read() {
    for (std::string_view line; lines_.next(line);) take(line);
    if (!speaks_)
      throw InputError(trace_.source, "no table and no message of nvprof", "an nvprof log");
    return std::move(trace_);
  }

 private:
  void take(std::string_view line) {
    if (line.find_first_not_of(" \t") == std::string_view::npos) return;
    if (line.starts_with("==")) return take_message(line);
    if (contains(line, "were profiled.")) {
      speaks_ = true;
      return trace_.leave_out("message: " + std::string(line.substr(0, 200)));
    }
    if (begins_table(line)) return;
    if (contains(line, "Unified Memory profiling result") || line.starts_with("Device \"") ||
        line.starts_with("Total CPU ")) {
      return trace_.leave_out("unified-memory figure");
    }
    if (table_ == Table::None || line.starts_with("Regs:") || line.starts_with("SSMem:") ||
        line.starts_with("DSMem:") || line.starts_with("SrcMemType:") ||
        line.starts_with("DstMemType:")) {
      return trace_.leave_out("line that is no record (output of the program, legend)");
    }
    take_row(line);
  }

  void take_message(std::string_view line) {
    speaks_ = true;
    table_ = Table::None;
    if (contains(line, "rror")) {
      trace_.leave_out("error of nvprof: the profile is not complete", true);
    } else if (contains(line, "Warning")) {
      trace_.leave_out("warning of nvprof");
    }
  }

  /// Takes a header, plain or CSV.
  bool begins_table(std::string_view line) {
    // Columns that each of the tables has one of.
    if (!contains(line, "Duration") && !contains(line, "Calls") && !contains(line, "Metric Name") &&
        !contains(line, "Total Size")) {
      return false;
    }
    for (const char separator : {',', '\t', ' '}) {
      std::vector<std::string> columns =
          separator == ' ' ? nvprof::split_text(line, 64) : nvprof::split_csv(line, separator);
      const bool is_plausible = columns.size() >= 4 && columns.size() <= kMostColumns;
      const Table table = is_plausible ? table_of(columns) : Table::None;
      if (table == Table::None) continue;
      table_ = table;
      columns_ = std::move(columns);
      separator_ = separator;
      for (std::string& column : columns_) {
        if (column.ends_with('*')) column.pop_back();
      }
      units_.assign(columns_.size(), "");
      wants_units_ = separator != ' ' && table != Table::Metrics;
      speaks_ = true;
      return true;
    }
    return false;
  }

  void take_row(std::string_view line) {
    fields_ = separator_ == ' ' ? nvprof::split_text(line, columns_.size())
                                : nvprof::split_csv(line, separator_);
    if (wants_units_) {
      wants_units_ = false;
      const std::string_view unit = field(table_ == Table::GpuTrace ? "Duration" : "Time");
      if (nvprof::time_unit_ns(unit)) {
        units_ = fields_;
        units_.resize(columns_.size());
        return;
      }
    }
    switch (table_) {
      case Table::GpuTrace:
        return take_activity();
      case Table::Sums:
        return take_sum();
      case Table::Metrics:
        return take_metric();
      default:
        return trace_.leave_out("unified-memory figure");
    }
  }

  [[nodiscard]] std::size_t column(std::string_view name) const {
    return static_cast<std::size_t>(std::find(columns_.begin(), columns_.end(), name) -
                                    columns_.begin());
  }
  [[nodiscard]] std::string_view field(std::string_view name) const {
    const std::size_t at = column(name);
    return at < fields_.size() ? std::string_view(fields_[at]) : std::string_view();
  }
  [[nodiscard]] std::string unit(std::string_view name) const {
    const std::size_t at = column(name);
    return at < units_.size() ? units_[at] : std::string();
  }
  [[nodiscard]] std::optional<std::int64_t> time(std::string_view name) const {
    return time_ns(field(name), unit(name));
  }
  [[nodiscard]] std::uint64_t size(std::string_view name) const {
    return static_cast<std::uint64_t>(bytes(field(name), unit(name)).value_or(0));
  }
  NameId name(std::string_view text) { return trace_.names.intern(text); }

  /// "TITAN Xp (0)": the number, and the device's name kept.
  std::int64_t device() {
    const std::string_view text = field("Device");
    const std::size_t open = text.rfind(" (");
    const auto id = open == std::string_view::npos
                        ? std::nullopt
                        : parse_integer(text.substr(open + 2, text.size() - open - 3));
    if (!id) return -1;
    const auto known = std::find_if(trace_.devices.begin(), trace_.devices.end(),
                                    [&id](const Device& device) { return device.id == *id; });
    if (known == trace_.devices.end() && trace_.devices.size() < 1024) {
      trace_.devices.push_back({.id = *id, .name = std::string(text.substr(0, open))});
    }
    return *id;
  }

  void take_activity() {
    std::string activity(field("Name"));
    std::uint32_t correlation = small_number(field("Correlation_ID"));
    if (separator_ == ' ' && activity.ends_with(']') && !activity.starts_with('[')) {
      const std::size_t open = activity.rfind(" [");
      if (open != std::string::npos) {
        correlation =
            small_number(std::string_view(activity).substr(open + 2, activity.size() - open - 3));
        activity.resize(open);
      }
    }
    if (activity.starts_with("[Unified Memory")) return trace_.leave_out("unified-memory figure");
    const auto begin = time("Start"), duration = time("Duration");
    if (!begin || !duration || activity.empty())
      return trace_.leave_out("row without begin, duration or name", true);
    builder_.count_record(lines_.position());
    const Span span{*begin, *duration};
    const StreamId stream = builder_.stream(device(), parse_integer(field("Stream")).value_or(-1));
    if (activity.starts_with("[CUDA memcpy")) {
      trace_.copies.span.push_back(span);
      trace_.copies.stream.push_back(stream);
      trace_.copies.kind.push_back(copy_kind(activity));
      trace_.copies.memory.push_back(host_memory(field("SrcMemType"), field("DstMemType")));
      trace_.copies.bytes.push_back(size("Size"));
      trace_.copies.correlation.push_back(correlation);
      trace_.copies.op.push_back(0);
    } else if (activity.starts_with("[CUDA memset")) {
      trace_.memsets.span.push_back(span);
      trace_.memsets.stream.push_back(stream);
      trace_.memsets.bytes.push_back(size("Size"));
      trace_.memsets.correlation.push_back(correlation);
      trace_.memsets.op.push_back(0);
    } else {
      trace_.kernels.span.push_back(span);
      trace_.kernels.name.push_back(name(activity));
      trace_.kernels.stream.push_back(stream);
      trace_.kernels.geometry.push_back(builder_.geometry(geometry()));
      trace_.kernels.correlation.push_back(correlation);
      trace_.kernels.op.push_back(0);
    }
  }

  Geometry geometry() {
    Geometry g;
    if (separator_ == ' ') {
      g.grid = extent_of(field("Grid Size"));
      g.block = extent_of(field("Block Size"));
      g.registers_per_thread = small_number(field("Regs"));
      g.shared_bytes = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(size("SSMem") + size("DSMem"), 0xFFFFFFFF));
      return g;
    }
    g.grid = {small_number(field("Grid X")), small_number(field("Grid Y")),
              small_number(field("Grid Z"))};
    g.block = {small_number(field("Block X")), small_number(field("Block Y")),
               small_number(field("Block Z"))};
    g.registers_per_thread = small_number(field("Registers Per Thread"));
    g.shared_bytes = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(size("Static SMem") + size("Dynamic SMem"), 0xFFFFFFFF));
    return g;
  }

  void take_sum() {
    // In text the kind stands in the first row of each group only, and shifts the columns.
    if (separator_ == ' ' && !columns_.empty() && columns_.front() == "Type") {
      if (!fields_.empty() && fields_.front().ends_with(':')) {
        type_ = fields_.front();
      } else {
        fields_.insert(fields_.begin(), type_);
        while (fields_.size() > columns_.size()) {
          fields_[fields_.size() - 2] += "  " + fields_.back();
          fields_.pop_back();
        }
      }
    }
    const auto total = time("Time"), least = time("Min"), most = time("Max");
    const auto calls = parse_integer(field("Calls"));
    if (!total || !calls || *calls < 0 || field("Name").empty()) {
      return trace_.leave_out("row without time, calls or name", true);
    }
    builder_.count_record(lines_.position());
    trace_.totals.name.push_back(name(field("Name")));
    trace_.totals.is_call.push_back(field("Type").starts_with("API"));
    trace_.totals.count.push_back(static_cast<std::uint64_t>(*calls));
    trace_.totals.ns.push_back(*total);
    trace_.totals.least_ns.push_back(least.value_or(0));
    trace_.totals.most_ns.push_back(most.value_or(0));
  }

  void take_metric() {
    const auto invocations = parse_integer(field("Invocations"));
    const auto least = parse_double(field("Min")), most = parse_double(field("Max")),
               average = parse_double(field("Avg"));
    if (!invocations || *invocations < 0 || !least || !most || !average) {
      return trace_.leave_out("metric without a number", true);
    }
    builder_.count_record(lines_.position());
    (void)device();
    trace_.metrics.device.push_back(name(field("Device")));
    trace_.metrics.kernel.push_back(name(field("Kernel")));
    trace_.metrics.metric.push_back(name(field("Metric Name")));
    trace_.metrics.invocations.push_back(static_cast<std::uint64_t>(*invocations));
    trace_.metrics.least.push_back(*least);
    trace_.metrics.most.push_back(*most);
    trace_.metrics.average.push_back(*average);
  }

  LineReader lines_;
  Trace trace_;
  TraceBuilder builder_;
  Table table_ = Table::None;
  char separator_ = ',';
  std::vector<std::string> columns_, units_, fields_;
  std::string type_;
  bool wants_units_ = false;
  bool speaks_ = false;  ///< something of nvprof's was seen
};

}  // namespace

Trace read_nvprof(ByteSource& source, const std::string& name) {
  return NvprofReader(source, name).read();
}

bool is_nvprof(std::string_view head) {
  for (const std::string_view mark :
       {"NVPROF is profiling", "Profiling result:", "Metric result:", "Time(%)",
        "\"Start\",\"Duration\"", "\"Metric Name\"", "CUDA profiling error"}) {
    if (contains(head, mark)) return true;
  }
  return false;
}

}  // namespace tracecast::traces
