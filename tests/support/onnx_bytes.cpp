#include "tests/support/onnx_bytes.hpp"

#include <cstring>

namespace tracecast::test::onnx {
namespace {

void append_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

void append_tag(std::string& out, int field, unsigned wire_type) {
  append_varint(out, static_cast<std::uint64_t>(field) << 3 | wire_type);
}

// AttributeProto.type of onnx.proto.
constexpr std::int64_t kIntType = 2, kStringType = 3, kGraphType = 5, kIntsType = 7;

}  // namespace

Message& Message::number(int field, std::int64_t value) {
  append_tag(bytes_, field, 0);
  append_varint(bytes_, static_cast<std::uint64_t>(value));
  return *this;
}

Message& Message::real(int field, float value) {
  append_tag(bytes_, field, 5);
  char little_endian[4];
  std::memcpy(little_endian, &value, 4);
  bytes_.append(little_endian, 4);
  return *this;
}

Message& Message::text(int field, std::string_view value) {
  append_tag(bytes_, field, 2);
  append_varint(bytes_, value.size());
  bytes_ += value;
  return *this;
}

Message& Message::message(int field, const Message& value) { return text(field, value.bytes()); }

Message& Message::raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

Message attribute(std::string_view name, std::int64_t value) {
  return Message().text(1, name).number(3, value).number(20, kIntType);
}

Message attribute(std::string_view name, const Dims& values) {
  Message message;
  message.text(1, name);
  for (const std::int64_t value : values) message.number(8, value);
  return message.number(20, kIntsType);
}

Message attribute_text(std::string_view name, std::string_view value) {
  return Message().text(1, name).text(4, value).number(20, kStringType);
}

Message attribute_graph(std::string_view name, const Message& graph) {
  return Message().text(1, name).message(6, graph).number(20, kGraphType);
}

Message node(std::string_view op_type, const Names& inputs, const Names& outputs,
             const std::vector<Message>& attributes, std::string_view domain) {
  Message message;
  for (const std::string& input : inputs) message.text(1, input);
  for (const std::string& output : outputs) message.text(2, output);
  message.text(3, outputs.empty() ? "node" : "make_" + outputs[0]).text(4, op_type);
  for (const Message& one : attributes) message.message(5, one);
  if (!domain.empty()) message.text(7, domain);
  return message;
}

Message weight(std::string_view name, const Dims& dims, std::int64_t type) {
  Message message;
  for (const std::int64_t dim : dims) message.number(1, dim);
  return message.number(2, type).text(8, name);
}

Message constant(std::string_view name, const Dims& values) {
  Message message;
  message.number(1, static_cast<std::int64_t>(values.size())).number(2, kInt64);
  for (const std::int64_t value : values) message.number(7, value);
  return message.text(8, name);
}

Message value_info(std::string_view name, const Dims& dims, std::int64_t type) {
  Message shape;
  for (const std::int64_t dim : dims) shape.message(1, Message().number(1, dim));
  const Message tensor = Message().number(1, type).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, tensor));
}

Message function(std::string_view name, const Names& inputs, const Names& outputs,
                 const std::vector<Message>& nodes) {
  Message message;
  message.text(1, name);
  for (const std::string& input : inputs) message.text(4, input);
  for (const std::string& output : outputs) message.text(5, output);
  for (const Message& one : nodes) message.message(7, one);
  return message.message(9, Message().text(1, "").number(2, 13)).text(10, "local");
}

Message Model::graph() const {
  Message message;
  for (const Message& one : nodes) message.message(1, one);
  message.text(2, "network");
  for (const Message& one : weights) message.message(5, one);
  for (const Message& one : inputs) message.message(11, one);
  for (const Message& one : outputs) message.message(12, one);
  return message;
}

std::string Model::bytes() const {
  Message message;
  message.number(1, ir_version).text(2, "by hand").message(7, graph());
  message.message(8, Message().text(1, "").number(2, opset));
  if (!functions.empty()) message.message(8, Message().text(1, "local").number(2, 1));
  for (const Message& one : functions) message.message(25, one);
  return message.bytes();
}

Model small_network() {
  Model model;
  model.inputs = {value_info("image", {1, 3, 32, 32})};
  model.outputs = {value_info("logits", {1, 10})};
  model.weights = {weight("filter", {8, 3, 3, 3}), weight("matrix", {10, 8}), weight("bias", {10})};
  model.nodes = {
      node("Conv", {"image", "filter"}, {"conv"}, {attribute("pads", Dims{1, 1, 1, 1})}),
      node("Relu", {"conv"}, {"relu"}),
      node("GlobalAveragePool", {"relu"}, {"pool"}),
      node("Flatten", {"pool"}, {"flat"}),
      node("Gemm", {"flat", "matrix", "bias"}, {"logits"}, {attribute("transB", 1)}),
  };
  return model;
}

}  // namespace tracecast::test::onnx
