#pragma once
#include <string>
#include <string_view>

namespace tracecast {

/// The page of a fit, from what `--format json` says of it: parameters beside their priors, GPUs
/// beside their specs, the tables read.
void write_fit_page(std::string_view fit_json, const std::string& file);

/// The page of `calibrate check`: errors of rows that a fit had not seen, part by part.
void write_check_page(std::string_view check_json, const std::string& file);

}  // namespace tracecast
