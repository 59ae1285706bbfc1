#include "traces/cut.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "traces/record/columns.hpp"

namespace tracecast::traces {
namespace {

bool overlaps(const Span& span, const Span& range) {
  if (span.duration_ns == 0)
    return span.begin_ns >= range.begin_ns && span.begin_ns < range.end_ns();
  return span.begin_ns < range.end_ns() && span.end_ns() > range.begin_ns;
}

/// Which records stay.
template <class R>
std::vector<bool> find_kept(const R& records, const Span& range) {
  std::vector<bool> kept(records.size(), true);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if constexpr (requires { records.span; }) kept[i] = overlaps(records.span[i], range);
    if constexpr (requires { records.at_ns; }) kept[i] = overlaps({records.at_ns[i], 0}, range);
  }
  return kept;
}

template <class R>
void keep(R& records, const std::vector<bool>& kept) {
  record::for_each_column(records, [&kept](record::Field, auto& column) {
    std::size_t to = 0;
    for (std::size_t i = 0; i < column.size(); ++i) {
      if (kept[i]) column[to++] = column[i];
    }
    column.resize(to);
  });
}

/// Collectives follow their kernels to their new places.
void follow_kernels(Collectives& collectives, const std::vector<bool>& kernel_kept) {
  std::vector<std::uint32_t> place(kernel_kept.size());
  std::uint32_t next = 0;
  for (std::size_t i = 0; i < place.size(); ++i)
    place[i] = kernel_kept[i] ? next++ : Collectives::kNone;
  std::vector<bool> kept(collectives.size(), true);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    std::uint32_t& kernel = collectives.kernel[i];
    if (kernel >= place.size()) continue;
    kernel = place[kernel];
    kept[i] = kernel != Collectives::kNone;
  }
  keep(collectives, kept);
}

}  // namespace

void cut(Trace& trace, const Span& range) {
  record::for_each_kind(trace, [&]<class R>(record::Kind, R& records) {
    if constexpr (
        requires { records.span; } || requires { records.at_ns; }) {
      const std::vector<bool> kept = find_kept(records, range);
      keep(records, kept);
      if constexpr (std::is_same_v<R, Kernels>) follow_kernels(trace.collectives, kept);
    }
  });
}

std::optional<Span> extent(const Trace& trace) {
  std::int64_t begin = std::numeric_limits<std::int64_t>::max(), end = -begin;
  const auto add = [&](std::int64_t from, std::int64_t to) {
    begin = std::min(begin, from);
    end = std::max(end, to);
  };
  record::for_each_kind(trace, [&]<class R>(record::Kind, const R& records) {
    if constexpr (requires { records.span; }) {
      for (const Span& span : records.span) add(span.begin_ns, span.end_ns());
    }
    if constexpr (requires { records.at_ns; }) {
      for (const std::int64_t at : records.at_ns) add(at, at);
    }
  });
  if (begin > end) return std::nullopt;
  return Span{begin, end - begin};
}

Span Window::range(std::int64_t begin_ns) const {
  const std::int64_t from = begin_ns + from_ns.value_or(0);
  return {from, to_ns ? begin_ns + *to_ns - from : std::numeric_limits<std::int64_t>::max() - from};
}

}  // namespace tracecast::traces
