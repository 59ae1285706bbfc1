#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "calibrate/table/published_rows.hpp"
#include "hwspecs/collective_efficiency.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/network/collective.hpp"
#include "tools/validate/collective_words.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// Collectives among GPUs of one kind, each communicator built once.
class Boxes {
 public:
  explicit Boxes(const Hardware& hardware) : hardware_(hardware) {}

  struct Asked {
    std::string gpu;
    int nodes = 1, gpus_per_node = 1;
    std::string machine;  ///< empty: the one assumed for the GPU
    const CollectiveLibrary* library = nullptr;
  };

  /// Median and interval in microseconds. Throws InputError: more GPUs than the machine has slots.
  Interval predict(const Asked& asked, Collective collective, Bytes bytes, bool is_isolated) {
    const auto& [fabric, communicator] = find(asked);
    Seconds time = time_alone(communicator.plan(collective, bytes), fabric);
    if (!is_isolated) return interval90(time.in_us(), communicator.log_sd(bytes));
    const IsolatedEfficiency& isolated = hardware_.specs().collective_efficiency().isolated;
    const bool is_small = bytes < Bytes(1024 * 1024);
    return interval90(isolated.time(time).in_us(),
                      is_small ? isolated.small_log_sd : isolated.large_log_sd);
  }

  [[nodiscard]] const GpuSpec& gpu(const std::string& word) const {
    return hardware_.gpus().find(word);
  }

 private:
  using Box = std::pair<Fabric, Communicator>;
  const Box& find(const Asked& asked) {
    const GpuSpec& gpu = hardware_.gpus().find(asked.gpu);
    const std::string key = fmt::format("{}/{}/{}/{}/{}", gpu.id, asked.nodes, asked.gpus_per_node,
                                        asked.machine, asked.library->id);
    auto it = known_.find(key);
    if (it != known_.end()) return it->second;
    const std::string machine =
        asked.machine.empty() ? hardware_.specs().default_machine(gpu, asked.gpus_per_node).machine
                              : asked.machine;
    const ClusterSpec spec = uniform_cluster(machine, asked.gpus_per_node, asked.nodes, gpu.id);
    const Fabric fabric = build_fabric(spec, hardware_.specs());
    const std::vector<Rank> ranks = all_ranks(fabric);
    return known_.try_emplace(key, fabric, Communicator(fabric, ranks, *asked.library))
        .first->second;
  }

  const Hardware& hardware_;
  std::map<std::string, Box> known_;
};

/// A table of times of collectives: which columns tell what ran where.
class TimeTable : public RowPredictor {
 public:
  TimeTable(const CsvReader& reader, const Hardware& hardware)
      : boxes_(hardware),
        records_(hardware.specs(), reader),
        specs_(hardware.specs()),
        file_(to_lower(reader.file_name().substr(0, reader.file_name().find('.')))) {}
  std::string_view unit() const final { return "us"; }

 protected:
  RowResult report(const CsvReader& reader, Boxes::Asked asked, Collective collective,
                   std::string flag = "") {
    const RowFields row(reader);
    RowResult result;
    if (asked.machine.empty()) asked.machine = records_.program_of(reader).box;
    result.measured = row.positive("time_us");
    result.predicted =
        boxes_.predict(asked, collective, Bytes(row.positive("bytes")), is_isolated_);
    result.basis = "spec";
    result.metric = "time_us";
    result.flag = std::move(flag);
    return result;
  }
  Boxes boxes_;
  PublishedRows records_;
  const SpecLibrary& specs_;
  std::string file_;          ///< its name without ending
  bool is_isolated_ = false;  ///< kernels launched alone, as a profiler sees them
};

constexpr std::int64_t kMostGpus = 1'000'000;

/// nccl.csv of aiconfigurator.
class NcclTable final : public TimeTable {
 public:
  using TimeTable::TimeTable;
  std::string_view table() const override { return "collectives of NCCL"; }
  std::string_view convention() const override {
    return "nccl-tests in one process on one node, mean of calls back to back; NCCL 2.23 to 2.29; "
           "the "
           "machine is the one assumed for the GPU.";
  }
  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const auto collective = find_collective(row.text("op_name"));
    if (!collective) return skip("operation " + std::string(row.text("op_name")));
    return report(
        reader,
        {std::string(row.gpu()), 1, static_cast<int>(row.integer("num_gpus", 1, kMostGpus)), "",
         &specs_.find_collective_library("nccl", "2.27")},
        *collective, std::string(row.text_or_empty("flag")));
  }
};

