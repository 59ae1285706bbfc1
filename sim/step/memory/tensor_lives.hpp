#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"

namespace tracecast {

/// What a piece of device memory is for; MemoryByClass adds up by it.
enum class MemoryClass { Weights, Gradients, Optimizer, Activations };

/// A piece of device memory that one tensor, or several that share it, live in.
struct TensorBuffer {
  std::int64_t bytes = 0;  ///< as asked for; an allocator rounds it up
  MemoryClass memory_class{};
  bool permanent = false;   ///< there before the step and after it
  std::uint32_t first = 0;  ///< index of the op that writes it first; of no meaning when permanent
  std::uint32_t last = 0;   ///< index of the last op that touches it
};

struct LivesOptions {
  std::span<const Bytes> element_sizes;  ///< by tensor (models/lowering/lower.hpp)
  /// Gradients of weights outlive the step (accumulation over several micro-batches), whatever the
  /// framework does.
  bool keeps_gradients = false;
};

/// The buffers of one step in the order of their tensors, then those that no tensor stands for:
/// - indices of max pools (8 bytes per output), from the pool to its gradient, where the framework
/// keeps them;
/// - mean and deviation that batch, layer, instance and group norms save for their gradient: 2
/// values a row;
/// - the new gradient of a weight while it is added to the one kept between micro-batches or steps;
/// - what an update holds besides (`update_temporaries`), what routines hold (RoutineAttributes).
/// `framework.memory.tensors` decides how long activations and gradients stay.
[[nodiscard]] std::vector<TensorBuffer> find_buffers(const NetworkGraph& graph,
                                                     const FrameworkProfile& framework,
                                                     const LivesOptions& options);

/// What lives in device memory during one step, and when: the same on GPUs of every size.
struct StepLives {
  std::vector<TensorBuffer> buffers;
  std::int64_t half_copies = 0;  ///< bytes of the 16-bit copies of weights that autocast keeps
  std::size_t num_ops = 0;
  /// Of the buffers that are not permanent, the indices op by op: those of op i are [first[i],
  /// first[i + 1]) of `index`.
  struct ByOp {
    std::vector<std::uint32_t> first, index;
    [[nodiscard]] std::span<const std::uint32_t> of(std::size_t op) const {
      return std::span(index).subspan(first[op], first[op + 1] - first[op]);
    }
  };
  ByOp born, dead;  ///< written first by the op; last touched by it
};
[[nodiscard]] StepLives order_lives(std::vector<TensorBuffer> buffers, std::size_t num_ops);

}  // namespace tracecast
