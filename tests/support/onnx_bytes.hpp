#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// ONNX files written byte by byte, so that tests can write what no honest exporter would.
namespace tracecast::test::onnx {

/// A Protobuf message in wire format, built field by field; fields come out in the order of the
/// calls.
class Message {
 public:
  Message& number(int field, std::int64_t value);  ///< int32, int64, enum
  Message& real(int field, float value);
  Message& text(int field, std::string_view value);  ///< string or bytes
  Message& message(int field, const Message& value);
  Message& raw(std::string_view bytes);  ///< anything at all
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

using Dims = std::vector<std::int64_t>;
using Names = std::vector<std::string>;

/// Element types of onnx.proto.
inline constexpr std::int64_t kFloat = 1;
inline constexpr std::int64_t kInt64 = 7;

[[nodiscard]] Message attribute(std::string_view name, std::int64_t value);
[[nodiscard]] Message attribute(std::string_view name, const Dims& values);
[[nodiscard]] Message attribute_text(std::string_view name, std::string_view value);
[[nodiscard]] Message attribute_graph(std::string_view name, const Message& graph);
[[nodiscard]] Message node(std::string_view op_type, const Names& inputs, const Names& outputs,
                           const std::vector<Message>& attributes = {},
                           std::string_view domain = "");
/// An initializer without data: weights are shapes to us.
[[nodiscard]] Message weight(std::string_view name, const Dims& dims, std::int64_t type = kFloat);
/// An int64 initializer with its values, such as the shape of a Reshape.
[[nodiscard]] Message constant(std::string_view name, const Dims& values);
/// A graph input or output; `dims` -1 stays -1.
[[nodiscard]] Message value_info(std::string_view name, const Dims& dims,
                                 std::int64_t type = kFloat);

/// The parts of a model; change one and write it.
struct Model {
  std::int64_t ir_version = 7;
  std::int64_t opset = 13;
  std::vector<Message> inputs;
  std::vector<Message> outputs;
  std::vector<Message> weights;
  std::vector<Message> nodes;
  std::vector<Message> functions;
  [[nodiscard]] Message graph() const;
  [[nodiscard]] std::string bytes() const;
};

/// A function of the model's own domain "local".
[[nodiscard]] Message function(std::string_view name, const Names& inputs, const Names& outputs,
                               const std::vector<Message>& nodes);

/// A valid network: 3x32x32 images, a 3x3 convolution with 8 filters, ReLU, global average pool,
/// flatten, 10 classes. Tensors: image, conv, relu, pool, flat, logits; weights: filter, matrix,
/// bias.
[[nodiscard]] Model small_network();

}  // namespace tracecast::test::onnx
