#include "traces/bytes/tar_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>

#include "sim/base/error.hpp"

namespace tracecast::traces {
namespace {

constexpr std::uint64_t kLongestName = 1 << 16;
constexpr std::uint64_t kLongestExtension = 1 << 20;
constexpr std::uint64_t kLargestMember = std::uint64_t{1} << 50;

/// The number in a header's field: octal digits, or binary where the first bit is set. Nothing when
/// it is negative, no number or of no real file.
std::optional<std::uint64_t> number_in(std::string_view field) {
  std::uint64_t value = 0;
  if (static_cast<unsigned char>(field.front()) & 0x80) {
    for (std::size_t i = 0; i < field.size(); ++i) {
      const auto byte = static_cast<unsigned char>(field[i]);
      value = value << 8 | (i == 0 ? byte & 0x7Fu : byte);
      if (value > kLargestMember) return std::nullopt;
    }
    return value;
  }
  for (const char c : field) {
    if (c == ' ' || c == '\0') continue;
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

std::string text_in(const char* field, std::size_t size) {
  return std::string(field, std::find(field, field + size, '\0'));
}

/// The sum of a header's bytes, its own field taken for blanks; old archivers summed signed bytes.
bool has_its_checksum(const char (&header)[512]) {
  std::uint64_t sum = 0;
  std::int64_t signed_sum = 0;
  for (std::size_t i = 0; i < sizeof header; ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : header[i];
    sum += static_cast<unsigned char>(c);
    signed_sum += static_cast<signed char>(c);
  }
  const auto reported = number_in({header + 148, 8});
  return reported && (*reported == sum || static_cast<std::int64_t>(*reported) == signed_sum);
}

/// POSIX keeps the beginning of a longer path in a field of its own.
std::string path_in(const char (&header)[512]) {
  const std::string name = text_in(header, 100);
  const bool is_posix = std::memcmp(header + 257, "ustar\0", 6) == 0;
  const std::string folder = is_posix ? text_in(header + 345, 155) : "";
  return folder.empty() ? name : folder + '/' + name;
}

}  // namespace

bool is_tar(std::string_view head) { return head.size() >= 512 && head.substr(257, 5) == "ustar"; }

TarReader::TarReader(ByteSource& archive, std::string name)
    : archive_(archive), name_(std::move(name)) {}

void TarReader::refuse(std::string_view found) const {
  throw InputError(name_, found, "a whole tar archive");
}

bool TarReader::read_header(Header& header) {
  std::size_t have = 0;
  while (have < sizeof header) {
    const std::size_t count = archive_.read(header + have, sizeof header - have);
    if (count == 0) break;
    have += count;
  }
  if (have != 0 && have != sizeof header) refuse("an archive that ends within a header");
  if (have == 0 || header[0] == '\0') return false;
  if (!has_its_checksum(header)) refuse("a header with another checksum than it tells");
  return true;
}

void TarReader::skip(std::uint64_t bytes) {
  std::array<char, 1 << 14> buffer;
  while (bytes > 0) {
    const std::size_t count = archive_.read(
        buffer.data(), static_cast<std::size_t>(std::min<std::uint64_t>(bytes, buffer.size())));
    if (count == 0) refuse("an archive that ends within a member");
    bytes -= count;
  }
}

std::string TarReader::read_text(std::uint64_t bytes, std::string_view what) {
  std::string text(static_cast<std::size_t>(bytes), '\0');
  for (std::size_t have = 0; have < text.size();) {
    const std::size_t count = archive_.read(text.data() + have, text.size() - have);
    if (count == 0) refuse("an archive that ends within " + std::string(what));
    have += count;
  }
  return text;
}

/// Records "LENGTH KEY=VALUE\n". Source: POSIX.1-2017, pax, "pax Extended Header".
void TarReader::take_extended(Extended& extended) {
  if (left_ > kLongestExtension)
    refuse("an extended header of " + std::to_string(left_) + " bytes");
  const std::string text = read_text(left_, "an extended header");
  for (std::string_view rest = text; !rest.empty() && rest.front() != '\0';) {
    std::size_t length = 0;
    const auto number = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(number.ptr - rest.data());
    if (number.ec != std::errc{} || length <= digits || length > rest.size())
      refuse("an extended header that cannot be read");
    std::string_view record = rest.substr(digits, length - digits);
    rest.remove_prefix(length);
    if (record.starts_with(' ')) record.remove_prefix(1);
    if (record.ends_with('\n')) record.remove_suffix(1);
    const std::size_t equals = record.find('=');
    const std::string_view key = record.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? "" : record.substr(equals + 1);
    if (key == "path") extended.path = value.substr(0, kLongestName);
    if (key != "size") continue;
    const auto size = std::from_chars(value.data(), value.data() + value.size(), extended.bytes);
    extended.has_bytes = true;
    if (size.ec != std::errc{} || size.ptr != value.data() + value.size() ||
        extended.bytes > kLargestMember)
      refuse("a member's size that is no number");
  }
}

bool TarReader::next() {
  skip(left_ + padding_);
  Extended extended;
  Header header;
  const auto take_size = [this](std::uint64_t bytes) {
    left_ = bytes;
    padding_ = (512 - left_ % 512) % 512;
  };
  while (read_header(header)) {
    const auto reported = number_in({header + 124, 12});
    if (!reported) refuse("a member's size that is no number");
    take_size(*reported);
    const char type = header[156];
    if (type == 'L' || type == 'x') {
      if (type == 'x') {
        take_extended(extended);
      } else if (left_ > kLongestName) {
        refuse("a member's name of " + std::to_string(left_) + " bytes");
      } else {
        const std::string text = read_text(left_, "a name");
        extended.path = text_in(text.data(), text.size());
      }
      skip(padding_);
      continue;
    }
    if (type == 'g' || type == 'K') {  // of the whole archive, or the target of a link
      skip(left_ + padding_);
      continue;
    }
    if (extended.has_bytes) take_size(extended.bytes);
    if (type == '0' || type == '\0' || type == '7') {
      member_ = extended.path.empty() ? path_in(header) : extended.path;
      return true;
    }
    // What has holes lists them in blocks of its own.
    for (bool more = type == 'S' && header[482] != 0; more;) {
      const std::string block = read_text(sizeof header, "a list of holes");
      more = block[504] != 0;
    }
    if (type != '5') ++passed_over_;
    skip(left_ + padding_);
    extended = {};
  }
  left_ = padding_ = 0;
  return false;
}

std::size_t TarReader::read(char* to, std::size_t size) {
  if (left_ == 0) return 0;
  const std::size_t count =
      archive_.read(to, static_cast<std::size_t>(std::min<std::uint64_t>(left_, size)));
  if (count == 0) refuse("an archive that ends within " + member_);
  left_ -= count;
  return count;
}

}  // namespace tracecast::traces
