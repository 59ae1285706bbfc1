#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/zoo.hpp"

/// What the file of a family needs to state its networks.
namespace tracecast::zoo_builders {

/// A family's builder with one of its layouts, for ZooEntry::build.
template <auto family, auto layout>
NetworkGraph build(const BuildOptions& options) {
  return family(options, layout);
}

[[nodiscard]] inline Published exact(std::int64_t count, std::string_view source) {
  return {.value = static_cast<double>(count), .unit = 1, .source = source};
}
/// `unit` is that of the last digit printed: "4.09 G" is rounded(4.09e9, 0.01e9, ...).
[[nodiscard]] inline Published rounded(double value, double unit, std::string_view source) {
  return {.value = value, .unit = unit, .source = source};
}
[[nodiscard]] inline Published torchvision_parameters(std::int64_t count) {
  return exact(count, "torchvision 0.15, num_params of the weights");
}
[[nodiscard]] inline Published torchvision_gmacs(double giga) {
  return rounded(giga * 1e9, 0.01e9, "torchvision 0.15, GFLOPS of the weights");
}
/// A torchvision network of that family with the counts that torchvision prints.
template <auto family, auto layout>
[[nodiscard]] ZooEntry torchvision_entry(std::string_view name, std::string_view title,
                                         std::int64_t parameters, double gmacs) {
  return {.name = name,
          .title = title,
          .source = "torchvision 0.15",
          .parameters = torchvision_parameters(parameters),
          .macs = torchvision_gmacs(gmacs),
          .image_size = 224,
          .build = build<family, layout>};
}
/// Parameters of the checkpoints of Hugging Face transformers, tied weights once.
inline constexpr std::string_view kCheckpoint =
    "Hugging Face transformers, checkpoint of that name";

}  // namespace tracecast::zoo_builders
