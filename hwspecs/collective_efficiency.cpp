#include "hwspecs/collective_efficiency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/collective_efficiency.pb.h"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

constexpr Bytes kKib(1024);

class Reader {
 public:
  Reader(std::string_view text, std::string_view where) : where_(where) {
    parse_textproto(text, where, message_);
  }

  CollectiveEfficiency read() {
    CollectiveEfficiency efficiency;
    efficiency.data_set = message_.data_set();
    for (const auto& g : message_.generation()) {
      at_ = "generation";
      efficiency.generations.push_back(
          {link(g), g.from_capability(), number(g.hop_kilocycles(), 0.01, 100),
           number(g.start_kilocycles(), 0, 1000),
           static_cast<int>(number(g.has_dies() ? g.dies() : 1, 1, 64))});
    }
    for (const auto& w : message_.way()) efficiency.rings.push_back(ring(w));
    at_ = "nvls";
    const auto& nvls = message_.nvls();
    efficiency.nvls = {number(nvls.round_hops(), 0, 1e3), number(nvls.gpus_exponent(), 0, 2),
                       number(nvls.fill_rounds(), 0, 100), number(nvls.link_fraction(), 0.01, 2)};
    for (const auto& m : message_.messages()) {
      at_ = "messages";
      efficiency.messages.push_back(
          {link(m), hops(m.start_hops()), hops(m.peer_hops()), hops(m.grow_hops()),
           kKib * number(m.grow_kib(), 0.01, 1e9), number(m.link_fraction(), 0.01, 2),
           number(m.local_share(), 0, 10), number(m.pair_fraction(), 0.01, 2)});
    }
    for (const auto& k : message_.kernel()) efficiency.kernels.push_back(kernel(k));
    for (const auto& s : message_.uncertainty()) {
      at_ = "uncertainty";
      efficiency.uncertainties.push_back({link(s), kKib * number(s.from_kib(), 0, 1e9),
                                          number(s.log_sd(), 0.001, 3), s.of_kernels()});
    }
    at_ = "isolated";
    efficiency.isolated = {us(message_.isolated().wait_us(), 0),
                           number(message_.isolated().factor(), 0.5, 2),
                           number(message_.isolated().log_sd_below_1_mib(), 0.001, 3),
                           number(message_.isolated().log_sd(), 0.001, 3)};
    return efficiency;
  }

 private:
  [[nodiscard]] double number(double value, double low, double high) const {
    if (value >= low && value <= high) return value;
    throw InputError(fmt::format("{}, {}", where_, at_), fmt::format("{}", value),
                     fmt::format("{} to {}", low, high));
  }
  [[nodiscard]] double hops(double value) const { return number(value, 0, 1e4); }
  [[nodiscard]] Seconds us(double value, double low) const {
    return Seconds(1e-6 * number(value, low, 1e4));
  }
  template <typename Message>
  [[nodiscard]] EfficiencyLink link(const Message& message) const {
    if (message.has_link()) return from_proto<EfficiencyLink>(message.link());
    throw InputError(fmt::format("{}, {}", where_, at_), "no link", "NVLINK or PCIE");
  }

  template <typename Enum>
  [[nodiscard]] Enum find(std::string_view word, std::initializer_list<Enum> all) const {
    std::string names;
    for (const Enum one : all) {
      if (to_string(one) == word) return one;
      names += (names.empty() ? "" : ", ") + std::string(to_string(one));
    }
    throw InputError(fmt::format("{}, {}", where_, at_), fmt::format("\"{}\"", word),
                     "one of " + names);
  }

  RingEfficiency ring(const proto::CollectiveEfficiency::Way& w) {
    at_ = "way";
    return {link(w),
            find(w.protocol(), {CollectiveProtocol::LowLatency, CollectiveProtocol::LowLatency128,
                                CollectiveProtocol::Simple}),
            hops(w.start_hops()),
            hops(w.step_hops()),
            static_cast<int>(number(w.slices(), 1, 64)),
            hops(w.slice_hops()),
            number(w.link_fraction(), 0.01, 2),
            number(w.local_per_pass(), 0, 10),
            number(w.local_once(), 0, 10),
            hops(w.distributed_hops())};
  }

  KernelEfficiency kernel(const proto::CollectiveEfficiency::Kernel& k) {
    at_ = "kernel";
    return {k.library(),
            find(k.algorithm(),
                 {KernelAlgorithm::OneShot, KernelAlgorithm::TwoShot, KernelAlgorithm::Multicast}),
            us(k.start_us(), 0),
            hops(k.start_hops()),
            hops(k.rank_hops()),
            kKib * number(k.window_kib(), 0, 1e9),
            number(k.link_fraction(), 0.01, 2)};
  }

  std::string_view where_, at_;
  proto::CollectiveEfficiency message_;
};

std::string_view name(EfficiencyLink link) {
  return link == EfficiencyLink::Nvlink ? "NVLINK" : "PCIE";
}

