#include "traces/bytes/gzip_source.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <new>

#include "sim/base/error.hpp"

namespace tracecast::traces {

struct GzipSource::State {
  z_stream stream{};
  std::array<unsigned char, 1 << 16> packed;
};

bool is_gzip(std::string_view head) { return head.starts_with("\x1f\x8b\x08"); }

GzipSource::GzipSource(ByteSource& packed, std::string name)
    : packed_(packed), name_(std::move(name)) {}

GzipSource::~GzipSource() {
  if (state_) inflateEnd(&state_->stream);
}

/// More packed bytes behind those that are left; false at the end.
bool GzipSource::refill() {
  z_stream& stream = state_->stream;
  const std::size_t left = stream.avail_in;
  if (left > 0) std::memmove(state_->packed.data(), stream.next_in, left);
  const std::size_t count = packed_.read(reinterpret_cast<char*>(state_->packed.data()) + left,
                                         state_->packed.size() - left);
  stream.next_in = state_->packed.data();
  stream.avail_in = static_cast<uInt>(left + count);
  return count > 0;
}

/// Behind the end of a stream: whether the next one follows.
bool GzipSource::begins_another() {
  z_stream& stream = state_->stream;
  while (stream.avail_in < kGzipHead && refill()) {
  }
  if (!is_gzip({reinterpret_cast<const char*>(stream.next_in), stream.avail_in})) return false;
  return inflateReset(&stream) == Z_OK;
}

std::size_t GzipSource::read(char* to, std::size_t size) {
  if (at_end_) return 0;
  if (!state_) {
    state_ = std::make_unique_for_overwrite<State>();
    constexpr int kGzipOnly = 15 + 16;
    if (inflateInit2(&state_->stream, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  z_stream& stream = state_->stream;
  const auto wanted = static_cast<uInt>(std::min<std::size_t>(size, std::size_t{1} << 30));
  stream.next_out = reinterpret_cast<Bytef*>(to);
  stream.avail_out = wanted;
  while (stream.avail_out == wanted) {
    if (stream.avail_in == 0 && !refill())
      throw InputError(name_, "gzip data that end too early", "a whole gzip file");
    const int code = inflate(&stream, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      at_end_ = !begins_another();
      if (at_end_) break;
    } else if (code == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      throw InputError(
          name_,
          "damaged gzip data" + (stream.msg != nullptr ? ": " + std::string(stream.msg) : ""),
          "a whole gzip file");
    }
  }
  const std::size_t count = wanted - stream.avail_out;
  if (count > 0) packed_.count_unpacked(count);
  return count;
}

}  // namespace tracecast::traces
