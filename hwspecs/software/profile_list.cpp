#include "hwspecs/software/profile_list.hpp"
#include "hwspecs/software/engine_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "hwspecs/channel.hpp"
#include "hwspecs/collective_library.hpp"
#include "hwspecs/loaders/based_on.hpp"
#include "hwspecs/loaders/folder_files.hpp"
#include "hwspecs/loaders/spec_scan.hpp"
#include "hwspecs/loaders/spec_text.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "hwspecs/software/input_pipeline.hpp"
#include "hwspecs/software/job_spec.hpp"
#include "hwspecs/software/launcher.hpp"
#include "hwspecs/software/mlperf_round.hpp"
#include "hwspecs/software/published_source.hpp"
#include "hwspecs/software/release_history.hpp"
#include "hwspecs/software/strategy_profile.hpp"
#include "hwspecs/software/training_software.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> channels();
std::span<const EmbeddedFile> collective_libraries();
std::span<const EmbeddedFile> data_sets();
std::span<const EmbeddedFile> engine_profiles();
std::span<const EmbeddedFile> framework_profiles();
std::span<const EmbeddedFile> input_pipelines();
std::span<const EmbeddedFile> job_specs();
std::span<const EmbeddedFile> launchers();
std::span<const EmbeddedFile> mlperf_rounds();
std::span<const EmbeddedFile> published_sources();
std::span<const EmbeddedFile> release_histories();
std::span<const EmbeddedFile> strategies();
std::span<const EmbeddedFile> training_programs();
}  // namespace embedded
namespace {

/// What is particular to one kind of file.
template <class Profile>
struct Kind;
template <>
struct Kind<FrameworkProfile> {
  static constexpr auto files = embedded::framework_profiles;
  static FrameworkProfile parse(std::string_view text, std::string_view where,
                                const FindSpecText& find) {
    return parse_framework_profile(text, where, find);
  }
};
template <>
struct Kind<CollectiveLibrary> {
  static constexpr auto files = embedded::collective_libraries;
  static CollectiveLibrary parse(std::string_view text, std::string_view where,
                                 const FindSpecText& find) {
    return parse_collective_library(text, where, find);
  }
};
template <>
struct Kind<TrainingSoftware> {
  static constexpr auto files = embedded::training_programs;
  static TrainingSoftware parse(std::string_view text, std::string_view where,
                                const FindSpecText& find) {
    return parse_training_software(text, where, find);
  }
};
template <>
struct Kind<MlperfRound> {
  static constexpr auto files = embedded::mlperf_rounds;
  static MlperfRound parse(std::string_view text, std::string_view where,
                           const FindSpecText& find) {
    return parse_mlperf_round(text, where, find);
  }
};
/// Of kinds whose files stand alone.
template <class Profile, Profile (*parse_alone)(std::string_view, std::string_view),
          std::span<const EmbeddedFile> (*embedded_files)()>
struct Standalone {
  static constexpr auto files = embedded_files;
  static Profile parse(std::string_view text, std::string_view where, const FindSpecText&) {
    return parse_alone(text, where);
  }
};
template <>
struct Kind<StrategyProfile> : Standalone<StrategyProfile, parse_strategy, embedded::strategies> {};
template <>
struct Kind<InputPipelineProfile>
    : Standalone<InputPipelineProfile, parse_input_pipeline, embedded::input_pipelines> {};
template <>
struct Kind<DataSetSpec> : Standalone<DataSetSpec, parse_data_set, embedded::data_sets> {};
template <>
struct Kind<ChannelProfile> : Standalone<ChannelProfile, parse_channel, embedded::channels> {};
template <>
struct Kind<EngineProfile>
    : Standalone<EngineProfile, parse_engine_profile, embedded::engine_profiles> {};
template <>
struct Kind<LauncherProfile> : Standalone<LauncherProfile, parse_launcher, embedded::launchers> {};
template <>
struct Kind<JobSpec> : Standalone<JobSpec, parse_job_spec, embedded::job_specs> {};
template <>
struct Kind<PublishedSource>
    : Standalone<PublishedSource, parse_published_source, embedded::published_sources> {};
template <>
struct Kind<ReleaseHistory>
    : Standalone<ReleaseHistory, parse_release_history, embedded::release_histories> {};

template <class Profile>
std::optional<SpecText> find_embedded_text(std::string_view id) {
  for (const EmbeddedFile& file : Kind<Profile>::files()) {
    if (scan_string(file.content, "id") == id)
      return SpecText{file.content, std::string(file.path)};
  }
  return std::nullopt;
}

/// Whether `id` stands between quotation marks in `text` or in a file of the binary that it builds on.
template <class Profile>
bool names(std::string_view text, std::string_view id, int most_bases) {
  if (names_quoted(text, id)) return true;
  const std::string_view base = scan_string(text, "based_on");
  if (base.empty() || most_bases == 0) return false;
  const std::optional<SpecText> found = find_embedded_text<Profile>(base);
  return found && names<Profile>(found->text, id, most_bases - 1);
}

template <class Profile>
std::vector<std::string> spellings_of(const Profile& profile) {
  std::vector<std::string> words{profile.id};
  if constexpr (requires { profile.aliases; }) {
    words.insert(words.end(), profile.aliases.begin(), profile.aliases.end());
  }
  return words;
}

}  // namespace

/// Either the files in the binary, found when the first is asked for and each parsed then, or, where a folder added
/// some, profiles that all are parsed.
template <class Profile>
struct ProfileList<Profile>::State {
  struct Entry {
    std::string_view id;
    const EmbeddedFile* file;
    std::once_flag* parsed;
  };
  std::vector<FolderFile> files;  ///< that folders added; the last one of an id counts
  std::once_flag indexed;
  std::vector<Entry> entries;  ///< sorted by id; empty: all are parsed
  std::vector<std::once_flag> flags;
  std::vector<Profile> profiles;  ///< sorted by id; those of `entries` blank until parsed
  std::mutex mutex;               ///< of:
  std::map<std::string, std::vector<const Profile*>, std::less<>>
      naming;  ///< what was found, by id

