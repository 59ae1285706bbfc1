#include "models/onnx/reader.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

#include "models/onnx/gzip.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace tracecast::onnx {
namespace {

constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kMostStructureBytes = std::size_t{64} << 20;
constexpr std::size_t kMostFields = 4'000'000;
constexpr int kMostDepth = 64;
constexpr std::size_t kMostPayloadBytes = kMostValues * sizeof(std::int64_t);

enum class Message : std::uint8_t {
  Plain,    ///< not a message: number, string
  Payload,  ///< elements of a tensor: dropped when there are many
  Model,
  Opset,
  Graph,
  Node,
  Attribute,
  Tensor,
  Sparse,
  ValueInfo,
  Type,
  TensorType,
  TensorShape,
  Dimension,
  Function,
};

struct Rule {
  Message parent;
  std::uint32_t field;
  Message child;
};

/// The fields that are kept, as in onnx.proto.
constexpr Rule kRules[] = {
    {Message::Model, 1, Message::Plain},
    {Message::Model, 2, Message::Plain},
    {Message::Model, 7, Message::Graph},
    {Message::Model, 8, Message::Opset},
    {Message::Model, 25, Message::Function},
    {Message::Opset, 1, Message::Plain},
    {Message::Opset, 2, Message::Plain},
    {Message::Graph, 1, Message::Node},
    {Message::Graph, 2, Message::Plain},
    {Message::Graph, 5, Message::Tensor},
    {Message::Graph, 11, Message::ValueInfo},
    {Message::Graph, 12, Message::ValueInfo},
    {Message::Graph, 13, Message::ValueInfo},
    {Message::Graph, 15, Message::Sparse},
    {Message::Node, 1, Message::Plain},
    {Message::Node, 2, Message::Plain},
    {Message::Node, 3, Message::Plain},
    {Message::Node, 4, Message::Plain},
    {Message::Node, 5, Message::Attribute},
    {Message::Node, 7, Message::Plain},
    {Message::Node, 8, Message::Plain},
    {Message::Attribute, 1, Message::Plain},
    {Message::Attribute, 2, Message::Plain},
    {Message::Attribute, 3, Message::Plain},
    {Message::Attribute, 4, Message::Plain},
    {Message::Attribute, 5, Message::Tensor},
    {Message::Attribute, 6, Message::Graph},
    {Message::Attribute, 7, Message::Plain},
    {Message::Attribute, 8, Message::Plain},
    {Message::Attribute, 9, Message::Plain},
    {Message::Attribute, 10, Message::Tensor},
    {Message::Attribute, 11, Message::Graph},
    {Message::Attribute, 20, Message::Plain},
    {Message::Attribute, 21, Message::Plain},
    {Message::Tensor, 1, Message::Plain},
    {Message::Tensor, 2, Message::Plain},
    {Message::Tensor, 4, Message::Payload},
    {Message::Tensor, 5, Message::Payload},
    {Message::Tensor, 7, Message::Payload},
    {Message::Tensor, 8, Message::Plain},
    {Message::Tensor, 9, Message::Payload},
    {Message::Tensor, 10, Message::Payload},
    {Message::Tensor, 14, Message::Plain},
    {Message::Sparse, 1, Message::Tensor},
    {Message::Sparse, 3, Message::Plain},
    {Message::ValueInfo, 1, Message::Plain},
    {Message::ValueInfo, 2, Message::Type},
    {Message::Type, 1, Message::TensorType},
    {Message::TensorType, 1, Message::Plain},
    {Message::TensorType, 2, Message::TensorShape},
    {Message::TensorShape, 1, Message::Dimension},
    {Message::Dimension, 1, Message::Plain},
    {Message::Dimension, 2, Message::Plain},
    {Message::Function, 1, Message::Plain},
    {Message::Function, 4, Message::Plain},
    {Message::Function, 5, Message::Plain},
    {Message::Function, 6, Message::Plain},
    {Message::Function, 7, Message::Node},
    {Message::Function, 9, Message::Opset},
    {Message::Function, 10, Message::Plain},
    {Message::Function, 11, Message::Attribute},
    {Message::Function, 13, Message::Plain},
};

constexpr std::size_t kMessages = static_cast<std::size_t>(Message::Function) + 1;
constexpr std::size_t kFields = 32;
constexpr auto kDropped = static_cast<Message>(0xff);

/// kRules as a table: [message][field].
constexpr auto kKept = [] {
  std::array<std::array<Message, kFields>, kMessages> table{};
  for (auto& row : table) row.fill(kDropped);
  for (const Rule& rule : kRules) {
    table[static_cast<std::size_t>(rule.parent)][rule.field] = rule.child;
  }
  return table;
}();

/// Bytes from first to last: of memory, or of a file, of which a block at a time is in memory and
/// what is skipped is not read.
class Source {
 public:
  explicit Source(std::string_view bytes) : size_(bytes.size()), block_(bytes) {}
  Source(std::ifstream& file, std::size_t size, std::string_view where)
      : size_(size), file_(&file), where_(where) {}

