#include "tools/validate/collective_words.hpp"

#include <string>
#include <utility>

#include "sim/base/text.hpp"

namespace tracecast {

std::optional<Collective> find_collective(std::string_view word) {
  constexpr std::pair<std::string_view, Collective> kWords[] = {
      {"all_reduce", Collective::AllReduce},
      {"all_gather", Collective::AllGather},
      {"reduce_scatter", Collective::ReduceScatter},
      {"alltoall", Collective::AllToAll},
      {"sendrecv", Collective::SendReceive}};
  for (const auto& [name, collective] : kWords) {
    if (name == word) return collective;
  }
  return std::nullopt;
}

std::string_view custom_all_reduce_library(std::string_view kernel_source) {
  const std::string source = to_lower(kernel_source);
  constexpr std::pair<std::string_view, std::string_view> kLibraries[] = {
      {"trtllm", "trtllm"}, {"vllm", "vllm_custom"}, {"sglang", "sglang_custom"}};
  for (const auto& [engine, library] : kLibraries) {
    if (source.find(engine) != source.npos) return library;
  }
  return {};
}

}  // namespace tracecast
