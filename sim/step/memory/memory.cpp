#include "sim/step/memory/memory.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/lowering/lower.hpp"
#include "sim/base/error.hpp"
#include "sim/base/round_up.hpp"
#include "sim/step/driver_calls.hpp"
#include "sim/step/memory/caching_allocator.hpp"
#include "sim/step/memory/tensor_lives.hpp"

namespace tracecast {
namespace {

std::int64_t as_integer(Bytes bytes) {
  return static_cast<std::int64_t>(std::clamp(bytes.in_bytes(), 0.0, 0x1p60));
}

Bytes as_bytes(std::int64_t bytes) { return Bytes(static_cast<double>(bytes)); }

/// Ops that autocast runs in 16 bits, if they read weights. Source: PyTorch documentation, "CUDA
/// Ops that can Autocast to float16": tables that are looked up are in no list.
bool casts_weights(const Op& op) {
  switch (op.kind) {
    case OpKind::Conv:
    case OpKind::ConvTranspose:
    case OpKind::Linear:
    case OpKind::MatMul:
    case OpKind::Recurrent:
      return true;
    default:
      return false;
  }
}

/// 16-bit copies of the weights that autocast makes for the GEMMs and keeps for the backward pass.
std::int64_t half_copies(const NetworkGraph& graph) {
  std::vector<bool> is_copied(graph.tensors().size(), false);
  for (const Op& op : graph.ops()) {
    if (!casts_weights(op)) continue;
    for (const TensorId input : op.inputs) is_copied[input.index] = true;
  }
  double elements = 0;
  for (std::size_t t = 0; t < is_copied.size(); ++t) {
    const Tensor& tensor = graph.tensors()[t];
    if (is_copied[t] && tensor.role == TensorRole::Weight)
      elements += static_cast<double>(element_count(tensor.shape));
  }
  return as_integer(Bytes(elements * 2));
}

/// One step, op by op: what lives, and what the allocator makes of it.
class Replay {
 public:
  Replay(const StepLives& lives, std::int64_t block, CachingAllocator allocator)
      : lives_(lives),
        allocator_(std::move(allocator)),
        bytes_(lives.buffers.size()),
        handles_(lives.buffers.size()) {
    for (std::uint32_t b = 0; b < bytes_.size(); ++b) {
      bytes_[b] = round_up(lives_.buffers[b].bytes, block);
      if (lives_.buffers[b].permanent) allocate(b);
    }
  }

  /// Something besides the buffers that is there all the time.
  void hold(std::int64_t bytes, MemoryClass memory_class) {
    part_of(now_, memory_class) += as_bytes(bytes);
    if (bytes > 0) (void)allocator_.allocate(bytes);
  }

  /// The first step: every op tries what it could run with.
  void try_algorithms(std::span<const std::vector<Bytes>> tried,
                      std::span<const Bytes> workspaces) {
    for (std::uint32_t i = 0; i < lives_.num_ops; ++i) {
      for (const std::uint32_t b : lives_.born.of(i)) allocate(b);
      std::int64_t largest = 0;
      for (const Bytes workspace : tried[i]) {
        const std::int64_t size = as_integer(workspace);
        if (size <= allocator_.largest_available()) largest = std::max(largest, size);
      }
      const Bytes scratch = workspaces.empty() ? Bytes(0) : workspaces[i];
      most_live_ = max(most_live_, now_.live() + max(as_bytes(largest), scratch));
      if (largest > 0) {
        allocator_.release(allocator_.allocate(largest));
        allocator_.release_cached();
      }
      use_scratch(workspaces.empty() ? Bytes(0) : workspaces[i]);
      for (const std::uint32_t b : lives_.dead.of(i)) release(b);
    }
  }

  /// `pool`: of a framework that takes a share of the device; nothing: the allocator knows what is
  /// left.
  std::vector<Bytes> choose_scratch(const ScratchChoice& choose, std::optional<Bytes> pool) {
    std::vector<Bytes> workspaces(lives_.num_ops);
    const auto has_room = [&](Bytes size) {
      if (pool) return now_.live() + size <= *pool;
      return !(size > Bytes(0)) || allocator_.has_room(as_integer(size));
    };
    for (std::uint32_t i = 0; i < lives_.num_ops; ++i) {
      for (const std::uint32_t b : lives_.born.of(i)) allocate(b);
      workspaces[i] = choose(OpId{i}, has_room);
      use_scratch(workspaces[i]);
      for (const std::uint32_t b : lives_.dead.of(i)) release(b);
    }
    return workspaces;
  }

