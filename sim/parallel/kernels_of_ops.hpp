#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "models/graph.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// Which kernels of a program an op of the graph has.
class KernelsOfOps {
 public:
  KernelsOfOps(const NetworkGraph& graph, const PricedStep& priced, const StepProgram& program)
      : first_(graph.ops().size()), last_(graph.ops().size()) {
    for (std::uint32_t k = 0; k < program.kernels.size(); ++k) {
      const std::uint32_t op = priced.lowered->ops[program.kernels[k].op].op.index;
      if (!first_[op]) first_[op] = k;
      last_[op] = k;
    }
    num_kernels_ = static_cast<std::uint32_t>(program.kernels.size());
    fill_gaps();
  }
  /// Of the op, or the next op that has any.
  [[nodiscard]] std::uint32_t first(OpId op) const { return *first_[op.index]; }
  [[nodiscard]] std::uint32_t last(OpId op) const { return *last_[op.index]; }

 private:
  void fill_gaps() {
    const std::uint32_t end = num_kernels_ == 0 ? 0 : num_kernels_ - 1;
    std::uint32_t next_first = end, next_last = end;
    for (std::size_t op = first_.size(); op-- > 0;) {
      if (first_[op]) {
        next_first = *first_[op];
        next_last = *last_[op];
      } else {
        first_[op] = next_first;
        last_[op] = next_last;
      }
    }
  }
  std::vector<std::optional<std::uint32_t>> first_, last_;
  std::uint32_t num_kernels_ = 0;
};

}  // namespace tracecast
