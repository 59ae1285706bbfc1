#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hwspecs/channel.hpp"
#include "hwspecs/collective_efficiency.hpp"
#include "hwspecs/collective_library.hpp"
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/default_host.hpp"
#include "hwspecs/default_machine.hpp"
#include "hwspecs/disk_spec.hpp"
#include "hwspecs/gpu_sharing.hpp"
#include "hwspecs/link_spec.hpp"
#include "hwspecs/loaders/cpu_loader.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/machine_spec.hpp"
#include "hwspecs/peer_access.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "hwspecs/software/input_pipeline.hpp"
#include "hwspecs/software/job_spec.hpp"
#include "hwspecs/software/software_defaults.hpp"
#include "hwspecs/software/strategy_profile.hpp"
#include "hwspecs/software/training_software.hpp"

namespace tracecast {

struct CollectiveEfficiency;
struct EngineProfile;
struct LauncherProfile;
struct LibraryCalls;
struct MlperfRound;
struct PrecisionRecipe;
struct ProgramHosts;
struct PublishedSource;
struct ReleaseHistory;

/// Every file of hwspecs: those in the binary, and those that folders add or put in their place. A
/// value that does not change: a copy costs little, files are read when they are first asked for,
/// and several threads may ask. What it hands out lives as long as any copy.
class SpecLibrary {
 public:
  /// The files in the binary.
  [[nodiscard]] static const SpecLibrary& embedded();

  /// With the files of a folder of the same form as hwspecs/: a sub-folder per kind ("framework",
  /// "disk", "machine" ...), GPUs in "gpu" or in the folder itself. A file whose id is known
  /// replaces it; those of "host", "sharing", "calls", "cost" and "efficiency" replace the one of
  /// their name. Throws InputError: no such folder, a file that is refused, a sub-folder with files
  /// of no known kind.
  [[nodiscard]] SpecLibrary with_folder(const std::filesystem::path& folder) const;

  /// With every GPU (CPU, disk, link, machine) as `change` makes it of what its file says: what if
  /// the hardware were other than it is.
  template <class Spec>
  [[nodiscard]] SpecLibrary with_changed(std::function<Spec(Spec)> change) const;

  // Hardware.
  [[nodiscard]] const GpuCatalog& gpus() const;
  [[nodiscard]] const CpuCatalog& cpus() const;
  [[nodiscard]] const DiskCatalog& disks() const;
  [[nodiscard]] const LinkCatalog& links() const;
  [[nodiscard]] const MachineCatalog& machines() const;
  /// The network with the longest word that occurs in `description` (case does not matter);
  /// nullptr: none does.
  [[nodiscard]] const LinkSpec* find_link_in(std::string_view description) const;

  // What is assumed of machines when nobody says it.
  /// The host assumed for GPUs first sold in `year`: a guess, hwspecs/host/default.textproto.
  [[nodiscard]] DefaultHost default_host(int year) const;
  /// The machine assumed for `gpus` of a kind in one box: the usual machine that comes with it,
  /// else a host of PCIe cards of its years. A guess, hwspecs/host/machines.textproto.
  [[nodiscard]] DefaultMachine default_machine(const GpuSpec& gpu, int gpus) const;
  /// By product line and generation: hwspecs/host/peer_access.textproto. Where several rules name
  /// the card, each takes away.
  [[nodiscard]] PeerAccess peer_access(const GpuSpec& gpu) const;
  [[nodiscard]] const RankVariation& rank_variation() const;
  /// The rule of a month ("2019-08"; empty: today), hwspecs/sharing/default.textproto.
  [[nodiscard]] const GpuSharing& gpu_sharing(std::string_view date = "") const;
  [[nodiscard]] const CostProfile& cost() const;
  /// What is believed of the cost model's parameters before any measurement.
  [[nodiscard]] const std::vector<ProfileParameter>& prior_parameters() const;

  // Below, all `ids()` are sorted, and what finds by id or alias throws InputError with the nearest
  // word.

  // Frameworks.
  [[nodiscard]] std::span<const FrameworkProfile> frameworks() const;
  [[nodiscard]] std::vector<std::string> framework_ids() const;
  /// The profile of exactly that id: "pytorch" is the file of that name, which is PyTorch 1.x.
  [[nodiscard]] const FrameworkProfile& find_framework(std::string_view id) const;
  /// What stands for framework `id` in the state that `words` names ("1.15", "NGC 20.06", or
  /// nothing: today's): its container's profile, or that of its era, the earliest one that ends
  /// above the version or, when none is given, above the beginning of the date; of newer ones the
  /// last that begins no later.
  [[nodiscard]] const FrameworkProfile& find_framework(std::string_view id,
                                                       const SoftwareWords& words) const;
  /// The same for a version in numbers (major, minor). `in_container`: as it is in NVIDIA's
  /// container.
  [[nodiscard]] const FrameworkProfile& find_framework(std::string_view id,
                                                       std::optional<std::pair<int, int>> version,
                                                       std::string_view date,
                                                       bool in_container) const;
  /// The profile of framework `id` with compiler `name` ("xla"). Throws InputError when there is
  /// none.
  [[nodiscard]] const FrameworkProfile& find_compiled_framework(std::string_view id,
                                                                std::string_view name) const;
  /// What version and date decide beside the profile.
  [[nodiscard]] SoftwareDefaults defaults_of(const FrameworkProfile& framework,
                                             const SoftwareWords& words, const GpuSpec& gpu) const;
  [[nodiscard]] std::span<const ReleaseHistory> releases() const;
  [[nodiscard]] const ReleaseHistory& find_releases(std::string_view id) const;
  [[nodiscard]] std::span<const TrainingSoftware> training_software() const;
  [[nodiscard]] std::vector<std::string> training_software_ids() const;
  [[nodiscard]] const TrainingSoftware& find_training_software(std::string_view id) const;