  void run(std::span<const Bytes> workspaces, MemoryPlan& plan) {
    plan.by_class = now_;
    plan.peak_live = now_.live();
    for (std::uint32_t i = 0; i < lives_.num_ops; ++i) {
      for (const std::uint32_t b : lives_.born.of(i)) allocate(b);
      now_.workspace = workspaces.empty() ? Bytes(0) : workspaces[i];
      use_scratch(now_.workspace);
      if (now_.live() > plan.peak_live || !plan.peak_op) {
        plan.by_class = now_;
        plan.peak_live = now_.live();
        plan.peak_op = OpId{i};
      }
      for (const std::uint32_t b : lives_.dead.of(i)) release(b);
      now_.workspace = Bytes(0);
    }
  }

  /// Whether the allocator takes no more than `most`; ends with the op where it does.
  [[nodiscard]] bool is_within(std::span<const Bytes> workspaces, Bytes most) {
    const auto holds = [&] { return as_bytes(allocator_.most_reserved()) <= most; };
    for (std::uint32_t i = 0; i < lives_.num_ops && holds(); ++i) {
      for (const std::uint32_t b : lives_.born.of(i)) handles_[b] = allocator_.allocate(bytes_[b]);
      use_scratch(workspaces.empty() ? Bytes(0) : workspaces[i]);
      for (const std::uint32_t b : lives_.dead.of(i)) allocator_.release(handles_[b]);
    }
    return holds();
  }

  [[nodiscard]] const CachingAllocator& allocator() const { return allocator_; }
  /// Most that lived at a moment of the trials.
  [[nodiscard]] Bytes most_live() const { return most_live_; }

 private:
  void use_scratch(Bytes bytes) {
    if (bytes > Bytes(0)) {
      allocator_.release(allocator_.allocate(std::max<std::int64_t>(as_integer(bytes), 1)));
    }
  }
  void allocate(std::uint32_t b) {
    part_of(now_, lives_.buffers[b].memory_class) += as_bytes(bytes_[b]);
    handles_[b] = allocator_.allocate(bytes_[b]);
  }
  void release(std::uint32_t b) {
    part_of(now_, lives_.buffers[b].memory_class) -= as_bytes(bytes_[b]);
    allocator_.release(handles_[b]);
  }

  const StepLives& lives_;
  CachingAllocator allocator_;
  std::vector<std::int64_t> bytes_;  ///< by buffer, rounded up to the allocator's block
  std::vector<CachingAllocator::Handle> handles_;
  MemoryByClass now_;
  Bytes most_live_{};
};

std::int64_t block_of(const FrameworkProfile& framework) {
  return std::max<std::int64_t>(as_integer(framework.memory.allocator_block), 1);
}

/// The state between steps: what lives all the time.
Replay start_replay(const StepLives& lives, const FrameworkProfile& framework,
                    Bytes free_for_tensors) {
  const std::int64_t block = block_of(framework);
  Replay replay(lives, block,
                CachingAllocator(block, as_integer(framework.memory.allocator_large_segment),
                                 as_integer(free_for_tensors)));
  replay.hold(lives.half_copies, MemoryClass::Weights);
  return replay;
}

Bytes free_for_tensors(const FrameworkProfile& framework, const GpuSpec& gpu,
                       const CostProfile& profile) {
  const Bytes free_at_start = max(gpu.memory - device_context(gpu, profile), Bytes(0));
  return max(free_at_start - framework.memory.context, Bytes(0));
}

/// What tensors can have of a framework that takes a share of the device.
Bytes pool_of(const FrameworkProfile& framework, const GpuSpec& gpu, const CostProfile& profile) {
  const Bytes free_at_start = max(gpu.memory - device_context(gpu, profile), Bytes(0));
  const Bytes share = min(free_at_start * framework.memory.pool_fraction,
                          free_at_start - framework.memory.pool_least_reserve);
  return max(min(share, free_for_tensors(framework, gpu, profile)), Bytes(0));
}

/// The most that lives at a moment, rounded up to the allocator's block.
Bytes peak_live(const StepLives& lives, std::span<const Bytes> workspaces, std::int64_t block) {
  std::int64_t live = lives.half_copies;
  std::vector<std::int64_t> born(lives.num_ops + 1), dead(lives.num_ops + 1);
  for (const TensorBuffer& buffer : lives.buffers) {
    const std::int64_t bytes = round_up(buffer.bytes, block);
    if (buffer.permanent) {
      live += bytes;
    } else {
      born[buffer.first] += bytes;
      dead[buffer.last] += bytes;
    }
  }
  Bytes peak = as_bytes(live);
  for (std::size_t i = 0; i < born.size(); ++i) {
    live += born[i];
    const Bytes scratch = i < workspaces.size() ? workspaces[i] : Bytes(0);
    peak = max(peak, as_bytes(live) + scratch);
    live -= dead[i];
  }
  return peak;
}

/// The search for scratch and that for the least device meet the same allocator at other sizes,
/// which may differ by a segment: what was found to fit fits.
void agree(MemoryPlan& plan) {
  plan.least = plan.fits ? min(plan.least, plan.room) : max(plan.least, plan.room);
}

/// Whether a device has room for so much of tensors and scratch.
bool holds_peak(Bytes peak, const FrameworkProfile& framework, const GpuSpec& gpu,
                const CostProfile& profile) {
  if (framework.memory.pool_fraction > 0) return peak <= pool_of(framework, gpu, profile);
  return peak + device_context(gpu, profile) + framework.memory.context <= gpu.memory;
}

}  // namespace

Bytes& part_of(MemoryByClass& by_class, MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::Weights:
      return by_class.weights;
    case MemoryClass::Gradients:
      return by_class.gradients;
    case MemoryClass::Optimizer:
      return by_class.optimizer;
    case MemoryClass::Activations:
      break;
  }
  return by_class.activations;
}

