#include "sim/job/hardware.hpp"

#include <array>
#include <filesystem>
#include <optional>
#include <utility>

#include "hwspecs/parameter_access.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "sim/job/hardware_factor.hpp"
#include "sim/job/sha256.hpp"

namespace tracecast {
namespace {

struct Setting {
  std::string path, value;
};
Setting split_setting(const std::string& text) {
  const std::size_t at = text.find('=');
  if (at == std::string::npos || at == 0) {
    throw InputError("--set", "\"" + text + "\"", "PATH=VALUE such as cost.memory.l2_share=0.5");
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

double number_of(const Setting& setting) {
  const auto value = parse_double(setting.value);
  if (!value) throw InputError("--set " + setting.path, "\"" + setting.value + "\"", "a number");
  return *value;
}

/// The host costs that a person can measure and set; all in microseconds. And, 0 or 1, whether the
/// host waits for the GPU before each step, as a loop does that copies from pageable memory, and
/// whether fp32 code may run as TF32.
FrameworkProfile with_setting(FrameworkProfile framework, const Setting& setting) {
  const std::array<std::pair<const char*, Seconds*>, 6> fields{{
      {"dispatch_us", &framework.host.dispatch_per_op},
      {"backward_dispatch_us", &framework.host.dispatch_per_backward_op},
      {"optimizer_dispatch_us", &framework.host.dispatch_per_optimizer_op},
      {"library_call_us", &framework.host.dispatch_per_library_call},
      {"launch_us", &framework.host.launch_per_kernel},
      {"step_overhead_us", &framework.host.step_overhead},
  }};
  std::vector<std::string> names;
  for (const auto& [name, field] : fields) {
    if (setting.path == name) {
      const double us = number_of(setting);
      if (!(us >= 0 && us <= 1e6)) {
        throw InputError("--set framework." + setting.path, setting.value, "0 to 1000000 us");
      }
      *field = Seconds(us * 1e-6);
      return framework;
    }
    names.emplace_back(name);
  }
  const std::array<std::pair<const char*, bool*>, 2> flags{
      {{"synchronizes_each_step", &framework.host.synchronizes_each_step},
       {"tf32", &framework.precision.allows_tf32}}};
  for (const auto& [name, field] : flags) {
    names.emplace_back(name);
    if (setting.path != name) continue;
    const double flag = number_of(setting);
    if (flag != 0 && flag != 1) throw InputError("--set " + setting.path, setting.value, "0 or 1");
    *field = flag == 1;
    return framework;
  }
  throw InputError("--set framework", "\"" + setting.path + "\"",
                   describe_choices(setting.path, names));
}

GpuSharing with_setting(GpuSharing sharing, const Setting& setting) {
  const double us = number_of(setting);
  const bool is_slice = setting.path == "time_slice_us", is_hold = setting.path == "idle_hold_us";
  if (!is_slice && !is_hold && setting.path != "context_switch_us") {
    const std::vector<std::string> names{"time_slice_us", "context_switch_us", "idle_hold_us"};
    throw InputError("--set sharing", "\"" + setting.path + "\"",
                     describe_choices(setting.path, names));
  }
  if (!(us >= (is_slice ? 1 : 0) && us <= 1e5)) {
    throw InputError("--set sharing." + setting.path, setting.value,
                     is_slice ? "1 to 100000 us" : "0 to 100000 us");
  }
  (is_slice  ? sharing.time_slice
   : is_hold ? sharing.idle_hold
             : sharing.context_switch) = Seconds(us * 1e-6);
  return sharing;
}

}  // namespace

/// What was asked for, in order.
struct Hardware::Recipe {
  std::vector<std::filesystem::path> folders;
  std::filesystem::path profile;     ///< empty: `given`
  std::optional<CostProfile> given;  ///< nothing: the one in the binary
  std::vector<std::string> settings;
};

struct Hardware::State {
  explicit State(Recipe asked) : recipe(std::move(asked)), specs(SpecLibrary::embedded()) {
    for (const std::filesystem::path& folder : recipe.folders) specs = specs.with_folder(folder);
    sharing = specs.gpu_sharing();
    load_profile();
    for (const std::string& text : recipe.settings) set(text);
  }

  void load_profile() {
    if (recipe.profile.empty()) {
      cost = recipe.given ? *recipe.given : specs.cost();
      const auto hash = [](const CostProfile& profile) {
        std::string text;
        for (const ProfileParameter& p : profile.parameters) {
          text += p.name + '=' + std::to_string(p.value) + '@' + p.data_set + '\n';
        }
        return sha256(text);
      };
      // Of the one in the binary only where it is asked for.
      cost_record = {"cost_profile", cost.id,
                     recipe.given ? Hash(hash(cost))
                                  : Hash([library = specs, hash] { return hash(library.cost()); })};
      return;
    }
    const std::string text = read_file(recipe.profile, 1 << 20);
    cost = parse_cost_profile(text, recipe.profile.string());
    cost_record = {"cost_profile", recipe.profile.filename().string(), sha256(text)};
    for (const ProfileDataSet& set : cost.data_sets) {
      if (set.key == kOlderFile)
        factors.push_back("cost profile " + recipe.profile.filename().string() +
                          ", saved by an older version: " + set.rows +
                          "; calibrate again to measure them");
    }
  }

  void set(const std::string& text) {
    const Setting setting = split_setting(text);
    const std::size_t dot = setting.path.find('.');
    const std::string box = setting.path.substr(0, dot);
    const std::string rest = dot == std::string::npos ? "" : setting.path.substr(dot + 1);
    if (box == "cost") {
      cost = with_parameter(std::move(cost), rest, number_of(setting));
      if (sold) sold->cost = with_parameter(std::move(sold->cost), rest, number_of(setting));
    } else if (box == "framework") {
      framework_settings.push_back({rest, setting.value});
      (void)with_setting(FrameworkProfile{}, framework_settings.back());
    } else if (box == "sharing") {
      sharing = with_setting(sharing, {rest, setting.value});
    } else if (is_hardware_factor(setting.path)) {
      if (!sold && box == "gpu") sold = Sold{specs, cost};
      specs = with_hardware_factor(specs, setting.path, setting.value);
      cost = with_hardware_factor(std::move(cost), setting.path, setting.value);
      factors.push_back(setting.path + " " + setting.value + " of what the specs say");
    } else {
      throw InputError("--set", "\"" + setting.path + "\"",
                       "a path that begins with cost., framework., sharing., gpu. or link.");
    }
  }

  [[nodiscard]] FrameworkProfile with_settings(FrameworkProfile framework) const {
    for (const Setting& setting : framework_settings)
      framework = with_setting(std::move(framework), setting);
    return framework;
  }

  Recipe recipe;
  SpecLibrary specs;
  CostProfile cost;
  /// Without factors of hardware; nothing where there are none.
  struct Sold {
    SpecLibrary specs;
    CostProfile cost;
  };
  std::optional<Sold> sold;
  InputRecord cost_record;
  GpuSharing sharing;
  std::vector<std::string> factors;
  std::vector<Setting> framework_settings;  ///< applied to each framework profile taken
};

Hardware::Hardware(Recipe recipe) : state_(std::make_shared<const State>(std::move(recipe))) {}

Hardware Hardware::embedded() { return Hardware(Recipe{}); }

Hardware Hardware::with_folder(const std::filesystem::path& folder) const {
  Recipe recipe = state_->recipe;
  recipe.folders.push_back(folder);
  return Hardware(std::move(recipe));
}

Hardware Hardware::with_profile(const std::filesystem::path& file) const {
  Recipe recipe = state_->recipe;
  recipe.profile = file;
  return Hardware(std::move(recipe));
}

Hardware Hardware::with_profile(CostProfile profile) const {
  Recipe recipe = state_->recipe;
  recipe.profile.clear();
  recipe.given = std::move(profile);
  return Hardware(std::move(recipe));
}

Hardware Hardware::with(std::string_view setting) const {
  Recipe recipe = state_->recipe;
  recipe.settings.emplace_back(setting);
  return Hardware(std::move(recipe));
}

const SpecLibrary& Hardware::specs() const { return state_->specs; }
const GpuCatalog& Hardware::gpus() const { return state_->specs.gpus(); }
const CpuCatalog& Hardware::cpus() const { return state_->specs.cpus(); }
const DiskCatalog& Hardware::disks() const { return state_->specs.disks(); }
const LinkCatalog& Hardware::links() const { return state_->specs.links(); }
const MachineCatalog& Hardware::machines() const { return state_->specs.machines(); }
const CostProfile& Hardware::cost() const { return state_->cost; }
const GpuSpec* Hardware::find_sold(const std::string& gpu) const {
  return state_->sold ? &state_->sold->specs.gpus().find(gpu) : nullptr;
}
const CostProfile& Hardware::cost_of_sold() const {
  return state_->sold ? state_->sold->cost : state_->cost;
}
const InputRecord& Hardware::cost_record() const { return state_->cost_record; }
const GpuSharing& Hardware::sharing() const { return state_->sharing; }
const std::vector<std::string>& Hardware::factors() const { return state_->factors; }

FrameworkProfile Hardware::framework(std::string_view id) const {
  return state_->with_settings(state_->specs.find_framework(id));
}

FrameworkProfile Hardware::with_settings(FrameworkProfile framework) const {
  return state_->with_settings(std::move(framework));
}

FrameworkProfile Hardware::framework(const Software& software) const {
  if (software.xla) {
    return state_->with_settings(state_->specs.find_compiled_framework(software.framework, "xla"));
  }
  return state_->with_settings(state_->specs.find_framework(
      software.framework, {.version = software.version, .date = software.date}));
}

FrameworkProfile Hardware::framework_of(const TrainingSoftware& program, const SoftwareWords& words,
                                        const GpuSpec& gpu) const {
  FrameworkProfile profile = framework(program.framework);
  const SoftwareDefaults defaults = state_->specs.defaults_of(profile, words, gpu);
  profile.kernels.early_gemms = defaults.early_gemms;
  profile.kernels.early_attention = defaults.early_attention;
  return profile;
}

Hardware load_hardware(const SourceOptions& options) {
  Hardware::Recipe recipe{
      .folders = {}, .profile = options.profile, .given = {}, .settings = options.sets};
  if (!options.hwspecs.empty()) recipe.folders.emplace_back(options.hwspecs);
  return Hardware(std::move(recipe));
}

std::string hash_of(const std::vector<SpecValue>& values) {
  std::string text;
  for (const SpecValue& v : values) text += v.field + '=' + v.value + '@' + v.source + '\n';
  return sha256(text);
}

}  // namespace tracecast
