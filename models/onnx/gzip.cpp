#include "models/onnx/gzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <new>

#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

constexpr int kGzipOnly = 15 + 16;
constexpr std::size_t kFirstRoom = 1 << 16;

/// zlib's state, ended with its owner.
struct Inflation {
  z_stream stream{};
  Inflation() {
    if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflation() { inflateEnd(&stream); }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;
};

}  // namespace

bool is_gzip(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

std::string unpack_gzip(std::string_view bytes, std::string_view where, std::uint64_t most_bytes) {
  const auto place = [&](std::size_t at) {
    return std::string(where) + ", byte " + std::to_string(at);
  };
  constexpr std::size_t kMostAtOnce = std::numeric_limits<uInt>::max();
  Inflation inflation;
  z_stream& stream = inflation.stream;
  std::string unpacked;
  std::size_t at = 0, filled = 0;
  while (true) {
    if (filled == unpacked.size()) {
      if (filled >= most_bytes) {
        throw InputError(where, "more than " + std::to_string(most_bytes) + " bytes, unpacked",
                         "a smaller file");
      }
      unpacked.resize(std::min<std::uint64_t>(std::max(kFirstRoom, 2 * filled), most_bytes));
    }
    // zlib does not change what it reads.
    stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data() + at));
    stream.avail_in = static_cast<uInt>(std::min(bytes.size() - at, kMostAtOnce));
    stream.next_out = reinterpret_cast<Bytef*>(unpacked.data() + filled);
    stream.avail_out = static_cast<uInt>(std::min(unpacked.size() - filled, kMostAtOnce));
    const uInt given = stream.avail_in, room = stream.avail_out;
    const int code = inflate(&stream, Z_NO_FLUSH);
    at += given - stream.avail_in;
    filled += room - stream.avail_out;
    if (code == Z_STREAM_END) {
      if (at == bytes.size()) break;
      if (inflateReset(&stream) != Z_OK) throw InternalError("zlib begins anew");
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      throw InputError(place(at), "damaged gzip data", "an intact file");
    } else if (at == bytes.size() && room == stream.avail_out) {
      throw InputError(place(at), "gzip data that end early", "a whole file");
    }
  }
  unpacked.resize(filled);
  return unpacked;
}

}  // namespace tracecast::onnx