Bytes device_context(const GpuSpec& gpu, const CostProfile& profile) {
  return Bytes(profile.context.bytes_per_thread * gpu.sm_count * gpu.max_threads_per_sm);
}

StepLives find_lives(const NetworkGraph& graph, const FrameworkProfile& framework,
                     const GpuTraits& gpu, const MemoryOptions& options) {
  const std::vector<Bytes> sizes = element_sizes(graph, framework, gpu, options.precision);
  StepLives lives = order_lives(
      find_buffers(graph, framework,
                   {.element_sizes = sizes, .keeps_gradients = options.keeps_gradients}),
      graph.ops().size());
  if (options.precision == PrecisionMode::Amp) lives.half_copies = half_copies(graph);
  return lives;
}

MemoryPlan plan_memory(const NetworkGraph& graph, std::span<const Bytes> workspaces,
                       const FrameworkProfile& framework, const GpuSpec& gpu,
                       const CostProfile& profile, const MemoryOptions& options) {
  return plan_memory(find_lives(graph, framework, gpu, options), workspaces, framework, gpu,
                     profile, options.tried_workspaces);
}

MemoryPlan plan_memory(const StepLives& lives, std::span<const Bytes> workspaces,
                       const FrameworkProfile& framework, const GpuSpec& gpu,
                       const CostProfile& profile,
                       std::span<const std::vector<Bytes>> tried_workspaces) {
  TRACECAST_CHECK(workspaces.empty() || workspaces.size() == lives.num_ops, "one workspace per op");
  TRACECAST_CHECK(tried_workspaces.empty() || tried_workspaces.size() == lives.num_ops,
                  "the tried workspaces of every op");
  const Bytes opened = device_context(gpu, profile);
  const Bytes context = opened + framework.memory.context;
  const Bytes left_for_tensors = free_for_tensors(framework, gpu, profile);
  const bool takes_share = framework.memory.pool_fraction > 0;

  const auto start = [&] { return start_replay(lives, framework, left_for_tensors); };
  Replay replay = start();
  MemoryPlan plan;
  replay.run(workspaces, plan);

  const Bytes reserved = max(as_bytes(replay.allocator().most_reserved()), plan.peak_live);
  const Bytes by_tensors = takes_share ? plan.peak_live : reserved;
  Bytes pool = takes_share ? pool_of(framework, gpu, profile) : by_tensors;
  plan.capacity = gpu.memory;
  plan.needed = by_tensors + context;
  plan.fits = takes_share ? by_tensors <= pool : plan.needed <= gpu.memory;
  plan.peak_allocated = plan.peak_live;
  plan.least = plan.needed;
  plan.room = takes_share ? pool + context : gpu.memory;
  plan.log_sd = framework.memory.log_sd;
  const bool caches = !takes_share && framework.memory.allocator_large_segment > Bytes(0);
  if (caches && plan.fits && !tried_workspaces.empty()) {
    Replay trying = start();
    MemoryPlan after;
    trying.try_algorithms(tried_workspaces, workspaces);
    trying.run(workspaces, after);
    pool = max(pool, as_bytes(trying.allocator().most_reserved()));
    plan.peak_allocated = max(plan.peak_allocated, trying.most_live());
  }
  plan.by_class.context = context;
  plan.by_class.pool = max(pool - plan.peak_live, Bytes(0));
  plan.device_used = plan.by_class.total();
  return plan;
}