  /// Finds the files; every door below begins with it.
  void index() {
    std::call_once(indexed, [this] {
      if (!profiles.empty()) return;
      const std::span<const EmbeddedFile> embedded = Kind<Profile>::files();
      flags = std::vector<std::once_flag>(embedded.size());
      for (const EmbeddedFile& file : embedded) {
        entries.push_back({scan_string(file.content, "id"), &file, &flags[entries.size()]});
      }
      std::sort(entries.begin(), entries.end(),
                [](const Entry& a, const Entry& b) { return a.id < b.id; });
      profiles.resize(entries.size());
    });
  }

  const Profile& get(std::size_t i) {
    if (entries.empty()) return profiles[i];
    std::call_once(*entries[i].parsed, [&] {
      const EmbeddedFile& file = *entries[i].file;
      profiles[i] = Kind<Profile>::parse(file.content, file.path, find_embedded_text<Profile>);
    });
    return profiles[i];
  }

  [[nodiscard]] std::string_view id_of(std::size_t i) const {
    return entries.empty() ? std::string_view(profiles[i].id) : entries[i].id;
  }
};

template <class Profile>
ProfileList<Profile>::ProfileList(std::shared_ptr<State> state) : state_(std::move(state)) {}

template <class Profile>
ProfileList<Profile> ProfileList<Profile>::embedded() {
  return ProfileList(std::make_shared<State>());
}

template <class Profile>
std::span<const Profile> ProfileList<Profile>::all() const {
  state_->index();
  for (std::size_t i = 0; i < state_->entries.size(); ++i) (void)state_->get(i);
  return state_->profiles;
}

template <class Profile>
std::vector<std::string> ProfileList<Profile>::ids() const {
  state_->index();
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < state_->profiles.size(); ++i) ids.emplace_back(state_->id_of(i));
  return ids;
}

template <class Profile>
const Profile* ProfileList<Profile>::find(std::string_view id) const {
  state_->index();
  for (std::size_t i = 0; i < state_->profiles.size(); ++i) {
    if (state_->id_of(i) == id) return &state_->get(i);
  }
  return nullptr;
}

template <class Profile>
std::vector<const Profile*> ProfileList<Profile>::naming(std::string_view id) const {
  constexpr std::size_t kMostRemembered = 256;
  state_->index();
  const std::lock_guard lock(state_->mutex);
  if (const auto known = state_->naming.find(id); known != state_->naming.end()) {
    return known->second;
  }
  std::vector<const Profile*> found;
  for (std::size_t i = 0; i < state_->profiles.size(); ++i) {
    if (state_->entries.empty() ||
        names<Profile>(state_->entries[i].file->content, id, kMostBases)) {
      found.push_back(&state_->get(i));
    }
  }
  if (state_->naming.size() >= kMostRemembered) state_->naming.clear();
  return state_->naming.emplace(id, found).first->second;
}

template <class Profile>
ProfileList<Profile> ProfileList<Profile>::with_folder(const std::filesystem::path& folder) const {
  const std::vector<FolderFile> added = read_folder_files(folder);
  auto next = std::make_shared<State>();
  next->files = state_->files;
  next->files.insert(next->files.end(), added.begin(), added.end());
  const FindSpecText find = [&next](std::string_view id) -> std::optional<SpecText> {
    for (auto file = next->files.rbegin(); file != next->files.rend(); ++file) {
      if (scan_string(*file->text, "id") == id) return SpecText{*file->text, file->where};
    }
    return find_embedded_text<Profile>(id);
  };
  std::map<std::string, Profile> profiles;
  for (const Profile& known : all()) profiles.emplace(known.id, known);
  std::map<std::string, std::string> seen;  // id to the folder's file
  for (const FolderFile& file : added) {
    Profile profile = Kind<Profile>::parse(*file.text, file.where, find);
    const auto [same, is_new] = seen.emplace(profile.id, file.where);
    if (!is_new) {
      throw InputError(file.where, fmt::format("id \"{}\", which {} has", profile.id, same->second),
                       "each id once in a folder");
    }
    profiles.insert_or_assign(profile.id, std::move(profile));
  }
  std::map<std::string, std::string> owners;  // spelling to id
  for (const auto& [id, profile] : profiles) {
    for (const std::string& word : spellings_of(profile)) {
      const auto [owner, is_new] = owners.emplace(word, id);
      if (is_new || owner->second == id) continue;
      const auto file = seen.find(seen.contains(id) ? id : owner->second);
      throw InputError(file == seen.end() ? folder.string() : file->second,
                       fmt::format("\"{}\", which names {} already", word, owner->second),
                       "a spelling of this one alone");
    }
  }
  for (auto& [id, profile] : profiles) next->profiles.push_back(std::move(profile));
  return ProfileList(std::move(next));
}

template class ProfileList<ChannelProfile>;
template class ProfileList<CollectiveLibrary>;
template class ProfileList<DataSetSpec>;
template class ProfileList<EngineProfile>;
template class ProfileList<FrameworkProfile>;
template class ProfileList<InputPipelineProfile>;
template class ProfileList<JobSpec>;
template class ProfileList<LauncherProfile>;
template class ProfileList<MlperfRound>;
template class ProfileList<PublishedSource>;
template class ProfileList<ReleaseHistory>;
template class ProfileList<StrategyProfile>;
template class ProfileList<TrainingSoftware>;

}  // namespace tracecast
