#include "sim/cluster/memory.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "models/ops.hpp"
#include "sim/base/error.hpp"
#include "sim/cluster/caching_allocator.hpp"

namespace tracecast {
namespace {

constexpr std::uint32_t kNever = UINT32_MAX;

/// A piece of device memory that one tensor, or several that share it, live in.
struct Buffer {
  std::int64_t bytes = 0;
  TensorRole role{};
  bool permanent = false;       ///< there before the step and after it
  std::uint32_t born = kNever;  ///< index of the op that writes it first
  std::uint32_t dies = 0;       ///< index of the last op that touches it
};

bool is_permanent(TensorRole role) {
  return role == TensorRole::Input || role == TensorRole::Weight || role == TensorRole::Buffer ||
         role == TensorRole::OptimizerState;
}

Bytes& class_of(MemoryByClass& by_class, TensorRole role) {
  switch (role) {
    case TensorRole::Weight:
    case TensorRole::Buffer:
      return by_class.weights;
    case TensorRole::WeightGradient:
      return by_class.gradients;
    case TensorRole::OptimizerState:
      return by_class.optimizer;
    case TensorRole::Input:
    case TensorRole::Activation:
    case TensorRole::Gradient:
      break;
  }
  return by_class.activations;
}

std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return multiple > 1 ? (size + multiple - 1) / multiple * multiple : size;
}

/// Which buffer each tensor lives in, and the buffers' lives.
struct Lives {
  std::vector<std::uint32_t> buffer_of;  ///< per tensor
  std::vector<Buffer> buffers;           ///< per tensor; only those that are their own buffer count
};

Lives find_lives(const NetworkGraph& graph, const FrameworkProfile& framework,
                 PrecisionMode precision, std::int64_t block) {
  const auto tensors = graph.tensors();
  const auto ops = graph.ops();
  Lives lives;
  lives.buffer_of.resize(tensors.size());
  lives.buffers.resize(tensors.size());
  for (std::uint32_t t = 0; t < tensors.size(); ++t) {
    lives.buffer_of[t] = t;
    Buffer& buffer = lives.buffers[t];
    buffer.role = tensors[t].role;
    const double bytes = static_cast<double>(element_count(tensors[t].shape)) *
                         element_size(tensors[t], precision).in_bytes();
    // Beyond 2^60 bytes no device answers anyway; the cap keeps the sums within 64 bits.
    buffer.bytes = bytes < 0x1p60 ? round_up(static_cast<std::int64_t>(bytes), block) : 1LL << 60;
    buffer.permanent = is_permanent(buffer.role);
  }

  for (std::uint32_t i = 0; i < ops.size(); ++i) {
    const Op& op = ops[i];
    const bool may_share = op.kind == OpKind::Reshape || framework.in_place_activations;
    const bool shares = may_share && shares_memory_with_input(op) && !op.inputs.empty();
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const std::uint32_t t = op.outputs[o].index;
      if (shares && o == 0) lives.buffer_of[t] = lives.buffer_of[op.inputs.front().index];
      Buffer& buffer = lives.buffers[lives.buffer_of[t]];
      buffer.born = std::min(buffer.born, i);
      buffer.dies = std::max(buffer.dies, i);
    }
    for (const TensorId input : op.inputs) {
      Buffer& buffer = lives.buffers[lives.buffer_of[input.index]];
      buffer.dies = std::max(buffer.dies, i);
    }
  }

  const auto last = static_cast<std::uint32_t>(ops.empty() ? 0 : ops.size() - 1);
  for (const TensorId output : graph.outputs) {
    lives.buffers[lives.buffer_of[output.index]].dies = last;
  }
  if (framework.zeroes_gradients) {
    for (Buffer& buffer : lives.buffers) {
      if (buffer.role == TensorRole::WeightGradient) buffer.permanent = true;
    }
  }
  return lives;
}

std::int64_t as_integer(Bytes bytes) {
  return static_cast<std::int64_t>(std::min(bytes.in_bytes(), 0x1p60));
}

}  // namespace

Bytes element_size(const Tensor& tensor, PrecisionMode precision) {
  if (tensor.is_integer) return Bytes(tensor.integer_bytes);
  const bool kept_wide = tensor.role == TensorRole::Weight || tensor.role == TensorRole::Buffer ||
                         tensor.role == TensorRole::WeightGradient ||
                         tensor.role == TensorRole::OptimizerState;
  switch (precision) {
    case PrecisionMode::Fp32:
    case PrecisionMode::Tf32:
      return Bytes(4);
    case PrecisionMode::Amp:
      return Bytes(kept_wide ? 4 : 2);
    case PrecisionMode::Fp16:
    case PrecisionMode::Bf16:
      return Bytes(2);
    case PrecisionMode::Fp8:
    case PrecisionMode::Int8:
      return Bytes(1);
  }
  return Bytes(4);
}

