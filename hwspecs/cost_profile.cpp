#include "hwspecs/cost_profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "hwspecs/earlier_parameter_names.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/parameter_access.hpp"
#include "hwspecs/proto/cost_profile.pb.h"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> cost_profiles();
}
namespace {

constexpr std::string_view kForms[] = {
    "gemm",          "convolution", "streaming",   "reduction", "tensor_core",
    "recurrent",     "tensor_gemm", "prefill",     "decode",    "latent_prefill",
    "latent_decode", "experts",     "quantization"};

/// A parameter by name: where it lives and what values make sense.
struct ParameterSlot {
  std::string name;
  std::function<double&(CostProfile&)> find;
  double low, high;
  bool is_factor = false;  ///< may be missing: what it multiplies stays as it is
  bool is_prior = false;   ///< may be missing: no fit moves it, the prior holds
};

std::vector<ParameterSlot> make_slots() {
  std::vector<ParameterSlot> slots;
  const auto add = [&](std::string name, double low, double high, auto member) {
    slots.push_back({std::move(name), member, low, high});
  };
  const auto add_by_architecture = [&](const std::string& name, double low, double high,
                                       auto member) {
    for (std::size_t i = 0; i < ByArchitecture::kCount; ++i) {
      slots.push_back({fmt::format("{}.{}", name, to_string(static_cast<Architecture>(i))),
                       [=](CostProfile& p) -> double& { return member(p).values[i]; }, low, high});
    }
  };
  add("clock.consumer_boost", 1.0, 1.3,
      [](CostProfile& p) -> double& { return p.clock.consumer_boost; });
  add("clock.ceiling", 0.3, 1.2, [](CostProfile& p) -> double& { return p.clock.ceiling; });
  add("clock.knee_w_per_tflops", 1, 100,
      [](CostProfile& p) -> double& { return p.clock.knee_w_per_tflops; });
  add("clock.half_factor", 0.2, 1.0, [](CostProfile& p) -> double& { return p.clock.half_factor; });
  add("clock.dense_factor", 0.3, 1.0,
      [](CostProfile& p) -> double& { return p.clock.dense_factor; });
  add("clock.power_exponent", 1, 3,
      [](CostProfile& p) -> double& { return p.clock.power_exponent; });
  add("clock.burst_gain", 0, 2, [](CostProfile& p) -> double& { return p.clock.burst_gain; });
  add("clock.burst_span_ms", 0.1, 1000,
      [](CostProfile& p) -> double& { return p.clock.burst_span_ms; });

  add("gemm.issue", 0, 10, [](CostProfile& p) -> double& { return p.gemm.issue; });
  add("gemm.tile_overhead", 0, 2, [](CostProfile& p) -> double& { return p.gemm.tile_overhead; });
  add("gemm.small_thread_tile_overhead", 0, 10,
      [](CostProfile& p) -> double& { return p.gemm.small_thread_tile_overhead; });
  add("gemm.prologue_steps", 0, 500,
      [](CostProfile& p) -> double& { return p.gemm.prologue_steps; });
  add("gemm.wave_quantization", 0, 1,
      [](CostProfile& p) -> double& { return p.gemm.wave_quantization; });
  add("gemm.step_base_cycles", 0, 2000,
      [](CostProfile& p) -> double& { return p.gemm.step_base_cycles; });
  add("gemm.step_latencies", 0, 200,
      [](CostProfile& p) -> double& { return p.gemm.step_latencies; });

  add("convolution.assembled_issue", 0, 10,
      [](CostProfile& p) -> double& { return p.convolution.assembled_issue; });
  add("convolution.compiled_issue", 0, 10,
      [](CostProfile& p) -> double& { return p.convolution.compiled_issue; });
  add("convolution.winograd_issue", 0, 2,
      [](CostProfile& p) -> double& { return p.convolution.winograd_issue; });
  add("convolution.spectra_issue", 0, 10,
      [](CostProfile& p) -> double& { return p.convolution.spectra_issue; });
  add("convolution.tile_overhead", 0, 2,
      [](CostProfile& p) -> double& { return p.convolution.tile_overhead; });
  add("convolution.prologue_cycles", 0, 100000,
      [](CostProfile& p) -> double& { return p.convolution.prologue_cycles; });
  add("convolution.winograd_step_cycles", 1, 4000,
      [](CostProfile& p) -> double& { return p.convolution.winograd_step_cycles; });
  add("convolution.backward_data", 0.2, 1.5,
      [](CostProfile& p) -> double& { return p.convolution.backward_data; });
  add("convolution.scatter_bytes", 4, 400,
      [](CostProfile& p) -> double& { return p.convolution.scatter_bytes; });
  add("convolution.backward_weights", 0.2, 1.5,
      [](CostProfile& p) -> double& { return p.convolution.backward_weights; });
  add("convolution.pointwise_backward_weights", 0.2, 1.5,
      [](CostProfile& p) -> double& { return p.convolution.pointwise_backward_weights; });
  add("convolution.winograd_gemm", 0.2, 1.5,
      [](CostProfile& p) -> double& { return p.convolution.winograd_gemm; });
  add("convolution.explicit_gemm", 0.1, 1.5,
      [](CostProfile& p) -> double& { return p.convolution.explicit_gemm; });
  add("convolution.direct_cycles", 0.001, 10,
      [](CostProfile& p) -> double& { return p.convolution.direct_cycles; });
  add("convolution.old_kernels", 0.1, 1.5,
      [](CostProfile& p) -> double& { return p.convolution.old_kernels; });
  add("convolution.transform_cost", 0.1, 50,
      [](CostProfile& p) -> double& { return p.convolution.transform_cost; });

  add_by_architecture("tensor.convolution", 0.05, 1.2,
                      [](CostProfile& p) -> ByArchitecture& { return p.tensor.convolution; });
  add("tensor.backward_data", 0.05, 2,
      [](CostProfile& p) -> double& { return p.tensor.backward_data; });
  add("tensor.backward_weights", 0.05, 2,
      [](CostProfile& p) -> double& { return p.tensor.backward_weights; });
  add("tensor.step_cycles", 0.1, 500,
      [](CostProfile& p) -> double& { return p.tensor.step_cycles; });
  add("tensor.prologue_steps", 0, 500,
      [](CostProfile& p) -> double& { return p.tensor.prologue_steps; });
  add("tensor.tile_overhead", 0, 5,
      [](CostProfile& p) -> double& { return p.tensor.tile_overhead; });

  add("memory.efficiency", 0.2, 1.0, [](CostProfile& p) -> double& { return p.memory.efficiency; });
  add("memory.old_efficiency", 0.2, 1.0,
      [](CostProfile& p) -> double& { return p.memory.old_efficiency; });
  add("memory.l2_share", 0, 2, [](CostProfile& p) -> double& { return p.memory.l2_share; });
  add("memory.l2_bytes_per_clock", 1, 512,
      [](CostProfile& p) -> double& { return p.memory.l2_bytes_per_clock; });
  add("memory.elements_per_clock", 0.1, 512,
      [](CostProfile& p) -> double& { return p.memory.elements_per_clock; });
  add("memory.row_block_instructions", 0, 5000,
      [](CostProfile& p) -> double& { return p.memory.row_block_instructions; });
  add("memory.row_warp_instructions", 0, 5000,
      [](CostProfile& p) -> double& { return p.memory.row_warp_instructions; });
  add("memory.row_element_instructions", 0, 1000,
      [](CostProfile& p) -> double& { return p.memory.row_element_instructions; });
  add("memory.row_l2_share", 0, 4, [](CostProfile& p) -> double& { return p.memory.row_l2_share; });
  add("memory.row_efficiency", 0.2, 1.0,
      [](CostProfile& p) -> double& { return p.memory.row_efficiency; });
  add("memory.transpose_efficiency", 0.05, 1.0,
      [](CostProfile& p) -> double& { return p.memory.transpose_efficiency; });
  add("memory.block_pass_cycles", 0, 100000,
      [](CostProfile& p) -> double& { return p.memory.block_pass_cycles; });
  add("memory.block_bytes_per_clock", 0.1, 1000,
      [](CostProfile& p) -> double& { return p.memory.block_bytes_per_clock; });
  add("memory.window_instructions", 0, 1000,
      [](CostProfile& p) -> double& { return p.memory.window_instructions; });
  add("recurrent.efficiency", 0.05, 1.5,
      [](CostProfile& p) -> double& { return p.recurrent.efficiency; });
  add("recurrent.persistent_efficiency", 0.01, 1.2,
      [](CostProfile& p) -> double& { return p.recurrent.persistent_efficiency; });
  add("recurrent.persistent_step_us", 0.1, 100,
      [](CostProfile& p) -> double& { return p.recurrent.persistent_step_us; });
  add("kernel.fill_us", 0, 50, [](CostProfile& p) -> double& { return p.kernel.fill_us; });
  add("kernel.fill_latencies", 0, 10000,
      [](CostProfile& p) -> double& { return p.kernel.fill_latencies; });
  const auto add_power = [&](const char* name, double high, double PowerParameters::*member,
                             bool is_prior = false) {
    add(name, 0, high, [=](CostProfile& p) -> double& { return p.power.*member; });
    slots.back().is_prior = is_prior;
  };
  add_power("power.node_exponent", 3, &PowerParameters::node_exponent);
  add_power("power.clocked_pj", 100, &PowerParameters::clocked_pj);
  add_power("power.flop_pj", 1000, &PowerParameters::flop_pj);
  add_power("power.tensor_flop_pj", 1000, &PowerParameters::tensor_flop_pj);
  add_power("power.hbm_pj_per_byte", 10000, &PowerParameters::hbm_pj_per_byte);
  add_power("power.gddr_pj_per_byte", 10000, &PowerParameters::gddr_pj_per_byte);
  add_power("power.gddr_active_idle_pj_per_byte", 10000,
            &PowerParameters::gddr_active_idle_pj_per_byte);
  add_power("power.gddr6x_of", 10, &PowerParameters::gddr6x_of, true);
  add_power("power.gddr7_of", 10, &PowerParameters::gddr7_of, true);
  add_power("power.hbm_active_idle_pj_per_byte", 10000,
            &PowerParameters::hbm_active_idle_pj_per_byte, true);
  add_power("power.pass_pj_per_byte", 10000, &PowerParameters::pass_pj_per_byte, true);
  add_power("power.gemm_pass_of", 10, &PowerParameters::gemm_pass_of, true);
  add_power("power.busy_cycle_pj", 100000, &PowerParameters::busy_cycle_pj, true);
  add_power("power.warp_busy_of", 10, &PowerParameters::warp_busy_of);
  add_power("power.voltage_knee", 1, &PowerParameters::voltage_knee);
  add_power("power.voltage_floor", 1, &PowerParameters::voltage_floor);
  add("power.log_sd", 0.001, 3, [](CostProfile& p) -> double& { return p.power.log_sd; });
  add_power("power.min_clock", 1, &PowerParameters::min_clock);
  add("context.bytes_per_thread", 0, 65536,
      [](CostProfile& p) -> double& { return p.context.bytes_per_thread; });
  const auto add_cpu = [&](const char* name, double low, double high,
                           double CpuParameters::*member) {
    add(name, low, high, [=](CostProfile& p) -> double& { return p.cpu.*member; });
  };
  add_cpu("cpu.eigen_efficiency", 0.05, 1, &CpuParameters::eigen_efficiency);
  add_cpu("cpu.library_efficiency", 0.05, 1, &CpuParameters::library_efficiency);
  add_cpu("cpu.convolution_factor", 0.1, 1.5, &CpuParameters::convolution_factor);
  add_cpu("cpu.backward_factor", 0.1, 1.5, &CpuParameters::backward_factor);
  add_cpu("cpu.stream_efficiency", 0.01, 1, &CpuParameters::stream_efficiency);
  add_cpu("cpu.eigen_core_loss", 0, 1, &CpuParameters::eigen_core_loss);
  add_cpu("cpu.library_core_loss", 0, 1, &CpuParameters::library_core_loss);
  add_cpu("cpu.memory_efficiency", 0.1, 1, &CpuParameters::memory_efficiency);
  add_cpu("cpu.remote_efficiency", 0, 1, &CpuParameters::remote_efficiency);
  add_cpu("cpu.core_gb_per_s", 1, 200, &CpuParameters::core_gb_per_s);
  add_cpu("cpu.cache_bytes_per_clock", 0.5, 64, &CpuParameters::cache_bytes_per_clock);
  add_cpu("cpu.parallel_us", 0, 500, &CpuParameters::parallel_us);
  add_cpu("cpu.error", 0.01, 2, &CpuParameters::error);
  for (const GemmSlot& slot : gemm_slots()) {
    add(slot.name, slot.low, slot.high,
        [slot](CostProfile& p) -> double& { return slot.find(p.tensor_gemm, slot.i, slot.j); });
    slots.back().is_factor = slot.is_factor;
  }
  const auto add_all = [&slots](auto own, auto part) {
    for (auto& slot : own)
      slots.push_back(
          {std::move(slot.name),
           [find = std::move(slot.find), part](CostProfile& p) -> double& { return find(p.*part); },
           slot.low, slot.high, slot.is_factor});
  };
  add_all(attention_slots(), &CostProfile::attention);
  add_all(moe_slots(), &CostProfile::moe);
  for (RecordedSlot& slot : recorded_slots()) {
    slots.push_back(
        {std::move(slot.name),
         [find = std::move(slot.find)](CostProfile& p) -> double& { return find(p.recorded); },
         slot.low, slot.high, false, true});
  }
  for (std::size_t i = 0; i < kCostFormCount; ++i) {
    add(fmt::format("error.{}.measured", kForms[i]), 0.01, 2,
        [=](CostProfile& p) -> double& { return p.error[i].measured; });
    add(fmt::format("error.{}.transferred", kForms[i]), 0.01, 2,
        [=](CostProfile& p) -> double& { return p.error[i].transferred; });
    add(fmt::format("error.{}.spec", kForms[i]), 0.01, 2,
        [=](CostProfile& p) -> double& { return p.error[i].spec; });
    if (i > static_cast<std::size_t>(CostForm::TensorGemm)) {
      add(fmt::format("error.{}.body", kForms[i]), 0, 20,
          [=](CostProfile& p) -> double& { return p.error[i].body; });
      const auto add_factor = [&](std::string_view name, auto find) {
        add(fmt::format("error.{}.{}", kForms[i], name), 0.2, 5, find);
        slots.back().is_factor = true;
      };
      for (std::size_t e = 0; e < kGemmEngineCount; ++e)
        add_factor(to_string(static_cast<GemmEngine>(e)),
                   [=](CostProfile& p) -> double& { return p.error[i].engine[e]; });
      add_factor("low_precision",
                 [=](CostProfile& p) -> double& { return p.error[i].low_precision; });
      add_factor("rare", [=](CostProfile& p) -> double& { return p.error[i].rare; });
      add_factor("window", [=](CostProfile& p) -> double& { return p.error[i].window; });
      add_factor("roof", [=](CostProfile& p) -> double& { return p.error[i].roof; });
    }
  }
  const auto add_cause = [&](std::string_view name, double ErrorCauses::*cause) {
    add(fmt::format("error.{}", name), 0, 2,
        [=](CostProfile& p) -> double& { return p.error_causes.*cause; });
  };
  add_cause("board", &ErrorCauses::board);
  add_cause("under_occupied", &ErrorCauses::under_occupied);
  add_cause("library_rules", &ErrorCauses::library_rules);
  add_cause("low_precision_arithmetic", &ErrorCauses::low_precision_arithmetic);
  add_cause("low_precision_stream", &ErrorCauses::low_precision_stream);
  add_cause("power_limit", &ErrorCauses::power_limit);
  for (std::size_t i = 0; i <= kGemmEngineCount; ++i) {
    const auto whose = i == 0 ? "library" : to_string(static_cast<GemmEngine>(i - 1));
    add(fmt::format("error.tensor_gemm_format.{}", whose), 0, 2,
        [=](CostProfile& p) -> double& { return p.error_causes.tensor_gemm_format[i]; });
  }
  for (std::size_t f = 0; f < kFormatFamilyCount; ++f) {
    add(fmt::format("error.tensor_gemm_family.{}", to_string(static_cast<FormatFamily>(f))), 0, 2,
        [=](CostProfile& p) -> double& { return p.error_causes.tensor_gemm_family[f]; });
    slots.back().is_factor = true;
  }
  add_cause("tensor_gemm_warp", &ErrorCauses::tensor_gemm_warp);
  add_cause("tensor_gemm_beyond", &ErrorCauses::tensor_gemm_beyond);
  add_cause("beyond", &ErrorCauses::beyond);
  return slots;
}

const std::vector<ParameterSlot>& slots() {
  static const std::vector<ParameterSlot> all = make_slots();
  return all;
}

const ParameterSlot* find_slot(std::string_view name) {
  static const std::unordered_map<std::string_view, const ParameterSlot*> by_name = [] {
    std::unordered_map<std::string_view, const ParameterSlot*> index;
    for (const ParameterSlot& slot : slots()) index.emplace(slot.name, &slot);
    return index;
  }();
  auto it = by_name.find(name);
  if (it == by_name.end()) it = by_name.find(current_parameter_name(name));
  return it == by_name.end() ? nullptr : it->second;
}

const ParameterSlot& slot_or_throw(std::string_view name, std::string_view where) {
  if (const ParameterSlot* slot = find_slot(name)) return *slot;
  throw InputError(where, fmt::format("parameter \"{}\"", name),
                   describe_choices(name, parameter_names()));
}

void assign(CostProfile& profile, const ParameterSlot& slot, double value, std::string_view where) {
  if (!(value >= slot.low && value <= slot.high)) {
    throw InputError(where, fmt::format("{} = {}", slot.name, value),
                     fmt::format("a value from {} to {}", slot.low, slot.high));
  }
  slot.find(profile) = value;
}

template <typename Enum>
Enum parse_name(std::string_view text, std::size_t count, std::string_view where) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    names.emplace_back(to_string(static_cast<Enum>(i)));
    if (names.back() == text) return static_cast<Enum>(i);
  }
  throw InputError(where, fmt::format("\"{}\"", text), describe_choices(text, names));
}

}  // namespace