/// Four digits are more than the data determine, and the same from every compiler.
std::string n(double value) { return fmt::format("{:.4g}", value); }
double kib(Bytes bytes) { return bytes / kKib; }

}  // namespace

const GenerationFactors* CollectiveEfficiency::find_generation(EfficiencyLink link,
                                                               int capability) const {
  const GenerationFactors* found = nullptr;
  for (const GenerationFactors& g : generations) {
    if (g.link != link || g.from_capability > capability) continue;
    if (found == nullptr || g.from_capability > found->from_capability) found = &g;
  }
  return found;
}

const RingEfficiency* CollectiveEfficiency::find_ring(EfficiencyLink link,
                                                      CollectiveProtocol protocol) const {
  for (const RingEfficiency& ring : rings) {
    if (ring.link == link && ring.protocol == protocol) return &ring;
  }
  return nullptr;
}

const MessageEfficiency* CollectiveEfficiency::find_messages(EfficiencyLink link) const {
  for (const MessageEfficiency& m : messages) {
    if (m.link == link) return &m;
  }
  return nullptr;
}

const KernelEfficiency* CollectiveEfficiency::find_kernel(std::string_view library,
                                                          KernelAlgorithm algorithm) const {
  for (const KernelEfficiency& k : kernels) {
    if (k.library == library && k.algorithm == algorithm) return &k;
  }
  return nullptr;
}

double CollectiveEfficiency::log_sd(EfficiencyLink link, Bytes bytes, bool is_kernel) const {
  constexpr double kWithoutEntry = 0.2;
  const EfficiencySd* found = nullptr;
  for (const EfficiencySd& s : uncertainties) {
    if (s.link != link || s.is_of_kernels != is_kernel || s.from > bytes) continue;
    if (found == nullptr || s.from > found->from) found = &s;
  }
  return found == nullptr ? kWithoutEntry : found->log_sd;
}

CollectiveEfficiency parse_collective_efficiency(std::string_view text, std::string_view where) {
  return Reader(text, where).read();
}

std::string collective_efficiency_text(const CollectiveEfficiency& efficiency,
                                       std::string_view comment) {
  std::string text(comment);
  text += fmt::format("data_set: \"{}\"\n", efficiency.data_set);
  for (const GenerationFactors& g : efficiency.generations) {
    text += fmt::format(
        "generation {{ link: {} from_capability: {} hop_kilocycles: {} start_kilocycles: {} dies: "
        "{} }}\n",
        name(g.link), g.from_capability, n(g.hop_kilocycles), n(g.start_kilocycles), g.dies);
  }
  for (const RingEfficiency& r : efficiency.rings) {
    text += fmt::format(
        "way {{\n  link: {} protocol: \"{}\" start_hops: {} step_hops: {} slices: {} slice_hops: "
        "{}\n  link_fraction: {} local_per_pass: {} local_once: {} distributed_hops: {}\n}}\n",
        name(r.link), to_string(r.protocol), n(r.start_hops), n(r.step_hops), r.slices,
        n(r.slice_hops), n(r.link_fraction), n(r.local_per_pass), n(r.local_once),
        n(r.distributed_hops));
  }
  text +=
      fmt::format("nvls {{ round_hops: {} gpus_exponent: {} fill_rounds: {} link_fraction: {} }}\n",
                  n(efficiency.nvls.round_hops), n(efficiency.nvls.gpus_exponent),
                  n(efficiency.nvls.fill_rounds), n(efficiency.nvls.link_fraction));
  for (const MessageEfficiency& m : efficiency.messages) {
    text += fmt::format(
        "messages {{\n  link: {} start_hops: {} peer_hops: {} grow_hops: {} grow_kib: {} "
        "link_fraction: {} local_share: {} pair_fraction: {}\n}}\n",
        name(m.link), n(m.start_hops), n(m.peer_hops), n(m.grow_hops), n(kib(m.grow)),
        n(m.link_fraction), n(m.local_share), n(m.pair_fraction));
  }
  for (const KernelEfficiency& k : efficiency.kernels) {
    text += fmt::format(
        "kernel {{\n  library: \"{}\" algorithm: \"{}\" start_us: {} start_hops: {} rank_hops: {} "
        "window_kib: {} link_fraction: {}\n}}\n",
        k.library, to_string(k.algorithm), n(k.start.in_us()), n(k.start_hops), n(k.rank_hops),
        n(kib(k.window)), n(k.link_fraction));
  }
  for (const EfficiencySd& s : efficiency.uncertainties) {
    text += fmt::format("uncertainty {{ link: {} from_kib: {} log_sd: {}{} }}\n", name(s.link),
                        n(kib(s.from)), n(s.log_sd), s.is_of_kernels ? " of_kernels: true" : "");
  }
  text += fmt::format("isolated {{ wait_us: {} factor: {} log_sd_below_1_mib: {} log_sd: {} }}\n",
                      n(efficiency.isolated.wait.in_us()), n(efficiency.isolated.factor),
                      n(efficiency.isolated.small_log_sd), n(efficiency.isolated.large_log_sd));
  return text;
}

}  // namespace tracecast
