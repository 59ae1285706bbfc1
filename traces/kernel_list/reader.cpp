#include "traces/kernel_list/reader.hpp"

#include <algorithm>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "traces/bytes/line_reader.hpp"
#include "traces/nvprof/table.hpp"
#include "traces/trace_builder.hpp"

namespace tracecast::traces {
namespace {

/// Of the whole list, in ns: 70 years.
constexpr std::int64_t kLongest = 2'300'000'000'000'000'000;

/// Index of the column; the number of columns when there is none.
std::size_t column(const std::vector<std::string>& header, std::string_view name) {
  return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
}

}  // namespace

bool is_kernel_list(std::string_view head) {
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  const auto header = nvprof::split_csv(line, ',');
  return header.front() == "Name" && column(header, "Duration") < header.size();
}

Trace read_kernel_list(ByteSource& source, const std::string& name) {
  Trace trace;
  trace.source = name;
  trace.format = "kernel list, times one after the other";
  TraceBuilder builder(trace);
  LineReader lines(source, name);
  std::string_view line;
  if (!lines.next(line) || !is_kernel_list(line)) {
    throw InputError(lines.where(), "no header", "a list of kernels: Name,...,Duration");
  }
  const auto header = nvprof::split_csv(line, ',');
  const std::size_t duration_column = column(header, "Duration");
  std::int64_t begin = 0;
  while (lines.next(line)) {
    if (line.empty()) continue;
    const auto fields = nvprof::split_csv(line, ',');
    const auto duration =
        fields.size() == header.size() ? parse_integer(fields[duration_column]) : std::nullopt;
    if (!duration || *duration < 0 || *duration > kLongest - begin) {
      trace.leave_out("row without a duration", true);
      continue;
    }
    builder.count_record(lines.position());
    trace.kernels.span.push_back({begin, *duration});
    trace.kernels.name.push_back(trace.names.intern(fields.front()));
    trace.kernels.stream.push_back(builder.stream(0, 0));
    trace.kernels.geometry.push_back({});
    trace.kernels.correlation.push_back(0);
    trace.kernels.op.push_back(0);
    begin += *duration;
  }
  return trace;
}

}  // namespace tracecast::traces
