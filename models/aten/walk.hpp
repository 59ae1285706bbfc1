#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/aten/import.hpp"
#include "models/aten/program.hpp"
#include "models/ops.hpp"

namespace tracecast::aten {

using Integers = std::vector<std::int64_t>;

/// A tensor of the program at the sizes asked for.
struct Value {
  std::optional<TensorId> id{};  ///< nothing: not read yet, of tensors that no call makes
  Shape shape{};
  bool is_swapped = false;   ///< the last two dimensions of `id`, the other way round: a view
  bool is_expanded = false;  ///< `id` broadcast to `shape`: a view
};

/// Walks a program once: infers every value and appends what works on the device.
class Walk {
 public:
  /// All arguments outlive the walk.
  Walk(const Program& program, const AtenOptions& options);
  /// Throws InputError naming the line.
  void run();
  [[nodiscard]] AtenNetwork take() &&;

  [[nodiscard]] const Program& program() const { return program_; }
  [[nodiscard]] const AtenOptions& options() const { return options_; }
  [[nodiscard]] GraphBuilder& builder() { return builder_; }
  [[nodiscard]] std::int64_t own_batch() const { return own_batch_; }
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  [[nodiscard]] bool is_resized() const { return is_resized_; }
  /// Most weights take two bytes or less: what is cast to 32 bits is wide.
  [[nodiscard]] bool is_low_precision() const { return is_low_precision_; }

  [[nodiscard]] const Value& value(TensorIndex index) const { return values_[index]; }
  void set(TensorIndex index, Value value);
  /// The tensor with its dimensions in their order; where it is expanded, before that.
  TensorId plain(TensorIndex index);
  /// The tensor itself, copied where it is expanded.
  TensorId whole(TensorIndex index);
  /// A view of the host alone.
  TensorId view(std::string name, TensorId x, Shape shape);
  /// A shape of the trace, at the sizes asked for, where nothing says what it follows.
  [[nodiscard]] Shape resized(const Shape& own) const;
  [[nodiscard]] std::string unused_name(const Node& node);

  /// A result that is the mean of a loss over these logits: ops of its own only where it is read.
  void set_loss(TensorIndex result, TensorIndex logits);

  void assume(std::string text);
  void count_unknown(std::string name);

 private:
  void set_sizes();
  void evaluate(const Node& node);
  void apply_unknown(const Node& node, bool is_known);
  TensorId base(TensorIndex index);
  void set_outputs();

  const Program& program_;
  const AtenOptions& options_;
  GraphBuilder builder_;
  std::vector<Value> values_;
  std::unordered_map<TensorIndex, TensorIndex> losses_;  ///< not read yet; logits by result
  std::unordered_map<std::string, int> names_;
  std::map<std::string, std::size_t> unknown_;
  std::vector<std::string> assumptions_;
  std::int64_t own_batch_ = 1, batch_ = 1;
  std::optional<std::pair<std::int64_t, std::int64_t>>
      tokens_;  ///< own and asked, where they differ
  bool is_resized_ = false, is_low_precision_ = false;
};

class Call;
/// False, before anything is appended: a form that is not followed, bounded like an unknown one.
using Handler = bool (*)(Call&);
/// A row of the table: an ATen operator, without overload and without the `_` of what works in
/// place.
struct Row {
  std::string_view target;
  Handler handler;
  std::string_view function{};  ///< of elementwise ops: the function's name in the network graph
};

/// One call as its handler sees it.
class Call {
 public:
  Call(Walk& walk, const Node& call, const Row& found, bool is_in_place)
      : run(walk), node(call), row(found), in_place(is_in_place), name(walk.unused_name(call)) {}

  Walk& run;
  const Node& node;
  const Row& row;
  bool in_place;
  std::string name;

  [[nodiscard]] GraphBuilder& build() const { return run.builder(); }
  /// Null where it was left out or is none.
  [[nodiscard]] const Argument* find(std::string_view parameter) const;
  /// kNoTensor where it is not a tensor.
  [[nodiscard]] TensorIndex find_tensor(std::string_view parameter) const;
  /// Throws InputError when there is none.
  [[nodiscard]] TensorIndex tensor(std::string_view parameter) const;
  /// The first argument, whatever its operator calls it.
  [[nodiscard]] TensorIndex x() const;
  [[nodiscard]] std::vector<TensorIndex> tensors(std::string_view parameter) const;
  /// Every tensor that the call reads, each once.
  [[nodiscard]] std::vector<TensorIndex> all_tensors() const;
  [[nodiscard]] std::int64_t integer(std::string_view parameter, std::int64_t otherwise) const;
  [[nodiscard]] double real(std::string_view parameter, double otherwise) const;
  [[nodiscard]] bool flag(std::string_view parameter, bool otherwise) const;
  /// Of a list, or of one number.
  [[nodiscard]] Integers integers(std::string_view parameter) const;
  [[nodiscard]] std::string_view text(std::string_view parameter) const;

  [[nodiscard]] const TensorInfo& own(TensorIndex index) const {
    return run.program().tensors[index];
  }
  [[nodiscard]] const Shape& shape(TensorIndex index) const { return run.value(index).shape; }
  [[nodiscard]] bool has_result(std::size_t i) const {
    return i < node.results.size() && node.results[i] != kNoTensor;
  }
  /// The shape that result `i` had in the trace; throws InputError when there is none.
  [[nodiscard]] const Shape& own_result(std::size_t i) const;
  /// The same at the sizes asked for, following the largest tensor that is read.
  [[nodiscard]] Shape result_shape(std::size_t i) const;

  [[nodiscard]] TensorId plain(TensorIndex index) const { return run.plain(index); }
  [[nodiscard]] TensorId whole(TensorIndex index) const { return run.whole(index); }
  [[nodiscard]] std::optional<TensorId> optional(std::string_view parameter) const;
  /// The tensor as its rows follow each other: a copy where they do not.
  [[nodiscard]] TensorId contiguous(TensorIndex index) const;

  /// Result `i` is this tensor, integers where the trace says so. Throws InputError when its shape
  /// is not that of the trace.
  void set(std::size_t i, TensorId id) const;
  void set_value(std::size_t i, Value value) const;
  /// Result 0 is the first argument itself.
  void pass_through() const { set_value(0, run.value(x())); }
  /// An op of that kind that reads `inputs` and makes result `i`.
  void append(std::size_t i, OpKind kind, std::string_view function, std::vector<TensorId> inputs,
              std::string_view note = {}) const;
};

[[nodiscard]] std::size_t axis_of(std::int64_t axis, std::size_t rank, std::string_view where);

[[nodiscard]] std::span<const Row> elementwise_rows();
[[nodiscard]] std::span<const Row> layer_rows();
[[nodiscard]] std::span<const Row> gemm_rows();
[[nodiscard]] std::span<const Row> movement_rows();
[[nodiscard]] std::span<const Row> view_rows();

}  // namespace tracecast::aten
