#include "hwspecs/software/strategy_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/strategy_profile.pb.h"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

using StrategyMessage = proto::StrategyProfile;

#define TRACECAST_FIELD(name) #name, message.name()

void read_communication(const StrategyMessage& message, SourcedReader& read, StrategyProfile& p) {
  const std::array<std::string, 6> communications{"all_reduce", "on_host",   "scattered",
                                                  "copies",     "first_gpu", "served"};
  p.communication =
      static_cast<Communication>(read.choice(TRACECAST_FIELD(communication), communications));
  const std::array<std::string, 3> replicas{"processes", "threads", "python"};
  p.replicas = static_cast<Replicas>(read.choice(TRACECAST_FIELD(replicas), replicas));
  p.library = read.word(TRACECAST_FIELD(library));
  constexpr double kMiB = 1048576.0, kMost = 1e6;
  p.bucket = Bytes(kMiB * read.number(TRACECAST_FIELD(bucket_mib), 0, kMost));
  p.first_bucket = Bytes(kMiB * read.number(TRACECAST_FIELD(first_bucket_mib), 0, kMost));
  p.cycle = Seconds(1e-3 * read.number(TRACECAST_FIELD(cycle_ms), 0, 1e4));
  p.overlaps_backward = read.flag(TRACECAST_FIELD(overlaps_backward));
  if (message.has_overlaps_accumulated())
    p.overlaps_accumulated = read.flag(TRACECAST_FIELD(overlaps_accumulated));
  p.updates_as_they_come = read.flag(TRACECAST_FIELD(updates_as_they_come));
  p.overlaps_next_forward = read.flag(TRACECAST_FIELD(overlaps_next_forward));
  p.gradient_element = Bytes(read.number(TRACECAST_FIELD(gradient_bytes), 0, 8));
  p.packing_copies = read.number(TRACECAST_FIELD(packing_copies), 0, 10);
  if (message.has_divides_updates())
    p.divides_updates = read.flag(TRACECAST_FIELD(divides_updates));
  if (message.has_divides_stores()) p.divides_stores = read.flag(TRACECAST_FIELD(divides_stores));
}

void read_host(const StrategyMessage& message, SourcedReader& read, StrategyProfile& p) {
  p.host_per_bucket = Seconds(1e-6 * read.number(TRACECAST_FIELD(host_us_per_bucket), 0, 1e6));
  p.host_add = BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(host_add_gb_per_s), 0, 1e4));
  p.message_rate = BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(message_gb_per_s), 0, 1e4));
  p.feed_rate = BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(feed_gb_per_s), 0, 1e4));
  p.forward_lock_share = read.number(TRACECAST_FIELD(forward_lock_share), 0, 1);
  p.backward_lock_share = read.number(TRACECAST_FIELD(backward_lock_share), 0, 1);
  p.replicate_per_op = Seconds(1e-6 * read.number(TRACECAST_FIELD(replicate_us_per_op), 0, 1e5));
}

void read_tables(const StrategyMessage::Tables& message, SourcedReader& read,
                 std::string_view where, StrategyProfile& p) {
  if (p.communication != Communication::AllReduce || p.overlaps_next_forward) {
    throw InputError(
        where, "tables beside another communication than all_reduce, or updates in the next step",
        "communication \"all_reduce\", overlaps_next_forward false");
  }
  TableStrategy tables;
  const std::array<std::string, 3> parallel_layouts{"whole", "rows", "balanced"};
  tables.parallel_layout =
      static_cast<TableSharding>(read.choice(TRACECAST_FIELD(parallel_layout), parallel_layouts));
  tables.replicated = Bytes(1048576.0 * read.number(TRACECAST_FIELD(replicated_mib), 0, 1e6));
  tables.repeat_probability = read.number(TRACECAST_FIELD(repeat_probability), 0, 1);
  tables.vector_cost = read.number(TRACECAST_FIELD(vector_cost), 0, 1e4);
  tables.memory_share = read.number(TRACECAST_FIELD(memory_share), 0.01, 1);
  tables.prefetches_ids = read.flag(TRACECAST_FIELD(prefetches_ids));
  if (message.has_adds_remotely()) {
    tables.adds_remotely = read.flag(TRACECAST_FIELD(adds_remotely));
  }
  const std::array<std::string, 2> storages{"network", "fp32"};
  tables.keeps_wide = read.choice(TRACECAST_FIELD(storage), storages) == 1;
  p.tables = tables;
}

}  // namespace

StrategyProfile parse_strategy(std::string_view text, std::string_view where) {
  StrategyMessage message;
  parse_textproto(text, where, message);
  StrategyProfile profile;
  profile.id = message.id();
  profile.name = message.name();
  if (profile.id.empty()) throw InputError(where, "no id", "an id such as \"ddp\"");
  profile.aliases.assign(message.alias().begin(), message.alias().end());
  for (const std::string& word : message.word()) profile.words.push_back(to_lower(word));
  for (const auto& usual : message.usual()) {
    profile.usual.push_back({.framework = usual.framework(),
                             .before_date = usual.before_date(),
                             .one_node = !usual.has_several_nodes() || !usual.several_nodes(),
                             .several_nodes = !usual.has_several_nodes() || usual.several_nodes()});
  }
  SourcedReader read(message.source(), where, profile.sources, profile.values);
  read_communication(message, read, profile);
  read_host(message, read, profile);
  if (message.has_tables()) read_tables(message.tables(), read, where, profile);
  return profile;
}

RankVariation parse_rank_variation(std::string_view text, std::string_view where) {
  proto::RankVariation message;
  parse_textproto(text, where, message);
  RankVariation variation;
  SourcedReader read(message.source(), where, variation.sources, variation.values);
  variation.rank_sd = read.number(TRACECAST_FIELD(rank_sd), 0, 1);
  variation.shared_board_time_factor = read.number(TRACECAST_FIELD(shared_board_time_factor), 1, 2);
  variation.staged_copies =
      BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(staged_copies_gb_per_s), 0.1, 1e3));
  variation.tcp_thread =
      BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(tcp_gb_per_s), 0.01, 1e3));
  variation.tcp_cpu = read.word(TRACECAST_FIELD(tcp_cpu));
  variation.tcp_link = read.word(TRACECAST_FIELD(tcp_link));
  return variation;
}

#undef TRACECAST_FIELD

}  // namespace tracecast
