#pragma once
#include <string>
#include <vector>

#include "tools/serve/serve_report.hpp"

namespace tracecast {

/// The page of a load that was served: latencies and their spread, requests in flight, where time
/// and memory go. The spread needs the requests (Served::answer that keeps them); without them
/// these charts are left out.
void write_serve_page(const ServeQuestion& question, const ServingReport& report,
                      const std::string& file);

/// The page of a sweep: tokens/s of a GPU against those of a user.
void write_front_page(const ServeQuestion& question, const std::vector<FrontPoint>& points,
                      const std::string& file);

}  // namespace tracecast
