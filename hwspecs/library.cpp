#include "hwspecs/library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

#include "hwspecs/loaders/folder_files.hpp"
#include "hwspecs/loaders/known_names.hpp"
#include "hwspecs/loaders/library_state.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// Kinds of files of which there is one for each name.
constexpr std::array<std::string_view, 5> kSingleKinds{"host", "sharing", "calls", "cost",
                                                       "efficiency"};
constexpr std::array<std::string_view, 10> kSingles{
    "host/programs",   "host/default", "host/machines", "host/peer_access", "host/ranks",
    "sharing/default", "calls/cudnn",  "cost/default",  "cost/prior",       "efficiency/default"};

}  // namespace

void SpecLibrary::State::add_single(const std::string& name, const FolderFile& file) {
  const SingleFile added{*file.text, file.where, file.text};
  if (name == "host/default") {
    (void)parse_default_host(added.text, added.where, 0);
    default_hosts = added;
  } else if (name == "host/machines") {
    (void)parse_default_machine(added.text, added.where, GpuSpec{}, 1, machines);
    default_machines = added;
  } else if (name == "host/peer_access") {
    (void)parse_peer_access(added.text, added.where, GpuSpec{});
    peer_access = added;
  } else if (name == "host/programs") {
    program_hosts = Single(added, parse_program_hosts);
  } else if (name == "host/ranks") {
    ranks = Single(added, parse_rank_variation);
  } else if (name == "sharing/default") {
    sharing = Single(added, parse_gpu_sharing);
  } else if (name == "calls/cudnn") {
    calls = Single(added, parse_library_calls);
  } else if (name == "cost/default") {
    cost = Single(added, parse_cost_profile);
  } else if (name == "cost/prior") {
    priors = Single(added, parse_prior_parameters);
  } else if (name == "efficiency/default") {
    efficiency = Single(added, parse_collective_efficiency);
  } else {
    std::vector<std::string> known;
    for (const std::string_view single : kSingles) {
      if (single.starts_with(name.substr(0, name.find('/') + 1)))
        known.push_back(std::string(single.substr(single.find('/') + 1)) + ".textproto");
    }
    throw InputError(file.where, "a file of no known name",
                     describe_choices(name.substr(name.find('/') + 1) + ".textproto", known));
  }
}

void SpecLibrary::State::add_singles(const std::string& kind, const std::filesystem::path& folder) {
  for (const FolderFile& file : read_folder_files(folder)) {
    add_single(kind + '/' + std::filesystem::path(file.where).stem().string(), file);
  }
}

void SpecLibrary::State::add_kind(const std::string& kind, const std::filesystem::path& folder) {
  const auto is_single = [&](std::string_view single) { return single == kind; };
  if (std::any_of(kSingleKinds.begin(), kSingleKinds.end(), is_single)) {
    add_singles(kind, folder);
    return;
  }
  if (kind == "name") {
    for (const FolderFile& file : read_folder_files(folder))
      refuse_other_names(std::filesystem::path(file.where).filename().string(), *file.text,
                         file.where);
    return;
  }
  std::vector<std::string> known(kSingleKinds.begin(), kSingleKinds.end());
  bool found = false;
  const auto add_catalog = [&](const char* name, auto& catalog) {
    known.emplace_back(name);
    if (kind != name) return;
    catalog.add_folder(folder);
    found = true;
  };
  const auto add_list = [&](const char* name, auto& list) {
    known.emplace_back(name);
    if (kind != name) return;
    list = list.with_folder(folder);
    found = true;
  };
  add_catalog("gpu", gpus);
  add_catalog("cpu", cpus);
  add_catalog("disk", disks);
  add_catalog("link", links);
  add_catalog("machine", machines);
  add_list("channel", channels);
  add_list("collective", collectives);
  add_list("dataset", data_sets);
  add_list("engine", engines);
  add_list("framework", frameworks);
  add_list("pipeline", pipelines);
  add_list("job", jobs);
  add_list("launcher", launchers);
  add_list("mlperf", mlperf);
  add_list("published", published);
  add_list("recipe", recipes);
  add_list("release", releases);
  add_list("strategy", strategies);
  add_list("training_software", training_software);
  if (!found && !read_folder_files(folder).empty()) {
    throw InputError(folder.string(), "specs of no known kind", describe_choices(kind, known));
  }
}

void SpecLibrary::State::add(const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  gpus.add_folder(folder);
  std::error_code error;
  std::vector<fs::path> kinds;
  fs::directory_iterator it(folder, error);
  for (; !error && it != fs::directory_iterator(); it.increment(error)) {
    if (it->is_directory(error)) kinds.push_back(it->path());
  }
  if (error) throw InputError(folder.string(), error.message(), "a folder of specs");
  // What names the files of other kinds comes last.
  std::sort(kinds.begin(), kinds.end());
  std::stable_partition(kinds.begin(), kinds.end(),
                        [](const fs::path& path) { return path.filename() != "host"; });
  for (const fs::path& path : kinds) add_kind(path.filename().string(), path);
}

