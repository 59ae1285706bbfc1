#pragma once
#include <string>
#include <vector>

#include "tests/properties/command.hpp"
#include "tests/properties/draw.hpp"

namespace tracecast::test {

/// What a job becomes by one change, and what has to hold then.
struct Change {
  enum class Must {
    NotSlow,  ///< better hardware, or more of it: time within 2 % of what it was
    Grow,  ///< a greater batch: time does not fall, and throughput does not fall by more than 15 %
    Lengthen  ///< longer sequences or more work: time does not fall
  };
  std::string what;  ///< "more memory bandwidth"
  Must must = Must::NotSlow;
  Command before, after;
  std::string flag{};  ///< whose size grew; empty: none did
};

/// The changes that a job of this kind is asked about.
[[nodiscard]] std::vector<Change> changes_of(const Command& job, Kind kind, Draw& draw);

}  // namespace tracecast::test
