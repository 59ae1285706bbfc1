#include "hwspecs/software/framework_profile.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "hwspecs/loaders/based_on.hpp"
#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/framework_profile.pb.h"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> framework_profiles();
}
namespace {

/// Reads one profile's values, each with a check of its presence, its source and its bounds.
class FrameworkReader {
 public:
  FrameworkReader(const proto::FrameworkProfile& message, std::string_view where,
                  FrameworkProfile& profile)
      : where_(where), profile_(profile) {
    profile.sources.clear();
    for (const auto& s : message.source()) {
      profile.sources.push_back({s.key(), s.title(), s.where()});
    }
  }

  double number(std::string_view field, bool present, const proto::FrameworkProfile::Number& n,
                double low, double high) {
    check_present(field, present && n.has_value());
    if (!(n.value() >= low && n.value() <= high)) {
      throw InputError(where_, fmt::format("{} = {}", field, n.value()),
                       fmt::format("a value from {} to {}", low, high));
    }
    record(field, fmt::format("{}", n.value()), n.source());
    return n.value();
  }
  int count(std::string_view field, bool present, const proto::FrameworkProfile::Number& n, int low,
            int high) {
    const double value = number(field, present, n, low, high);
    if (value != std::floor(value))
      throw InputError(where_, fmt::format("{} = {}", field, value), "a whole number");
    return static_cast<int>(value);
  }
  bool flag(std::string_view field, bool present, const proto::FrameworkProfile::Flag& f) {
    check_present(field, present && f.has_value());
    record(field, f.value() ? "true" : "false", f.source());
    return f.value();
  }
  std::string text(std::string_view field, bool present, const proto::FrameworkProfile::Word& w) {
    check_present(field, present && !w.value().empty());
    record(field, w.value(), w.source());
    return w.value();
  }
  /// Words between blanks; "none" stands for no word.
  std::vector<std::string> words(std::string_view field, bool present,
                                 const proto::FrameworkProfile::Word& w) {
    std::vector<std::string> found;
    std::string word;
    for (const char c : text(field, present, w) + ' ') {
      if (c != ' ') {
        word += c;
      } else if (!word.empty()) {
        found.push_back(std::move(word));
        word.clear();
      }
    }
    if (found == std::vector<std::string>{"none"}) found.clear();
    return found;
  }
  /// The index of the word among `choices`.
  std::size_t word(std::string_view field, bool present, const proto::FrameworkProfile::Word& w,
                   std::span<const std::string> choices) {
    check_present(field, present && w.has_value());
    const auto it = std::find(choices.begin(), choices.end(), w.value());
    if (it == choices.end()) {
      throw InputError(where_, fmt::format("{} = \"{}\"", field, w.value()),
                       describe_choices(w.value(), choices));
    }
    record(field, w.value(), w.source());
    return static_cast<std::size_t>(it - choices.begin());
  }

 private:
  void check_present(std::string_view field, bool present) {
    if (!present)
      throw InputError(where_, fmt::format("no {}", field),
                       "every value of the schema, with its source");
  }
  void record(std::string_view field, std::string value, const std::string& source) {
    const bool known = std::any_of(profile_.sources.begin(), profile_.sources.end(),
                                   [&](const SpecSource& s) { return s.key == source; });
    if (!known) {
      throw InputError(where_, fmt::format("{}: source \"{}\"", field, source),
                       "the key of a source in the same file");
    }
    profile_.values.push_back({std::string(field), std::move(value), source});
  }

