#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwspecs/collective_efficiency.hpp"
#include "hwspecs/library.hpp"
#include "hwspecs/loaders/folder_files.hpp"
#include "hwspecs/software/engine_profile.hpp"
#include "hwspecs/software/launcher.hpp"
#include "hwspecs/software/library_calls.hpp"
#include "hwspecs/software/mlperf_round.hpp"
#include "hwspecs/software/precision_recipe.hpp"
#include "hwspecs/software/profile_list.hpp"
#include "hwspecs/software/program_hosts.hpp"
#include "hwspecs/software/published_source.hpp"
#include "hwspecs/software/release_history.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/once.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> collective_efficiencies();
std::span<const EmbeddedFile> default_hosts();
std::span<const EmbeddedFile> default_machines();
std::span<const EmbeddedFile> gpu_sharing_rules();
std::span<const EmbeddedFile> library_call_files();
std::span<const EmbeddedFile> peer_access_rules();
std::span<const EmbeddedFile> program_host_files();
std::span<const EmbeddedFile> rank_variations();
}  // namespace embedded

/// A file of which there is one.
struct SingleFile {
  std::string_view text;
  std::string where;
  std::shared_ptr<const std::string> owned;  ///< holds `text`; null: it is in the binary
};
inline SingleFile single(std::span<const EmbeddedFile> files) {
  return {files.front().content, std::string(files.front().path), nullptr};
}

/// What such a file says. A value that does not change; copies share it, and several threads may
/// ask.
template <class Content>
class Single {
 public:
  using Parse = Content (*)(std::string_view text, std::string_view where);
  /// A file of the binary, parsed when it is first asked for; one of a folder at once. Throws what
  /// `parse` throws.
  Single(const SingleFile& file, Parse parse) : state_(std::make_shared<State>(file, parse)) {
    if (file.owned) (void)get();
  }

  [[nodiscard]] const Content& get() const {
    state_->parsed(
        [this] { state_->content = state_->parse(state_->file.text, state_->file.where); });
    return state_->content;
  }

 private:
  struct State {
    State(SingleFile its_file, Parse its_parse) : file(std::move(its_file)), parse(its_parse) {}
    SingleFile file;
    Parse parse;
    Once parsed;
    Content content;
  };
  std::shared_ptr<State> state_;
};

struct SpecLibrary::State {
  GpuCatalog gpus = GpuCatalog::embedded();
  CpuCatalog cpus = CpuCatalog::embedded();
  DiskCatalog disks = DiskCatalog::embedded();
  LinkCatalog links = LinkCatalog::embedded();
  MachineCatalog machines = MachineCatalog::embedded();

  ProfileList<ChannelProfile> channels = ProfileList<ChannelProfile>::embedded();
  ProfileList<CollectiveLibrary> collectives = ProfileList<CollectiveLibrary>::embedded();
  ProfileList<DataSetSpec> data_sets = ProfileList<DataSetSpec>::embedded();
  ProfileList<EngineProfile> engines = ProfileList<EngineProfile>::embedded();
  ProfileList<FrameworkProfile> frameworks = ProfileList<FrameworkProfile>::embedded();
  ProfileList<InputPipelineProfile> pipelines = ProfileList<InputPipelineProfile>::embedded();
  ProfileList<JobSpec> jobs = ProfileList<JobSpec>::embedded();
  ProfileList<LauncherProfile> launchers = ProfileList<LauncherProfile>::embedded();
  ProfileList<MlperfRound> mlperf = ProfileList<MlperfRound>::embedded();
  ProfileList<PrecisionRecipe> recipes = ProfileList<PrecisionRecipe>::embedded();
  ProfileList<PublishedSource> published = ProfileList<PublishedSource>::embedded();
  ProfileList<ReleaseHistory> releases = ProfileList<ReleaseHistory>::embedded();
  ProfileList<StrategyProfile> strategies = ProfileList<StrategyProfile>::embedded();
  ProfileList<TrainingSoftware> training_software = ProfileList<TrainingSoftware>::embedded();

  SingleFile default_hosts = single(embedded::default_hosts());
  SingleFile default_machines = single(embedded::default_machines());
  SingleFile peer_access = single(embedded::peer_access_rules());
  Single<LibraryCalls> calls{single(embedded::library_call_files()), parse_library_calls};
  Single<CollectiveEfficiency> efficiency{single(embedded::collective_efficiencies()),
                                          parse_collective_efficiency};
  Single<ProgramHosts> program_hosts{single(embedded::program_host_files()), parse_program_hosts};
  Single<RankVariation> ranks{single(embedded::rank_variations()), parse_rank_variation};
  Single<std::vector<GpuSharing>> sharing{single(embedded::gpu_sharing_rules()), parse_gpu_sharing};
  std::optional<Single<CostProfile>> cost;  ///< nothing: the binary's
  std::optional<Single<std::vector<ProfileParameter>>> priors;

  void add(const std::filesystem::path& folder);
  void add_kind(const std::string& kind, const std::filesystem::path& folder);
  void add_singles(const std::string& kind, const std::filesystem::path& folder);
  void add_single(const std::string& name, const FolderFile& file);
};

}  // namespace tracecast
