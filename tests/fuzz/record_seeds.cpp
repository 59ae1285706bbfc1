#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>

#include "sim/base/error.hpp"
#include "traces/bytes/output_file.hpp"
#include "traces/cut.hpp"
#include "traces/open.hpp"
#include "traces/record/writer.hpp"

/// record_seeds FOLDER TRACE...: the prefixes of recordings, at most 200 us of each, as small files
/// of our own form.
int main(int argc, char** argv) {
  using namespace tracecast;
  for (int i = 2; i < argc; ++i) {
    const std::filesystem::path path = argv[i];
    try {
      traces::Recording recording = traces::read_recording(path);
      recording.traces.resize(std::min<std::size_t>(recording.traces.size(), 2));
      for (traces::Trace& trace : recording.traces) {
        std::int64_t begin = INT64_MAX;
        for (const traces::Span& span : trace.kernels.span) begin = std::min(begin, span.begin_ns);
        if (begin != INT64_MAX) traces::cut(trace, {begin, 200'000});
      }
      const auto to = std::filesystem::path(argv[1]) / (path.filename().string() + ".tctrace");
      traces::write_output_file(
          to, [&](const traces::ByteSink& sink) { traces::write_records(recording, sink); });
    } catch (const InputError&) {  // a table, not a recording
    }
  }
}
