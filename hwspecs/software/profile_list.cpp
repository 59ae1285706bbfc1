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
#include "hwspecs/software/precision_recipe.hpp"
#include "hwspecs/software/published_source.hpp"
#include "hwspecs/software/release_history.hpp"
#include "hwspecs/software/strategy_profile.hpp"
#include "hwspecs/software/training_software.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/once.hpp"

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
std::span<const EmbeddedFile> precision_recipes();
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
struct Kind<PrecisionRecipe> {
  static constexpr auto files = embedded::precision_recipes;
  static PrecisionRecipe parse(std::string_view text, std::string_view where,
                               const FindSpecText& find) {
    return parse_precision_recipe(text, where, find);
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

/// What a list does whatever its profiles are, which it knows by their places: compiled once, not
/// once a kind.
class AnyList {
 public:
  explicit AnyList(std::span<const EmbeddedFile> binary) : binary_(binary) {}
  virtual ~AnyList() = default;

  /// Sorted. The first call finds the files, and every door of a list begins with it.
  [[nodiscard]] const std::vector<std::string>& ids();
  /// After it the profile at `i` is there.
  void parse(std::size_t i);
  [[nodiscard]] std::optional<std::size_t> find(std::string_view id);
  [[nodiscard]] std::vector<std::size_t> naming(std::string_view id, std::string_view stating);
  /// Makes this one, which is new, `before` and the files of `folder`.
  void extend(AnyList& before, const std::filesystem::path& folder);

 protected:
  virtual void resize(std::size_t size) = 0;
  virtual void parse_at(std::size_t i, std::string_view text, std::string_view where,
                        const FindSpecText& find) = 0;
  /// The profile at `i` becomes the one that `other`, of the same kind, has there.
  virtual void copy_at(std::size_t i, const AnyList& other) = 0;
  /// Its id, then its aliases.
  [[nodiscard]] virtual std::vector<std::string> spellings_at(std::size_t i) const = 0;
  /// Leaves the profiles at these places, in this order.
  virtual void keep(std::span<const std::size_t> places) = 0;

 private:
  [[nodiscard]] std::optional<SpecText> find_in_binary(std::string_view id) const;
  [[nodiscard]] std::optional<SpecText> find_text(std::string_view id) const;
  [[nodiscard]] bool names(std::string_view text, std::string_view id, int most_bases) const;
  void refuse_shared_spellings(const std::map<std::string, std::size_t>& places,
                               const std::map<std::string, std::string>& files,
                               const std::filesystem::path& folder) const;

  std::span<const EmbeddedFile> binary_;
  std::vector<FolderFile> files_;  ///< that folders added; the last one of an id counts
  Once indexed_;
  std::vector<std::string> ids_;              ///< sorted
  std::vector<const EmbeddedFile*> sources_;  ///< one per id; empty: all are parsed
  std::vector<Once> parsed_;
  std::mutex mutex_;  ///< of:
  std::map<std::string, std::vector<std::size_t>, std::less<>>
      naming_;  ///< what was found, by id and what is stated
};

const std::vector<std::string>& AnyList::ids() {
  indexed_([this] {
    if (!ids_.empty()) return;
    std::map<std::string, const EmbeddedFile*> files;
    for (const EmbeddedFile& file : binary_) {
      files.emplace(scan_string(file.content, "id"), &file);
    }
    for (const auto& [id, file] : files) {
      ids_.push_back(id);
      sources_.push_back(file);
    }
    parsed_ = std::vector<Once>(ids_.size());
    resize(ids_.size());
  });
  return ids_;
}

void AnyList::parse(std::size_t i) {
  if (sources_.empty()) return;
  parsed_[i]([&] {
    const EmbeddedFile& file = *sources_[i];
    parse_at(i, file.content, file.path,
             [this](std::string_view id) { return find_in_binary(id); });
  });
}

std::optional<std::size_t> AnyList::find(std::string_view id) {
  const std::vector<std::string>& known = ids();
  const auto at = std::lower_bound(known.begin(), known.end(), id);
  if (at == known.end() || *at != id) return std::nullopt;
  return static_cast<std::size_t>(at - known.begin());
}

std::vector<std::size_t> AnyList::naming(std::string_view id, std::string_view stating) {
  constexpr std::size_t kMostRemembered = 256;
  const std::size_t size = ids().size();
  const std::lock_guard lock(mutex_);
  const std::string key = fmt::format("{}\n{}", id, stating);
  if (const auto known = naming_.find(key); known != naming_.end()) return known->second;
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < size; ++i) {
    const bool may_speak =
        sources_.empty() || ((stating.empty() || states_field(sources_[i]->content, stating)) &&
                             names(sources_[i]->content, id, kMostBases));
    if (may_speak) found.push_back(i);
  }
  if (naming_.size() >= kMostRemembered) naming_.clear();
  return naming_.emplace(key, found).first->second;
}

std::optional<SpecText> AnyList::find_in_binary(std::string_view id) const {
  for (const EmbeddedFile& file : binary_) {
    if (scan_string(file.content, "id") == id)
      return SpecText{file.content, std::string(file.path)};
  }
  return std::nullopt;
}

std::optional<SpecText> AnyList::find_text(std::string_view id) const {
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    if (scan_string(*file->text, "id") == id) return SpecText{*file->text, file->where};
  }
  return find_in_binary(id);
}

