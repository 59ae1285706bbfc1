#include "traces/ranks/read.hpp"

#include <algorithm>
#include <optional>
#include <system_error>

#include "sim/base/error.hpp"
#include "traces/open.hpp"

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
  const auto twice =
      std::adjacent_find(traces.begin(), traces.end(),
                         [](const Trace& a, const Trace& b) { return *a.rank == *b.rank; });
  if (twice != traces.end())
    throw InputError(std::next(twice)->source,
                     "rank " + std::to_string(*twice->rank) + ", as " + twice->source,
                     "one recording of each rank");
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

Recording read_ranks(const std::vector<fs::path>& paths) {
  Recording all;
  std::uint64_t unread = 0;
  std::optional<InputError> first_error;
  std::size_t files = 0;
  for (const fs::path& path : paths) {
    const bool is_listed = is_folder(path);
    for (const fs::path& file : recorded_files({path})) {
      ++files;
      try {
        Recording recording = read_recording(file);
        std::move(recording.traces.begin(), recording.traces.end(), std::back_inserter(all.traces));
      } catch (const InputError& error) {
        if (!is_listed) throw;
        ++unread;
        if (!first_error) first_error = error;
      }
    }
  }
  if (all.traces.empty()) throw *first_error;
  if (files > 1) sort_by_rank(all.traces);
  for (; unread > 0; --unread)
    all.traces.front().leave_out("file of the folder that cannot be read", true);
  return all;
}

}  // namespace tracecast::traces
