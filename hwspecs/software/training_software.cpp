#include "hwspecs/software/training_software.hpp"

#include <fmt/format.h>

#include <array>

#include "hwspecs/loaders/based_on.hpp"
#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/training_software.pb.h"
#include "sim/base/error.hpp"

namespace tracecast {

#define TRACECAST_FIELD(name) #name, message.name()

namespace {

MoeProgram read_moe(const proto::TrainingSoftware::Moe& message, SourcedReader& read) {
  MoeProgram p;
  const auto number = [&](bool is_there, double& value, std::string_view name, const auto& field) {
    if (is_there) value = read.number(name, field, 0, 1e4);
  };
  const auto flag = [&](bool is_there, bool& value, std::string_view name, const auto& field) {
    if (is_there) value = read.flag(name, field);
  };
#define TRACECAST_FIELD_OF(name) message.has_##name(), p.name, "moe." #name, message.name()
  number(TRACECAST_FIELD_OF(router_ops));
  number(TRACECAST_FIELD_OF(router_backward_ops));
  number(TRACECAST_FIELD_OF(communication_ops));
  number(TRACECAST_FIELD_OF(communication_backward_ops));
  flag(TRACECAST_FIELD_OF(reads_counts));
  number(TRACECAST_FIELD_OF(launches_per_expert));
  flag(TRACECAST_FIELD_OF(sorts_twice));
  flag(TRACECAST_FIELD_OF(sends_once));
  number(TRACECAST_FIELD_OF(hidden_communication_sms));
  flag(TRACECAST_FIELD_OF(fuses_activation));
#undef TRACECAST_FIELD_OF
  return p;
}

ProgramMemory read_memory(const proto::TrainingSoftware::Memory& message, SourcedReader& read) {
  ProgramMemory p;
  const auto number = [&](bool is_there, double& value, std::string_view name, const auto& field,
                          double least, double most) {
    if (is_there) value = read.number(name, field, least, most);
  };
#define TRACECAST_FIELD_OF(name) message.has_##name(), p.name, "memory." #name, message.name()
  number(TRACECAST_FIELD_OF(gradient_copies), 0, 100);
  number(TRACECAST_FIELD_OF(update_copies), 0, 100);
  number(TRACECAST_FIELD_OF(bucket_elements), 0, 1e12);
  number(TRACECAST_FIELD_OF(gathered_layers), 1, 1000);
  number(TRACECAST_FIELD_OF(gathered_gradients), 0, 1000);
  number(TRACECAST_FIELD_OF(gathered_elements), 0, 1e12);
  number(TRACECAST_FIELD_OF(loss_bytes), 0, 100);
  number(TRACECAST_FIELD_OF(allocator_share), 0, 1);
  number(TRACECAST_FIELD_OF(log_sd), 0.001, 1);
#undef TRACECAST_FIELD_OF
  if (message.has_keeps_root()) {
    p.keeps_root = read.flag("memory.keeps_root", message.keeps_root());
  }
  if (message.has_communicator_mib()) {
    constexpr double kMiB = 1 << 20;
    p.communicator =
        Bytes(kMiB * read.number("memory.communicator_mib", message.communicator_mib(), 0, 1e5));
  }
  return p;
}

}  // namespace

TrainingSoftware parse_training_software(std::string_view text, std::string_view where,
                                         const FindSpecText& find) {
  proto::TrainingSoftware message;
  parse_textproto(text, where, message);
  const std::vector<std::string> aliases(message.alias().begin(), message.alias().end());
  complete_from_bases(message, where, find,
                      [](proto::TrainingSoftware&, const proto::TrainingSoftware&) {});
  TrainingSoftware software;
  software.id = message.id();
  software.name = message.name();
  software.aliases = aliases;
  if (software.id.empty()) throw InputError(where, "no id", "an id such as \"megatron\"");
  SourcedReader read(message.sources(), where, software.sources, software.values);
  software.framework = read.word(TRACECAST_FIELD(framework));
  const std::array<std::string, 3> losses{"step_by_step", "log_softmax", "fused"};
  software.loss = static_cast<LossKernels>(read.choice(TRACECAST_FIELD(loss), losses));
  software.wide_gradients = read.flag(TRACECAST_FIELD(wide_gradients));
  software.overlaps_gradients = read.flag(TRACECAST_FIELD(overlaps_gradients));
  software.overlaps_weights = read.flag(TRACECAST_FIELD(overlaps_weights));
  software.adds_gradients = read.flag(TRACECAST_FIELD(adds_gradients));
  software.overlaps_tensor = read.flag(TRACECAST_FIELD(overlaps_tensor));
  software.waits_after_send = read.flag(TRACECAST_FIELD(waits_after_send));
  software.update_bytes = read.number(TRACECAST_FIELD(update_bytes), 0, 1000);
  software.update_passes = read.number(TRACECAST_FIELD(update_passes), 1, 100);
  software.attention_time = read.number(TRACECAST_FIELD(attention_time), 0.01, 100);
  software.training_metrics = read.count(TRACECAST_FIELD(training_metrics), 0, 100);
  software.metric_passes = read.number(TRACECAST_FIELD(metric_passes), 0, 100);
  software.separate_gate = read.flag(TRACECAST_FIELD(separate_gate));
  if (message.has_casts_as_written()) {
    software.casts_as_written = read.flag(TRACECAST_FIELD(casts_as_written));
  }
  if (message.has_graphs()) {
    const std::array<std::string, 3> graphs{"none", "all_but_experts", "step"};
    software.graphs = static_cast<LayerGraphs>(read.choice(TRACECAST_FIELD(graphs), graphs));
  }
  if (message.has_moe()) software.moe = read_moe(message.moe(), read);
  if (message.has_memory()) software.memory = read_memory(message.memory(), read);
  software.gradient_copy_bytes = read.number(TRACECAST_FIELD(gradient_copy_bytes), 0, 100);
  software.moe_log_sd = read.number(TRACECAST_FIELD(moe_log_sd), 0, 1);
  const std::array<std::string, 3> selective{"attention", "other_gemms", "norms_and_activations"};
  software.selective =
      static_cast<SelectiveRecompute>(read.choice(TRACECAST_FIELD(selective), selective));
  return software;
}

#undef TRACECAST_FIELD

}  // namespace tracecast
