#include "traces/transfer/convolution_shapes.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "sim/base/text.hpp"

namespace tracecast::traces {
namespace {

using Dims = std::vector<std::int64_t>;
/// Operators after a convolution among which its reader is looked for.
constexpr std::size_t kReaders = 16;
/// Of one size of a real convolution; more is damage.
constexpr std::int64_t kLargest = 1'000'000;

enum class Kind : std::uint8_t { None, Forward, BothGradients, DataGradient, WeightGradient };

Kind kind_of(std::string_view full_name) {
  const std::string name = to_lower(full_name);
  const auto has = [&name](const char* word) { return name.find(word) != std::string::npos; };
  if (!has("conv") || has("convert") || has("transpose")) return Kind::None;
  if (!has("backward")) return Kind::Forward;
  if (has("backward_input")) return Kind::DataGradient;
  if (has("backward_weight")) return Kind::WeightGradient;
  return Kind::BothGradients;
}

struct Axis {
  int stride = 1, dilation = 1, pad = 0;
};

std::optional<Axis> solve_axis(std::int64_t in, std::int64_t filter, std::int64_t out) {
  if (in < 1 || out < 1 || filter < 1 || filter > 64 || in > 100'000) return std::nullopt;
  const int middle = static_cast<int>((filter - 1) / 2);
  const auto nearest =
      static_cast<int>(std::llround(static_cast<double>(in) / static_cast<double>(out)));
  for (int step = 0; step < 18; ++step) {
    const int stride = step == 0 ? nearest : step;
    if (stride < 1) continue;
    for (const int dilation : {1, 2, 4, 8}) {
      const std::int64_t reach = dilation * (filter - 1) + 1;
      for (int turn = -1; turn <= static_cast<int>(reach); ++turn) {
        const int pad = turn < 0 ? middle * dilation : turn;
        const std::int64_t room = in + 2 * pad - reach;
        if (room >= 0 && room / stride + 1 == out) return Axis{stride, dilation, pad};
      }
    }
  }
  return std::nullopt;
}

/// x: N, C, H, W; weight: K, C/groups, R, S; the result's H and W.
std::optional<ConvAttributes> make_shape(const Dims& x, const Dims& weight, std::int64_t p,
                                         std::int64_t q) {
  ConvAttributes a;
  a.n = x[0], a.c = x[1], a.h = x[2], a.w = x[3];
  a.k = weight[0], a.r = weight[2], a.s = weight[3], a.p = p, a.q = q;
  if (std::min({a.n, a.c, a.h, a.w, a.k, a.r, a.s, p, q, weight[1]}) < 1) return std::nullopt;
  if (std::max({a.n, a.c, a.h, a.w, a.k, a.r, a.s, p, q}) > kLargest) return std::nullopt;
  if (a.c % weight[1] != 0) return std::nullopt;
  a.groups = a.c / weight[1];
  if (a.k % a.groups != 0) return std::nullopt;
  const auto vertical = solve_axis(a.h, a.r, p), horizontal = solve_axis(a.w, a.s, q);
  if (!vertical || !horizontal) return std::nullopt;
  a.stride_h = vertical->stride, a.stride_w = horizontal->stride;
  a.dilation_h = vertical->dilation, a.dilation_w = horizontal->dilation;
  a.pad_top = a.pad_bottom = vertical->pad, a.pad_left = a.pad_right = horizontal->pad;
  return a;
}

/// Inputs of four dimensions, images and filters; three dimensions are images of one row.
std::vector<Dims> images(const std::vector<InputTensor>& inputs) {
  std::vector<Dims> found;
  for (const InputTensor& tensor : inputs) {
    if (tensor.dims.size() == 4) found.push_back(tensor.dims);
    if (tensor.dims.size() == 3)
      found.push_back({tensor.dims[0], tensor.dims[1], 1, tensor.dims[2]});
  }
  return found;
}

}  // namespace

const std::vector<InputTensor>& InputShapes::of(std::uint32_t op) {
  const NameId dims = trace_.ops.dims[op], types = trace_.ops.types[op];
  const auto [at, is_new] = read_.try_emplace({dims.index, types.index});
  if (is_new) at->second = read_inputs(trace_[dims], trace_[types]);
  return at->second;
}

ConvolutionShapes::ConvolutionShapes(const Trace& trace, InputShapes& inputs) {
  std::vector<Kind> kinds(trace.names.size(), Kind::None);
  std::vector<bool> seen(trace.names.size(), false);
  std::vector<std::vector<std::uint32_t>> threads(trace.threads.size());
  std::vector<std::uint32_t> gradients;
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i) {
    const NameId name = trace.ops.name[i];
    if (!seen[name.index]) kinds[name.index] = kind_of(trace[name]);
    seen[name.index] = true;
    if (trace.ops.dims[i].index == 0) continue;
    threads[trace.ops.thread[i].index].push_back(i);
    if (kinds[name.index] > Kind::Forward) gradients.push_back(i);
  }
  for (auto& thread : threads) {
    std::sort(thread.begin(), thread.end(), [&](std::uint32_t a, std::uint32_t b) {
      return std::pair(trace.ops.span[a].begin_ns, a) < std::pair(trace.ops.span[b].begin_ns, b);
    });
    for (std::size_t at = 0; at < thread.size(); ++at) {
      if (kinds[trace.ops.name[thread[at]].index] == Kind::Forward)
        add_forward(trace, inputs, thread[at], thread, at);
    }
  }
  for (const std::uint32_t op : gradients) add_gradient(trace, inputs, op);
}

void ConvolutionShapes::add_forward(const Trace& trace, InputShapes& inputs, std::uint32_t op,
                                    const std::vector<std::uint32_t>& thread,
                                    std::size_t position) {
  const std::vector<Dims> own = images(inputs.of(op));
  if (own.size() < 2) return;
  const Dims &x = own[0], &weight = own[1];
  const std::int64_t end_ns = trace.ops.span[op].end_ns();
  std::size_t readers = 0;
  for (std::size_t at = position + 1; at < thread.size() && readers < kReaders; ++at) {
    if (trace.ops.span[thread[at]].begin_ns < end_ns) continue;  // within the convolution
    ++readers;
    const std::vector<Dims> next = images(inputs.of(thread[at]));
    if (next.empty() || next[0][0] != x[0] || next[0][1] != weight[0]) continue;
    const auto shape = make_shape(x, weight, next[0][2], next[0][3]);
    if (!shape) continue;
    calls_[op] = {*shape, {Pass::Forward}};
    if (std::find(known_.begin(), known_.end(), *shape) == known_.end()) known_.push_back(*shape);
    return;
  }
}

void ConvolutionShapes::add_gradient(const Trace& trace, InputShapes& inputs, std::uint32_t op) {
  const Kind kind = kind_of(trace[trace.ops.name[op]]);
  const std::vector<Dims> own = images(inputs.of(op));
  if (own.size() < (kind == Kind::BothGradients ? 3U : 2U)) return;
  const Dims& dy = own[0];
  const Dims* x = kind == Kind::DataGradient ? nullptr : &own[1];
  const Dims* weight = kind == Kind::WeightGradient ? nullptr : &own.back();
  if (kind == Kind::BothGradients) weight = &own[2];
  const auto match = std::find_if(known_.begin(), known_.end(), [&](const ConvAttributes& a) {
    if (dy != Dims{a.n, a.k, a.p, a.q}) return false;
    if (x && *x != Dims{a.n, a.c, a.h, a.w}) return false;
    return !weight || *weight == Dims{a.k, a.c / a.groups, a.r, a.s};
  });
  std::optional<ConvAttributes> shape;
  if (match != known_.end()) shape = *match;
  if (!shape && x && weight) shape = make_shape(*x, *weight, dy[2], dy[3]);
  if (!shape) return;
  std::vector<Pass> passes{Pass::BackwardData, Pass::BackwardWeights};
  if (kind == Kind::DataGradient) passes.pop_back();
  if (kind == Kind::WeightGradient) passes.erase(passes.begin());
  calls_[op] = {*shape, std::move(passes)};
}

std::optional<ConvolutionCall> ConvolutionShapes::of(std::uint32_t op) const {
  const auto found = calls_.find(op);
  return found == calls_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace tracecast::traces
