#include "traces/record/reader.hpp"

#include <zlib.h>

#include <algorithm>
#include <fstream>

#include "sim/base/error.hpp"
#include "traces/bytes/byte_source.hpp"
#include "traces/cut.hpp"
#include "traces/record/file_form.hpp"
#include "traces/record/trace_filler.hpp"

namespace tracecast::traces {
namespace {

using namespace record;

constexpr std::size_t kBufferBytes = std::size_t{1} << 16;
constexpr std::size_t kTrailerBytes = 16;
constexpr std::uint64_t kMostTraces = 100'000;
const char* const kExpected = "a complete recording of tracecast's (.tctrace)";

/// Whole blocks out of bytes that come one after the other.
class BlockStream {
 public:
  BlockStream(ByteSource& source, std::string name)
      : source_(source), name_(std::move(name)), buffer_(kBufferBytes) {}

  void read_magic() {
    take(kMagic.size());
    if (!is_record_file(bytes_)) refuse("another beginning");
    if (bytes_ != kMagic)
      throw InputError(name_, "version " + bytes_.substr(kMagicName), "version 01");
  }
  /// The next block, its content unpacked.
  void next() {
    const std::uint64_t size = varint();
    if (size > kMostTextBytes + (kMostTextBytes >> 4))
      refuse("a block of " + std::to_string(size) + " bytes");
    take(size);
    if (!block_.ParseFromString(bytes_)) refuse("a block that cannot be read");
  }
  const std::string& unpack() {
    const bool is_text = block_.kind() == TEXTS || block_.kind() == INDEX;
    const bool is_single = block_.kind() == HEAD || block_.kind() == TAIL;
    const std::uint32_t most = is_text     ? kMostTextBytes
                               : is_single ? kMostHeadBytes
                                           : kMostColumnBytes;
    if (block_.unpacked_bytes() > most)
      refuse("a block of " + std::to_string(block_.unpacked_bytes()) + " bytes unpacked");
    unpacked_.resize(block_.unpacked_bytes());
    uLongf size = block_.unpacked_bytes();
    const std::string& packed = block_.packed();
    const int status = uncompress(reinterpret_cast<Bytef*>(unpacked_.data()), &size,
                                  reinterpret_cast<const Bytef*>(packed.data()),
                                  static_cast<uLong>(packed.size()));
    if (status != Z_OK || size != unpacked_.size()) refuse("a block that cannot be unpacked");
    source_.count_unpacked(size);
    return unpacked_;
  }
  [[nodiscard]] const Block& block() const { return block_; }

  /// Behind the index: where it began, and nothing more.
  void read_trailer(std::uint64_t index_at) {
    take(kTrailerBytes);
    if (offset_of(bytes_) != index_at || !bytes_.ends_with(kTrailerEnd)) refuse("no end mark");
    if (at_ != end_ || refill()) refuse("more behind the end");
  }
  static std::uint64_t offset_of(std::string_view trailer) {
    std::uint64_t at = 0;
    for (std::size_t i = 8; i-- > 0;) at = at << 8 | static_cast<unsigned char>(trailer[i]);
    return at;
  }

  [[nodiscard]] std::uint64_t position() const { return base_ + at_; }
  [[noreturn]] void refuse(const std::string& found) const {
    throw InputError(name_ + ", byte " + std::to_string(position()), found, kExpected);
  }

 private:
  bool refill() {
    base_ += end_;
    at_ = 0;
    end_ = source_.read(buffer_.data(), buffer_.size());
    return end_ > 0;
  }
  /// The next `size` bytes, in `bytes_`: it grows with what is there, whatever was told.
  void take(std::uint64_t size) {
    bytes_.clear();
    while (bytes_.size() < size) {
      if (at_ == end_ && !refill()) refuse("the end of the file");
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(size - bytes_.size(), end_ - at_));
      bytes_.append(buffer_.data() + at_, count);
      at_ += count;
    }
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 35; shift += 7) {
      if (at_ == end_ && !refill()) refuse("the end of the file");
      const auto byte = static_cast<unsigned char>(buffer_[at_++]);
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    refuse("a length of more than 35 bits");
  }

  ByteSource& source_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;
  std::uint64_t base_ = 0;
  std::string bytes_, unpacked_;
  Block block_;
};

Index parse_index(BlockStream& blocks) {
  Index index;
  if (!index.ParseFromString(blocks.unpack())) blocks.refuse("an index that cannot be read");
  return index;
}

/// Traces out of blocks in order.
class RecordingFiller {
 public:
  explicit RecordingFiller(const BlockStream& blocks) : blocks_(blocks) {}

  void take(Kind kind, std::uint32_t records, const std::string& unpacked) {
    if (kind == HEAD) {
      if (filler_) blocks_.refuse("a trace within another");
      if (recording_.traces.size() >= kMostTraces) blocks_.refuse("more than 100000 traces");
      filler_.emplace(recording_.traces.emplace_back());
    }
    if (!filler_) blocks_.refuse("records outside of a trace");
    check(filler_->take(kind, records, unpacked));
    if (kind != TAIL) return;
    check(filler_->finish());
    filler_.reset();
  }
  void skip_kernels(std::uint32_t records) {
    if (filler_) filler_->skip_kernels(records);
  }
  Recording finish() {
    if (filler_) blocks_.refuse("a trace without an end");
    if (recording_.traces.empty()) blocks_.refuse("no trace");
    return std::move(recording_);
  }

