#include "traces/classify.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>

#include "sim/base/text.hpp"
#include "traces/contains.hpp"
#include "traces/tally.hpp"

namespace tracecast::traces {
namespace {

/// What an operator's name says about helper kernels that it launches.
enum class OpFamily : std::uint8_t {
  Other,
  Convolution,
  BatchedGemm,
  Normalization,
  Pooling,
  Embedding,
  Softmax
};

OpFamily family_of(std::string_view full_name) {
  const std::string name = to_lower(full_name);
  if (contains(name, "conv") && !contains(name, "convert")) return OpFamily::Convolution;
  if (contains(name, "bmm")) return OpFamily::BatchedGemm;
  if (contains(name, "embedding")) return OpFamily::Embedding;
  if (contains(name, "batch_norm") || contains(name, "layer_norm") ||
      contains(name, "group_norm")) {
    return OpFamily::Normalization;
  }
  if (contains(name, "pool")) return OpFamily::Pooling;
  if (contains(name, "softmax") || contains(name, "nll_loss")) return OpFamily::Softmax;
  return OpFamily::Other;
}

bool is_one_of(KernelClass found, std::initializer_list<KernelClass> wanted) {
  return std::find(wanted.begin(), wanted.end(), found) != wanted.end();
}

void refine(OpFamily family, KernelNameInfo& info) {
  using enum KernelClass;
  const KernelClass found = info.kernel_class;
  const bool is_helper = is_one_of(found, {Elementwise, Reduction, Other});
  switch (family) {
    case OpFamily::Convolution:
      if (is_one_of(found, {Gemm, BatchedGemm, Transpose, Other})) info.kernel_class = Convolution;
      break;
    case OpFamily::BatchedGemm:
      if (found == Gemm) info.kernel_class = BatchedGemm;
      break;
    case OpFamily::Normalization:
      if (is_helper) info.kernel_class = Normalization;
      break;
    case OpFamily::Pooling:
      if (is_helper) info.kernel_class = Pooling;
      break;
    case OpFamily::Embedding:
      if (is_helper) info.kernel_class = Embedding;
      break;
    case OpFamily::Softmax:
      if (is_helper) info.kernel_class = Softmax;
      break;
    case OpFamily::Other:
      break;
  }
}

/// Stretches of "Optimizer.step" by thread, in time order.
class OptimizerSteps {
 public:
  explicit OptimizerSteps(const Trace& trace) {
    for (std::size_t i = 0; i < trace.marks.size(); ++i) {
      if (!trace.marks.on_gpu[i] && trace[trace.marks.name[i]].starts_with("Optimizer.step")) {
        spans_.emplace_back(trace.marks.thread[i].index, trace.marks.span[i]);
      }
    }
    std::sort(spans_.begin(), spans_.end(), [](const auto& a, const auto& b) {
      return std::pair(a.first, a.second.begin_ns) < std::pair(b.first, b.second.begin_ns);
    });
  }
  [[nodiscard]] bool contain(ThreadId thread, std::int64_t at_ns) const {
    auto after = std::upper_bound(spans_.begin(), spans_.end(), std::pair(thread.index, at_ns),
                                  [](const auto& key, const auto& span) {
                                    return key < std::pair(span.first, span.second.begin_ns);
                                  });
    if (after == spans_.begin()) return false;
    --after;
    return after->first == thread.index && at_ns < after->second.end_ns();
  }

