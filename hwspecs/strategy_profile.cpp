#include "hwspecs/strategy_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "hwspecs/proto/strategy_profile.pb.h"
#include "hwspecs/textproto.hpp"
#include "sim/base/embedded.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace embedded {
std::span<const EmbeddedFile> strategies();
std::span<const EmbeddedFile> rank_variations();
}  // namespace embedded
namespace {

using Message = proto::StrategyProfile;

/// Reads values, each with a check of its presence, its source and its bounds.
class Reader {
 public:
  template <class List>
  Reader(const List& sources, std::string_view where, std::vector<SpecSource>& to,
         std::vector<SpecValue>& values)
      : where_(where), sources_(to), values_(values) {
    for (const auto& s : sources) sources_.push_back({s.key(), s.title(), s.where()});
  }
  double number(std::string_view field, const Message::Number& n, double low, double high) {
    check_present(field, n.has_value());
    if (!(n.value() >= low && n.value() <= high)) {
      throw InputError(where_, fmt::format("{} = {}", field, n.value()),
                       fmt::format("a value from {} to {}", low, high));
    }
    record(field, fmt::format("{}", n.value()), n.source());
    return n.value();
  }
  bool flag(std::string_view field, const Message::Flag& f) {
    check_present(field, f.has_value());
    record(field, f.value() ? "true" : "false", f.source());
    return f.value();
  }
  /// The index of the word among `choices`.
  std::size_t word(std::string_view field, const Message::Word& w,
                   std::span<const std::string> choices) {
    check_present(field, w.has_value());
    const auto it = std::find(choices.begin(), choices.end(), w.value());
    if (it == choices.end()) {
      throw InputError(where_, fmt::format("{} = \"{}\"", field, w.value()),
                       describe_choices(w.value(), choices));
    }
    record(field, w.value(), w.source());
    return static_cast<std::size_t>(it - choices.begin());
  }
  std::string name(std::string_view field, const Message::Word& w) {
    check_present(field, w.has_value() && !w.value().empty());
    record(field, w.value(), w.source());
    return w.value();
  }

 private:
  void check_present(std::string_view field, bool present) {
    if (present) return;
    throw InputError(where_, fmt::format("no {}", field),
                     "every value of the schema, with its source");
  }
  void record(std::string_view field, std::string value, const std::string& source) {
    const bool known = std::any_of(sources_.begin(), sources_.end(),
                                   [&](const SpecSource& s) { return s.key == source; });
    if (!known) {
      throw InputError(where_, fmt::format("{}: source \"{}\"", field, source),
                       "the key of a source in the same file");
    }
    values_.push_back({std::string(field), std::move(value), source});
  }

  std::string_view where_;
  std::vector<SpecSource>& sources_;
  std::vector<SpecValue>& values_;
};

#define TRACECAST_FIELD(name) #name, message.name()

void read_exchange(const Message& message, Reader& read, StrategyProfile& p) {
  const std::array<std::string, 5> exchanges{"all_reduce", "on_host", "spread", "copies",
                                             "first_gpu"};
  p.exchange = static_cast<Exchange>(read.word(TRACECAST_FIELD(exchange), exchanges));
  const std::array<std::string, 3> replicas{"processes", "threads", "python"};
  p.replicas = static_cast<Replicas>(read.word(TRACECAST_FIELD(replicas), replicas));
  p.library = read.name(TRACECAST_FIELD(library));
  constexpr double kMiB = 1048576.0, kMost = 1e6;
  p.bucket = Bytes(kMiB * read.number(TRACECAST_FIELD(bucket_mib), 0, kMost));
  p.first_bucket = Bytes(kMiB * read.number(TRACECAST_FIELD(first_bucket_mib), 0, kMost));
  p.cycle = Seconds(1e-3 * read.number(TRACECAST_FIELD(cycle_ms), 0, 1e4));
  p.overlaps_backward = read.flag(TRACECAST_FIELD(overlaps_backward));
  p.updates_as_they_come = read.flag(TRACECAST_FIELD(updates_as_they_come));
  p.overlaps_next_forward = read.flag(TRACECAST_FIELD(overlaps_next_forward));
  p.gradient_element = Bytes(read.number(TRACECAST_FIELD(gradient_bytes), 0, 8));
  p.packing_copies = read.number(TRACECAST_FIELD(packing_copies), 0, 10);
}

void read_host(const Message& message, Reader& read, StrategyProfile& p) {
  p.host_per_bucket = Seconds(1e-6 * read.number(TRACECAST_FIELD(host_us_per_bucket), 0, 1e6));
  p.host_add = BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(host_add_gb_per_s), 0, 1e4));
  p.message_rate = BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(message_gb_per_s), 0, 1e4));
  p.feed_rate = BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(feed_gb_per_s), 0, 1e4));
  p.forward_lock_share = read.number(TRACECAST_FIELD(forward_lock_share), 0, 1);
  p.backward_lock_share = read.number(TRACECAST_FIELD(backward_lock_share), 0, 1);
  p.replicate_per_op = Seconds(1e-6 * read.number(TRACECAST_FIELD(replicate_us_per_op), 0, 1e5));
}