/// custom_all_reduce.csv of aiconfigurator.
class EngineTable final : public TimeTable {
 public:
  using TimeTable::TimeTable;
  std::string_view table() const override { return "all-reduces of inference engines"; }
  std::string_view convention() const override {
    return "The engine's own kernel where it takes the buffer, else NCCL; replayed from a CUDA "
           "graph. "
           "Rows that the host launched (flag eager) hold its time, which is not predicted.";
  }
  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const std::string source = to_lower(row.text("kernel_source"));
    const std::string_view library = custom_all_reduce_library(source);
    if (library.empty()) return skip("engine " + std::string(row.text("kernel_source")));
    std::string flag(row.text_or_empty("flag"));
    if (source.find("eager") != source.npos) flag += flag.empty() ? "eager" : ";eager";
    return report(
        reader,
        {std::string(row.gpu()), 1, static_cast<int>(row.integer("num_gpus", 1, kMostGpus)), "",
         &specs_.find_collective_library(library)},
        Collective::AllReduce, std::move(flag));
  }
};

/// vidur_all_reduce.csv and vidur_send_recv.csv: told apart by the file's name.
class VidurTable final : public TimeTable {
 public:
  VidurTable(const CsvReader& reader, const Hardware& hardware) : TimeTable(reader, hardware) {
    if (file_.find("send_recv") != file_.npos) collective_ = Collective::SendReceive;
    is_isolated_ = collective_ == Collective::AllReduce;
    is_known_ = collective_ == Collective::SendReceive || file_.find("all_reduce") != file_.npos;
  }
  std::string_view table() const override { return "collectives of Vidur"; }
  std::string_view convention() const override {
    return "Duration of NCCL's kernel, waiting for peers included, whole microseconds; which "
           "collective "
           "it is stands in the file's name. The network between nodes is not stated: flag "
           "network.";
  }
  RowResult predict(const CsvReader& reader) override {
    if (!is_known_) return skip("neither all_reduce nor send_recv in the file's name");
    const RowFields row(reader);
    const auto gpus = static_cast<int>(row.integer("num_gpus", 1, kMostGpus));
    const auto per_node = static_cast<int>(row.integer("gpus_per_node", 1, kMostGpus));
    if (gpus % per_node != 0) return skip("nodes with unequal numbers of GPUs");
    // Boxes called pair_nvlink hold cards of which two each are bridged.
    const bool paired = row.text_or_empty("box").find("pair") != std::string_view::npos;
    return report(
        reader,
        {std::string(row.gpu()), gpus / per_node, per_node, paired ? "pcie_host_bridged" : "",
         &specs_.find_collective_library("nccl", "", "2024-03")},
        collective_, gpus > per_node ? "network" : "");
  }

 private:
  Collective collective_ = Collective::AllReduce;
  bool is_known_ = false;
};

/// apex_collectives.csv.
class ApexTable final : public TimeTable {
 public:
  using TimeTable::TimeTable;
  std::string_view table() const override { return "collectives of apex_plus"; }
  std::string_view convention() const override {
    return "NCCL 2.18 called from Python, host clock around calls back to back. Nodes of V100 "
           "cards are virtual machines of four; the network between nodes is not stated (flag "
           "network).";
  }
  RowResult predict(const CsvReader& reader) override {
    const RowFields row(reader);
    const auto collective = find_collective(row.text("op_name"));
    if (!collective) return skip("operation " + std::string(row.text("op_name")));
    const auto nodes = static_cast<int>(row.integer("num_nodes", 1, kMostGpus));
    return report(reader,
                  {std::string(row.gpu()), nodes,
                   static_cast<int>(row.integer("gpus_per_node", 1, kMostGpus)), "",
                   &specs_.find_collective_library("nccl", "2.18")},
                  *collective, nodes > 1 ? "network" : "");
  }
};

template <typename Table>
TableKind kind(std::string_view name, std::vector<std::string_view> required) {
  return {.name = name,
          .required = std::move(required),
          .make = [](const CsvReader& reader,
                     const Hardware& hardware) -> std::unique_ptr<RowPredictor> {
            return std::make_unique<Table>(reader, hardware);
          }};
}

}  // namespace

std::vector<TableKind> modern_collective_tables() {
  return {
      kind<NcclTable>("collectives of NCCL", {"gpu", "op_name", "num_gpus", "bytes", "time_us"}),
      kind<EngineTable>("all-reduces of inference engines",
                        {"gpu", "kernel_source", "num_gpus", "bytes", "time_us"}),
      kind<VidurTable>("collectives of Vidur",
                       {"gpu", "num_gpus", "gpus_per_node", "bytes", "time_us"}),
      kind<ApexTable>("collectives of apex_plus",
                      {"gpu", "op_name", "num_nodes", "gpus_per_node", "bytes", "time_us"})};
}

}  // namespace tracecast
