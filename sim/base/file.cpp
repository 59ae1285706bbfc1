#include "sim/base/file.hpp"

#include <fstream>
#include <system_error>

#include "sim/base/error.hpp"
#include "sim/base/new_file.hpp"

namespace tracecast {

namespace {

constexpr const char* kReadable = "a file that can be read";

}  // namespace

std::uint64_t check_regular_file(const std::filesystem::path& path, std::string_view expected) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) throw InputError(path.string(), "no such file", kReadable);
  if (!std::filesystem::is_regular_file(status))
    throw InputError(path.string(), "not a regular file", expected);
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  if (error) throw InputError(path.string(), "a file of unknown size", kReadable);
  return size;
}

std::string read_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  const std::uint64_t size = check_regular_file(path);
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

void write_file(const std::filesystem::path& path, std::string_view content) {
  NewFile file(path);
  file.write(content);
  file.put_in_place();
}

}  // namespace tracecast