RankVariation parse_rank_variation(std::string_view text, std::string_view where) {
  proto::RankVariation message;
  parse_textproto(text, where, message);
  RankVariation variation;
  Reader read(message.source(), where, variation.sources, variation.values);
  variation.rank_sd = read.number(TRACECAST_FIELD(rank_sd), 0, 1);
  variation.shared_board_time_factor = read.number(TRACECAST_FIELD(shared_board_time_factor), 1, 2);
  variation.staged_copies =
      BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(staged_copies_gb_per_s), 0.1, 1e3));
  variation.tcp = BytesPerSecond(1e9 * read.number(TRACECAST_FIELD(tcp_gb_per_s), 0.01, 1e3));
  return variation;
}
#undef TRACECAST_FIELD

const std::vector<StrategyProfile>& strategies() {
  static const auto all = [] {
    std::vector<StrategyProfile> parsed;
    for (const EmbeddedFile& file : embedded::strategies()) {
      parsed.push_back(parse_strategy(file.content, file.path));
    }
    std::sort(parsed.begin(), parsed.end(),
              [](const auto& a, const auto& b) { return a.id < b.id; });
    return parsed;
  }();
  return all;
}

}  // namespace

StrategyProfile parse_strategy(std::string_view text, std::string_view where) {
  Message message;
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
  Reader read(message.source(), where, profile.sources, profile.values);
  read_exchange(message, read, profile);
  read_host(message, read, profile);
  return profile;
}

const RankVariation& rank_variation() {
  static const RankVariation variation = parse_rank_variation(
      embedded::rank_variations().front().content, embedded::rank_variations().front().path);
  return variation;
}

const StrategyProfile& find_strategy(std::string_view id) {
  const std::string wanted = to_lower(id);
  for (const StrategyProfile& profile : strategies()) {
    const auto& names = profile.aliases;
    if (profile.id == wanted || std::find(names.begin(), names.end(), wanted) != names.end()) {
      return profile;
    }
  }
  throw InputError("--strategy", fmt::format("\"{}\"", id), describe_choices(id, strategy_ids()));
}

const StrategyProfile* find_strategy_in(std::string_view description) {
  const std::string lower = to_lower(description);
  const StrategyProfile* found = nullptr;
  std::size_t longest = 0;
  for (const StrategyProfile& profile : strategies()) {
    for (const std::string& word : profile.words) {
      if (word.size() > longest && lower.find(word) != std::string::npos) {
        longest = word.size();
        found = &profile;
      }
    }
  }
  return found;
}

const StrategyProfile& usual_strategy(std::string_view framework, std::string_view date,
                                      bool several_nodes) {
  const StrategyProfile* found = nullptr;
  std::string_view until;  // the earliest end after `date`; empty: none yet
  for (const StrategyProfile& profile : strategies()) {
    for (const UsualStrategy& usual : profile.usual) {
      if (usual.framework != framework) continue;
      if (!(several_nodes ? usual.several_nodes : usual.one_node)) continue;
      const std::string_view end = usual.before_date;
      if (!end.empty() && (date.empty() || date >= end)) continue;
      if (!found || (!end.empty() && (until.empty() || end < until))) {
        found = &profile;
        until = end;
      }
    }
  }
  return found ? *found : find_strategy("ddp");
}

std::vector<std::string> strategy_ids() {
  std::vector<std::string> ids;
  for (const StrategyProfile& profile : strategies()) ids.push_back(profile.id);
  return ids;
}

}  // namespace tracecast
