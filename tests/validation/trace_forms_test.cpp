#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/data.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/trace/trace_report.hpp"
#include "traces/bytes/output_file.hpp"
#include "traces/chakra/writer.hpp"
#include "traces/chrome/recording_writer.hpp"
#include "traces/open.hpp"
#include "traces/record/writer.hpp"
#include "traces/replay/program.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;

/// Everything that `trace summary` says; of JSON that was written, all but what reading leaves out.
std::string said(const traces::Recording& recording, bool is_complete) {
  const traces::KernelNames names = traces::KernelNames::builtin();
  TraceReport report;
  for (const traces::Trace& trace : recording.traces)
    report.ranks.push_back(traces::summarize(trace, names));
  report.total = traces::summarize_ranks(report.ranks);
  std::string text = trace_json(report, {});
  if (is_complete) return text;
  text.resize(text.find("\"left_out\""));
  const std::size_t format = text.find("\"format\"");
  return text.erase(format, text.find('\n', format) - format);
}

std::vector<fs::path> recordings(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const char* part : {"kineto", "nvprof", "nsys", "chakra", "profiles/orion"}) {
    for (const auto& entry : fs::directory_iterator(folder / part)) {
      if (entry.is_regular_file() && entry.path().filename() != "README.md")
        files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

TEST_SUITE_BEGIN("validation/trace_forms");

TEST_CASE(
    "every recording says the same after a way through our form, and through JSON if it has "
    "times") {
  const auto folder = test::find_data("traces");
  if (!folder) return;
  const test::TemporaryFolder work;
  const std::vector<fs::path> files = recordings(*folder);
  CHECK(files.size() == 66);
  std::size_t in_json = 0;
  for (const fs::path& file : files) {
    CAPTURE(file.string());
    const traces::Recording recording = traces::read_recording(file);
    const fs::path ours = work.path() / "t.tctrace", json = work.path() / "t.json";
    traces::write_output_file(
        ours, [&](const traces::ByteSink& sink) { traces::write_records(recording, sink); });
    CHECK(said(traces::read_recording(ours), true) == said(recording, true));
    const traces::Trace& first = recording.traces.front();
    if (recording.traces.size() > 1 || first.kernels.size() + first.calls.size() == 0) continue;
    traces::write_output_file(
        json, [&](const traces::ByteSink& sink) { traces::write_chrome_recording(first, sink); });
    CHECK(said(traces::read_recording(json), false) == said(recording, false));
    ++in_json;
  }
  CHECK(in_json == 32);
}

TEST_CASE("every recording with times says the same of its GPU as a Chakra execution trace") {
  const auto folder = test::find_data("traces");
  if (!folder) return;
  const traces::KernelNames names = traces::KernelNames::builtin();
  const test::TemporaryFolder work;
  const fs::path out = work.path() / "t.et";
  std::size_t written = 0;
  for (const fs::path& file : recordings(*folder)) {
    CAPTURE(file.string());
    const traces::Recording recording = traces::read_recording(file);
    const traces::Trace& trace = recording.traces.front();
    const std::size_t on_gpu = trace.kernels.size() + trace.copies.size() + trace.memsets.size();
    if (on_gpu == 0 && trace.nodes.size() == 0) continue;
    traces::write_output_file(
        out, [&](const traces::ByteSink& sink) { traces::write_chakra(trace, names, sink); });
    const traces::Recording read = traces::read_recording(out);
    const traces::Trace& after = read.traces.at(0);
    ++written;
    if (trace.nodes.size() > 0) {
      CHECK(after.nodes.duration_ns == trace.nodes.duration_ns);
      CHECK(after.nodes.dependency == trace.nodes.dependency);
      CHECK(after.nodes.message_bytes == trace.nodes.message_bytes);
      continue;
    }
    std::size_t nodes = 0, collectives = 0;
    std::int64_t collective_ns = 0, ns = 0;
    for (std::size_t i = 0; i < after.nodes.size(); ++i) {
      if (!after.nodes.on_gpu[i]) continue;
      ++nodes;
      ns += after.nodes.duration_ns[i];
      if (after.nodes.kind[i] != traces::NodeKind::Collective) continue;
      ++collectives;
      collective_ns += after.nodes.duration_ns[i];
    }
    const traces::ReplayBuild build = traces::build_replay_program(trace, names);
    std::int64_t expected_ns = 0, expected_collective_ns = 0;
    for (const ReplayTask& task : build.program.tasks) {
      if (!is_on_gpu(task.work)) continue;
      expected_ns += task.duration_ns;
      if (task.work == ReplayWork::Kernel && task.kernel_class == KernelClass::Collective)
        expected_collective_ns += task.duration_ns;
    }
    CHECK(nodes == on_gpu);
    CHECK(ns == expected_ns);
    CHECK(collective_ns <= expected_collective_ns);
    CHECK((collectives > 0) == (collective_ns > 0));
  }
  CHECK(written > 30);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
