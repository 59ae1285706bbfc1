#include "traces/ranks/collective_kernels.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <tuple>

namespace tracecast::traces {
namespace {

constexpr std::uint32_t kNone = LaunchIndex::kNone;

/// Lower case, letters and digits only: "All_Reduce" and "allreduce" are one.
std::string plain(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') out += static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) out += c;
  }
  return out;
}

/// a * b, or the largest number.
std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) {
  return b != 0 && a > std::numeric_limits<std::uint64_t>::max() / b
             ? std::numeric_limits<std::uint64_t>::max()
             : a * b;
}

/// Elements of each tensor of "[[32,3],[],[7]]"; nothing when the text holds lists of tensors or is
/// no such text. A tensor without dims has no elements: scalars and absent inputs are written so.
std::optional<std::vector<std::uint64_t>> elements_of(std::string_view dims) {
  std::vector<std::uint64_t> elements;
  int depth = 0;
  bool has_dim = false;
  for (std::size_t at = 0; at < dims.size();) {
    const char c = dims[at];
    if (c == '[') {
      if (++depth > 2) return std::nullopt;
      if (depth == 2) elements.push_back(1);
      has_dim = false;
      ++at;
    } else if (c == ']') {
      if (depth == 2 && !has_dim) elements.back() = 0;
      --depth;
      ++at;
    } else if (c >= '0' && c <= '9') {
      std::uint64_t dim = 0;
      const auto end = std::from_chars(dims.data() + at, dims.data() + dims.size(), dim);
      if (depth != 2 || end.ec != std::errc{}) return std::nullopt;
      elements.back() = saturating_multiply(elements.back(), dim);
      has_dim = true;
      at = static_cast<std::size_t>(end.ptr - dims.data());
    } else if (c == ',' || c == ' ') {
      ++at;
    } else {
      return std::nullopt;
    }
  }
  return elements;
}

/// The texts of "["float","",..."]".
std::vector<std::string_view> quoted_texts(std::string_view list) {
  std::vector<std::string_view> texts;
  for (std::size_t open = list.find('"'); open != list.npos;) {
    const std::size_t close = list.find('"', open + 1);
    if (close == list.npos) break;
    texts.push_back(list.substr(open + 1, close - open - 1));
    open = list.find('"', close + 1);
  }
  return texts;
}

/// Records of what collectives move, found by their kernel or by the operator that wrote them.
class Records {
 public:
  explicit Records(const Trace& trace) : trace_(trace) {
    const Collectives& records = trace.collectives;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> by_op;  // (External id, record)
    for (std::uint32_t i = 0; i < records.size(); ++i) {
      if (records.kernel[i] != Collectives::kNone) {
        by_kernel_.emplace_back(records.kernel[i], i);
      } else if (records.op[i] != 0) {
        by_op.emplace_back(records.op[i], i);
      }
    }
    std::sort(by_kernel_.begin(), by_kernel_.end());
    std::sort(by_op.begin(), by_op.end());
    for (std::uint32_t op = 0; op < trace.ops.size() && !by_op.empty(); ++op) {
      const auto at = std::lower_bound(by_op.begin(), by_op.end(),
                                       std::pair(trace.ops.id[op], std::uint32_t{0}));
      if (at == by_op.end() || at->first != trace.ops.id[op]) continue;
      by_time_.push_back({trace.ops.thread[op].index, trace.ops.span[op], at->second});
    }
    std::sort(by_time_.begin(), by_time_.end(), [](const AtTime& a, const AtTime& b) {
      return std::pair(a.thread, a.span.begin_ns) < std::pair(b.thread, b.span.begin_ns);
    });
  }

  /// The record of a kernel that `call` launched, or kNone.
  [[nodiscard]] std::uint32_t find(std::uint32_t kernel, std::uint32_t call) const {
    const auto at =
        std::lower_bound(by_kernel_.begin(), by_kernel_.end(), std::pair(kernel, std::uint32_t{0}));
    if (at != by_kernel_.end() && at->first == kernel) return at->second;
    if (call == kNone) return kNone;
    const std::uint32_t thread = trace_.calls.thread[call].index;
    const std::int64_t at_ns = trace_.calls.span[call].begin_ns;
    const auto after = std::upper_bound(
        by_time_.begin(), by_time_.end(), std::pair(thread, at_ns),
        [](const std::pair<std::uint32_t, std::int64_t>& key, const AtTime& entry) {
          return key < std::pair(entry.thread, entry.span.begin_ns);
        });
    if (after == by_time_.begin()) return kNone;
    const AtTime& around = *std::prev(after);
    return around.thread == thread && around.span.end_ns() >= at_ns ? around.record : kNone;
  }

 private:
  struct AtTime {
    std::uint32_t thread = 0;
    Span span;
    std::uint32_t record = 0;
  };
  const Trace& trace_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> by_kernel_;  // (kernel, record)
  std::vector<AtTime> by_time_;  // of operators that hold a record, by thread and begin
};

void take_record(const Trace& trace, std::uint32_t record, CollectiveKernel& found) {
  const Collectives& records = trace.collectives;
  const std::int64_t elements =
      std::max({std::int64_t{0}, records.in_elements[record], records.out_elements[record]});
  found.kind = collective_of(trace[records.name[record]]);
  found.bytes = saturating_multiply(static_cast<std::uint64_t>(elements),
                                    bytes_of_type(trace[records.data_type[record]]));
  found.group = std::string(trace[records.group[record]]);
  found.group_size = std::max<std::int64_t>(records.group_size[record], 0);
}

