#include "hwspecs/collective_library.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "hwspecs/loaders/proto_units.hpp"
#include "hwspecs/loaders/spec_reader.hpp"
#include "hwspecs/proto/collective_library.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

/// Facts that may be left out.
constexpr std::string_view kLibraryOptional[] = {"library",
                                                 "from_version",
                                                 "from_date",
                                                 "kind",
                                                 "limited",
                                                 "otherwise",
                                                 "relays_nvlink",
                                                 "nvlink_sharp",
                                                 "network_sharp",
                                                 "trees_from_nodes",
                                                 "host_bridge_overhead",
                                                 "staging_overhead",
                                                 "relay_overhead",
                                                 "ring_plateau",
                                                 "step_us",
                                                 "gb_per_s_of_socket_thread",
                                                 "most_socket_threads"};

CollectiveAlgorithm from(proto::CollectiveLibrary::Algorithm algorithm) {
  return from_proto<CollectiveAlgorithm>(algorithm);
}
static_assert(static_cast<int>(proto::CollectiveLibrary::NVLS) - 1 ==
              static_cast<int>(CollectiveAlgorithm::Nvls));
static_assert(static_cast<int>(proto::CollectiveLibrary::SIMPLE) - 1 ==
              static_cast<int>(CollectiveProtocol::Simple));
static_assert(static_cast<int>(proto::CollectiveLibrary::TREE_COPIES) - 1 ==
              static_cast<int>(LibraryKind::TreeCopies));

class LibraryLoader {
 public:
  LibraryLoader(std::string_view text, std::string_view where, CollectiveLibrary& library)
      : library_(library), reader_(text, where, kLibraryOptional, message_, identity_) {}

  void load() {
    static_cast<SpecIdentity&>(library_) = identity_;
    if (message_.has_library()) library_.library = message_.library().value();
    library_.words.insert(library_.words.end(), message_.word().begin(), message_.word().end());
    if (message_.has_from_version()) library_.from_version = message_.from_version().value();
    if (message_.has_from_date()) library_.from_date = message_.from_date().value();
    if (message_.has_kind()) library_.kind = from_proto<LibraryKind>(message_.kind().value());
    if (message_.has_trees_from_nodes()) {
      library_.trees_from_nodes = to_int(message_.trees_from_nodes());
    }
    if (message_.has_relays_nvlink()) library_.relays_nvlink = message_.relays_nvlink().value();
    if (message_.has_network_sharp()) library_.network_sharp = message_.network_sharp().value();
    if (message_.has_nvlink_sharp()) library_.nvlink_sharp = message_.nvlink_sharp().value();
    if (message_.has_host_bridge_overhead()) {
      library_.host_bridge_overhead = message_.host_bridge_overhead().value();
    }
    if (message_.has_staging_overhead()) {
      library_.staging_overhead = message_.staging_overhead().value();
    }
    if (message_.has_relay_overhead()) library_.relay_overhead = message_.relay_overhead().value();
    if (message_.has_ring_plateau()) library_.ring_plateau = message_.ring_plateau().value();
    if (message_.has_gb_per_s_of_socket_thread()) {
      library_.line_rate_of_socket_thread = from_gb_per_s(message_.gb_per_s_of_socket_thread());
    }
    if (message_.has_most_socket_threads()) {
      library_.most_socket_threads = to_int(message_.most_socket_threads());
    }
    if (message_.has_step_us()) library_.step = from_us(message_.step_us());
    for (int i = 0; i < message_.path_size(); ++i) load_path(i);
    for (int i = 0; i < message_.cap_size(); ++i) load_cap(i);
    for (int i = 0; i < message_.tree_correction_size(); ++i) load_correction(i);
    if (message_.has_limited()) library_.is_limited = message_.limited().value();
    if (message_.has_otherwise()) library_.otherwise = message_.otherwise().value();
    for (int i = 0; i < message_.channel_speeds_size(); ++i) load_speeds(i);
    for (int i = 0; i < message_.switch_reduction_size(); ++i) load_reduction(i);
    for (int i = 0; i < message_.kernel_size(); ++i) load_kernel(i);
  }