  [[nodiscard]] std::span<const PrecisionRecipe> precision_recipes() const;
  /// Null: no such recipe.
  [[nodiscard]] const PrecisionRecipe* find_precision_recipe_or_null(std::string_view id) const;
  /// The one with the longest word that occurs in `description`; nullptr: none does.
  [[nodiscard]] const PrecisionRecipe* find_precision_recipe_in(std::string_view description) const;
  /// What training programs add to a step on the host, learned across those that are known.
  [[nodiscard]] const ProgramHosts& program_hosts() const;

  // Many GPUs.
  [[nodiscard]] std::span<const StrategyProfile> strategies() const;
  [[nodiscard]] std::vector<std::string> strategy_ids() const;
  [[nodiscard]] const StrategyProfile& find_strategy(std::string_view id) const;
  /// The one with the longest word that occurs in `description`; nullptr: none does.
  [[nodiscard]] const StrategyProfile* find_strategy_in(std::string_view description) const;
  /// What users of `framework` took at `date` ("2016-12"; empty = today) on one node or several;
  /// without an entry "ddp".
  [[nodiscard]] const StrategyProfile& usual_strategy(std::string_view framework,
                                                      std::string_view date,
                                                      bool several_nodes) const;
  [[nodiscard]] std::span<const CollectiveLibrary> collective_libraries() const;
  /// `library` ("nccl", "mpi", ...) as of `version` ("2.4"), or, without one, of `date` ("2017-08",
  /// "2017"); without both the newest. A version or date before the first file's has the first.
  /// Throws InputError: an unknown library, a malformed version or date.
  [[nodiscard]] const CollectiveLibrary& find_collective_library(std::string_view library,
                                                                 std::string_view version = "",
                                                                 std::string_view date = "") const;
  /// The library with the longest word that occurs in `description`, of the version that follows
  /// ("NCCL 2.0 MPI"); nullptr: none does. Throws InputError: the version is malformed.
  [[nodiscard]] const CollectiveLibrary* find_collective_library_in(
      std::string_view description) const;
  /// How fast the kernels of these libraries go within a node, fitted.
  [[nodiscard]] const CollectiveEfficiency& collective_efficiency() const;
  [[nodiscard]] std::span<const ChannelProfile> channels() const;
  [[nodiscard]] std::vector<std::string> channel_ids() const;
  /// Case does not matter; '-', '+', ' ', '.' and '_' are one letter.
  [[nodiscard]] const ChannelProfile& find_channel(std::string_view word) const;
  [[nodiscard]] std::span<const LauncherProfile> launchers() const;
  [[nodiscard]] const LauncherProfile& find_launcher(std::string_view id) const;
  [[nodiscard]] std::span<const EngineProfile> engines() const;
  /// The profile of that id or alias; or of `engine` the last that begins no later than `version`
  /// (empty: the newest).
  [[nodiscard]] const EngineProfile& find_engine(std::string_view engine,
                                                 std::string_view version = "") const;

  // Data.
  [[nodiscard]] std::span<const InputPipelineProfile> input_pipelines() const;
  [[nodiscard]] std::vector<std::string> input_pipeline_ids() const;
  [[nodiscard]] const InputPipelineProfile& find_input_pipeline(std::string_view id) const;
  /// What loads the data of a framework in that version: of its profiles the one whose word the
  /// version contains (case does not matter), else the one without a word, else the one called
  /// "generic".
  [[nodiscard]] const InputPipelineProfile& input_pipeline_of(std::string_view framework,
                                                              std::string_view version) const;
  [[nodiscard]] std::span<const DataSetSpec> data_sets() const;
  [[nodiscard]] std::vector<std::string> data_set_ids() const;
  [[nodiscard]] const DataSetSpec& find_data_set(std::string_view id) const;

  // Published measurements.
  [[nodiscard]] std::span<const MlperfRound> mlperf_rounds() const;
  /// Null: no such round.
  [[nodiscard]] const MlperfRound* find_mlperf_round(std::string_view id) const;
  /// The one of the last month.
  [[nodiscard]] const MlperfRound& newest_mlperf_round() const;
  [[nodiscard]] std::span<const PublishedSource> published_sources() const;
  /// What calls cost that tables of kernels time and no framework makes.
  [[nodiscard]] const LibraryCalls& library_calls() const;

  // Training programs.
  [[nodiscard]] std::span<const JobSpec> job_specs() const;
  [[nodiscard]] std::vector<std::string> job_spec_ids() const;
  /// Null: no such job.
  [[nodiscard]] const JobSpec* find_job_spec_or_null(std::string_view id) const;
  [[nodiscard]] const JobSpec& find_job_spec(std::string_view id) const;

 private:
  struct State;
  explicit SpecLibrary(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace tracecast