  std::string_view where_;
  FrameworkProfile& profile_;
};

#define TRACECAST_FIELD(name) #name, message.has_##name(), message.name()

void read_values(const proto::FrameworkProfile& message, std::string_view where,
                 FrameworkProfile& p) {
  FrameworkReader read(message, where, p);
  constexpr double kMostUs = 1e5;  // a host that needs a tenth of a second per op is a typing error
  const auto us = [](double value) { return Seconds(value * 1e-6); };
  const auto mib = [](double value) { return Bytes(value * 1048576); };
  p.host.dispatch_per_op = us(read.number(TRACECAST_FIELD(dispatch_per_op_us), 0, kMostUs));
  p.host.dispatch_per_backward_op =
      us(read.number(TRACECAST_FIELD(dispatch_per_backward_op_us), 0, kMostUs));
  p.host.dispatch_per_optimizer_op =
      us(read.number(TRACECAST_FIELD(dispatch_per_optimizer_op_us), 0, kMostUs));
  p.host.dispatch_per_library_call =
      us(read.number(TRACECAST_FIELD(dispatch_per_library_call_us), 0, kMostUs));
  if (message.has_autograd_per_library_call_us()) {
    p.host.autograd_per_library_call =
        us(read.number(TRACECAST_FIELD(autograd_per_library_call_us), 0, kMostUs));
  }
  if (message.has_view_us()) p.host.view = us(read.number(TRACECAST_FIELD(view_us), 0, kMostUs));
  if (message.has_backward_view_us()) {
    p.host.backward_view = us(read.number(TRACECAST_FIELD(backward_view_us), 0, kMostUs));
  }
  if (message.has_update_per_parameter_us()) {
    p.host.update_per_parameter =
        us(read.number(TRACECAST_FIELD(update_per_parameter_us), 0, kMostUs));
  }
  p.host.launch_per_kernel = us(read.number(TRACECAST_FIELD(launch_per_kernel_us), 0, kMostUs));
  p.host.step_overhead = us(read.number(TRACECAST_FIELD(step_overhead_us), 0, 1e7));
  p.host.log_sd = read.number(TRACECAST_FIELD(host_log_sd), 0, 2);
  p.system_log_sd = read.number(TRACECAST_FIELD(system_log_sd), 0, 2);
  p.host.synchronizes_each_step = read.flag(TRACECAST_FIELD(synchronizes_each_step));
  p.host.graph_ops_per_synchronization =
      read.count(TRACECAST_FIELD(graph_ops_per_synchronization), 0, 1000000);
  p.host.updates_per_synchronization =
      read.count(TRACECAST_FIELD(updates_per_synchronization), 0, 1000000);
  p.host.synchronization = us(read.number(TRACECAST_FIELD(synchronization_us), 0, kMostUs));

  p.host.reference_cpu = read.text(TRACECAST_FIELD(reference_cpu));
  const std::array<std::string, 2> cpu_kernels{"eigen_avx", "library"};
  p.host.cpu_kernels =
      static_cast<CpuKernels>(read.word(TRACECAST_FIELD(cpu_kernels), cpu_kernels));

  const std::array<std::string, 2> layouts{"nchw", "nhwc"};
  p.convolutions.image_layout =
      static_cast<ImageLayout>(read.word(TRACECAST_FIELD(image_layout), layouts));
  p.convolutions.tensor_core_image_layout =
      static_cast<ImageLayout>(read.word(TRACECAST_FIELD(tensor_core_image_layout), layouts));
  p.convolutions.cudnn_version = read.number(TRACECAST_FIELD(cudnn_version), 0, 99);
  p.convolutions.autotunes = read.flag(TRACECAST_FIELD(autotunes_convolutions));
  p.convolutions.workspace_limit =
      mib(read.number(TRACECAST_FIELD(convolution_workspace_limit_mib), 0, 1e7));
  p.convolutions.transforms_filters = read.flag(TRACECAST_FIELD(transforms_filters));
  p.convolutions.pads_uneven_images = read.flag(TRACECAST_FIELD(pads_uneven_images));
  p.optimizer.assigns_terms = read.flag(TRACECAST_FIELD(assigns_optimizer_terms));
  p.convolutions.avoids_tiled_fft = read.flag(TRACECAST_FIELD(avoids_tiled_fft));
  p.convolutions.avoids_nonfused_winograd = read.flag(TRACECAST_FIELD(avoids_nonfused_winograd));

  p.fusion.bias = read.flag(TRACECAST_FIELD(fuses_bias));
  p.fusion.gemm_bias = read.flag(TRACECAST_FIELD(fuses_gemm_bias));
  p.fusion.batch_norm_activation = read.flag(TRACECAST_FIELD(fuses_batch_norm_activation));
  p.fusion.batch_norm_residual = read.flag(TRACECAST_FIELD(fuses_batch_norm_residual));
  p.fusion.activations = read.flag(TRACECAST_FIELD(fuses_activations));
  p.fusion.folds_inference_batch_norm = read.flag(TRACECAST_FIELD(folds_inference_batch_norm));
  if (message.has_fuses_bias_gradients()) {
    p.fusion.bias_gradients = read.flag(TRACECAST_FIELD(fuses_bias_gradients));
  }
  if (message.has_fuses_pair_gemms()) {
    p.fusion.pair_gemms = read.flag(TRACECAST_FIELD(fuses_pair_gemms));
  }
  if (message.has_fuses_edge_attention()) {
    p.fusion.edge_attention = read.flag(TRACECAST_FIELD(fuses_edge_attention));
  }
  if (message.has_fuses_operand_casts()) {
    p.fusion.operand_casts = read.flag(TRACECAST_FIELD(fuses_operand_casts));
  }
  if (message.has_fuses_layers()) {
    p.fusion.layers = read.flag(TRACECAST_FIELD(fuses_layers));
  }
  p.batch_norm.forward_passes = read.number(TRACECAST_FIELD(batch_norm_forward_passes), 3, 100);
  p.batch_norm.backward_passes = read.number(TRACECAST_FIELD(batch_norm_backward_passes), 5, 100);
  p.batch_norm.update_kernels = read.count(TRACECAST_FIELD(batch_norm_update_kernels), 0, 20);
  p.batch_norm.updates_are_ops = read.flag(TRACECAST_FIELD(batch_norm_updates_are_ops));
  p.batch_norm.takes_instance_norm = read.flag(TRACECAST_FIELD(instance_norm_is_batch_norm));
  if (message.has_own_bf16_batch_norm()) {
    p.batch_norm.own_bf16 = read.flag(TRACECAST_FIELD(own_bf16_batch_norm));
  }
  if (message.has_own_half_batch_norm()) {
    p.batch_norm.own_half = read.flag(TRACECAST_FIELD(own_half_batch_norm));
  }
  p.kernels.max_pool_saves_indices = read.flag(TRACECAST_FIELD(max_pool_saves_indices));
  p.kernels.max_pool_backward_efficiency =
      read.number(TRACECAST_FIELD(max_pool_backward_efficiency), 0.03125, 1);
  p.kernels.dropout_kernels = read.count(TRACECAST_FIELD(dropout_kernels), 1, 20);
  p.kernels.in_place_activations = read.flag(TRACECAST_FIELD(in_place_activations));
  if (message.has_strided_instructions_per_element()) {
    p.kernels.strided_instructions =
        read.number(TRACECAST_FIELD(strided_instructions_per_element), 0, 1000);
  }

  const std::array<std::string, 4> attentions{"steps", "fused", "sparse", "composed"};
  const auto whole = std::span(attentions).first(3);
  if (message.has_attention()) {
    p.kernels.attention =
        static_cast<AttentionKernels>(read.word(TRACECAST_FIELD(attention), whole));
  }
  if (message.has_wide_grouped_attention()) {
    p.kernels.wide_grouped_attention = static_cast<AttentionKernels>(
        read.word(TRACECAST_FIELD(wide_grouped_attention), attentions));
  }
  if (message.has_casts_as_written()) {
    p.kernels.casts_as_written = read.flag(TRACECAST_FIELD(casts_as_written));
  }
  if (message.has_composed_gradients()) {
    p.kernels.composed_gradients = read.flag(TRACECAST_FIELD(composed_gradients));
  }
  if (message.has_slices_are_views()) {
    p.kernels.slices_are_views = read.flag(TRACECAST_FIELD(slices_are_views));
  }
  if (message.has_sorts_row_gradients()) {
    p.kernels.sorts_row_gradients = read.flag(TRACECAST_FIELD(sorts_row_gradients));
  }

  const std::array<std::string, 2> recurrences{"library", "unrolled"};
  p.recurrence.kind = static_cast<Recurrence>(read.word(TRACECAST_FIELD(recurrence), recurrences));
  p.recurrence.step = us(read.number(TRACECAST_FIELD(recurrent_step_us), 0, kMostUs));
  p.recurrence.streams = read.flag(TRACECAST_FIELD(recurrent_streams));
  p.recurrence.persistent = read.flag(TRACECAST_FIELD(persistent_recurrence));

  p.optimizer.fused = read.flag(TRACECAST_FIELD(fuses_optimizer));
  p.optimizer.multi_tensor = read.flag(TRACECAST_FIELD(multi_tensor_optimizer));
  const std::array<std::string, 3> decays{"none", "on_gradient", "as_loss"};
  p.optimizer.weight_decay =
      static_cast<WeightDecay>(read.word(TRACECAST_FIELD(weight_decay), decays));
  p.optimizer.zeroes_gradients = read.flag(TRACECAST_FIELD(zeroes_gradients));
  p.optimizer.accumulates_gradients = read.flag(TRACECAST_FIELD(accumulates_weight_gradients));
  p.backward.differentiates_input = read.flag(TRACECAST_FIELD(differentiates_input));
  p.backward.copies_first_gradient = read.flag(TRACECAST_FIELD(copies_first_gradient));
  p.backward.adds_weight_gradients_in_place =
      read.flag(TRACECAST_FIELD(adds_weight_gradients_in_place));
  p.backward.adds_gradients_in_convolutions =
      read.flag(TRACECAST_FIELD(adds_gradients_in_convolutions));

  p.precision.wide_ops = read.words(TRACECAST_FIELD(mixed_wide_ops));
  p.precision.reuses_casts = read.flag(TRACECAST_FIELD(mixed_reuses_casts));
  const std::array<std::string, 4> scalings{"none", "check", "unscale_together", "unscale_each"};
  p.precision.loss_scaling =
      static_cast<LossScaling>(read.word(TRACECAST_FIELD(mixed_loss_scaling), scalings));
  p.precision.int8_engine = read.text(TRACECAST_FIELD(int8_engine));
  if (message.has_keeps_int8_sums()) {
    p.precision.keeps_int8_sums = read.flag(TRACECAST_FIELD(keeps_int8_sums));
  }
  if (message.has_quantizes_ends()) {
    p.precision.quantizes_ends = read.flag(TRACECAST_FIELD(quantizes_ends));
  }
  p.trains = read.flag(TRACECAST_FIELD(trains));

  const std::array<std::string, 3> lives{"until_last_use", "shared_gradients", "whole_step"};
  p.memory.tensors = static_cast<TensorMemory>(read.word(TRACECAST_FIELD(tensor_memory), lives));
  p.memory.allocator_block = Bytes(read.number(TRACECAST_FIELD(allocator_block_bytes), 1, 1e9));
  p.memory.allocator_large_segment =
      mib(read.number(TRACECAST_FIELD(allocator_large_segment_mib), 0, 1e5));
  p.memory.pool_fraction = read.number(TRACECAST_FIELD(pool_fraction), 0, 1);
  p.memory.pool_least_reserve = mib(read.number(TRACECAST_FIELD(pool_least_reserve_mib), 0, 1e5));
  p.memory.context = mib(read.number(TRACECAST_FIELD(context_memory_mib), 0, 1e5));
  if (message.has_update_temporaries()) {
    p.memory.update_temporaries = read.number(TRACECAST_FIELD(update_temporaries), 0, 100);
  }
  if (message.has_memory_log_sd()) {
    p.memory.log_sd = read.number(TRACECAST_FIELD(memory_log_sd), 0.001, 1);
  }
}

#undef TRACECAST_FIELD

void read_compiler(const proto::FrameworkProfile::Compiler& message, std::string_view where,
                   const proto::FrameworkProfile& whole, FrameworkProfile& p) {
  if (message.framework().empty() || message.name().empty()) {
    throw InputError(where, "a compiler without framework or name", "both");
  }
  FrameworkReader read(whole, where, p);
  GraphCompiler& c = p.compiler.emplace();
  c.framework = message.framework();
  c.name = message.name();
#define TRACECAST_FIELD(name) "compiler." #name, message.has_##name(), message.name()
  c.expands_normalization = read.flag(TRACECAST_FIELD(expands_normalization));
  c.fuses_convolution_epilogue = read.flag(TRACECAST_FIELD(fuses_convolution_epilogue));
  c.repeats_producers = read.flag(TRACECAST_FIELD(repeats_producers));
  c.merges_siblings = read.flag(TRACECAST_FIELD(merges_siblings));
  c.most_operands = read.count(TRACECAST_FIELD(most_operands), 2, 100000);
  c.argument = Seconds(read.number(TRACECAST_FIELD(argument_us), 0, 1e5) * 1e-6);
  c.joins_rows = read.flag(TRACECAST_FIELD(joins_rows));
  c.longest_kept_row = read.count(TRACECAST_FIELD(longest_kept_row), 0, 100000);
  c.draws_in_kernels = read.flag(TRACECAST_FIELD(draws_in_kernels));
  c.moves_in_loops = read.flag(TRACECAST_FIELD(moves_in_loops));
  if (message.has_pads_gemms()) c.pads_gemms = read.flag(TRACECAST_FIELD(pads_gemms));
#undef TRACECAST_FIELD
  if (!message.has_image_layout()) return;
  const auto& layout = message.image_layout();
  ImageLayoutRule& rule = c.image_layout.emplace();
#define TRACECAST_FIELD(name) "compiler.image_layout." #name, layout.has_##name(), layout.name()
  rule.most_ops_per_convolution = read.number(TRACECAST_FIELD(most_ops_per_convolution), 1, 1e6);
  rule.small_channels = read.count(TRACECAST_FIELD(small_channels), 0, 100000);
  rule.grouped = read.number(TRACECAST_FIELD(grouped), 0.01, 100);
  rule.small = read.number(TRACECAST_FIELD(small), 0.01, 100);
  rule.narrowing = read.number(TRACECAST_FIELD(narrowing), 0.01, 100);
  rule.other = read.number(TRACECAST_FIELD(other), 0.01, 100);
#undef TRACECAST_FIELD
}

void read_composed_batch_norm(const proto::FrameworkProfile::ComposedBatchNorm& message,
                              std::string_view where, const proto::FrameworkProfile& whole,
                              FrameworkProfile& p) {
  FrameworkReader read(whole, where, p);
  ComposedBatchNorm& c = p.batch_norm.composed.emplace();
#define TRACECAST_FIELD(name) "composed_batch_norm." #name, message.has_##name(), message.name()
  c.forward_sums = read.count(TRACECAST_FIELD(forward_sums), 1, 100);
  c.backward_sums = read.count(TRACECAST_FIELD(backward_sums), 1, 100);
  c.block_threads = read.count(TRACECAST_FIELD(block_threads), 32, 1024);
  c.address_instructions = read.number(TRACECAST_FIELD(address_instructions), 0, 1000);
#undef TRACECAST_FIELD
  if (c.forward_sums > p.batch_norm.forward_passes ||
      c.backward_sums > p.batch_norm.backward_passes) {
    throw InputError(where, "composed_batch_norm: more sums than passes", "at most as many");
  }
}

void read_host_pooling(const proto::FrameworkProfile::HostPooling& message, std::string_view where,
                       const proto::FrameworkProfile& whole, FrameworkProfile& p) {
  FrameworkReader read(whole, where, p);
  HostPooling& h = p.host.pooling.emplace();
#define TRACECAST_FIELD(name) "host_pooling." #name, message.has_##name(), message.name()
  h.forward_per_cell = Seconds(read.number(TRACECAST_FIELD(forward_ns_per_cell), 0, 1e4) * 1e-9);
  h.backward_per_cell = Seconds(read.number(TRACECAST_FIELD(backward_ns_per_cell), 0, 1e4) * 1e-9);
  h.copy = BytesPerSecond(read.number(TRACECAST_FIELD(copy_gb_per_s), 0.01, 1e3) * 1e9);
#undef TRACECAST_FIELD
}

/// A version as files write it: "1.7", "20.06".
std::optional<VersionNumber> read_version(const std::string& text, bool is_container,
                                          std::string_view where) {
  if (text.empty()) return std::nullopt;
  constexpr long long kMost = 99999;
  const std::size_t dot = std::min(text.find('.'), text.size() - 1);
  const auto major = parse_integer(std::string_view(text).substr(0, dot)).value_or(-1);
  const auto minor = parse_integer(std::string_view(text).substr(dot + 1)).value_or(-1);
  if (major < 0 || major > kMost || minor < 0 || minor > kMost) {
    throw InputError(where, "version \"" + text + '"', "two numbers such as \"1.7\"");
  }
  return VersionNumber{static_cast<int>(major), static_cast<int>(minor), is_container};
}

SinceVersion read_since(const proto::FrameworkProfile::Since& since, std::string_view where) {
  SinceVersion result{.version = read_version(since.version(), false, where),
                      .container = read_version(since.container(), true, where),
                      .date = since.date(),
                      .today = since.today(),
                      .architecture = {}};
  if (since.has_architecture())
    result.architecture = from_proto<Architecture>(since.architecture());
  return result;
}

/// Names of `known` among a profile's values.
constexpr std::string_view kKnownVersion = "known.version", kNewerLogSd = "known.newer_log_sd";

void read_eras_and_names(const proto::FrameworkProfile& message, std::string_view where,
                         FrameworkProfile& p) {
  const auto check_source = [&](std::string_view field, const std::string& key) {
    const bool is_known = std::any_of(p.sources.begin(), p.sources.end(),
                                      [&](const SpecSource& s) { return s.key == key; });
    if (is_known) return;
    throw InputError(where, fmt::format("{}: source \"{}\"", field, key),
                     "the key of a source in the same file");
  };
  if (message.has_era()) {
    const auto& era = message.era();
    const bool is_newest = !era.from_version().empty();
    const std::string& version = is_newest ? era.from_version() : era.before_version();
    const std::string& date = is_newest ? era.from_date() : era.before_date();
    if (era.framework().empty() || version.empty() || date.empty()) {
      throw InputError(
          where, "an era without framework, version or date",
          "framework, and before_version and before_date or from_version and from_date");
    }
    p.era = {era.framework(), version, date, is_newest};
    check_source("era", era.source());
  }
  if (message.has_known()) {
    const auto& known = message.known();
    const VersionNumber version = parse_version(known.version());
    if (version.major == 0 && version.minor == 0) {
      throw InputError(where, fmt::format("known: version \"{}\"", known.version()),
                       "a version such as \"2.11\"");
    }
    if (!(known.newer_log_sd() >= 0 && known.newer_log_sd() <= 3)) {
      throw InputError(where, fmt::format("known: newer_log_sd {}", known.newer_log_sd()),
                       "a value from 0 to 3");
    }
    check_source("known", known.source());
    p.values.push_back({std::string(kKnownVersion), known.version(), known.source()});
    p.values.push_back(
        {std::string(kNewerLogSd), fmt::format("{}", known.newer_log_sd()), known.source()});
  }
  if (message.has_container()) {
    if (message.container().framework().empty()) {
      throw InputError(where, "a container without framework", "the id of the framework in it");
    }
    p.container_of = message.container().framework();
    check_source("container", message.container().source());
  }
  const auto take = [&](std::string_view field, bool present, const auto& since, auto& to) {
    if (!present) return;
    to = read_since(since, where);
    check_source(field, since.source());
  };
  take("tf32", message.has_tf32(), message.tf32(), p.tf32);
  take("tf32_spares_gemms", message.has_tf32_spares_gemms(), message.tf32_spares_gemms(),
       p.tf32_spares_gemms);
  take("gemm_bias", message.has_gemm_bias(), message.gemm_bias(), p.gemm_bias);
  take("grouped_attention", message.has_grouped_attention(), message.grouped_attention(),
       p.grouped_attention);
  take("resident_gemms", message.has_resident_gemms(), message.resident_gemms(), p.resident_gemms);
  take("warp_group_attention", message.has_warp_group_attention(), message.warp_group_attention(),
       p.warp_group_attention);
  take("chooses_image_layout", message.has_chooses_image_layout(), message.chooses_image_layout(),
       p.chooses_image_layout);
  for (const auto& op : message.composed_op()) {
    if (op.op().empty() || op.forward() < 1 || op.backward() < 1) {
      throw InputError(where, fmt::format("composed_op \"{}\"", op.op()),
                       "an op with the number of its kernels, forward and backward");
    }
    p.composed_ops.push_back({{op.op(), op.forward(), op.backward(), op.needs_all_gradients()},
                              read_since(op.fused(), where)});
    check_source("composed_op", op.source());
  }
  for (const auto& fused : message.fused_since()) {
    if (fused.family().empty()) {
      throw InputError(where, "fused_since without family", "a model_type such as \"gpt2\"");
    }
    p.fused_since.push_back({fused.family(), read_since(fused.since(), where)});
    check_source("fused_since", fused.since().source());
  }
  for (const auto& meaning : message.network_meaning()) {
    p.network_meanings.push_back(
        {meaning.name(), meaning.zoo(), meaning.source(), meaning.spares_input_gradient()});
    check_source("network_meaning", meaning.source());
  }
}

}  // namespace

