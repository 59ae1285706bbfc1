#include "hwspecs/software/profile_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "hwspecs/channel.hpp"
#include "hwspecs/collective_library.hpp"
#include "hwspecs/loaders/folder_files.hpp"
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
struct Kind<LauncherProfile> : Standalone<LauncherProfile, parse_launcher, embedded::launchers> {};
template <>
struct Kind<JobSpec> : Standalone<JobSpec, parse_job_spec, embedded::job_specs> {};
template <>
struct Kind<PublishedSource>
    : Standalone<PublishedSource, parse_published_source, embedded::published_sources> {};
template <>
struct Kind<ReleaseHistory>
    : Standalone<ReleaseHistory, parse_release_history, embedded::release_histories> {};

/// Where a quoted string that begins at `open` ends: its closing quote, or the end of the text.
std::size_t end_of_string(std::string_view text, std::size_t open) {
  std::size_t at = open + 1;
  while (at < text.size() && text[at] != text[open]) at += text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

/// The id that a file states, without parsing it: the string after the word "id" outside of braces, strings and comments.
std::string_view scan_id(std::string_view text) {
  int depth = 0;
  std::string_view word;  // the last one
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (c == '"' || c == '\'') {
      const std::size_t end = end_of_string(text, at);
      if (depth == 0 && word == "id") return text.substr(at + 1, end - at - 1);
      at = end;
    } else if (c == '{' || c == '}') {
      depth += c == '{' ? 1 : -1;
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      std::size_t end = at;
      while (end < text.size() &&
             (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) {
        ++end;
      }
      word = text.substr(at, end - at);
      at = end - 1;
    }
  }
  return {};
}

template <class Profile>
std::optional<SpecText> find_embedded(std::string_view id) {
  for (const EmbeddedFile& file : Kind<Profile>::files()) {
    if (scan_id(file.content) == id) return SpecText{file.content, std::string(file.path)};
  }
  return std::nullopt;
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

template <class Profile>
struct ProfileList<Profile>::State {
  std::vector<FolderFile> files;  ///< that folders added; the last one of an id counts
  std::once_flag parsed;
  std::vector<Profile> profiles;  ///< sorted by id

  void parse_embedded() {
    for (const EmbeddedFile& file : Kind<Profile>::files()) {
      profiles.push_back(Kind<Profile>::parse(file.content, file.path, find_embedded<Profile>));
    }
    std::sort(profiles.begin(), profiles.end(),
              [](const Profile& a, const Profile& b) { return a.id < b.id; });
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
  std::call_once(state_->parsed, [&] {
    if (state_->profiles.empty()) state_->parse_embedded();
  });
  return state_->profiles;
}

template <class Profile>
std::vector<std::string> ProfileList<Profile>::ids() const {
  std::vector<std::string> ids;
  for (const Profile& profile : all()) ids.push_back(profile.id);
  return ids;
}

template <class Profile>
ProfileList<Profile> ProfileList<Profile>::with_folder(const std::filesystem::path& folder) const {
  const std::vector<FolderFile> added = read_folder_files(folder);
  auto next = std::make_shared<State>();
  next->files = state_->files;
  next->files.insert(next->files.end(), added.begin(), added.end());
  const FindSpecText find = [&next](std::string_view id) -> std::optional<SpecText> {
    for (auto file = next->files.rbegin(); file != next->files.rend(); ++file) {
      if (scan_id(*file->text) == id) return SpecText{*file->text, file->where};
    }
    return find_embedded<Profile>(id);
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