Bytes device_context(const GpuSpec& gpu, const CostProfile& profile) {
  return Bytes(profile.context.bytes_per_thread * gpu.sm_count * gpu.max_threads_per_sm);
}

MemoryPlan plan_memory(const NetworkGraph& graph, std::span<const Bytes> workspaces,
                       const FrameworkProfile& framework, const GpuSpec& gpu,
                       const CostProfile& profile, PrecisionMode precision) {
  TRACECAST_CHECK(workspaces.empty() || workspaces.size() == graph.ops().size(),
                  "one workspace per op");
  const std::int64_t block = std::max<std::int64_t>(as_integer(framework.allocator_block), 1);
  const Lives lives = find_lives(graph, framework, precision, block);
  const auto num_ops = graph.ops().size();

  // Who is born and who dies at each op; permanent buffers are there from the start.
  MemoryByClass now;
  CachingAllocator allocator(block, as_integer(framework.allocator_large_segment));
  std::vector<CachingAllocator::Handle> handles(lives.buffers.size());
  std::vector<std::vector<std::uint32_t>> births(num_ops), deaths(num_ops);
  double weight_elements = 0;
  for (std::uint32_t b = 0; b < lives.buffers.size(); ++b) {
    const Buffer& buffer = lives.buffers[b];
    if (lives.buffer_of[b] != b || buffer.bytes == 0) continue;
    if (buffer.role == TensorRole::Weight) {
      weight_elements += static_cast<double>(element_count(graph.tensors()[b].shape));
    }
    if (buffer.permanent) {
      class_of(now, buffer.role) += Bytes(static_cast<double>(buffer.bytes));
      handles[b] = allocator.allocate(buffer.bytes);
    } else if (buffer.born != kNever) {
      births[buffer.born].push_back(b);
      deaths[buffer.dies].push_back(b);
    }
  }
  if (precision == PrecisionMode::Amp) {
    // 16-bit copies of the weights, made for the products and kept for the backward pass.
    const auto copies = static_cast<std::int64_t>(weight_elements * 2.0);
    now.weights += Bytes(static_cast<double>(copies));
    if (copies > 0) (void)allocator.allocate(copies);
  }

  MemoryPlan plan;
  plan.by_class = now;
  plan.peak_live = now.live();
  for (std::uint32_t i = 0; i < num_ops; ++i) {
    for (const std::uint32_t b : births[i]) {
      class_of(now, lives.buffers[b].role) += Bytes(static_cast<double>(lives.buffers[b].bytes));
      handles[b] = allocator.allocate(lives.buffers[b].bytes);
    }
    now.workspace = workspaces.empty() ? Bytes(0) : workspaces[i];
    if (now.workspace > Bytes(0)) {
      allocator.release(allocator.allocate(std::max<std::int64_t>(as_integer(now.workspace), 1)));
    }
    if (now.live() > plan.peak_live || !plan.peak_op) {
      plan.by_class = now;
      plan.peak_live = now.live();
      plan.peak_op = OpId{i};
    }
    for (const std::uint32_t b : deaths[i]) {
      class_of(now, lives.buffers[b].role) -= Bytes(static_cast<double>(lives.buffers[b].bytes));
      allocator.release(handles[b]);
    }
    now.workspace = Bytes(0);
  }

  const bool takes_share = framework.pool_fraction > 0;
  const Bytes reserved(static_cast<double>(allocator.reserved()));
  const Bytes by_tensors = takes_share ? plan.peak_live : max(reserved, plan.peak_live);
  const Bytes opened = device_context(gpu, profile);
  const Bytes context = opened + framework.context_memory;
  const Bytes free_at_start = max(gpu.memory - opened, Bytes(0));
  const Bytes most = max(free_at_start - framework.context_memory, Bytes(0));
  const Bytes pool = takes_share ? min(free_at_start * framework.pool_fraction, most) : by_tensors;
  plan.capacity = gpu.memory;
  plan.needed = by_tensors + context;
  plan.fits = takes_share ? by_tensors <= pool : plan.needed <= gpu.memory;
  plan.by_class.context = context;
  plan.by_class.pool = max(pool - plan.peak_live, Bytes(0));
  plan.device_used = plan.by_class.total();
  return plan;
}

}  // namespace tracecast
