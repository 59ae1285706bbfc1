#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/graph.hpp"

namespace tracecast::canonical {

/// The function that an op computes as rules name it: of ops element by element and of reductions
/// their own ("mul", "mean"), else the kind ("softmax", "instance_norm").
[[nodiscard]] std::string_view function_of(const Op& op);

/// A forward graph while it is rewritten. Ops keep their order; what a rule puts in their place
/// writes the tensors that they wrote, so that readers stay as they are.
class Draft {
 public:
  using OpIndex = std::uint32_t;

  explicit Draft(const NetworkGraph& graph);

  [[nodiscard]] std::size_t num_ops() const { return ops_.size(); }
  [[nodiscard]] const Op& op(OpIndex i) const { return ops_[i]; }
  [[nodiscard]] Op& op(OpIndex i) { return ops_[i]; }
  /// Another op does its work, or none does.
  [[nodiscard]] bool is_gone(OpIndex i) const { return is_gone_[i]; }
  [[nodiscard]] const Tensor& tensor(TensorId id) const { return tensors_[id.index]; }
  [[nodiscard]] const Shape& shape(TensorId id) const { return tensors_[id.index].shape; }
  /// The op that writes a tensor; of what `replace` brought only after `settle`.
  [[nodiscard]] std::optional<OpIndex> producer(TensorId id) const { return producer_[id.index]; }
  [[nodiscard]] std::span<const OpIndex> readers(TensorId id) const { return readers_[id.index]; }
  [[nodiscard]] bool is_output(TensorId id) const { return is_output_[id.index]; }
  /// One element and no weight: part of a function rather than an operand.
  [[nodiscard]] bool is_number(TensorId id) const;
  /// What an op reads besides numbers.
  [[nodiscard]] std::vector<TensorId> operands(const Op& op) const;

  TensorId add_tensor(Tensor tensor);
  /// Puts `ops` where the last of `gone` stands, in place of all of them.
  void replace(std::span<const OpIndex> gone, std::vector<Op> ops);
  /// Puts `ops` before `next`.
  void insert(OpIndex next, std::vector<Op> ops);
  /// Makes ops read `now` where they read `before`.
  void reroute(TensorId before, TensorId now);
  /// Ops that were brought take their places, those that are gone leave; indices are new.
  void settle();

  /// The graph, settled, without tensors that nothing reads or writes any more.
  [[nodiscard]] NetworkGraph take() &&;

 private:
  void index();

  std::string name_;
  std::int64_t batch_ = 1, frozen_parameters_ = 0;
  bool training_mode_ = false;
  std::vector<Tensor> tensors_;
  std::vector<Op> ops_;
  std::vector<TensorId> outputs_;
  std::vector<bool> is_gone_;
  std::vector<std::vector<Op>> brought_;  ///< before the op of that index
  std::vector<std::optional<OpIndex>> producer_;
  std::vector<std::vector<OpIndex>> readers_;
  std::vector<bool> is_output_;
};

}  // namespace tracecast::canonical
