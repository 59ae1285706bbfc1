#include "sim/base/file.hpp"

#include <fstream>
#include <system_error>

#include "sim/base/error.hpp"

namespace tracecast {

std::string read_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError(path.string(), "no such file", "a file that can be read");
  if (!std::filesystem::is_regular_file(status)) throw InputError(path.string(), "not a regular file", "a file");
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (!error && size > most_bytes) {
    throw InputError(path.string(), std::to_string(size) + " bytes",
                     "at most " + std::to_string(most_bytes) + " bytes");
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) throw InputError(path.string(), "a file that cannot be opened", "a file that can be read");
  std::string content(static_cast<std::size_t>(size), '\0');
  in.read(content.data(), static_cast<std::streamsize>(content.size()));
  content.resize(static_cast<std::size_t>(in.gcount()));
  if (in.bad()) throw InputError(path.string(), "a read error", "a file that can be read");
  return content;
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  std::filesystem::path beside = path;
  beside += ".partial";
  std::ofstream out(beside, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(beside, path, error);
  if (!out || error) {
    std::error_code ignored;
    std::filesystem::remove(beside, ignored);
    throw InputError(path.string(), "a place that cannot be written", "a writable folder with room");
  }
}

}  // namespace tracecast
