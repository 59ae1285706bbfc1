#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/engine/fluid_links.hpp"
#include "sim/engine/time.hpp"

namespace tracecast::engine {

/// A network of its own: links, and flows that its user starts as others end.
///
///   while (const auto tag = network.next()) { ... network.start(...); }
///
/// A flow waits its latency, holding no bandwidth, and then sends its bytes at the max-min fair
/// rate (see FluidLinks). Only flows under way are held, 24 bytes each, so a run may have millions
/// of them; links and routes stay. What is started while the ends of a moment are being taken
/// belongs to that moment: rates are set anew once they all are.
class FluidNetwork {
 public:
  FluidNetwork() : links_(queue_, kFlowsEnd) {}
  FluidNetwork(const FluidNetwork&) = delete;  // the links refer to the queue
  FluidNetwork& operator=(const FluidNetwork&) = delete;

  /// Capacity positive and finite.
  LinkId add_link(BytesPerSecond capacity) { return links_.add_link(capacity); }
  /// The links a flow takes and the most it can do; see FluidLinks::add_route.
  RouteId add_route(std::span<const LinkUse> uses,
                    std::optional<BytesPerSecond> rate_cap = std::nullopt) {
    return links_.add_route(uses, rate_cap);
  }

  /// The time of what next() returned last; zero before.
  [[nodiscard]] Picoseconds now() const { return queue_.now(); }
  /// A flow of `bytes` >= 0 that begins to send `latency` from now. next() returns `tag` at its
  /// end.
  void start(RouteId route, Bytes bytes, Picoseconds latency, std::uint32_t tag);
  /// next() returns `tag` after `delay`.
  void wake(Picoseconds delay, std::uint32_t tag);
  /// Goes on to the next end or wake and returns its tag, those of one moment one after the other;
  /// nothing when nothing is under way. Throws InputError when a flow is so slow that the clock
  /// cannot count to its end.
  [[nodiscard]] std::optional<std::uint32_t> next();

 private:
  enum EventKind : std::uint16_t { kFlowsEnd, kBegins, kWakes };
  struct Waiting {
    double bytes = 0;
    std::uint32_t route = 0, tag = 0;
  };

  [[noreturn]] void fail_late(Picoseconds delay) const;
  void take(const Event<Picoseconds>& event);

  EventQueue<Picoseconds> queue_;
  FluidLinks links_;
  std::vector<Waiting> waiting_;     ///< flows in their latency, by event id
  std::vector<std::uint32_t> free_;  ///< unused places in `waiting_`
  std::vector<std::uint32_t> ended_;
  std::size_t taken_ = 0;  ///< of `ended_`
};

}  // namespace tracecast::engine
