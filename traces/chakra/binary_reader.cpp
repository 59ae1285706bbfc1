#include <algorithm>
#include <vector>

#include "sim/base/error.hpp"
#include "traces/chakra/chakra.pb.h"
#include "traces/chakra/node_table.hpp"
#include "traces/chakra/reader.hpp"

namespace tracecast::traces {
namespace {

constexpr std::uint32_t kLargestMessage = std::uint32_t{16} << 20;
/// As chakra::whole_us has it.
constexpr std::int64_t kLongestNs = 2'300'000'000'000'000'000;

/// Reads (length, message) pairs.
class MessageStream {
 public:
  MessageStream(ByteSource& source, std::string name)
      : source_(source), name_(std::move(name)), buffer_(1 << 16) {}

  /// The next message's bytes; false at the end.
  bool next(std::string& message) {
    std::uint32_t size = 0;
    const int first = get();
    if (first < 0) return false;
    int byte = first;
    for (int shift = 0;; shift += 7) {
      if (byte < 0) refuse("an end within a length");
      if (shift > 28) refuse("a length of more than 32 bits");
      size |= static_cast<std::uint32_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) break;
      byte = get();
    }
    if (size > kLargestMessage) refuse("a message of " + std::to_string(size) + " bytes");
    message.clear();
    while (message.size() < size) {
      if (at_ == end_ && !refill()) refuse("an end within a message");
      const std::size_t count = std::min<std::size_t>(size - message.size(), end_ - at_);
      message.append(buffer_.data() + at_, count);
      at_ += count;
    }
    return true;
  }
  [[nodiscard]] std::uint64_t position() const { return base_ + at_; }
  [[noreturn]] void refuse(const std::string& found) const {
    throw InputError(name_ + ", byte " + std::to_string(position()), found,
                     "a Chakra execution trace");
  }

 private:
  bool refill() {
    base_ += end_;
    at_ = 0;
    end_ = source_.read(buffer_.data(), buffer_.size());
    return end_ > 0;
  }
  int get() { return at_ == end_ && !refill() ? -1 : static_cast<unsigned char>(buffer_[at_++]); }

  ByteSource& source_;
  std::string name_;
  std::vector<char> buffer_;
  std::size_t at_ = 0, end_ = 0;
  std::uint64_t base_ = 0;
};

/// A whole number, whichever of the dialects' types it has.
std::int64_t number_of(const tracecast::chakra::Attribute& attribute) {
  using Value = tracecast::chakra::Attribute;
  switch (attribute.value_case()) {
    case Value::kInt32Val:
      return attribute.int32_val();
    case Value::kInt64Val:
      return attribute.int64_val();
    case Value::kUint32Val:
      return attribute.uint32_val();
    case Value::kUint64Val:
      return static_cast<std::int64_t>(std::min<std::uint64_t>(attribute.uint64_val(), INT64_MAX));
    case Value::kSint32Val:
      return attribute.sint32_val();
    case Value::kSint64Val:
      return attribute.sint64_val();
    case Value::kBoolVal:
      return attribute.bool_val() ? 1 : 0;
    default:
      return 0;
  }
}

void take(const tracecast::chakra::Node& from, chakra::NodeRecord& to) {
  to.clear();
  to.id = from.id();
  to.name = from.name();
  to.kind = chakra::node_kind(from.type());
  // The format cannot tell "not recorded" from zero.
  to.duration_ns = from.duration_micros() == 0 ? -1 : chakra::whole_us(from.duration_micros());
  std::int64_t exact_ns = -1;
  to.dims = from.inputs().shapes();
  to.types = from.inputs().types();
  to.values = from.inputs().values();
  to.dependencies.assign(from.data_deps().begin(), from.data_deps().end());
  to.dependencies.insert(to.dependencies.end(), from.ctrl_deps().begin(), from.ctrl_deps().end());
  for (const auto& attribute : from.attr()) {
    if (attribute.name() == "is_cpu_op") to.on_gpu = number_of(attribute) == 0;
    if (attribute.name() == "comm_size" || attribute.name() == "tensor_size") {
      to.message_bytes =
          static_cast<std::uint64_t>(std::max<std::int64_t>(number_of(attribute), 0));
    }
    if (attribute.name() == "duration_ns") exact_ns = number_of(attribute);
  }
  if (exact_ns >= 0 && exact_ns <= kLongestNs) to.duration_ns = exact_ns;
}

}  // namespace

Trace read_chakra(ByteSource& source, const std::string& name) {
  Trace trace;
  trace.source = name;
  trace.format = "Chakra execution trace";
  TraceBuilder builder(trace);
  MessageStream stream(source, name);
  std::string message;
  if (!stream.next(message)) stream.refuse("an empty file");
  tracecast::chakra::GlobalMetadata metadata;
  if (!metadata.ParseFromString(message)) stream.refuse("damaged metadata");
  if (!metadata.version().empty()) trace.format += " " + metadata.version().substr(0, 32);
  tracecast::chakra::Node node;
  chakra::NodeRecord record;
  while (stream.next(message)) {
    if (!node.ParseFromString(message)) stream.refuse("a damaged node");
    take(node, record);
    chakra::add_node(trace, builder, record, stream.position());
  }
  return trace;
}

bool is_chakra(std::string_view head) {
  const auto byte = [head](std::size_t at) {
    return at < head.size() ? static_cast<unsigned char>(head[at]) : 0xFFu;
  };
  std::size_t at = 0;
  while (at < 5 && (byte(at) & 0x80) != 0) ++at;
  // Metadata begin with their version (field 1) or an attribute (field 2); without either, a node
  // follows at once, which begins with its id (1), name (2) or type (3).
  const bool is_empty = at == 0 && byte(0) == 0;
  if (!is_empty) return byte(at + 1) == 0x0a || byte(at + 1) == 0x12;
  for (at = 1; at < 6 && (byte(at) & 0x80) != 0;) ++at;
  return byte(at + 1) == 0x08 || byte(at + 1) == 0x12 || byte(at + 1) == 0x18;
}

}  // namespace tracecast::traces
