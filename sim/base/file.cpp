#include "sim/base/file.hpp"

#include <fstream>
#include <system_error>

#include "sim/base/error.hpp"

namespace tracecast {

std::string read_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  const char* const kReadable = "a file that can be read";
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError(path.string(), "no such file", kReadable);
  if (!std::filesystem::is_regular_file(status)) {
    throw InputError(path.string(), "not a regular file", "a file");
  }
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw InputError(path.string(), "a file of unknown size", kReadable);
  if (size > most_bytes) {
    throw InputError(path.string(), std::to_string(size) + " bytes",
                     "at most " + std::to_string(most_bytes) + " bytes");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(path.string(), "a file that cannot be opened", kReadable);
  std::string content(static_cast<std::size_t>(size), '\0');
  in.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (in.bad()) throw InputError(path.string(), "a read error", kReadable);
  content.resize(static_cast<std::size_t>(in.gcount()));
  return content;
}

namespace {

/// True when every byte went out.
bool write_bytes(const std::filesystem::path& path, std::string_view content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  return !out.fail();
}

/// True when `path` now holds `content`; else it holds what it held.
bool replace_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::path beside = path;
  beside += ".partial";
  std::error_code error;
  if (write_bytes(beside, content)) {
    std::filesystem::rename(beside, path, error);
    if (!error) return true;
  }
  if (std::filesystem::is_regular_file(beside, error)) std::filesystem::remove(beside, error);
  return false;
}

}  // namespace

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  bool written = false;
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    written = write_bytes(path, content);
  } else {
    const std::filesystem::path target = std::filesystem::canonical(path, error);
    written = replace_file(error ? path : target, content);
  }
  if (!written) {
    throw InputError(path.string(), "a place that cannot be written",
                     "a writable folder with room");
  }
}

}  // namespace tracecast
