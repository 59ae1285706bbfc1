#include "tools/predict/other_sizes_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/command/amounts.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"

namespace tracecast {
namespace {

std::string_view name_of(OtherSize::What what) {
  return what == OtherSize::What::Batch ? "batch" : "seq_len";
}

std::string gain(const OtherSize& other, const Forecast& forecast) {
  const double time = other.step_time_s / forecast.step_time_s.value;
  if (time < 1) return fmt::format("a step takes {} less", percent(1 - time));
  const double rate = other.samples_per_s / forecast.throughput_samples_per_s.value;
  return fmt::format("{} more samples/s", percent(rate - 1));
}

std::string kernels_of(const ChangedLayer& layer) {
  std::string text =
      fmt::format("{}, {} {}: {} us there, {} us here", layer.name, layer.kind, layer.pass,
                  three_digits(layer.other_time.in_us()), three_digits(layer.time.in_us()));
  if (layer.algorithm != layer.other_algorithm)
    text += fmt::format("; {} there, {} here", layer.other_algorithm, layer.algorithm);
  if (layer.kernels != layer.other_kernels)
    text += fmt::format("; {} kernels there, {} here", layer.other_kernels, layer.kernels);
  return text;
}

}  // namespace

std::string other_sizes_text(const std::vector<OtherSize>& sizes, const Forecast& forecast) {
  std::string page;
  if (!sizes.empty()) page += '\n';
  for (const OtherSize& other : sizes) {
    add_line(page, &other == &sizes.front() ? "Other sizes" : "",
             fmt::format("{} {}: {}, with other kernels:",
                         other.what == OtherSize::What::Batch ? "batch" : "length", other.size,
                         gain(other, forecast)));
    for (const ChangedLayer& layer : other.layers) add_line(page, "", kernels_of(layer));
  }
  return page;
}

std::string with_other_sizes(const std::string& forecast_json,
                             const std::vector<OtherSize>& sizes) {
  auto doc = nlohmann::ordered_json::parse(forecast_json);
  doc["other_sizes"] = nlohmann::ordered_json::array();
  for (const OtherSize& other : sizes) {
    nlohmann::ordered_json entry{{"what", name_of(other.what)},
                                 {"size", other.size},
                                 {"step_time_s", other.step_time_s},
                                 {"throughput_samples_per_s", other.samples_per_s}};
    entry["layers"] = nlohmann::ordered_json::array();
    for (const ChangedLayer& layer : other.layers) {
      entry["layers"].push_back({{"layer", layer.name},
                                 {"kind", layer.kind},
                                 {"pass", layer.pass},
                                 {"algorithm", layer.algorithm},
                                 {"algorithm_there", layer.other_algorithm},
                                 {"kernels", layer.kernels},
                                 {"kernels_there", layer.other_kernels},
                                 {"time_s", layer.time.in_s()},
                                 {"time_there_s", layer.other_time.in_s()}});
    }
    doc["other_sizes"].push_back(std::move(entry));
  }
  return json_text(doc) + "\n";
}

}  // namespace tracecast
