#include "traces/ranks/read.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <system_error>

#include "sim/base/error.hpp"
#include "traces/open.hpp"
#include "traces/ranks/one_job.hpp"
#include "traces/record/reader.hpp"

namespace tracecast::traces {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

void sort_by_rank(std::vector<Trace>& traces) {
  if (!std::all_of(traces.begin(), traces.end(), [](const Trace& t) { return t.rank.has_value(); }))
    return;
  std::stable_sort(traces.begin(), traces.end(),
                   [](const Trace& a, const Trace& b) { return *a.rank < *b.rank; });
}

/// Whether a file is of our own form, not packed.
bool is_seekable_record(const fs::path& path) {
  std::string head(64, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return is_record_file(head);
}

Recording read_file_within(const fs::path& path, const Window& window) {
  if (window.is_everything()) return read_recording(path);
  if (is_seekable_record(path)) {
    const RecordIndex index = read_record_index(path);
    if (index.traces == 1 && index.begin_ns)
      return read_records_within(path, window.range(*index.begin_ns));
  }
  Recording recording = read_recording(path);
  for (Trace& trace : recording.traces) {
    const std::optional<Span> whole = extent(trace);
    if (whole) cut(trace, window.range(whole->begin_ns));
  }
  return recording;
}

}  // namespace

std::vector<fs::path> recorded_files(const std::vector<fs::path>& paths) {
  std::vector<fs::path> files;
  for (const fs::path& path : paths) {
    if (!is_folder(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<fs::path> inside;
    std::error_code error;
    for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
      std::error_code kind_error;
      if (at->is_regular_file(kind_error)) inside.push_back(at->path());
    }
    if (error) throw InputError(path.string(), error.message(), "a folder of recordings");
    if (inside.empty()) throw InputError(path.string(), "a folder without files", "recordings");
    std::sort(inside.begin(), inside.end());
    files.insert(files.end(), inside.begin(), inside.end());
  }
  return files;
}

Recording read_ranks(const std::vector<fs::path>& paths, const Window& window) {
  Recording all;
  std::uint64_t unread = 0;
  std::optional<InputError> first_error;
  std::size_t files = 0;
  for (const fs::path& path : paths) {
    const bool is_listed = is_folder(path);
    for (const fs::path& file : recorded_files({path})) {
      ++files;
      try {
        Recording recording = read_file_within(file, window);
        std::move(recording.traces.begin(), recording.traces.end(), std::back_inserter(all.traces));
      } catch (const InputError& error) {
        if (!is_listed) throw;
        ++unread;
        if (!first_error) first_error = InputError(path.string(), error);
      }
    }
  }
  if (all.traces.empty()) throw *first_error;
  const bool has_records = std::any_of(all.traces.begin(), all.traces.end(),
                                       [](const Trace& t) { return extent(t).has_value(); });
  if (!window.is_everything() && !has_records)
    throw InputError(all.traces.front().source, "no record in the range of time",
                     "a range within the recording");
  if (files > 1) sort_by_rank(all.traces);
  check_one_job(all.traces);
  for (; unread > 0; --unread)
    all.traces.front().leave_out("file of the folder that cannot be read", true);
  return all;
}

}  // namespace tracecast::traces
