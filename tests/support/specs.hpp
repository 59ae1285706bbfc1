#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwspecs/library.hpp"

/// Look-ups in the binary's own files, short for tests: SpecLibrary::embedded() asked by the same
/// names.
namespace tracecast {

inline const SpecLibrary& binary() { return SpecLibrary::embedded(); }

inline const FrameworkProfile& find_framework(std::string_view id) {
  return binary().find_framework(id);
}
inline const FrameworkProfile& find_framework(std::string_view id,
                                              std::optional<std::pair<int, int>> version,
                                              std::string_view date, bool in_container) {
  return binary().find_framework(id, version, date, in_container);
}
inline const FrameworkProfile& find_compiled_framework(std::string_view id, std::string_view name) {
  return binary().find_compiled_framework(id, name);
}
inline std::vector<std::string> framework_ids() { return binary().framework_ids(); }
inline const TrainingSoftware& find_training_software(std::string_view id) {
  return binary().find_training_software(id);
}

inline const StrategyProfile& find_strategy(std::string_view id) {
  return binary().find_strategy(id);
}
inline const StrategyProfile* find_strategy_in(std::string_view description) {
  return binary().find_strategy_in(description);
}
inline const StrategyProfile& usual_strategy(std::string_view framework, std::string_view date,
                                             bool several_nodes) {
  return binary().usual_strategy(framework, date, several_nodes);
}
inline std::vector<std::string> strategy_ids() { return binary().strategy_ids(); }
inline const RankVariation& rank_variation() { return binary().rank_variation(); }
inline const CollectiveLibrary& find_collective_library(std::string_view library,
                                                        std::string_view version = "",
                                                        std::string_view date = "") {
  return binary().find_collective_library(library, version, date);
}
inline std::span<const CollectiveLibrary> collective_libraries() {
  return binary().collective_libraries();
}
inline const ChannelProfile& find_channel(std::string_view word) {
  return binary().find_channel(word);
}
inline std::vector<std::string> channel_ids() { return binary().channel_ids(); }
inline const LauncherProfile& find_launcher(std::string_view id) {
  return binary().find_launcher(id);
}

inline const InputPipelineProfile& find_input_pipeline(std::string_view id) {
  return binary().find_input_pipeline(id);
}
inline const InputPipelineProfile& input_pipeline_of(std::string_view framework,
                                                     std::string_view version) {
  return binary().input_pipeline_of(framework, version);
}
inline std::vector<std::string> input_pipeline_ids() { return binary().input_pipeline_ids(); }
inline const DataSetSpec& find_data_set(std::string_view id) { return binary().find_data_set(id); }
inline std::vector<std::string> data_set_ids() { return binary().data_set_ids(); }
inline const JobSpec& find_job_spec(std::string_view id) { return binary().find_job_spec(id); }
inline std::vector<std::string> job_spec_ids() { return binary().job_spec_ids(); }

inline const GpuSharing& default_gpu_sharing(std::string_view date = "") {
  return binary().gpu_sharing(date);
}
inline DefaultHost default_host(int year) { return binary().default_host(year); }
inline PeerAccess peer_access(const GpuSpec& gpu) { return binary().peer_access(gpu); }

}  // namespace tracecast