  [[nodiscard]] std::size_t at() const { return begin_ + next_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// There is one more byte.
  unsigned char take() {
    if (next_ == block_.size()) refill();
    return static_cast<unsigned char>(block_[next_++]);
  }
  /// There are so many.
  void append_to(std::string& out, std::size_t count) {
    while (count > 0) {
      if (next_ == block_.size()) refill();
      const std::size_t part = std::min(count, block_.size() - next_);
      out.append(block_, next_, part);
      next_ += part;
      count -= part;
    }
  }
  void skip(std::size_t count) {
    const std::size_t rest = block_.size() - next_;
    if (count <= rest) {
      next_ += count;
      return;
    }
    begin_ += block_.size() + (count - rest);
    next_ = 0;
    block_ = {};
    file_->seekg(static_cast<std::streamoff>(begin_));
  }

 private:
  void refill() {
    constexpr std::size_t kBlock = std::size_t{1} << 18;
    begin_ += block_.size();
    next_ = 0;
    buffer_.resize(kBlock);
    file_->read(buffer_.data(), static_cast<std::streamsize>(kBlock));
    block_ = {buffer_.data(), static_cast<std::size_t>(file_->gcount())};
    if (block_.empty())
      throw InputError(where_, "a file that ends while it is read", "one that does not change");
  }

  std::size_t size_;
  std::string_view block_{};
  std::size_t begin_ = 0, next_ = 0;  ///< of the block in the file; of the next byte in the block
  std::ifstream* file_ = nullptr;
  std::string where_{};
  std::string buffer_{};
};

/// Copies a message of the wire format field by field, leaving out what kRules does not keep.
class Slimmer {
 public:
  Slimmer(Source& source, std::string_view where) : source_(source), where_(where) {}

  std::string run() {
    std::string out;
    copy(Message::Model, source_.size(), 0, out);
    return out;
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view found, std::string_view expected) const {
    throw InputError(std::string(where_) + ", byte " + std::to_string(at), found, expected);
  }

  std::uint64_t varint(std::size_t end) {
    const std::size_t start = source_.at();
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (source_.at() >= end) fail(start, "a number cut off", "an ONNX file (a protobuf message)");
      const unsigned char byte = source_.take();
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    fail(start, "a number of more than ten bytes", "an ONNX file (a protobuf message)");
  }

  static void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
  }

  void copy(Message message, std::size_t end, int depth, std::string& out) {
    if (depth > kMostDepth) {
      fail(source_.at(), "messages nested more than 64 deep",
           "a graph with fewer nested subgraphs");
    }
    std::size_t single_elements = 0;
    while (source_.at() < end) {
      const std::size_t start = source_.at();
      if (++num_fields_ > kMostFields) {
        fail(start, "more than 4 million fields besides weights", "a smaller graph");
      }
      const std::uint64_t tag = varint(end);
      const std::uint64_t field = tag >> 3;
      if (field == 0 || tag > std::numeric_limits<std::uint32_t>::max()) {
        fail(start, "field number " + std::to_string(field), "an ONNX file (a protobuf message)");
      }
      const Message kept =
          field < kFields ? kKept[static_cast<std::size_t>(message)][field] : kDropped;
      const auto wire_type = static_cast<unsigned>(tag & 7);
      if (wire_type == 2) {
        copy_bytes(tag, kept, start, end, depth, out);
        continue;
      }
      const std::size_t size = wire_type == 1 ? 8 : 4;
      std::uint64_t value = 0;
      if (wire_type == 0) {
        value = varint(end);
      } else if (wire_type != 1 && wire_type != 5) {
        fail(start, "wire type " + std::to_string(wire_type), "an ONNX file (a protobuf message)");
      } else if (size > end - source_.at()) {
        fail(start, "a number cut off", "a complete ONNX file");
      }
      const bool is_element = kept == Message::Payload;
      const bool is_copied =
          kept == Message::Plain || (is_element && ++single_elements <= kMostValues);
      if (is_copied) put_varint(out, tag);
      if (wire_type == 0) {
        if (is_copied) put_varint(out, value);
      } else if (is_copied) {
        source_.append_to(out, size);
      } else {
        source_.skip(size);
      }
    }
  }