/// What "nccl:..." operators list is the input; of an all-gather the output is that of every rank.
void take_dims(const Trace& trace, std::uint32_t op, CollectiveKernel& found) {
  found.bytes = bytes_of_tensors(trace[trace.ops.dims[op]], trace[trace.ops.types[op]]);
  if (found.kind != Collective::AllGather) return;
  const std::int64_t ranks = found.group_size > 0 ? found.group_size : trace.world_size.value_or(0);
  found.bytes = saturating_multiply(found.bytes,
                                    static_cast<std::uint64_t>(std::max<std::int64_t>(ranks, 0)));
}

}  // namespace

std::optional<Collective> collective_of(std::string_view name) {
  struct Word {
    std::string_view part;
    Collective kind;
  };
  // The longer words first: "reduce" is part of two others.
  static constexpr std::array<Word, 13> kWords{{{"allreduce", Collective::AllReduce},
                                                {"reducescatter", Collective::ReduceScatter},
                                                {"allgather", Collective::AllGather},
                                                {"alltoall", Collective::AllToAll},
                                                {"broadcast", Collective::Broadcast},
                                                {"barrier", Collective::AllReduce},
                                                {"sendrecv", Collective::SendReceive},
                                                {"sendreceive", Collective::SendReceive},
                                                {"reduce", Collective::Reduce},
                                                {"ncclsend", Collective::SendReceive},
                                                {"ncclrecv", Collective::SendReceive},
                                                {"c10dsend", Collective::SendReceive},
                                                {"c10drecv", Collective::SendReceive}}};
  const std::string text = plain(name);
  for (const Word& word : kWords) {
    if (text.find(word.part) != text.npos) return word.kind;
  }
  if (text == "send" || text == "recv" || text == "isend" || text == "irecv")
    return Collective::SendReceive;
  return std::nullopt;
}

std::uint64_t bytes_of_type(std::string_view type) {
  struct Type {
    std::string_view name;
    std::uint64_t bytes;
  };
  static constexpr std::array<Type, 26> kTypes{
      {{"float", 4},          {"double", 8},     {"half", 2},
       {"bfloat16", 2},       {"int", 4},        {"long", 8},
       {"longint", 8},        {"short", 2},      {"shortint", 2},
       {"char", 1},           {"signedchar", 1}, {"byte", 1},
       {"unsignedchar", 1},   {"bool", 1},       {"float32", 4},
       {"float64", 8},        {"float16", 2},    {"int8", 1},
       {"int32", 4},          {"int64", 8},      {"float8e4m3fn", 1},
       {"float8e5m2", 1},     {"uint8", 1},      {"complexfloat", 8},
       {"complexdouble", 16}, {"int16", 2}}};
  std::string name = plain(type);
  if (name.starts_with("c10")) name.erase(0, 3);
  for (const Type& known : kTypes) {
    if (known.name == name) return known.bytes;
  }
  return 0;
}

std::uint64_t bytes_of_tensors(std::string_view dims, std::string_view types) {
  const auto elements = elements_of(dims);
  const std::vector<std::string_view> names = quoted_texts(types);
  if (!elements || elements->size() > names.size()) return 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < elements->size(); ++i) {
    if ((*elements)[i] == 0) continue;
    const std::uint64_t each = bytes_of_type(names[i]);
    const std::uint64_t tensor = saturating_multiply((*elements)[i], each);
    if (each == 0 || bytes > std::numeric_limits<std::uint64_t>::max() - tensor) return 0;
    bytes += tensor;
  }
  return bytes;
}

std::vector<CollectiveKernel> find_collective_kernels(const Trace& trace,
                                                      const std::vector<KernelNameInfo>& infos,
                                                      const LaunchIndex& launches) {
  const Records records(trace);
  std::vector<CollectiveKernel> found;
  for (std::uint32_t i = 0; i < trace.kernels.size(); ++i) {
    if (infos[i].kernel_class != KernelClass::Collective) continue;
    CollectiveKernel kernel;
    kernel.kernel = i;
    const std::uint32_t correlation = trace.kernels.correlation[i];
    const std::uint32_t record = records.find(i, launches.call_of(correlation));
    if (record != kNone) take_record(trace, record, kernel);
    const std::uint32_t op = launches.op_of(trace.kernels.op[i], correlation);
    if (const auto kind = op != kNone ? collective_of(trace[trace.ops.name[op]]) : std::nullopt) {
      if (!kernel.kind) kernel.kind = kind;
      if (kernel.bytes == 0) take_dims(trace, op, kernel);
    }
    if (!kernel.kind) kernel.kind = collective_of(trace[trace.kernels.name[i]]);
    found.push_back(std::move(kernel));
  }
  const Kernels& kernels = trace.kernels;
  std::stable_sort(found.begin(), found.end(),
                   [&kernels, &trace](const CollectiveKernel& a, const CollectiveKernel& b) {
                     const auto key = [&](const CollectiveKernel& c) {
                       const Stream& stream = trace.streams[kernels.stream[c.kernel].index];
                       return std::tuple(stream.device, stream.number,
                                         kernels.span[c.kernel].begin_ns, c.kernel);
                     };
                     return key(a) < key(b);
                   });
  return found;
}

}  // namespace tracecast::traces
