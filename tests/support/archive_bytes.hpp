#pragma once
#include <zlib.h>

#include <cstdio>
#include <stdexcept>
#include <string>

/// Packed files written byte by byte, valid or broken in one place. Whoever includes this links
/// zlib.
namespace tracecast::test {

inline std::string gzip(const std::string& text) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::runtime_error("no deflate");
  std::string packed(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const bool is_whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  if (!is_whole) throw std::runtime_error("no room for deflate");
  return packed;
}

/// Gives the first 512 bytes of a tar member the checksum they should have.
inline std::string with_checksum(std::string member) {
  member.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (std::size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(member[i]);
  char octal[8];
  std::snprintf(octal, sizeof octal, "%06o", sum);
  return member.replace(148, 7, octal, 7);
}

/// A field of a member's header set to `content`, and the checksum to match.
inline std::string with_field(std::string member, std::size_t at, const std::string& content) {
  return with_checksum(member.replace(at, content.size(), content));
}

/// One member of a tar archive in the ustar format; an archive ends with 1024 zero bytes, or just
/// ends.
inline std::string tar_member(const std::string& name, const std::string& content,
                              char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  char size[13];
  std::snprintf(size, sizeof size, "%011o", static_cast<unsigned>(content.size()));
  header.replace(124, 11, size);
  header[156] = type;
  header.replace(257, 8, std::string("ustar\0", 6) + "00");
  std::string text = header + content;
  text.resize((text.size() + 511) / 512 * 512);
  return with_checksum(text);
}

/// A record of a pax extended header: its own length, the key, the value.
inline std::string pax_record(const std::string& text) {
  std::size_t size = text.size() + 3;
  while (std::to_string(size).size() + text.size() + 2 != size)
    size = std::to_string(size).size() + text.size() + 2;
  return std::to_string(size) + ' ' + text + '\n';
}

}  // namespace tracecast::test
