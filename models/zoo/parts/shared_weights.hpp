#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "models/ops.hpp"

namespace tracecast::zoo_builders {

/// Weights of a network that runs several times in one step: created by the first run, in order,
/// and read again by the others.
class SharedWeights {
 public:
  explicit SharedWeights(std::string name) : name_(std::move(name)) {}

  /// Starts a run, whose ops are named NAME.run.
  void start(const std::string& run) {
    next_ = 0;
    prefix_ = name_ + "." + run + ".";
  }
  [[nodiscard]] std::string op(const std::string& name) const { return prefix_ + name; }
  TensorId get(GraphBuilder& b, const std::string& name, Shape shape) {
    if (next_ == weights_.size())
      weights_.push_back(b.weight(name_ + "." + name, std::move(shape)));
    return weights_[next_++];
  }

 private:
  std::string name_, prefix_;
  std::vector<TensorId> weights_;
  std::size_t next_ = 0;
};

}  // namespace tracecast::zoo_builders