 private:
  void check(const std::string& wrong) const {
    if (!wrong.empty()) blocks_.refuse(wrong);
  }

  const BlockStream& blocks_;
  Recording recording_;
  std::optional<TraceFiller> filler_;
};

class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path)
      : name_(path.filename().string()), file_(path, std::ios::binary) {
    std::error_code error;
    if (!file_ || !std::filesystem::is_regular_file(path, error))
      throw InputError(path.string(), "a file that cannot be opened", kExpected);
    file_.seekg(0, std::ios::end);
    size_ = static_cast<std::uint64_t>(file_.tellg());
    file_.seekg(0);
  }
  std::size_t read(char* to, std::size_t size) override {
    file_.read(to, static_cast<std::streamsize>(size));
    return static_cast<std::size_t>(file_.gcount());
  }
  void seek(std::uint64_t at) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(at));
  }
  void count_unpacked(std::uint64_t bytes) override {
    unpacked_ += bytes;
    if (unpacked_ > kFreeUnpackedBytes && unpacked_ / kMostUnpackedPerByte > size_)
      throw InputError(name_, "blocks of over 100 times the file's size", kExpected);
  }
  [[nodiscard]] std::uint64_t size() const { return size_; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  std::string name_;
  std::ifstream file_;
  std::uint64_t size_ = 0, unpacked_ = 0;
};

/// The index, from the trailer on.
Index find_index(FileSource& file) {
  BlockStream(file, file.name()).read_magic();
  if (file.size() < kMagic.size() + kTrailerBytes)
    throw InputError(file.name(), "the end of the file", kExpected);
  std::string trailer(kTrailerBytes, '\0');
  file.seek(file.size() - kTrailerBytes);
  (void)file.read(trailer.data(), trailer.size());
  const std::uint64_t at = BlockStream::offset_of(trailer);
  if (!trailer.ends_with(kTrailerEnd) || at >= file.size())
    throw InputError(file.name(), "no end mark", kExpected);
  file.seek(at);
  BlockStream blocks(file, file.name());
  blocks.next();
  if (blocks.block().kind() != INDEX) blocks.refuse("no index where the file says");
  return parse_index(blocks);
}

bool has_times(const Index::Entry& entry) {
  return entry.kind() >= KERNELS && (entry.begin_ns() != 0 || entry.end_ns() != 0);
}

/// Whether records of a block can lie within a range.
bool can_overlap(const Index::Entry& entry, const Span& range) {
  return !has_times(entry) ||
         (entry.begin_ns() < range.end_ns() && entry.end_ns() >= range.begin_ns);
}

}  // namespace

bool is_record_file(std::string_view head) {
  return head.substr(0, kMagicName) == kMagic.substr(0, kMagicName);
}

Recording read_records(ByteSource& source, const std::string& name) {
  BlockStream blocks(source, name);
  blocks.read_magic();
  RecordingFiller filler(blocks);
  std::uint64_t count = 0;
  for (;;) {
    const std::uint64_t at = blocks.position();
    blocks.next();
    if (blocks.block().kind() == INDEX) {
      if (static_cast<std::uint64_t>(parse_index(blocks).blocks_size()) != count)
        blocks.refuse("an index of other blocks");
      blocks.read_trailer(at);
      return filler.finish();
    }
    ++count;
    filler.take(blocks.block().kind(), blocks.block().records(), blocks.unpack());
  }
}

RecordIndex read_record_index(const std::filesystem::path& path) {
  FileSource file(path);
  const Index index = find_index(file);
  RecordIndex result;
  result.blocks = static_cast<std::uint64_t>(index.blocks_size());
  for (const Index::Entry& entry : index.blocks()) {
    if (entry.kind() == HEAD) ++result.traces;
    if (entry.kind() < KERNELS) continue;
    result.records += entry.records();
    if (has_times(entry))
      result.begin_ns = std::min(result.begin_ns.value_or(entry.begin_ns()), entry.begin_ns());
  }
  for (const Index::Step& step : index.steps()) {
    result.steps.push_back({step.trace(), step.name(), {step.begin_ns(), step.duration_ns()}});
  }
  return result;
}

Recording read_records_within(const std::filesystem::path& path, const Span& range) {
  FileSource file(path);
  const Index index = find_index(file);
  file.seek(0);
  BlockStream start(file, file.name());
  RecordingFiller filler(start);
  for (const Index::Entry& entry : index.blocks()) {
    if (!can_overlap(entry, range)) {
      if (entry.kind() == KERNELS) filler.skip_kernels(entry.records());
      continue;
    }
    if (entry.at() >= file.size()) start.refuse("an index of blocks behind the end");
    file.seek(entry.at());
    BlockStream blocks(file, file.name());
    blocks.next();
    if (blocks.block().kind() != entry.kind()) start.refuse("an index of other blocks");
    filler.take(entry.kind(), blocks.block().records(), blocks.unpack());
  }
  Recording recording = filler.finish();
  for (Trace& trace : recording.traces) cut(trace, range);
  return recording;
}

}  // namespace tracecast::traces
