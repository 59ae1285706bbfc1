#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "sim/base/error.hpp"
#include "traces/open.hpp"
#include "traces/summary.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

namespace {

/// What gzip data unpack to, at most `most` bytes of it.
std::string unpacked(const std::uint8_t* data, std::size_t size, std::size_t most) {
  z_stream stream{};
  std::string text(most, '\0');
  if (inflateInit2(&stream, 31) != Z_OK) return {};
  stream.next_in = const_cast<Bytef*>(data);
  stream.avail_in = static_cast<uInt>(size);
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  (void)inflate(&stream, Z_FINISH);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

/// The bytes as gzip at `data`; 0 when there is no room.
std::size_t pack(const std::string& text, std::uint8_t* data, std::size_t most) {
  z_stream stream{};
  if (deflateInit2(&stream, 1, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) != Z_OK) return 0;
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = data;
  stream.avail_out = static_cast<uInt>(most);
  const bool is_whole = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  const std::size_t size = stream.total_out;
  deflateEnd(&stream);
  return is_whole ? size : 0;
}

/// Gives every header of a tar archive the checksum it should have, as long as sizes lead from one
/// to the next.
void mend_checksums(std::uint8_t* data, std::size_t size) {
  for (std::size_t at = 0; at + 512 <= size;) {
    std::uint8_t* header = data + at;
    if (std::memcmp(header + 257, "ustar", 5) != 0) return;
    std::memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (std::size_t i = 0; i < 512; ++i) sum += header[i];
    for (int digit = 5; digit >= 0; --digit, sum /= 8)
      header[148 + digit] = static_cast<std::uint8_t>('0' + sum % 8);
    header[154] = 0;
    std::size_t bytes = 0;
    for (std::size_t i = 124; i < 136 && header[i] >= '0' && header[i] <= '7'; ++i)
      bytes = std::min<std::size_t>(bytes * 8 + (header[i] - '0'), size);
    at += 512 + (bytes + 511) / 512 * 512;
  }
}

}  // namespace

/// Changes what is packed rather than its packing, mostly: else a checksum ends nearly every try.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  const bool is_gzip = size > 2 && data[0] == 0x1f && data[1] == 0x8b;
  if (is_gzip && seed % 8 != 0) {
    std::string text = unpacked(data, size, 4 * most);
    const std::size_t old_size = text.size();
    text.resize(std::max<std::size_t>(2 * old_size, 64));
    auto* bytes = reinterpret_cast<std::uint8_t*>(text.data());
    text.resize(LLVMFuzzerMutate(bytes, old_size, text.size()));
    mend_checksums(reinterpret_cast<std::uint8_t*>(text.data()), text.size());
    const std::size_t packed = pack(text, data, most);
    if (packed > 0) return packed;
  }
  size = LLVMFuzzerMutate(data, size, most);
  if (seed % 4 != 0) mend_checksums(data, size);
  return size;
}

/// A file as the commands open it: tar, gzip, both in any order, or a trace of any format.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracecast;
  static const traces::KernelNames names = traces::KernelNames::builtin();
  const int file = memfd_create("archive", 0);
  if (file < 0 || write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  try {
    const traces::Recording recording =
        traces::read_recording("/proc/self/fd/" + std::to_string(file));
    if (recording.traces.empty()) std::abort();
    for (const traces::Trace& trace : recording.traces) (void)traces::summarize(trace, names);
  } catch (const InputError&) {
  }
  close(file);
  return 0;
}
