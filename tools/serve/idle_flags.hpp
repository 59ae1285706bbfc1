#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace tracecast {

/// What decides which flags of `serve` mean something.
struct ServeContext {
  std::string load;  ///< the flag that says it: "--batch", "--sweep" ...
  bool drafts = false, swaps = false, shares_prefix = false, is_measured = false;
};

/// Refuses every flag that was given and could change nothing in this answer, as `predict` does.
/// `given`: whether a flag stood on the command line. Throws InputError naming the first such flag.
void refuse_idle_serve_flags(const ServeContext& context,
                             const std::function<bool(std::string_view flag)>& given);

}  // namespace tracecast