std::string_view to_string(PrecisionMode mode) {
  switch (mode) {
    case PrecisionMode::Fp32:
      return "fp32";
    case PrecisionMode::Tf32:
      return "tf32";
    case PrecisionMode::Amp:
      return "amp";
    case PrecisionMode::Fp16:
      return "fp16";
    case PrecisionMode::Bf16:
      return "bf16";
    case PrecisionMode::Fp8:
      return "fp8";
    case PrecisionMode::Int8:
      return "int8";
    case PrecisionMode::Fp8Block:
      return "fp8_block";
    case PrecisionMode::Nvfp4:
      return "nvfp4";
    case PrecisionMode::Mxfp4:
      return "mxfp4";
    case PrecisionMode::Int8Weights:
      return "int8_wo";
    case PrecisionMode::Int4Weights:
      return "int4_wo";
  }
  return "?";
}

FrameworkProfile parse_framework_profile(std::string_view text, std::string_view where) {
  return parse_framework_profile(text, where, [](std::string_view id) -> std::optional<SpecText> {
    for (const EmbeddedFile& file : embedded::framework_profiles()) {
      if (file.path.ends_with("/" + std::string(id) + ".textproto"))
        return SpecText{file.content, std::string(file.path)};
    }
    return std::nullopt;
  });
}

