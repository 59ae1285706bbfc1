#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "hwspecs/loaders/library_state.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// By id or, where there are any, alias, in lower case; nullptr: none.
template <class Profile>
const Profile* find_by_id(const ProfileList<Profile>& list, std::string_view word) {
  const std::string wanted = to_lower(word);
  if (const Profile* found = list.find(wanted)) return found;
  if constexpr (requires(Profile profile) { profile.aliases; }) {
    for (const Profile* profile : list.naming(wanted)) {
      const auto& names = profile->aliases;
      if (std::find(names.begin(), names.end(), wanted) != names.end()) return profile;
    }
  }
  return nullptr;
}

/// The same, or InputError about `where`.
template <class Profile>
const Profile& must_find(const ProfileList<Profile>& list, std::string_view word,
                         std::string_view where) {
  if (const Profile* found = find_by_id(list, word)) return *found;
  throw InputError(where, fmt::format("\"{}\"", word), describe_choices(word, list.ids()));
}

/// Which of `all` has the longest of the words that occur in a description, and where that word
/// ends in it.
template <class Profile>
struct WordInText {
  const Profile* profile = nullptr;
  std::size_t end = 0;
};
template <class Profile>
WordInText<Profile> find_by_word(std::span<const Profile> all, std::string_view description) {
  const std::string lower = to_lower(description);
  WordInText<Profile> found;
  std::size_t longest = 0;
  for (const Profile& profile : all) {
    for (const std::string& word : profile.words) {
      const std::size_t at = word.size() > longest ? lower.find(word) : std::string::npos;
      if (at == std::string::npos) continue;
      longest = word.size();
      found = {&profile, at + word.size()};
    }
  }
  return found;
}

/// {1, 2} of "1.2"; {0, 0} when it is none.
std::pair<int, int> version_of(std::string_view text) {
  const std::size_t dot = text.find('.');
  const auto major = parse_integer(text.substr(0, dot));
  const auto minor =
      dot == std::string_view::npos ? std::nullopt : parse_integer(text.substr(dot + 1));
  return {static_cast<int>(major.value_or(0)), static_cast<int>(minor.value_or(0))};
}

/// '-', '+', ' ' and '.' are '_'.
std::string folded(std::string_view word) {
  std::string result = to_lower(word);
  for (char& c : result) {
    if (c == '-' || c == '+' || c == ' ' || c == '.') c = '_';
  }
  return result;
}

/// When the release of a framework came out that the words of a job state, where a list of its
/// releases says so (hwspecs/release).
std::optional<std::string> month_of_release(std::span<const ReleaseHistory> histories,
                                            const FrameworkProfile& framework,
                                            std::string_view version) {
  const VersionNumber v = parse_version(version);
  std::optional<std::string> month;
  if (v.is_container || v.major == 0) return month;
  for (const ReleaseHistory& history : histories) {
    if (history.id != family_of(framework)) continue;
    for (const ReleaseHistory::Release& release : history.releases) {
      const VersionNumber from = parse_version(fmt::format("{:.1f}", release.version));
      if (std::pair(v.major, v.minor) >= std::pair(from.major, from.minor)) month = release.month;
    }
  }
  return month;
}

}  // namespace

// ---- Frameworks ----

const FrameworkProfile& SpecLibrary::find_framework(std::string_view id) const {
  return must_find(state_->frameworks, id, "--framework");
}

const FrameworkProfile& SpecLibrary::find_compiled_framework(std::string_view id,
                                                             std::string_view name) const {
  const FrameworkProfile& plain = find_framework(id);
  const auto is_compiled = [&](const FrameworkProfile& profile) {
    return profile.compiler && profile.compiler->name == name;
  };
  for (const FrameworkProfile* profile : state_->frameworks.naming(plain.id)) {
    if (is_compiled(*profile) && profile->compiler->framework == plain.id) return *profile;
  }
  std::string having;
  for (const FrameworkProfile& profile : frameworks()) {
    if (is_compiled(profile)) having += (having.empty() ? "" : ", ") + profile.compiler->framework;
  }
  throw InputError("--framework", fmt::format("{} with {}", plain.id, name),
                   having.empty() ? "a framework with that compiler" : "one of: " + having);
}

const FrameworkProfile& SpecLibrary::find_framework(std::string_view id,
                                                    std::optional<std::pair<int, int>> version,
                                                    std::string_view date,
                                                    bool in_container) const {
  const FrameworkProfile& current = find_framework(id);
  if (in_container) {
    for (const FrameworkProfile* profile : state_->frameworks.naming(current.id)) {
      if (profile->container_of == current.id) return *profile;
    }
  }
  const FrameworkProfile* best = &current;
  // A profile has an era of its own or none, never that of the one it is based on.
  for (const FrameworkProfile* profile : state_->frameworks.naming(current.id, "era")) {
    if (!profile->era || profile->era->framework != current.id) continue;
    const bool is_before = version ? *version < version_of(profile->era->version)
                                   : !date.empty() && date < profile->era->date;
    if (is_before == profile->era->is_newest) continue;
    const bool is_nearer =
        best == &current || (profile->era->is_newest ? profile->era->date > best->era->date
                                                     : profile->era->date < best->era->date);
    if (is_nearer) best = profile;
  }
  return *best;
}