 private:
  std::vector<std::pair<std::uint32_t, Span>> spans_;
};

/// Time of each algorithm among the kernels of one convolution operator.
using AlgorithmTimes = std::array<std::int64_t, kAlgorithmCount>;

Algorithm main_algorithm(const AlgorithmTimes& times) {
  const auto longest = std::max_element(times.begin() + 1, times.end());
  return *longest > 0 ? static_cast<Algorithm>(longest - times.begin()) : Algorithm::ExplicitGemm;
}

}  // namespace

LaunchIndex::LaunchIndex(const Trace& trace) : trace_(trace) {
  const auto index = [](const std::vector<std::uint32_t>& keys, Pairs& pairs) {
    pairs.reserve(keys.size());
    for (std::uint32_t i = 0; i < keys.size(); ++i) {
      if (keys[i] != 0) pairs.emplace_back(keys[i], i);
    }
    std::sort(pairs.begin(), pairs.end());
  };
  index(trace.calls.correlation, calls_);
  index(trace.ops.id, ops_);

  ops_by_begin_.resize(trace.threads.size());
  for (std::uint32_t i = 0; i < trace.ops.size(); ++i)
    ops_by_begin_[trace.ops.thread[i].index].push_back(i);
  parents_.resize(ops_by_begin_.size());
  for (std::size_t thread = 0; thread < ops_by_begin_.size(); ++thread) {
    auto& ops = ops_by_begin_[thread];
    const auto& spans = trace.ops.span;
    std::sort(ops.begin(), ops.end(), [&spans](std::uint32_t a, std::uint32_t b) {
      if (spans[a].begin_ns != spans[b].begin_ns) return spans[a].begin_ns < spans[b].begin_ns;
      if (spans[a].duration_ns != spans[b].duration_ns)
        return spans[a].duration_ns > spans[b].duration_ns;
      return a < b;
    });
    auto& parents = parents_[thread];
    parents.resize(ops.size());
    std::vector<std::uint32_t> open;
    for (std::uint32_t at = 0; at < ops.size(); ++at) {
      while (!open.empty() && spans[ops[open.back()]].end_ns() < spans[ops[at]].end_ns())
        open.pop_back();
      parents[at] = open.empty() ? kNone : open.back();
      open.push_back(at);
    }
  }
}

std::uint32_t LaunchIndex::find(const Pairs& pairs, std::uint32_t key) {
  if (key == 0) return kNone;
  const auto found = std::lower_bound(pairs.begin(), pairs.end(), std::pair(key, std::uint32_t{0}));
  return found != pairs.end() && found->first == key ? found->second : kNone;
}

std::uint32_t LaunchIndex::call_of(std::uint32_t correlation) const {
  return find(calls_, correlation);
}

std::uint32_t LaunchIndex::op_of(std::uint32_t external_id, std::uint32_t correlation) const {
  const std::uint32_t named = find(ops_, external_id);
  if (named != kNone) return named;
  const std::uint32_t call = call_of(correlation);
  if (call == kNone) return kNone;
  return op_around(trace_.calls.thread[call], trace_.calls.span[call].begin_ns);
}

std::uint32_t LaunchIndex::op_around(ThreadId thread, std::int64_t at_ns) const {
  const auto& ops = ops_by_begin_[thread.index];
  const auto& spans = trace_.ops.span;
  const auto after = std::upper_bound(
      ops.begin(), ops.end(), at_ns,
      [&spans](std::int64_t at, std::uint32_t op) { return at < spans[op].begin_ns; });
  auto position = static_cast<std::uint32_t>(after - ops.begin());
  if (position == 0) return kNone;
  // Real nesting is some dozens deep; the limit keeps a made-up trace from taking forever.
  int tries = 1000;
  for (--position; position != kNone && tries-- > 0; position = parents_[thread.index][position]) {
    if (spans[ops[position]].end_ns() >= at_ns) return ops[position];
  }
  return kNone;
}

std::vector<KernelNameInfo> classify_kernels(const Trace& trace, const KernelNames& names,
                                             const LaunchIndex& launches) {
  const Kernels& kernels = trace.kernels;
  std::vector<std::optional<KernelNameInfo>> by_name(trace.names.size());
  std::vector<std::optional<OpFamily>> family_by_name(trace.names.size());
  std::map<std::uint32_t, AlgorithmTimes> convolutions;  // by operator
  const OptimizerSteps optimizer(trace);

  std::vector<KernelNameInfo> infos(kernels.size());
  std::vector<std::uint32_t> ops(kernels.size(), LaunchIndex::kNone);
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    auto& known = by_name[kernels.name[i].index];
    if (!known) known = names.find(trace[kernels.name[i]]);
    KernelNameInfo& info = infos[i] = *known;
    const std::uint32_t op = ops[i] = launches.op_of(kernels.op[i], kernels.correlation[i]);
    if (op != LaunchIndex::kNone) {
      const NameId op_name = trace.ops.name[op];
      auto& family = family_by_name[op_name.index];
      if (!family) family = family_of(trace[op_name]);
      refine(*family, info);
    }
    if (info.kernel_class == KernelClass::Convolution && op != LaunchIndex::kNone) {
      std::int64_t& time = convolutions[op][static_cast<std::size_t>(info.algorithm)];
      if (info.algorithm != Algorithm::None)
        time = saturating_sum(time, kernels.span[i].duration_ns + 1);
    }
    using enum KernelClass;
    if (is_one_of(info.kernel_class, {Elementwise, Reduction, Copy, Memset, Other})) {
      const std::uint32_t call = launches.call_of(kernels.correlation[i]);
      if (call != LaunchIndex::kNone &&
          optimizer.contain(trace.calls.thread[call], trace.calls.span[call].begin_ns)) {
        info.kernel_class = Optimizer;
        info.pass = Pass::Update;
      }
    }
  }
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (infos[i].kernel_class != KernelClass::Convolution || infos[i].algorithm != Algorithm::None)
      continue;
    const auto found = convolutions.find(ops[i]);
    if (found != convolutions.end()) infos[i].algorithm = main_algorithm(found->second);
  }
  return infos;
}

}  // namespace tracecast::traces
