#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace tracecast {

/// An index into one particular vector; ids of different things do not mix.
template <class Tag>
struct Id {
  std::uint32_t index = 0;
  friend constexpr auto operator<=>(Id, Id) = default;
};

}  // namespace tracecast

template <class Tag>
struct std::hash<tracecast::Id<Tag>> {
  std::size_t operator()(tracecast::Id<Tag> id) const noexcept { return id.index; }
};