 private:
  [[nodiscard]] double number(const char* field, int i, double value, double low,
                              double high) const {
    reader_.check(value >= low && value <= high, field, fmt::format("{}", value),
                  fmt::format("{} to {}", low, high), i);
    return value;
  }

  void load_path(int i) {
    const auto& drawn = message_.path(i);
    reader_.check_source("path", drawn.source(), i);
    const auto us = [&](double value) { return Seconds(1e-6 * number("path", i, value, 0, 1e4)); };
    CollectivePath path{from(drawn.algorithm()),
                        from_proto<CollectiveProtocol>(drawn.protocol()),
                        us(drawn.base_us()),
                        us(drawn.nvlink_us()),
                        us(drawn.pcie_us()),
                        us(drawn.network_us()),
                        number("path", i, drawn.bandwidth_fraction(), 0.01, 1)};
    std::erase_if(library_.paths, [&](const CollectivePath& known) {
      return known.algorithm == path.algorithm && known.protocol == path.protocol;
    });
    library_.paths.push_back(path);
  }

  void load_cap(int i) {
    const auto& drawn = message_.cap(i);
    reader_.check_source("cap", drawn.source(), i);
    const auto rates = [&](const auto& values) {
      reader_.check(values.empty() || values.size() == 3, "cap", "with other than three values",
                    "one for one node, two nodes, more", i);
      std::vector<BytesPerSecond> result;
      for (const double value : values) {
        result.emplace_back(1e9 * number("cap", i, value, 0.1, 1e5));
      }
      return result;
    };
    CollectiveCap cap{drawn.from_capability(), from(drawn.algorithm()),
                      from_proto<CollectiveProtocol>(drawn.protocol()),
                      rates(drawn.per_channel_gb_per_s()), rates(drawn.in_all_gb_per_s())};
    std::erase_if(library_.caps, [&](const CollectiveCap& known) {
      return std::tie(known.from_capability, known.algorithm, known.protocol) ==
             std::tie(cap.from_capability, cap.algorithm, cap.protocol);
    });
    library_.caps.push_back(std::move(cap));
  }

  void load_correction(int i) {
    const auto& drawn = message_.tree_correction(i);
    reader_.check_source("tree_correction", drawn.source(), i);
    auto& factors = library_.tree_correction[static_cast<std::size_t>(drawn.protocol()) - 1];
    factors.clear();
    for (const double factor : drawn.factor()) {
      factors.push_back(number("tree_correction", i, factor, 0.05, 1));
    }
  }

  /// Makes room for a generation's entry: a file's own replaces that of the file it is based on.
  template <typename Entry>
  static void replace(std::vector<Entry>& entries, Entry entry) {
    std::erase_if(entries, [&](const Entry& known) {
      return known.from_capability == entry.from_capability;
    });
    entries.push_back(std::move(entry));
  }

  void load_speeds(int i) {
    const auto& drawn = message_.channel_speeds(i);
    reader_.check_source("channel_speeds", drawn.source(), i);
    ChannelSpeeds entry{drawn.from_capability(), {}};
    for (const double speed : drawn.gb_per_s()) {
      entry.speeds.emplace_back(1e9 * number("channel_speeds", i, speed, 0.1, 1e4));
    }
    replace(library_.channel_speeds, std::move(entry));
  }

  void load_reduction(int i) {
    const auto& drawn = message_.switch_reduction(i);
    reader_.check_source("switch_reduction", drawn.source(), i);
    replace(
        library_.switch_reductions,
        SwitchReduction{drawn.from_capability(),
                        static_cast<int>(number("switch_reduction", i, drawn.channels(), 1, 1000)),
                        number("switch_reduction", i, drawn.efficiency(), 0.01, 1),
                        number("switch_reduction", i, drawn.algorithm_share(), 0.01, 1)});
  }

