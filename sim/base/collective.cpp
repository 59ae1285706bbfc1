#include "sim/base/collective.hpp"

namespace tracecast {

std::string_view to_string(Collective collective) {
  switch (collective) {
    case Collective::AllReduce:
      return "all-reduce";
    case Collective::ReduceScatter:
      return "reduce-scatter";
    case Collective::AllGather:
      return "all-gather";
    case Collective::Broadcast:
      return "broadcast";
    case Collective::Reduce:
      return "reduce";
    case Collective::AllToAll:
      return "all-to-all";
    case Collective::SendReceive:
      return "send-receive";
  }
  return "unknown";
}

}  // namespace tracecast
