#include <fmt/format.h>

#include <cctype>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "hwspecs/default_machine.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/network/collective.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// Of measured over predicted: links and versions are guessed.
constexpr double kLogSd = 0.2;

/// All-reduces among GPUs of one kind on the machine that is assumed for them.
class AllReduces {
 public:
  explicit AllReduces(const Hardware& hardware) : hardware_(hardware) {}

  /// `network`: what the NICs have instead of the machine's own; empty: that.
  Seconds time(const std::string& gpu_word, int gpus, int nodes, Bytes bytes,
               const CollectiveLibrary& library, const std::string& network) {
    const GpuSpec& gpu = hardware_.gpus().find(gpu_word);
    const std::string key = fmt::format("{}/{}/{}/{}/{}", gpu.id, gpus, nodes, library.id, network);
    auto it = known_.find(key);
    if (it == known_.end()) {
      const DefaultMachine host = hardware_.specs().default_machine(gpu, gpus / nodes);
      ClusterSpec spec = uniform_cluster(host.machine, gpus / nodes, nodes, gpu.id);
      spec.network.link = network;
      const Fabric fabric = build_fabric(spec, hardware_.specs());
      const std::vector<Rank> ranks = all_ranks(fabric);
      it = known_.try_emplace(key, fabric, Communicator(fabric, ranks, library)).first;
    }
    const auto& [fabric, communicator] = it->second;
    return time_alone(communicator.plan(Collective::AllReduce, bytes), fabric);
  }

  [[nodiscard]] const SpecLibrary& specs() const { return hardware_.specs(); }

 private:
  const Hardware& hardware_;
  std::map<std::string, std::pair<Fabric, Communicator>> known_;
};

/// kernels/allreduce.csv.
class AllReduceTable final : public RowPredictor {
 public:
  AllReduceTable(const CsvReader& reader, const Hardware& hardware)
      : reduces_(hardware), records_(hardware.specs(), reader) {}
  std::string_view table() const override { return "all-reduces"; }
  std::string_view unit() const override { return "us"; }
  std::string_view convention() const override {
    return "Hosts are not described: the machine is the one assumed for the GPU. The network is "
           "the one that the "
           "row's source names. The algorithm is the row's: NCCL of "
           "its version, MPI, Baidu's ring.";
  }

  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const auto gpus = static_cast<int>(row.integer("ngpus", 1, 100'000));
    const auto nodes =
        static_cast<int>(row.text_or_empty("nodes").empty() ? 1 : row.integer("nodes", 1, 100'000));
    if (gpus % nodes != 0) return skip("nodes with unequal numbers of GPUs");
    // "NCCL 2.0 MPI", "OSU Allreduce"; without a word of it, a recent NCCL.
    const std::string_view algo = row.text_or_empty("algo");
    const CollectiveLibrary* library =
        reduces_.specs().find_collective_library_in(algo.empty() ? "nccl" : algo);
    if (library == nullptr) return skip("algorithm " + std::string(algo));
    const Seconds time =
        reduces_.time(std::string(row.text("gpu")), gpus, nodes, Bytes(row.positive("bytes")),
                      *library, nodes > 1 ? records_.program_of(reader).link : "");
    return {.measured = row.positive("time_us"),
            .predicted = interval90(time.in_us(), kLogSd),
            .basis = "spec",
            .skipped = {}};
  }

 private:
  AllReduces reduces_;
  PublishedRows records_;
};

/// Output of nccl-tests as a table; GPU and their number stand in the file's name
/// ("v100_AR_GPU8_...").
class NcclTestTable final : public RowPredictor {
 public:
  NcclTestTable(const CsvReader& reader, const Hardware& hardware) : reduces_(hardware) {
    const std::string name = to_lower(reader.file_name());
    const std::size_t at = name.find("_ar_gpu");
    if (at == name.npos) {
      reason_ = "GPU and number are not in the file's name: such as v100_AR_GPU8.csv";
      return;
    }
    gpu_ = with_nvlink(name.substr(0, at), hardware.gpus());
    const std::size_t begin = at + 7;
    const std::size_t end = std::min(name.find_first_not_of("0123456789", begin), name.size());
    const auto gpus = parse_integer(name.substr(begin, end - begin));
    if (!gpus || *gpus < 1 || *gpus > 1024) {
      reason_ = "no number of GPUs in the file's name: such as v100_AR_GPU8.csv";
      return;
    }
    gpus_ = static_cast<int>(*gpus);
  }
  std::string_view table() const override { return "nccl-tests"; }
  std::string_view unit() const override { return "us"; }
  std::string_view convention() const override {
    return "All-reduce out of place, one node, a recent NCCL; GPU and number from the file's name "
           "(of a short name the SXM module), the machine assumed for them.";
  }
  bool may_repeat_columns() const override { return true; }

  RowResult predict(const CsvReader& reader) override {
    if (!reason_.empty()) return skip(reason_);
    const RowFields row(reader);
    const Seconds time = reduces_.time(gpu_, gpus_, 1, Bytes(row.positive("size(B)")),
                                       reduces_.specs().find_collective_library("nccl"), "");
    return {.measured = row.positive("time(ns)") * 1e-3,
            .predicted = interval90(time.in_us(), kLogSd),
            .basis = "spec",
            .skipped = {}};
  }

 private:
  /// "p100" may be a card or a module: the module, whose links such tables are about, if there is
  /// one.
  static std::string with_nvlink(const std::string& word, const GpuCatalog& gpus) {
    try {
      const GpuSpec& usual = gpus.find(word);
      if (usual.nvlink_bandwidth > BytesPerSecond(0)) return usual.id;
    } catch (const InputError&) {
      // Said when the rows are predicted.
    }
    for (const GpuSpec& gpu : gpus.all()) {
      if (gpu.id.starts_with(word + "_sxm")) return gpu.id;
    }
    return word;
  }

  AllReduces reduces_;
  std::string gpu_, reason_;
  int gpus_ = 0;
};

}  // namespace

std::vector<TableKind> collective_tables() {
  return {{.name = "all-reduces",
           .required = {"ngpus", "bytes", "time_us"},
           .make = [](const CsvReader& reader,
                      const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<AllReduceTable>(reader, hardware);
           }},
          {.name = "nccl-tests",
           .required = {"size(B)", "count", "time(ns)"},
           .make = [](const CsvReader& reader,
                      const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
             return std::make_unique<NcclTestTable>(reader, hardware);
           }}};
}

}  // namespace tracecast