void state_least(const StepLives& lives, const FrameworkProfile& framework, const GpuSpec& gpu,
                 const CostProfile& profile, MemoryPlan& plan) {
  const Bytes context = device_context(gpu, profile) + framework.memory.context;
  const std::int64_t block = block_of(framework);
  std::int64_t low = as_integer(peak_live(lives, {}, block));
  if (framework.memory.pool_fraction > 0) {
    plan.least = as_bytes(low) + context;
    agree(plan);
    return;
  }
  const auto most_reserved = [&](std::int64_t limit) {
    Replay replay = start_replay(lives, framework, as_bytes(limit));
    (void)replay.is_within({}, as_bytes(limit));
    return replay.allocator().most_reserved();
  };
  constexpr double kUnlimited = 0x1p60, kPrecise = 1.005, kCertain = 5;
  // Far from the limit the probability is 0 or 1 whatever the allocator does.
  const Bytes far = plan.room * std::exp(kCertain * plan.log_sd);
  std::int64_t high = low;
  if (as_bytes(low) + context < far) {
    high = most_reserved(static_cast<std::int64_t>(kUnlimited));
    const Bytes near = plan.room * std::exp(-kCertain * plan.log_sd);
    while (as_bytes(high) + context > near &&
           static_cast<double>(high) > kPrecise * static_cast<double>(low)) {
      const std::int64_t middle = low + (high - low) / 2;
      (most_reserved(middle) <= middle ? high : low) = middle;
    }
  }
  plan.least = as_bytes(high) + context;
  agree(plan);
}

std::vector<Bytes> choose_scratch(const StepLives& lives, const FrameworkProfile& framework,
                                  const GpuSpec& gpu, const CostProfile& profile,
                                  const ScratchChoice& choose) {
  std::optional<Bytes> pool;
  if (framework.memory.pool_fraction > 0) pool = pool_of(framework, gpu, profile);
  return start_replay(lives, framework, free_for_tensors(framework, gpu, profile))
      .choose_scratch(choose, pool);
}

bool tensors_fit(const NetworkGraph& graph, const FrameworkProfile& framework, const GpuSpec& gpu,
                 const CostProfile& profile, const MemoryOptions& options) {
  return tensors_fit(find_lives(graph, framework, gpu, options), framework, gpu, profile);
}

bool tensors_fit(const StepLives& lives, const FrameworkProfile& framework, const GpuSpec& gpu,
                 const CostProfile& profile) {
  return holds_peak(peak_live(lives, {}, block_of(framework)), framework, gpu, profile);
}

bool plan_fits(const StepLives& lives, std::span<const Bytes> workspaces,
               const FrameworkProfile& framework, const GpuSpec& gpu, const CostProfile& profile) {
  // No allocator needs less than what lives.
  if (!holds_peak(peak_live(lives, workspaces, block_of(framework)), framework, gpu, profile))
    return false;
  if (framework.memory.pool_fraction > 0) return true;
  const Bytes context = device_context(gpu, profile) + framework.memory.context;
  return start_replay(lives, framework, free_for_tensors(framework, gpu, profile))
      .is_within(workspaces, gpu.memory - context);
}

DriverCalls count_driver_calls(const NetworkGraph& graph, std::span<const Bytes> workspaces,
                               const FrameworkProfile& framework, const GpuSpec& gpu,
                               const CostProfile& profile, const MemoryOptions& options) {
  const StepLives lives = find_lives(graph, framework, gpu, options);
  Replay replay = start_replay(lives, framework, free_for_tensors(framework, gpu, profile));
  const CachingAllocator& allocator = replay.allocator();
  MemoryPlan unused;
  DriverCalls calls;
  if (options.tried_workspaces.empty()) {
    replay.run(workspaces, unused);
  } else {
    replay.try_algorithms(options.tried_workspaces, workspaces);
  }
  calls.first_mallocs = allocator.num_taken();
  calls.first_frees = allocator.num_returned();
  replay.run(workspaces, unused);
  calls.second_mallocs = allocator.num_taken() - calls.first_mallocs;
  calls.second_frees = allocator.num_returned() - calls.first_frees;
  const std::size_t mallocs = allocator.num_taken(), frees = allocator.num_returned();
  replay.run(workspaces, unused);
  calls.later_mallocs = allocator.num_taken() - mallocs;
  calls.later_frees = allocator.num_returned() - frees;
  return calls;
}

}  // namespace tracecast
