#include "tools/serve/idle_flags.hpp"

#include <vector>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// Flags that one load has no use for.
struct IdleServeFlags {
  bool are_idle = false;
  std::vector<std::string_view> flags;
  std::string found;     ///< what there is instead of their subject
  std::string expected;  ///< what would give them one
};

std::vector<IdleServeFlags> idle_serve_flags(const ServeContext& c) {
  const bool batch = c.load == "--batch", trace = c.load == "--trace", sweep = c.load == "--sweep";
  const bool arrives = c.load == "--rate" || c.load == "--find";
  const std::string simulated = "requests in flight or arriving: --concurrency or --rate";
  return {
      {c.load != "--find", {"--ttft", "--tpot"}, c.load, "--find rate, the load within them"},
      {batch,
       {"--requests", "--warm-up", "--least-share", "--shared-prefix", "--prefixes", "--preemption",
        "--draft-tokens", "--per-request", "--disaggregate"},
       "--batch, whose prompts are alike and go at once",
       simulated},
      {trace,
       {"--input", "--output", "--least-share", "--shared-prefix", "--prefixes", "--requests",
        "--warm-up"},
       "--trace, whose rows say it",
       simulated},
      {sweep,
       {"--tp", "--requests", "--price-per-hour", "--per-request"},
       "--sweep, which tries parallel layouts and loads of its own",
       "one load: --concurrency, --rate ..."},
      {!arrives,
       {"--arrivals"},
       c.load.empty() ? "the measured load" : c.load,
       "--rate or --find: nothing else draws arrivals"},
      {!c.swaps, {"--swap-gib"}, "no --preemption swap", "--preemption swap, which fills it"},
      {!c.drafts,
       {"--draft-acceptance", "--draft-network"},
       "no --draft-tokens",
       "--draft-tokens, how many are proposed"},
      {!c.shares_prefix,
       {"--prefixes"},
       "no --shared-prefix",
       "--shared-prefix, how long they are"},
      {!c.is_measured,
       {"--measured-gpu", "--measured-gpus", "--measured-tp"},
       "no --measured",
       "--measured, the result of that run"},
  };
}

}  // namespace

void refuse_idle_serve_flags(const ServeContext& context,
                             const std::function<bool(std::string_view flag)>& given) {
  for (const IdleServeFlags& row : idle_serve_flags(context)) {
    if (!row.are_idle) continue;
    for (const std::string_view flag : row.flags) {
      if (given(flag)) throw InputError(flag, row.found, row.expected);
    }
  }
}

}  // namespace tracecast
