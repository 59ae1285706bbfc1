#pragma once
#include <cstddef>
#include <vector>

#include "sim/plan/job_mix.hpp"

namespace tracecast::plan {

/// What a mix says of pairs, by kind and GPU type.
class SharedRates {
 public:
  SharedRates(const JobMix& mix, std::size_t types);
  [[nodiscard]] bool empty() const { return rates_.empty(); }
  /// Steps per second of a job of kind `a` beside one of kind `b`; 0: not known, or they do not run
  /// together.
  [[nodiscard]] double rate(KindId a, KindId b, TypeId type) const {
    return rates_.empty() ? 0 : rates_[(a.index * kinds_ + b.index) * types_ + type.index];
  }

 private:
  std::size_t kinds_, types_;
  std::vector<double> rates_;  ///< kind x partner x type; empty: nothing is known
};

}  // namespace tracecast::plan