SpecLibrary::SpecLibrary(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const SpecLibrary& SpecLibrary::embedded() {
  static const SpecLibrary library(std::make_shared<const State>());
  return library;
}

SpecLibrary SpecLibrary::with_folder(const std::filesystem::path& folder) const {
  auto next = std::make_shared<State>(*state_);
  next->add(folder);
  return SpecLibrary(std::move(next));
}

template <class Spec>
SpecLibrary SpecLibrary::with_changed(std::function<Spec(Spec)> change) const {
  auto next = std::make_shared<State>(*state_);
  if constexpr (std::is_same_v<Spec, GpuSpec>) next->gpus.change_all(std::move(change));
  if constexpr (std::is_same_v<Spec, CpuSpec>) next->cpus.change_all(std::move(change));
  if constexpr (std::is_same_v<Spec, DiskSpec>) next->disks.change_all(std::move(change));
  if constexpr (std::is_same_v<Spec, LinkSpec>) next->links.change_all(std::move(change));
  if constexpr (std::is_same_v<Spec, MachineSpec>) next->machines.change_all(std::move(change));
  return SpecLibrary(std::move(next));
}
template SpecLibrary SpecLibrary::with_changed(std::function<GpuSpec(GpuSpec)> change) const;
template SpecLibrary SpecLibrary::with_changed(std::function<CpuSpec(CpuSpec)> change) const;
template SpecLibrary SpecLibrary::with_changed(std::function<DiskSpec(DiskSpec)> change) const;
template SpecLibrary SpecLibrary::with_changed(std::function<LinkSpec(LinkSpec)> change) const;
template SpecLibrary SpecLibrary::with_changed(
    std::function<MachineSpec(MachineSpec)> change) const;

const GpuCatalog& SpecLibrary::gpus() const { return state_->gpus; }
const CpuCatalog& SpecLibrary::cpus() const { return state_->cpus; }
const DiskCatalog& SpecLibrary::disks() const { return state_->disks; }
const LinkCatalog& SpecLibrary::links() const { return state_->links; }
const MachineCatalog& SpecLibrary::machines() const { return state_->machines; }

DefaultHost SpecLibrary::default_host(int year) const {
  return parse_default_host(state_->default_hosts.text, state_->default_hosts.where, year);
}

DefaultMachine SpecLibrary::default_machine(const GpuSpec& gpu, int gpus) const {
  return parse_default_machine(state_->default_machines.text, state_->default_machines.where, gpu,
                               gpus, state_->machines);
}

PeerAccess SpecLibrary::peer_access(const GpuSpec& gpu) const {
  return parse_peer_access(state_->peer_access.text, state_->peer_access.where, gpu);
}

const RankVariation& SpecLibrary::rank_variation() const { return state_->ranks.get(); }

const GpuSharing& SpecLibrary::gpu_sharing(std::string_view date) const {
  const std::vector<GpuSharing>& rules = state_->sharing.get();
  for (const GpuSharing& rule : rules) {
    if (!date.empty() && !rule.before_date.empty() && date < rule.before_date) return rule;
  }
  return rules.back();
}

const CostProfile& SpecLibrary::cost() const {
  return state_->cost ? state_->cost->get() : default_cost_profile();
}

const std::vector<ProfileParameter>& SpecLibrary::prior_parameters() const {
  return state_->priors ? state_->priors->get() : tracecast::prior_parameters();
}

std::span<const FrameworkProfile> SpecLibrary::frameworks() const {
  return state_->frameworks.all();
}
std::vector<std::string> SpecLibrary::framework_ids() const { return state_->frameworks.ids(); }
std::span<const TrainingSoftware> SpecLibrary::training_software() const {
  return state_->training_software.all();
}
std::vector<std::string> SpecLibrary::training_software_ids() const {
  return state_->training_software.ids();
}
std::span<const PrecisionRecipe> SpecLibrary::precision_recipes() const {
  return state_->recipes.all();
}
const ProgramHosts& SpecLibrary::program_hosts() const { return state_->program_hosts.get(); }
std::span<const StrategyProfile> SpecLibrary::strategies() const {
  return state_->strategies.all();
}
std::vector<std::string> SpecLibrary::strategy_ids() const { return state_->strategies.ids(); }
std::span<const CollectiveLibrary> SpecLibrary::collective_libraries() const {
  return state_->collectives.all();
}
const CollectiveEfficiency& SpecLibrary::collective_efficiency() const {
  return state_->efficiency.get();
}
std::span<const ChannelProfile> SpecLibrary::channels() const { return state_->channels.all(); }
std::span<const LauncherProfile> SpecLibrary::launchers() const { return state_->launchers.all(); }
std::span<const EngineProfile> SpecLibrary::engines() const { return state_->engines.all(); }
const EngineProfile& SpecLibrary::find_engine(std::string_view engine,
                                              std::string_view version) const {
  return find_engine_profile(engines(), engine, version);
}
std::span<const InputPipelineProfile> SpecLibrary::input_pipelines() const {
  return state_->pipelines.all();
}
std::span<const DataSetSpec> SpecLibrary::data_sets() const { return state_->data_sets.all(); }
std::span<const JobSpec> SpecLibrary::job_specs() const { return state_->jobs.all(); }
std::span<const ReleaseHistory> SpecLibrary::releases() const { return state_->releases.all(); }
const LibraryCalls& SpecLibrary::library_calls() const { return state_->calls.get(); }
std::span<const MlperfRound> SpecLibrary::mlperf_rounds() const { return state_->mlperf.all(); }
std::span<const PublishedSource> SpecLibrary::published_sources() const {
  return state_->published.all();
}
std::vector<std::string> SpecLibrary::channel_ids() const { return state_->channels.ids(); }
std::vector<std::string> SpecLibrary::input_pipeline_ids() const { return state_->pipelines.ids(); }
std::vector<std::string> SpecLibrary::data_set_ids() const { return state_->data_sets.ids(); }
std::vector<std::string> SpecLibrary::job_spec_ids() const { return state_->jobs.ids(); }

}  // namespace tracecast