  /// A field of so many bytes: text, elements, or a message.
  void copy_bytes(std::uint64_t tag, Message kept, std::size_t start, std::size_t end, int depth,
                  std::string& out) {
    const std::uint64_t length = varint(end);
    if (length > end - source_.at()) {
      fail(start,
           "a field of " + std::to_string(length) + " bytes with " +
               std::to_string(end - source_.at()) + " left",
           "a complete ONNX file (is it truncated?)");
    }
    if (kept == kDropped || (kept == Message::Payload && length > kMostPayloadBytes)) {
      source_.skip(length);
      return;
    }
    const auto check_room = [&](std::size_t more) {
      if (out.size() + more > kMostStructureBytes)
        fail(start, "more than 64 MiB besides weights", "a smaller graph");
    };
    if (kept == Message::Plain || kept == Message::Payload) {
      check_room(length);
      put_varint(out, tag);
      put_varint(out, length);
      source_.append_to(out, length);
      return;
    }
    if (kept == Message::Node && ++num_nodes_ > kMostNodes) {
      fail(start, "more than " + std::to_string(kMostNodes) + " nodes", "a smaller graph");
    }
    std::string child;
    copy(kept, source_.at() + length, depth + 1, child);
    check_room(child.size());
    put_varint(out, tag);
    put_varint(out, child.size());
    out += child;
  }

  Source& source_;
  std::string_view where_;
  std::size_t num_fields_ = 0;
  std::size_t num_nodes_ = 0;
};

/// Version of the standard operators, or nothing when the file imports none.
std::optional<std::int64_t> standard_opset(const ModelProto& model) {
  for (const OperatorSetIdProto& opset : model.opset_import()) {
    if (opset.domain().empty() || opset.domain() == "ai.onnx") return opset.version();
  }
  return std::nullopt;
}

}  // namespace

ModelProto read_model(std::string_view bytes, std::string_view where) {
  std::string unpacked;
  if (is_gzip(bytes)) {
    unpacked = unpack_gzip(bytes, where, kMostBytes);
    bytes = unpacked;
  }
  if (bytes.empty()) throw InputError(where, "0 bytes", "an ONNX file");
  if (bytes.size() > kMostBytes) {
    throw InputError(where, std::to_string(bytes.size()) + " bytes",
                     "at most 2 GiB; larger networks keep their weights in other files");
  }
  Source source(bytes);
  ModelProto model;
  if (!model.ParseFromString(Slimmer(source, where).run())) {
    throw InputError(where, "fields of the wrong type", "an ONNX file");
  }
  if (!model.has_graph() || !model.has_ir_version()) {
    throw InputError(where, model.has_graph() ? "no IR version" : "no graph", "an ONNX file");
  }
  if (model.ir_version() < 3) {
    throw InputError(where, "IR version " + std::to_string(model.ir_version()), "3 or later");
  }
  if (model.opset_import().empty()) {
    throw InputError(where, "no operator set version", "an ONNX file with opset 7 or later");
  }
  const std::optional<std::int64_t> opset = standard_opset(model);
  if (opset && *opset < 7) {
    throw InputError(where, "opset " + std::to_string(*opset),
                     "7 or later (export the network again, or convert it)");
  }
  return model;
}

std::string read_structure(const std::filesystem::path& path, std::uint64_t most_bytes) {
  const std::string where = path.string();
  const std::uint64_t size = check_regular_file(path);
  std::ifstream file(path, std::ios::binary);
  std::array<char, 2> opening{};
  file.read(opening.data(), opening.size());
  const bool is_small = size <= kMostPayloadBytes;
  if (is_small || size > most_bytes || !file || is_gzip({opening.data(), opening.size()}))
    return read_file(path, most_bytes);
  file.seekg(0);
  Source source(file, size, where);
  std::string structure = Slimmer(source, where).run();
  if (structure.empty()) throw InputError(where, "no graph", "an ONNX file");
  return structure;
}

}  // namespace tracecast::onnx