const FrameworkProfile& SpecLibrary::find_framework(std::string_view id,
                                                    const SoftwareWords& words) const {
  const VersionNumber v = parse_version(words.version);
  const bool is_known = !v.is_container && (v.major > 0 || v.minor > 0);
  return find_framework(id, is_known ? std::optional(std::pair(v.major, v.minor)) : std::nullopt,
                        words.date.substr(0, words.date.find("..")), v.is_container);
}

SoftwareDefaults SpecLibrary::defaults_of(const FrameworkProfile& framework,
                                          const SoftwareWords& words, const GpuSpec& gpu) const {
  const auto holds = [&](std::optional<SinceVersion> FrameworkProfile::*rule) {
    const std::optional<SinceVersion>& own = framework.*rule;
    const std::optional<SinceVersion>& since = own ? own : find_framework("generic").*rule;
    return since && since->holds(words.version, words.date, gpu);
  };
  SoftwareDefaults defaults;
  defaults.fp32_runs_as_tf32 = gpu.find_peak(Precision::Tf32, MathUnit::TensorCore).has_value() &&
                               holds(&FrameworkProfile::tf32);
  defaults.tf32_spares_gemms = holds(&FrameworkProfile::tf32_spares_gemms);
  defaults.fuses_gemm_bias = framework.fusion.gemm_bias || holds(&FrameworkProfile::gemm_bias);
  defaults.groups_attention =
      !framework.grouped_attention || holds(&FrameworkProfile::grouped_attention);
  defaults.early_gemms = !holds(&FrameworkProfile::resident_gemms);
  defaults.early_attention =
      framework.warp_group_attention.has_value() && !holds(&FrameworkProfile::warp_group_attention);
  defaults.chooses_image_layout =
      framework.chooses_image_layout.has_value() && holds(&FrameworkProfile::chooses_image_layout);
  for (const ComposedOp& op : framework.composed_ops) {
    if (!op.fused.holds(words.version, words.date, gpu)) defaults.composed.push_back(op.kernels);
  }
  for (const FusedSince& fused : framework.fused_since) {
    if (!fused.since.holds(words.version, words.date, gpu)) {
      defaults.stepwise_attention.push_back(fused.family);
    }
  }
  const std::optional<double> stated = find_cudnn_version(words.version);
  defaults.states_cudnn = stated.has_value();
  defaults.cudnn_version = stated.value_or(framework.convolutions.cudnn_version);
  const std::size_t range = words.date.find("..");
  const std::string last(range == std::string_view::npos ? words.date
                                                         : words.date.substr(range + 2));
  const std::string month =
      month_of_container(words.version)
          .value_or(month_of_release(releases(), framework, words.version).value_or(last));
  if (!stated && !month.empty()) {
    // A container ships the library of its month, whatever the framework's own binaries link.
    const double newest = find_releases("cudnn").newest(month);
    defaults.cudnn_version = parse_version(words.version).is_container
                                 ? newest
                                 : std::min(framework.convolutions.cudnn_version, newest);
  } else if (!stated && words.version.empty() && gpu.architecture >= Architecture::Ampere) {
    // What runs there today was built after the release that the profile knows.
    defaults.cudnn_version =
        std::max(framework.convolutions.cudnn_version, find_releases("cudnn").newest("9999"));
  }
  return defaults;
}

const ReleaseHistory& SpecLibrary::find_releases(std::string_view id) const {
  return must_find(state_->releases, id, "release");
}

const TrainingSoftware& SpecLibrary::find_training_software(std::string_view id) const {
  return must_find(state_->training_software, id, "--software");
}

const PrecisionRecipe* SpecLibrary::find_precision_recipe_or_null(std::string_view id) const {
  return find_by_id(state_->recipes, id);
}

const PrecisionRecipe* SpecLibrary::find_precision_recipe_in(std::string_view description) const {
  return find_by_word(precision_recipes(), description).profile;
}

// ---- Many GPUs ----

const StrategyProfile& SpecLibrary::find_strategy(std::string_view id) const {
  return must_find(state_->strategies, id, "--strategy");
}

const StrategyProfile* SpecLibrary::find_strategy_in(std::string_view description) const {
  return find_by_word(strategies(), description).profile;
}

const LinkSpec* SpecLibrary::find_link_in(std::string_view description) const {
  return find_by_word(links().all(), description).profile;
}

