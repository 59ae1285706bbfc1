#include "traces/byte_source.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "sim/base/error.hpp"

namespace tracecast::traces {
namespace {

/// zlib reads what is no gzip as it stands.
class GzipFile final : public ByteSource {
 public:
  explicit GzipFile(const std::filesystem::path& path)
      : name_(path.filename().string()), file_(gzopen(path.c_str(), "rb")) {
    if (file_ == nullptr) throw InputError(path.string(), "unreadable", "a file that can be read");
    // Reads of twice this size and more go into the caller's memory at once.
    gzbuffer(file_, 1u << 16);
  }
  ~GzipFile() override { gzclose(file_); }
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  std::size_t read(char* to, std::size_t size) override {
    const int count =
        gzread(file_, to, static_cast<unsigned>(std::min(size, std::size_t{1} << 30)));
    int code = Z_OK;
    const char* message = gzerror(file_, &code);
    // A file that ends within its gzip data gives what there is and then Z_BUF_ERROR.
    if (count < 0 || code != Z_OK) {
      throw InputError(name_,
                       code == Z_BUF_ERROR ? "gzip data that end too early"
                                           : "damaged gzip data: " + std::string(message),
                       "a whole gzip file");
    }
    return static_cast<std::size_t>(count);
  }

 private:
  std::string name_;
  gzFile file_;
};

/// The number in a tar header's field: octal digits, or binary where the first bit is set.
std::uint64_t number_in(std::string_view field, const std::string& where) {
  std::uint64_t value = 0;
  const auto refuse = [&] {
    throw InputError(where, "a member's size that is no number", "a tar archive");
  };
  if (static_cast<unsigned char>(field.front()) & 0x80) {
    for (std::size_t i = field.size() - 7; i < field.size(); ++i) {
      value = value << 8 | static_cast<unsigned char>(field[i]);
    }
    return value;
  }
  for (const char c : field) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7') refuse();
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

std::string text_in(const char* field, std::size_t size) {
  return std::string(field, std::find(field, field + size, '\0'));
}

constexpr std::uint64_t kLongestName = 1 << 16;

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    throw InputError(path.string(), "no such file", "a recorded trace");
  if (std::filesystem::is_directory(status))
    throw InputError(path.string(), "a folder", "a recorded trace");
  return std::make_unique<GzipFile>(path);
}

bool is_tar(const char* head, std::size_t size) {
  return size >= 512 && std::memcmp(head + 257, "ustar", 5) == 0;
}

TarReader::TarReader(ByteSource& archive, std::string name)
    : archive_(archive), name_(std::move(name)) {}

bool TarReader::read_header(char (&header)[512]) {
  std::size_t have = 0;
  while (have < sizeof header) {
    const std::size_t count = archive_.read(header + have, sizeof header - have);
    if (count == 0) break;
    have += count;
  }
  if (have != 0 && have != sizeof header)
    throw InputError(name_, "an archive that ends within a header", "a whole tar archive");
  return have != 0 && header[0] != '\0';
}

void TarReader::skip(std::uint64_t bytes) {
  std::array<char, 1 << 14> buffer;
  while (bytes > 0) {
    const std::size_t count = archive_.read(
        buffer.data(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes, buffer.size())));
    if (count == 0)
      throw InputError(name_, "an archive that ends within a member", "a whole tar archive");
    bytes -= count;
  }
}

std::string TarReader::read_long_name(std::uint64_t bytes) {
  if (bytes > kLongestName)
    throw InputError(name_, "a member's name of " + std::to_string(bytes) + " bytes",
                     "at most 65536");
  std::string text(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t have = 0; have < text.size();) {
    const std::size_t count = archive_.read(text.data() + have, text.size() - have);
    if (count == 0)
      throw InputError(name_, "an archive that ends within a name", "a whole tar archive");
    have += count;
  }
  return text_in(text.data(), text.size());
}

bool TarReader::next() {
  skip(left_ + padding_);
  std::string long_name;
  char header[512];
  while (read_header(header)) {
    left_ = number_in({header + 124, 12}, name_);
    padding_ = (512 - left_ % 512) % 512;
    const char type = header[156];
    if (type == 'L') {
      long_name = read_long_name(left_);
      skip(padding_);
      continue;
    }
    if (type == '0' || type == '\0') {
      member_ = long_name.empty() ? text_in(header, 100) : long_name;
      return true;
    }
    skip(left_ + padding_);  // folders, links, extended headers
  }
  left_ = padding_ = 0;
  return false;
}

std::size_t TarReader::read(char* to, std::size_t size) {
  if (left_ == 0) return 0;
  const std::size_t count =
      archive_.read(to, static_cast<std::size_t>(std::min<std::uint64_t>(left_, size)));
  if (count == 0)
    throw InputError(name_, "an archive that ends within " + member_, "a whole tar archive");
  left_ -= count;
  return count;
}

}  // namespace tracecast::traces
