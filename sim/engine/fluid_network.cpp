#include "sim/engine/fluid_network.hpp"

namespace tracecast::engine {

void FluidNetwork::start(RouteId route, Bytes bytes, Picoseconds latency, std::uint32_t tag) {
  TRACECAST_CHECK(latency >= Picoseconds{}, "a latency is not negative");
  if (bytes == Bytes()) return wake(latency, tag);
  if (latency == Picoseconds{}) return links_.start(route, bytes, tag);
  if (latency > Picoseconds::most() - now()) fail_late(latency);
  if (free_.empty()) {
    TRACECAST_CHECK(waiting_.size() < UINT32_MAX, "flows under way are counted in 32 bits");
    free_.push_back(static_cast<std::uint32_t>(waiting_.size()));
    waiting_.emplace_back();
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  waiting_[place] = {bytes.in_bytes(), route.index, tag};
  queue_.push(now() + latency, place, kBegins);
}

void FluidNetwork::wake(Picoseconds delay, std::uint32_t tag) {
  if (delay > Picoseconds::most() - now()) fail_late(delay);
  queue_.push(now() + delay, tag, kWakes);
}

void FluidNetwork::fail_late(Picoseconds delay) const {
  fail_too_long(now().in_seconds() + delay.in_seconds(), Picoseconds::most().in_seconds());
}

void FluidNetwork::take(const Event<Picoseconds>& event) {
  switch (event.kind) {
    case kFlowsEnd:
      return links_.take_ended(event, ended_);
    case kBegins: {
      const Waiting& flow = waiting_[event.id];
      links_.start(RouteId{flow.route}, Bytes(flow.bytes), flow.tag);
      free_.push_back(event.id);
      return;
    }
    default:
      ended_.push_back(event.id);
  }
}

std::optional<std::uint32_t> FluidNetwork::next() {
  for (;;) {
    if (taken_ < ended_.size()) return ended_[taken_++];
    ended_.clear();
    taken_ = 0;
    if (!queue_.has_event_now()) links_.settle();
    if (queue_.empty()) return std::nullopt;
    take(queue_.pop());
  }
}

}  // namespace tracecast::engine
