#include "models/onnx/reader.hpp"

#include <array>
#include <limits>
#include <optional>
#include <string>

#include "models/onnx/gzip.hpp"
#include "sim/base/error.hpp"

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

/// Copies a message of the wire format field by field, leaving out what kRules does not keep.
class Slimmer {
 public:
  Slimmer(std::string_view bytes, std::string_view where) : bytes_(bytes), where_(where) {}

  std::string run() {
    std::string out;
    copy(Message::Model, 0, bytes_.size(), 0, out);
    return out;
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view found, std::string_view expected) const {
    throw InputError(std::string(where_) + ", byte " + std::to_string(at), found, expected);
  }

  std::uint64_t varint(std::size_t& at, std::size_t end) const {
    const std::size_t start = at;
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at >= end) fail(start, "a number cut off", "an ONNX file (a protobuf message)");
      const auto byte = static_cast<unsigned char>(bytes_[at++]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    fail(start, "a number of more than ten bytes", "an ONNX file (a protobuf message)");
  }

  static void put_varint(std::string& out, std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
  }

  void copy(Message message, std::size_t at, std::size_t end, int depth, std::string& out) {
    if (depth > kMostDepth) {
      fail(at, "messages nested more than 64 deep", "a graph with fewer nested subgraphs");
    }
    std::size_t single_elements = 0;
    while (at < end) {
      const std::size_t start = at;
      if (++num_fields_ > kMostFields) {
        fail(at, "more than 4 million fields besides weights", "a smaller graph");
      }
      const std::uint64_t tag = varint(at, end);
      const std::uint64_t field = tag >> 3;
      if (field == 0 || tag > std::numeric_limits<std::uint32_t>::max()) {
        fail(start, "field number " + std::to_string(field), "an ONNX file (a protobuf message)");
      }
      const Message kept =
          field < kFields ? kKept[static_cast<std::size_t>(message)][field] : kDropped;
      const auto wire_type = static_cast<unsigned>(tag & 7);
      if (wire_type == 2) {
        const std::uint64_t length = varint(at, end);
        if (length > end - at) {
          fail(start,
               "a field of " + std::to_string(length) + " bytes with " + std::to_string(end - at) +
                   " left",
               "a complete ONNX file (is it truncated?)");
        }
        const std::size_t content = at;
        at += length;
        if (kept == kDropped || (kept == Message::Payload && length > kMostPayloadBytes)) continue;
        if (kept == Message::Plain || kept == Message::Payload) {
          out.append(bytes_, start, at - start);
        } else {
          if (kept == Message::Node && ++num_nodes_ > kMostNodes) {
            fail(start, "more than " + std::to_string(kMostNodes) + " nodes", "a smaller graph");
          }
          std::string child;
          copy(kept, content, at, depth + 1, child);
          put_varint(out, tag);
          put_varint(out, child.size());
          out += child;
        }
        if (out.size() > kMostStructureBytes) {
          fail(start, "more than 64 MiB besides weights", "a smaller graph");
        }
        continue;
      }
      if (wire_type == 0) {
        varint(at, end);
      } else if (wire_type == 1 || wire_type == 5) {
        const std::size_t size = wire_type == 1 ? 8 : 4;
        if (size > end - at) fail(start, "a number cut off", "a complete ONNX file");
        at += size;
      } else {
        fail(start, "wire type " + std::to_string(wire_type), "an ONNX file (a protobuf message)");
      }
      if (kept == Message::Payload && ++single_elements > kMostValues) continue;
      if (kept == Message::Plain || kept == Message::Payload) {
        out.append(bytes_, start, at - start);
      }
    }
  }

  std::string_view bytes_;
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
  ModelProto model;
  if (!model.ParseFromString(Slimmer(bytes, where).run())) {
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

}  // namespace tracecast::onnx