std::string_view to_string(CostForm form) { return kForms[static_cast<std::size_t>(form)]; }

std::vector<std::string> parameter_names() {
  std::vector<std::string> names;
  for (const ParameterSlot& slot : slots()) names.push_back(slot.name);
  return names;
}

namespace {

/// What a file must name: all; all but what no fit moves; all but that and what came after profiles
/// of users were first saved.
enum class Completeness { All, Fitted, Older };

/// Came after profiles were first saved.
bool came_later(std::string_view name) {
  constexpr std::array<std::string_view, 12> kLater = {
      "tensor_gemm.",       "attention.",    "latent.",      "experts.",      "quantization.",
      "error.tensor_gemm",  "error.prefill", "error.decode", "error.latent_", "error.experts",
      "error.quantization", "error.beyond"};
  return std::any_of(kLater.begin(), kLater.end(),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

/// Fills in what an older file lacks: expected errors from before any measurement, other values of
/// the profile in the binary.
void fill_in(CostProfile& profile, const ParameterSlot& slot) {
  const bool is_error = slot.name.starts_with("error.");
  const CostProfile& from = is_error ? prior_cost_profile() : default_cost_profile();
  const auto known = std::find_if(from.parameters.begin(), from.parameters.end(),
                                  [&](const ProfileParameter& p) { return p.name == slot.name; });
  TRACECAST_CHECK(known != from.parameters.end(), "embedded profiles name every parameter");
  slot.find(profile) = known->value;
  profile.parameters.push_back({known->name, known->value, known->log_sd, kOlderFile});
}

/// Fills in what no fit moves.
void take_prior(CostProfile& profile, const ParameterSlot& slot) {
  const std::vector<ProfileParameter>& priors = prior_cost_profile().parameters;
  const auto known = std::find_if(priors.begin(), priors.end(),
                                  [&](const ProfileParameter& p) { return p.name == slot.name; });
  TRACECAST_CHECK(known != priors.end(), "the priors name every parameter");
  slot.find(profile) = known->value;
  profile.parameters.push_back(*known);
}

/// Says in the profile what its file lacked and what of it is no more.
void describe_older(CostProfile& profile, std::size_t num_errors, std::size_t num_others,
                    std::size_t num_retired) {
  if (num_errors + num_others + num_retired == 0) return;
  std::erase_if(profile.data_sets, [](const ProfileDataSet& set) { return set.key == kOlderFile; });
  profile.data_sets.push_back(
      {kOlderFile, "Saved by an older version",
       fmt::format("{} expected errors as before any measurement, {} other parameters of the "
                   "default profile; {} that are no more left out",
                   num_errors, num_others, num_retired),
       ""});
}

CostProfile read_profile(const proto::CostProfile& message, std::string_view where,
                         Completeness complete) {
  CostProfile profile;
  profile.id = message.id();
  profile.title = message.title();
  profile.measured_gpu = message.measured_gpu();
  const auto factor = [&](bool given, double value, const char* name) {
    if (!given) return 1.0;
    if (profile.measured_gpu.empty() || !(value >= 0.1 && value <= 3)) {
      throw InputError(where, fmt::format("{} {}", name, value),
                       "a factor from 0.1 to 3 on a measured_gpu");
    }
    return value;
  };
  profile.board.arithmetic =
      factor(message.has_board_arithmetic(), message.board_arithmetic(), "board_arithmetic");
  profile.board.bandwidth =
      factor(message.has_board_bandwidth(), message.board_bandwidth(), "board_bandwidth");
  for (const auto& d : message.data_set())
    profile.data_sets.push_back({d.key(), d.title(), d.rows(), d.date()});
  std::unordered_set<std::string_view> given;
  std::size_t num_errors = 0, num_others = 0, num_retired = 0;
  for (const auto& p : message.parameter()) {
    if (complete == Completeness::Older && is_retired_parameter(p.name())) {
      ++num_retired;
      continue;
    }
    const ParameterSlot& slot = slot_or_throw(p.name(), where);
    if (!given.insert(slot.name).second) {
      throw InputError(where, fmt::format("parameter \"{}\" twice", p.name()),
                       "every parameter once");
    }
    assign(profile, slot, p.value(), where);
    const bool known_set =
        p.data_set() == "prior" ||
        std::any_of(profile.data_sets.begin(), profile.data_sets.end(),
                    [&](const ProfileDataSet& d) { return d.key == p.data_set(); });
    if (!known_set) {
      throw InputError(where, fmt::format("{}: data_set \"{}\"", p.name(), p.data_set()),
                       "\"prior\" or the key of a data_set in the same file");
    }
    if (!(p.log_sd() >= 0 && p.log_sd() < 5)) {
      throw InputError(where, fmt::format("{}: log_sd {}", p.name(), p.log_sd()),
                       "a value from 0 to 5");
    }
    profile.parameters.push_back({slot.name, p.value(), p.log_sd(), p.data_set()});
  }
  for (const ParameterSlot& slot : slots()) {
    if (!slot.is_factor && !given.contains(slot.name)) {
      if (slot.is_prior && complete != Completeness::All) {
        take_prior(profile, slot);
        continue;
      }
      if (complete == Completeness::Older && came_later(slot.name)) {
        fill_in(profile, slot);
        ++(slot.name.starts_with("error.") ? num_errors : num_others);
        continue;
      }
      throw InputError(where, fmt::format("no parameter \"{}\"", slot.name),
                       "every parameter once");
    }
  }
  describe_older(profile, num_errors, num_others, num_retired);
  for (const auto& c : message.coverage()) {
    const CostForm form =
        parse_name<CostForm>(current_parameter_name(c.form()), kCostFormCount, where);
    for (const std::string& name : c.architecture()) {
      const auto architecture = parse_name<Architecture>(name, ByArchitecture::kCount, where);
      profile.fitted[static_cast<std::size_t>(form)][static_cast<std::size_t>(architecture)] = true;
    }
    profile.reach[static_cast<std::size_t>(form)] = {c.most_tflop_per_s(), c.most_gb_per_s()};
    if (form == CostForm::TensorGemm) {
      for (const std::string& gpu : c.gpu()) profile.fitted_gemm_gpus.push_back(gpu);
    } else {
      for (const std::string& gpu : c.gpu())
        profile.fitted_gpus[static_cast<std::size_t>(form)].push_back(gpu);
    }
  }
  return profile;
}

const EmbeddedFile& embedded_file(std::string_view name) {
  for (const EmbeddedFile& known : embedded::cost_profiles())
    if (known.path.ends_with(name)) return known;
  TRACECAST_CHECK(false, "the build embeds the cost profiles");
}

/// A profile in the binary, from its wire format: parsing its text costs as much as a whole
/// prediction.
CostProfile read_embedded(std::string_view name, Completeness complete) {
  const EmbeddedFile& file = embedded_file(name);
  proto::CostProfile message;
  TRACECAST_CHECK(
      message.ParseFromArray(file.encoded.data(), static_cast<int>(file.encoded.size())),
      "the build encodes the cost profiles");
  return read_profile(message, file.path, complete);
}

void check_prior(const proto::CostProfile::Parameter& p, std::string_view where) {
  if (!(p.log_sd() > 0 && p.log_sd() < 5)) {
    throw InputError(where, fmt::format("{}: log_sd {}", p.name(), p.log_sd()),
                     "a value above 0, at most 5");
  }
}

}  // namespace

CostProfile parse_cost_profile(std::string_view text, std::string_view where) {
  proto::CostProfile message;
  parse_textproto(text, where, message);
  return read_profile(message, where, Completeness::Older);
}

std::vector<ProfileParameter> parse_prior_parameters(std::string_view text,
                                                     std::string_view where) {
  proto::CostProfile message;
  parse_textproto(text, where, message);
  std::vector<ProfileParameter> priors;
  CostProfile check;
  for (const auto& p : message.parameter()) {
    assign(check, slot_or_throw(p.name(), where), p.value(), where);
    check_prior(p, where);
    if (!p.held()) priors.push_back({p.name(), p.value(), p.log_sd(), "prior"});
  }
  return priors;
}

const CostProfile& default_cost_profile() {
  static const CostProfile profile = read_embedded("cost/default.textproto", Completeness::Fitted);
  return profile;
}

const CostProfile& prior_cost_profile() {
  static const CostProfile profile = read_embedded("cost/prior.textproto", Completeness::All);
  return profile;
}

const std::vector<ProfileParameter>& prior_parameters() {
  static const std::vector<ProfileParameter> priors = [] {
    const EmbeddedFile& file = embedded_file("cost/prior.textproto");
    return parse_prior_parameters(file.content, file.path);
  }();
  return priors;
}

BoardFactors board_factors(const CostProfile& profile, const GpuSpec& gpu) {
  return profile.measured_gpu == gpu.id && !gpu.id.empty() ? profile.board : BoardFactors{};
}

std::string format_cost_profile(const CostProfile& profile) {
  const auto quoted = [](std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
      if (c == '"' || c == '\\') result += '\\';
      result += c == '\n' ? ' ' : c;
    }
    return result + '"';
  };
  std::string text = fmt::format("id: {}\ntitle: {}\n", quoted(profile.id), quoted(profile.title));
  if (!profile.measured_gpu.empty()) {
    text += fmt::format("measured_gpu: {}\nboard_arithmetic: {:.4g}\nboard_bandwidth: {:.4g}\n",
                        quoted(profile.measured_gpu), profile.board.arithmetic,
                        profile.board.bandwidth);
  }
  text += '\n';
  for (const ProfileDataSet& d : profile.data_sets) {
    text += fmt::format("data_set {{\n  key: {}\n  title: {}\n  rows: {}\n  date: {}\n}}\n",
                        quoted(d.key), quoted(d.title), quoted(d.rows), quoted(d.date));
  }
  for (std::size_t form = 0; form < kCostFormCount; ++form) {
    std::string generations;
    for (std::size_t a = 0; a < ByArchitecture::kCount; ++a) {
      if (!profile.fitted[form][a]) continue;
      generations += fmt::format(" architecture: \"{}\"", to_string(static_cast<Architecture>(a)));
    }
    if (generations.empty()) continue;
    if (form == static_cast<std::size_t>(CostForm::TensorGemm)) {
      for (const std::string& gpu : profile.fitted_gemm_gpus) {
        generations += fmt::format(" gpu: {}", quoted(gpu));
      }
    }
    for (const std::string& gpu : profile.fitted_gpus[form])
      generations += fmt::format(" gpu: {}", quoted(gpu));
    if (const FormReach& reach = profile.reach[form]; reach.tflop_per_s > 0) {
      generations += fmt::format(" most_tflop_per_s: {:.6g} most_gb_per_s: {:.6g}",
                                 reach.tflop_per_s, reach.gb_per_s);
    }
    text += fmt::format("coverage {{ form: \"{}\"{} }}\n", kForms[form], generations);
  }
  std::string family;
  for (const ProfileParameter& p : profile.parameters) {
    const std::string next = p.name.substr(0, p.name.find('.'));
    if (next != family) text += '\n';
    family = next;
    text += fmt::format("parameter {{ name: {} value: {:.4g} log_sd: {:.2g} data_set: {} }}\n",
                        quoted(p.name), p.value, p.log_sd, quoted(p.data_set));
  }
  return text;
}

std::pair<double, double> parameter_bounds(std::string_view name) {
  const ParameterSlot& slot = slot_or_throw(name, "cost profile");
  return {slot.low, slot.high};
}

ParameterAccess::ParameterAccess(std::string_view name) {
  const ParameterSlot& slot = slot_or_throw(name, "cost profile");
  find_ = &slot.find, low_ = slot.low, high_ = slot.high;
}

CostProfile ParameterFactor::apply(CostProfile profile, std::span<const ParameterFactor> factors) {
  for (const auto& [parameter, factor] : factors) {
    double& value = (*parameter.find_)(profile);
    value = std::clamp(value * factor, parameter.low_, parameter.high_);
  }
  return profile;
}

CostProfile with_parameter(CostProfile profile, std::string_view name, double value) {
  assign(profile, slot_or_throw(name, "cost profile"), value, "cost profile");
  bool is_named = profile.parameters.empty();  // of a fit's own copy, none is
  for (ProfileParameter& p : profile.parameters) {
    if (p.name == name) p.value = value, is_named = true;
  }
  if (!is_named) profile.parameters.push_back({std::string(name), value, 0, "prior"});
  return profile;
}

double get_parameter(const CostProfile& profile, std::string_view name) {
  return slot_or_throw(name, "cost profile").find(const_cast<CostProfile&>(profile));  // reads
}

}  // namespace tracecast
