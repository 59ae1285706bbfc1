#include "traces/output_file.hpp"

#include <fstream>
#include <system_error>

#include "sim/base/error.hpp"

namespace tracecast::traces {

void write_output_file(const std::filesystem::path& path,
                       const std::function<void(const ByteSink&)>& fill) {
  namespace fs = std::filesystem;
  std::error_code error;
  const bool in_place = fs::exists(path, error) && !fs::is_regular_file(path, error);
  fs::path target = fs::is_symlink(path, error) ? fs::canonical(path, error) : path;
  if (target.empty()) target = path;
  fs::path beside = target;
  if (!in_place) beside += ".partial";
  const auto refuse = [&](const char* found) {
    if (!in_place) fs::remove(beside, error);
    throw InputError(path.string(), found, "a place to write a trace to");
  };
  std::ofstream file(beside, std::ios::binary | std::ios::trunc);
  if (!file) refuse("cannot be opened for writing");
  try {
    fill([&](std::string_view text) {
      file.write(text.data(), static_cast<std::streamsize>(text.size()));
      if (!file) refuse("cannot be written");
    });
  } catch (...) {
    file.close();
    if (!in_place) fs::remove(beside, error);
    throw;
  }
  file.close();
  if (!file) refuse("cannot be written");
  if (in_place) return;
  fs::rename(beside, target, error);
  if (error) refuse("cannot be replaced");
}

}  // namespace tracecast::traces
