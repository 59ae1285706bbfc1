#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "sim/job/predictor.hpp"

namespace tracecast {

/// What decides which flags mean something.
struct FlagContext {
  ReportKind kind = ReportKind::OneGpu;
  const PlacedJob& job;
  std::string format, dump;  ///< empty dump: an answer
  std::int64_t stages = 1;   ///< of a divided transformer
  int zero = 0;
  bool explains = false;
  bool counts_epochs = false;  ///< work is stated in epochs, whatever the answer tells of energy
  std::span<const std::string> sets{};  ///< "PATH=VALUE" of `--set`
  const SpecLibrary& specs = SpecLibrary::embedded();
};

/// Refuses every flag that was given and could change nothing in this answer, so that no answer
/// ignores what it was asked. What a flag's value decides (an unknown word, a number out of range)
/// is checked where it is used. `given`: whether a flag stood on the command line. Throws
/// InputError naming the first such flag.
void refuse_idle_flags(const FlagContext& context,
                       const std::function<bool(std::string_view flag)>& given);

}  // namespace tracecast
