#pragma once
#include <string>
#include <string_view>

namespace tracecast {

/// The page of a comparison, from what `--format json` says of it: speed with its interval, memory,
/// watts and money, GPU by GPU; of requests that are answered, tokens, latency and money.
void write_compare_page(std::string_view common_json, const std::string& file);

}  // namespace tracecast
