#include "tools/predict/predict_flags.hpp"

#include <fmt/format.h>

#include <vector>

#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "tools/show/network_summary.hpp"

namespace tracecast {
namespace {

/// Flags that one kind of answer has no use for.
struct IdleFlags {
  bool are_idle = false;
  std::vector<std::string_view> flags;
  std::string found;     ///< what there is instead of their subject
  std::string expected;  ///< what would give them one
};

/// Of places and kinds of answer.
std::vector<IdleFlags> idle_by_kind(const FlagContext& c, bool counts_gpus) {
  const bool alone = c.kind == ReportKind::OneGpu || c.kind == ReportKind::Cpu;
  const bool sharded = c.kind == ReportKind::Sharded;
  const bool servers = c.kind == ReportKind::ParameterServers;
  const bool many = c.kind == ReportKind::ManyGpus;
  const bool trains = c.job.phase == "train";
  const std::string on_cpu = "--gpu " + c.job.gpu;
  const std::string parallel_layout = "a transformer divided by --tp, --pp, --zero ...";
  return {
      {alone && !counts_gpus,
       {"--strategy", "--sample-sd", "--no-fold", "--nic", "--no-p2p"},
       "one GPU or CPU",
       "several GPUs: --gpus, --nodes or --cluster"},
      {many && !trains,
       {"--strategy", "--sample-sd", "--no-fold", "--nic", "--no-p2p"},
       "--phase " + c.job.phase,
       "--phase train: nothing is communicated otherwise, and no GPU waits for another"},
      {c.kind == ReportKind::Cpu,
       {"--gpus", "--nodes", "--cluster", "--nic", "--no-p2p", "--servers", "--channel",
        "--placement", "--link", "--server-device", "--async"},
       on_cpu,
       "a GPU"},
      {c.kind == ReportKind::Cpu,
       {"--cudnn-benchmark", "--channels-last"},
       on_cpu,
       "a GPU: cuDNN is a library of GPUs"},
      {c.kind == ReportKind::Cpu && !c.counts_epochs,
       {"--epoch-samples"},
       on_cpu,
       "a GPU: the energy of CPUs is not predicted"},
      {servers,
       {"--explain", "--sample-sd", "--no-fold"},
       "parameter servers on nodes of their own",
       "data-parallel GPUs without them"},
      {sharded || servers,
       {"--program", "--host-from"},
       sharded ? parallel_layout : "parameter servers on nodes of their own",
       "one GPU, or data parallelism without servers"},
      {c.kind == ReportKind::Cpu,
       {"--program", "--host-from"},
       on_cpu,
       "a GPU that the host works for"},
      {sharded,
       {"--strategy", "--sample-sd"},
       parallel_layout,
       "data parallelism by --dp and --zero, with sequences of one length"},
      {sharded,
       {"--servers", "--channel", "--placement", "--link", "--server-device", "--async"},
       parallel_layout,
       "a job without these to have parameter servers"},
      {sharded,
       {"--xla", "--framework-version"},
       parallel_layout,
       "--software, which names the program that divides and its years"},
      {sharded,
       {"--cudnn-benchmark", "--channels-last", "--image-size"},
       parallel_layout,
       "a network of images: transformers have no convolutions"},
      {sharded,
       {"--data", "--host-cpu", "--cpu-threads", "--cpu-quota", "--workers", "--disk",
        "--pipeline"},
       parallel_layout,
       "an undivided network: tokens are at hand, their loading is not predicted"},
      {sharded && !c.counts_epochs,
       {"--epoch-samples"},
       parallel_layout,
       "an undivided network: the energy of divided ones is not predicted"},
      {sharded, {"--dump"}, parallel_layout, "an undivided network, or --explain"},
      {sharded, {"--trace"}, parallel_layout, "no --tp, --pp or --zero"},
      {sharded && c.stages == 1,
       {"--schedule", "--no-fold"},
       "one stage",
       "--pp 2 or more: ranks of one stage do the same"},
      {sharded && c.zero == 0,
       {"--zero-ranks"},
       "--zero 0, which shares nothing",
       "--zero 1, 2 or 3"},
  };
}

/// Of phases, programs and formats.
std::vector<IdleFlags> idle_by_job(const FlagContext& c) {
  const bool sharded = c.kind == ReportKind::Sharded;
  const bool many = c.kind == ReportKind::ManyGpus || c.kind == ReportKind::ParameterServers;
  std::vector<IdleFlags> rows = {
      // The usual one may be spelled out, as scripts do for every phase.
      {c.job.phase != "train" && c.job.optimizer != "none" && !c.job.optimizer.empty() &&
           c.job.optimizer != "momentum",
       {"--optimizer"},
       "--phase " + c.job.phase,
       "--phase train: nothing else updates weights"},
      {many && c.format != "json" && !c.counts_epochs,
       {"--epoch-samples"},
       "--format " + c.format + " of several GPUs, which has no energy",
       "--format json"},
      {!c.dump.empty(),
       {"--explain", "--largest-batch", "--epoch-samples"},
       "--dump " + c.dump,
       "one of the two"},
      {c.explains && !sharded && c.format != "json",
       {"--largest-batch"},
       "--explain, a table alone in " + c.format,
       "one of the two, or --format json"},
      {c.explains && !sharded && c.format != "json" && !c.counts_epochs,
       {"--epoch-samples"},
       "--explain, a table alone in " + c.format,
       "one of the two, or --format json"},
      {c.explains && sharded && c.format == "csv",
       {"--largest-batch"},
       "--explain, a table alone in csv",
       "one of the two, or --format json"},
  };
  if (c.job.network.starts_with(kJobPrefix)) {
    const JobSpec& program = c.specs.find_job_spec(c.job.network.substr(kJobPrefix.size()));
    const std::string fixed = "the program job:" + program.id + ", which has its own";
    rows.push_back({true, {"--framework"}, fixed, "its network by name, to change it"});
    rows.push_back(
        {!program.optimizer.empty(), {"--optimizer"}, fixed, "its network by name, to change it"});
    rows.push_back({!program.data.empty(), {"--data"}, fixed, "its network by name, to change it"});
  }
  return rows;
}

/// The same of what `--set` changes.
void refuse_idle_sets(const FlagContext& c) {
  const bool alone = c.kind == ReportKind::OneGpu, on_cpu = c.kind == ReportKind::Cpu;
  const bool copies = c.job.data != "synthetic";
  for (const std::string& set : c.sets) {
    const std::string path = set.substr(0, set.find('='));
    const std::string box = path.substr(0, path.find('.'));
    const bool of_links = box == "link" || box == "nvlink" || box == "pcie" || box == "network";
    const auto refuse = [&](const std::string& found, const char* expected) {
      throw InputError("--set " + path, found, expected);
    };
    if (box == "sharing") refuse("a job alone on its GPU", "colocate, where jobs take turns");
    if (on_cpu && (box == "gpu" || of_links)) refuse("--gpu " + c.job.gpu, "a GPU");
    if (!alone || !of_links) continue;
    if (path != "pcie.bandwidth" && path != "link.bandwidth") {
      refuse("one GPU", "several, which communication: --gpus, --nodes or --cluster");
    }
    if (!copies) refuse("--data synthetic", "input that is copied: --data memory, imagenet ...");
  }
}

}  // namespace

void refuse_idle_flags(const FlagContext& context,
                       const std::function<bool(std::string_view flag)>& given) {
  const bool counts_gpus = given("--gpus") || given("--nodes") || given("--cluster");
  for (const auto& rows : {idle_by_kind(context, counts_gpus), idle_by_job(context)}) {
    for (const IdleFlags& row : rows) {
      if (!row.are_idle) continue;
      for (const std::string_view flag : row.flags) {
        if (given(flag)) throw InputError(flag, row.found, row.expected);
      }
    }
  }
  refuse_idle_sets(context);
  std::string network = context.job.network;
  if (network.starts_with(kJobPrefix))
    network = context.specs.find_job_spec(network.substr(kJobPrefix.size())).network;
  const ZooEntry* entry = find_network(network);
  if (entry) check_sizes_apply(*entry, context.job.image_size, context.job.seq_len);
  const bool is_written_so = entry == nullptr && !network.ends_with(".json") &&
                             !network.ends_with(".graph") && !network.ends_with(".pt2");
  if (given("--as-written") && !is_written_so)
    throw InputError("--as-written", network, "a network that an exporter wrote: an .onnx file");
  if (given("--fan-out") && (!entry || entry->fan_out.empty()))
    throw InputError("--fan-out", network, "a network that samples a graph, such as rgat");
}

}  // namespace tracecast
