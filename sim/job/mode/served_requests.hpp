#pragma once
#include <string>
#include <vector>

#include "sim/serve/request.hpp"

namespace tracecast {

/// Requests of a CSV file's rows: arrival_s, input_tokens, output_tokens; where prompts begin alike
/// also prefix (a number: which beginning) and shared_tokens (its length). Throws InputError with
/// the line: a column that is missing, no number, arrivals out of order, more shared tokens than
/// the prompt has.
[[nodiscard]] std::vector<serve::Request> read_requests(const std::string& text,
                                                        const std::string& where);

}  // namespace tracecast
