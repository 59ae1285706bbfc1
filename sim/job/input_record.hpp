#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "sim/base/once.hpp"

namespace tracecast {

/// A hash, computed when it is asked for first: few answers print those of their networks. A value
/// that does not change; copies share it, and several threads may ask.
class Hash {
 public:
  Hash() : Hash(std::string()) {}
  Hash(std::string text) : state_(std::make_shared<State>()) { state_->text = std::move(text); }
  explicit Hash(std::function<std::string()> compute) : state_(std::make_shared<State>()) {
    state_->compute = std::move(compute);
  }
  /// In hexadecimal digits.
  [[nodiscard]] const std::string& text() const {
    state_->computed([this] {
      if (!state_->compute) return;
      state_->text = state_->compute();
      state_->compute = nullptr;  // and what it holds
    });
    return state_->text;
  }

 private:
  struct State {
    Once computed;
    std::function<std::string()> compute;
    std::string text;
  };
  std::shared_ptr<State> state_;
};

/// What a prediction read, with the hash that says which version of it.
struct InputRecord {
  std::string kind;  ///< "network", "gpu", "cost_profile", "framework"
  std::string name;  ///< file name or id
  Hash sha256;       ///< of the file's bytes; of a zoo network: of its text form
};

/// The hash of a spec or profile by its values, whatever the layout of the file they came from.
[[nodiscard]] std::string hash_of(const std::vector<SpecValue>& values);

}  // namespace tracecast
