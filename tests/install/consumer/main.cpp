#include <cstdio>

#include "sim/base/units.hpp"

/// What a user of the libraries writes: quantities in, quantities out.
int main() {
  using namespace tracecast::literals;
  const tracecast::Seconds transfer = 900.0_MB / 900.0_GBps;
  std::printf("%.3f ms\n", transfer.in_ms());
  return transfer.in_ms() > 0.999 && transfer.in_ms() < 1.001 ? 0 : 1;
}
