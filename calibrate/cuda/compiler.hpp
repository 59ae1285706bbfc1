#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "calibrate/cuda/library.hpp"

namespace tracecast::calibrate::cuda {

/// NVRTC, the compiler on the target.
class Compiler {
 public:
  /// Nothing, with `why`, when a function is missing.
  static std::unique_ptr<Compiler> open(Library library, std::string& why);
  ~Compiler();

  /// The image of `source` for a device: machine code of its architecture where this NVRTC makes
  /// some (CUDA 11.1 on) and knows the architecture, else PTX that the driver compiles, of the
  /// newest older architecture that NVRTC knows. Empty, with `why` (the compiler's first line),
  /// when nothing compiles.
  [[nodiscard]] std::string compile(std::string_view source, int compute_capability,
                                    std::string& why) const;
  [[nodiscard]] std::string version() const;  ///< "12.2"

 private:
  struct State;
  explicit Compiler(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tracecast::calibrate::cuda
