#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tracecast {

/// Pages of `colocate` and `collectives`, made from what they answer with --format json. Throw
/// InputError as write_page does.
void write_colocate_page(const nlohmann::ordered_json& report, const std::string& file);
void write_collectives_page(const nlohmann::ordered_json& report, const std::string& file);

}  // namespace tracecast