const StrategyProfile& SpecLibrary::usual_strategy(std::string_view framework,
                                                   std::string_view date,
                                                   bool several_nodes) const {
  const StrategyProfile* found = nullptr;
  std::string_view until;  // the earliest end after `date`; empty: none yet
  for (const StrategyProfile* profile : state_->strategies.naming(framework)) {
    for (const UsualStrategy& usual : profile->usual) {
      if (usual.framework != framework) continue;
      if (!(several_nodes ? usual.several_nodes : usual.one_node)) continue;
      const std::string_view end = usual.before_date;
      if (!end.empty() && (date.empty() || date >= end)) continue;
      if (!found || (!end.empty() && (until.empty() || end < until))) {
        found = profile;
        until = end;
      }
    }
  }
  return found ? *found : find_strategy("ddp");
}

const CollectiveLibrary& SpecLibrary::find_collective_library(std::string_view library,
                                                              std::string_view version,
                                                              std::string_view date) const {
  const std::string wanted = to_lower(library);
  std::vector<const CollectiveLibrary*> known = state_->collectives.naming(wanted);
  std::erase_if(known, [&](const CollectiveLibrary* l) { return l->library != wanted; });
  if (known.empty()) {
    std::vector<std::string> names;
    for (const CollectiveLibrary& l : collective_libraries()) {
      if (names.empty() || names.back() != l.library) names.push_back(l.library);
    }
    throw InputError("collective library", fmt::format("\"{}\"", library),
                     describe_choices(library, names));
  }
  const auto version_number = [](std::string_view text) {
    return numbers_in_order(text, '.', "2.4");
  };
  const auto month = [](std::string_view text) { return numbers_in_order(text, '-', "2019-01"); };
  std::sort(known.begin(), known.end(), [&](const auto* a, const auto* b) {
    return version_number(a->from_version) < version_number(b->from_version);
  });
  if (version.empty() && date.empty()) return *known.back();
  const bool by_version = !version.empty();
  const auto asked = by_version ? version_number(version) : month(date);
  const CollectiveLibrary* found = known.front();
  for (const CollectiveLibrary* l : known) {
    const auto from = by_version ? version_number(l->from_version) : month(l->from_date);
    if (from <= asked) found = l;
  }
  return *found;
}

const CollectiveLibrary* SpecLibrary::find_collective_library_in(
    std::string_view description) const {
  const auto [library, end] = find_by_word(collective_libraries(), description);
  if (library == nullptr) return nullptr;
  std::string_view version = description.substr(end);
  version.remove_prefix(std::min(version.find_first_of("0123456789"), version.size()));
  version = version.substr(0, version.find_first_not_of("0123456789."));
  return &find_collective_library(library->library, version);
}

const ChannelProfile& SpecLibrary::find_channel(std::string_view word) const {
  const std::string wanted = folded(word);
  std::vector<std::string> words;
  for (const ChannelProfile& channel : channels()) {
    if (folded(channel.id) == wanted) return channel;
    for (const std::string& alias : channel.aliases) {
      if (folded(alias) == wanted) return channel;
      words.push_back(alias);
    }
    words.push_back(channel.id);
  }
  throw InputError("channel", '"' + std::string(word) + '"', describe_choices(word, words));
}

const LauncherProfile& SpecLibrary::find_launcher(std::string_view id) const {
  return must_find(state_->launchers, id, "launcher");
}

// ---- Data and programs ----

const InputPipelineProfile& SpecLibrary::find_input_pipeline(std::string_view id) const {
  return must_find(state_->pipelines, id, "--pipeline");
}

const InputPipelineProfile& SpecLibrary::input_pipeline_of(std::string_view framework,
                                                           std::string_view version) const {
  const std::string lower_version = to_lower(version);
  const InputPipelineProfile* usual = nullptr;
  for (const InputPipelineProfile* profile : state_->pipelines.naming(framework)) {
    const auto& names = profile->frameworks;
    if (std::find(names.begin(), names.end(), framework) == names.end()) continue;
    if (profile->version_word.empty()) {
      usual = profile;
    } else if (lower_version.find(profile->version_word) != std::string::npos) {
      return *profile;
    }
  }
  return usual ? *usual : find_input_pipeline("generic");
}

const DataSetSpec& SpecLibrary::find_data_set(std::string_view id) const {
  if (const DataSetSpec* found = find_by_id(state_->data_sets, id)) return *found;
  std::vector<std::string> known{"synthetic", "memory", "real"};
  for (std::string& name : data_set_ids()) known.push_back(std::move(name));
  throw InputError("--data", fmt::format("\"{}\"", id), describe_choices(id, known));
}

const JobSpec* SpecLibrary::find_job_spec_or_null(std::string_view id) const {
  return find_by_id(state_->jobs, id);
}

const JobSpec& SpecLibrary::find_job_spec(std::string_view id) const {
  return must_find(state_->jobs, id, "job");
}

// ---- Published measurements ----

const MlperfRound* SpecLibrary::find_mlperf_round(std::string_view id) const {
  return find_by_id(state_->mlperf, id);
}

const MlperfRound& SpecLibrary::newest_mlperf_round() const {
  return *std::max_element(
      mlperf_rounds().begin(), mlperf_rounds().end(),
      [](const MlperfRound& a, const MlperfRound& b) { return a.month < b.month; });
}

}  // namespace tracecast