/// Whether `id` stands between quotation marks in `text` or in a file of the binary that it builds
/// on.
bool AnyList::names(std::string_view text, std::string_view id, int most_bases) const {
  if (names_quoted(text, id)) return true;
  const std::string_view base = scan_string(text, "based_on");
  if (base.empty() || most_bases == 0) return false;
  const std::optional<SpecText> found = find_in_binary(base);
  return found && names(found->text, id, most_bases - 1);
}

void AnyList::extend(AnyList& before, const std::filesystem::path& folder) {
  const std::vector<FolderFile> added = read_folder_files(folder);
  files_ = before.files_;
  files_.insert(files_.end(), added.begin(), added.end());
  const std::size_t num_known = before.ids().size();
  resize(num_known + added.size());
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < num_known; ++i) {
    before.parse(i);
    copy_at(i, before);
    places.emplace(before.ids_[i], i);
  }
  std::map<std::string, std::string> seen;  // id to the folder's file
  std::size_t place = num_known;
  for (const FolderFile& file : added) {
    parse_at(place, *file.text, file.where, [this](std::string_view id) { return find_text(id); });
    const std::string id = spellings_at(place).front();
    const auto [same, is_new] = seen.emplace(id, file.where);
    if (!is_new) {
      throw InputError(file.where, fmt::format("id \"{}\", which {} has", id, same->second),
                       "each id once in a folder");
    }
    places.insert_or_assign(id, place++);
  }
  refuse_shared_spellings(places, seen, folder);
  std::vector<std::size_t> kept;
  for (const auto& [id, at] : places) {
    ids_.push_back(id);
    kept.push_back(at);
  }
  keep(kept);
}

void AnyList::refuse_shared_spellings(const std::map<std::string, std::size_t>& places,
                                      const std::map<std::string, std::string>& files,
                                      const std::filesystem::path& folder) const {
  std::map<std::string, std::string> owners;  // spelling to id
  for (const auto& [id, place] : places) {
    for (const std::string& word : spellings_at(place)) {
      const auto [owner, is_new] = owners.emplace(word, id);
      if (is_new || owner->second == id) continue;
      const auto file = files.find(files.contains(id) ? id : owner->second);
      throw InputError(file == files.end() ? folder.string() : file->second,
                       fmt::format("\"{}\", which names {} already", word, owner->second),
                       "a spelling of this one alone");
    }
  }
}

}  // namespace

template <class Profile>
struct ProfileList<Profile>::State : AnyList {
  State() : AnyList(Kind<Profile>::files()) {}

  void resize(std::size_t size) override { profiles.resize(size); }
  void parse_at(std::size_t i, std::string_view text, std::string_view where,
                const FindSpecText& find_other) override {
    profiles[i] = Kind<Profile>::parse(text, where, find_other);
  }
  void copy_at(std::size_t i, const AnyList& other) override {
    profiles[i] = static_cast<const State&>(other).profiles[i];
  }
  [[nodiscard]] std::vector<std::string> spellings_at(std::size_t i) const override {
    std::vector<std::string> words{profiles[i].id};
    if constexpr (requires { profiles[i].aliases; }) {
      words.insert(words.end(), profiles[i].aliases.begin(), profiles[i].aliases.end());
    }
    return words;
  }
  void keep(std::span<const std::size_t> places) override {
    std::vector<Profile> kept;
    for (const std::size_t place : places) kept.push_back(std::move(profiles[place]));
    profiles = std::move(kept);
  }

  std::vector<Profile> profiles;  ///< those in the binary blank until parsed
};

template <class Profile>
ProfileList<Profile>::ProfileList(std::shared_ptr<State> state) : state_(std::move(state)) {}

template <class Profile>
ProfileList<Profile> ProfileList<Profile>::embedded() {
  return ProfileList(std::make_shared<State>());
}

template <class Profile>
std::span<const Profile> ProfileList<Profile>::all() const {
  const std::size_t size = state_->ids().size();
  for (std::size_t i = 0; i < size; ++i) state_->parse(i);
  return state_->profiles;
}

template <class Profile>
std::vector<std::string> ProfileList<Profile>::ids() const {
  return state_->ids();
}

template <class Profile>
const Profile* ProfileList<Profile>::find(std::string_view id) const {
  const std::optional<std::size_t> at = state_->find(id);
  if (!at) return nullptr;
  state_->parse(*at);
  return &state_->profiles[*at];
}

template <class Profile>
std::vector<const Profile*> ProfileList<Profile>::naming(std::string_view id,
                                                         std::string_view stating) const {
  std::vector<const Profile*> found;
  for (const std::size_t at : state_->naming(id, stating)) {
    state_->parse(at);
    found.push_back(&state_->profiles[at]);
  }
  return found;
}

template <class Profile>
ProfileList<Profile> ProfileList<Profile>::with_folder(const std::filesystem::path& folder) const {
  auto next = std::make_shared<State>();
  next->extend(*state_, folder);
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
template class ProfileList<PrecisionRecipe>;
template class ProfileList<PublishedSource>;
template class ProfileList<ReleaseHistory>;
template class ProfileList<StrategyProfile>;
template class ProfileList<TrainingSoftware>;

}  // namespace tracecast