FrameworkProfile parse_framework_profile(std::string_view text, std::string_view where,
                                         const FindSpecText& find) {
  proto::FrameworkProfile message;
  parse_textproto(text, where, message);
  complete_from_bases(message, where, find,
                      [](proto::FrameworkProfile& base, const proto::FrameworkProfile& own) {
                        base.clear_era();
                        if (own.has_known() || own.has_era()) base.clear_known();
                        if (own.has_tf32()) base.clear_tf32();
                        if (own.has_tf32_spares_gemms()) base.clear_tf32_spares_gemms();
                        if (own.has_gemm_bias()) base.clear_gemm_bias();
                        if (own.has_grouped_attention()) base.clear_grouped_attention();
                        if (own.has_resident_gemms()) base.clear_resident_gemms();
                        if (own.has_warp_group_attention()) base.clear_warp_group_attention();
                        if (own.has_chooses_image_layout()) base.clear_chooses_image_layout();
                      });
  FrameworkProfile profile;
  profile.id = message.id();
  profile.name = message.name();
  if (profile.id.empty()) throw InputError(where, "no id", "an id such as \"pytorch\"");
  read_values(message, where, profile);
  if (message.has_compiler()) read_compiler(message.compiler(), where, message, profile);
  if (message.has_composed_batch_norm()) {
    read_composed_batch_norm(message.composed_batch_norm(), where, message, profile);
  }
  if (message.has_host_pooling()) {
    read_host_pooling(message.host_pooling(), where, message, profile);
  }
  read_eras_and_names(message, where, profile);
  return profile;
}

bool differentiates_input(const FrameworkProfile& framework, std::string_view zoo) {
  return framework.backward.differentiates_input &&
         std::none_of(framework.network_meanings.begin(), framework.network_meanings.end(),
                      [&](const NetworkMeaning& meaning) {
                        return meaning.zoo == zoo && meaning.spares_input_gradient;
                      });
}

const std::string& family_of(const FrameworkProfile& profile) {
  if (profile.compiler) return profile.compiler->framework;
  if (profile.era) return profile.era->framework;
  return profile.container_of ? *profile.container_of : profile.id;
}

}  // namespace tracecast
