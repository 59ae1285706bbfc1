#pragma once
#include <string>
#include <vector>

#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// `tracecast calibrate --from` and `tracecast calibrate check`.
struct FitCommandOptions {
  std::vector<std::string> from;  ///< tables, or folders of tables
  std::string out;                ///< profile to write; empty: none
  std::string date;               ///< of the fit, "2026-11-21"; empty: today
  std::string id = "fitted";
  std::string title;
  bool from_priors = false;     ///< begin with what is believed before any measurement
  bool no_uncertainty = false;  ///< leave the expected errors as they are
  bool list_refused = false;    ///< every refused row, not the first few
  std::string leave_out = "gpu";
  bool learn_errors = false;  ///< check: expected errors from the rows that stay
  std::vector<std::string> only;
  double min_us = 100;
  std::string profiles;  ///< folder for the profile of each refit; empty: none is kept
  SourceOptions sources;
  std::string format = "text";
  std::string report;  ///< file of the page; empty: none
};
int run_fit(const FitCommandOptions& options);
int run_check(const FitCommandOptions& options);

}  // namespace tracecast