  void load_kernel(int i) {
    const auto& drawn = message_.kernel(i);
    reader_.check_source("kernel", drawn.source(), i);
    EngineKernel kernel{drawn.from_capability(),
                        static_cast<int>(number("kernel", i, drawn.ranks(), 2, 1000)),
                        {},
                        Bytes(1024 * number("kernel", i, drawn.most_kib(), 0.001, 1e9))};
    for (const KernelAlgorithm a :
         {KernelAlgorithm::OneShot, KernelAlgorithm::TwoShot, KernelAlgorithm::Multicast}) {
      if (to_string(a) != drawn.algorithm()) continue;
      kernel.algorithm = a;
      library_.kernels.push_back(kernel);
      return;
    }
    reader_.refuse("kernel", fmt::format("\"{}\"", drawn.algorithm()),
                   "one-shot, two-shot or multicast", i);
  }

  CollectiveLibrary& library_;
  proto::CollectiveLibrary message_;
  SpecIdentity identity_;
  SpecReader reader_;
};

std::string based_on(std::string_view text, std::string_view where) {
  proto::CollectiveLibrary message;
  parse_textproto(text, where, message);
  return message.based_on();
}

}  // namespace

std::string_view to_string(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::None:
      return "none";
    case CollectiveAlgorithm::Ring:
      return "ring";
    case CollectiveAlgorithm::Tree:
      return "tree";
    case CollectiveAlgorithm::Nvls:
      return "nvls";
    case CollectiveAlgorithm::Direct:
      return "direct";
  }
  return "unknown";
}

std::string_view to_string(KernelAlgorithm algorithm) {
  switch (algorithm) {
    case KernelAlgorithm::OneShot:
      return "one-shot";
    case KernelAlgorithm::TwoShot:
      return "two-shot";
    case KernelAlgorithm::Multicast:
      return "multicast";
  }
  return "unknown";
}

std::string_view to_string(CollectiveProtocol protocol) {
  switch (protocol) {
    case CollectiveProtocol::Simple:
      return "simple";
    case CollectiveProtocol::LowLatency:
      return "ll";
    case CollectiveProtocol::LowLatency128:
      return "ll128";
  }
  return "unknown";
}

int CollectiveLibrary::socket_threads(BytesPerSecond line_rate, int available) const {
  const int most = std::max(1, std::min(most_socket_threads, available));
  if (line_rate_of_socket_thread <= BytesPerSecond(0)) return 1;
  const double threads = std::floor(line_rate / line_rate_of_socket_thread * (1 + 1e-9));
  return static_cast<int>(std::clamp<double>(threads, 1, most));
}

CollectiveLibrary parse_collective_library(std::string_view text, std::string_view where,
                                           const FindSpecText& find) {
  constexpr std::size_t kMostFiles = 32;
  std::vector<SpecText> line{{text, std::string(where)}};
  for (std::string base = based_on(text, where); !base.empty();
       base = based_on(line.back().text, line.back().where)) {
    const auto found = find(base);
    if (!found || line.size() == kMostFiles) {
      throw InputError(line.back().where, fmt::format("based_on \"{}\"", base),
                       "the id of another file, and no circle");
    }
    line.push_back(*found);
  }
  CollectiveLibrary library;
  for (auto at = line.rbegin(); at != line.rend(); ++at)
    LibraryLoader(at->text, at->where, library).load();
  if (library.library.empty() || library.from_version.empty() || library.from_date.empty()) {
    throw InputError(where, "no library, from_version or from_date", "all three");
  }
  (void)numbers_in_order(library.from_version, '.', "2.4");
  (void)numbers_in_order(library.from_date, '-', "2019-01");
  return library;
}

std::vector<long long> numbers_in_order(std::string_view text, char separator,
                                        std::string_view example) {
  std::vector<long long> parts;
  for (std::string_view rest = text;;) {
    const std::size_t end = rest.find(separator);
    const auto part = parse_integer(rest.substr(0, end));
    if (!part || *part < 0) {
      throw InputError("collective library", fmt::format("\"{}\"", text),
                       fmt::format("such as {}", example));
    }
    parts.push_back(*part);
    if (end == rest.npos) return parts;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace tracecast
