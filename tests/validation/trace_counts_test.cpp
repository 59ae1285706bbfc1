#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "tests/support/data.hpp"
#include "traces/open.hpp"
#include "traces/summary.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

/// A row of the table in data/traces/kineto/README.md. Kernels and NCCL kernels are of all ranks of
/// a file, the rest is of its first rank. `kinds`: kernel names that differ in their first 70
/// letters, which is what that table counts.
struct Row {
  const char *file, *gpu;
  std::size_t gpus, kernels, kinds, streams, nccl;
  double busy_ms, span_ms;
  std::size_t steps;
  double median_step_ms;
};

constexpr Row kRows[] = {
    {"hta_128rank_sampled_rank0.json.gz", "", 0, 1154, 126, 4, 10, 547.303, 1222.818, 2, 615.1},
    {"hta_2xa100_resnet50_ddp_3steps.json.gz", "NVIDIA A100-PG509-200", 8, 2700, 50, 2, 21, 155.215,
     660.551, 3, 222.4},
    {"hta_2xv100_allreduce2020_5steps.json.gz", "Tesla V100-SXM2-32GB", 2, 19370, 41, 2, 2020,
     977.859, 1732.965, 5, 345.8},
    {"hta_a100_8rank_dlrm_rank3_6steps.json.gz", "NVIDIA A100-PG509-200", 8, 8568, 114, 3, 60,
     369.257, 463.441, 6, 76.8},
    {"hta_a100_alexnet_forward.json.gz", "NVIDIA A100-PG509-200", 8, 79, 16, 2, 0, 10.63, 12840.244,
     0, 0},
    {"hta_a100_event_sync_multi_stream.json.gz", "NVIDIA A100-PG509-200", 8, 3, 1, 3, 0, 0.369,
     19.473, 0, 0},
    {"hta_a100_triton_tiny.json.gz", "NVIDIA A100-PG509-200", 8, 1, 1, 1, 0, 0.002, 0.002, 1,
     13336.3},
    {"hta_cpu_only_rank34.json.gz", "", 0, 0, 0, 0, 0, 0, 0, 1, 210.1},
    // The table says 468.173: it added up doubles (the test after the next shows it). The file's
    // own digits, added exactly, give 468.153602.
    {"hta_v100_resnet50_5steps_ns.json.gz", "Tesla V100-SXM2-32GB", 8, 4350, 71, 1, 0, 468.153602,
     480.029, 5, 95.5},
    {"kineto_resnet50_b32_autograd_api_oldschema.json.gz", "", 0, 9329, 102, 5, 0, 964.761,
     3805.492, 0, 0},
    {"kineto_v100dgxs_resnet50_b32_workers0.json.gz", "Tesla V100-DGXS-32GB", 4, 8772, 67, 1, 0,
     591.532, 994.1, 6, 176.3},
    {"kineto_v100dgxs_resnet50_b32_workers4.json.gz", "Tesla V100-DGXS-32GB", 4, 8868, 62, 1, 0,
     594.868, 797.311, 6, 126.5},
    {"param_2080ti_mlp_40iters.json.gz", "NVIDIA GeForce RTX 2080 Ti", 8, 8716, 13, 1, 0, 369.343,
     1008.529, 0, 0},
    {"param_2080ti_resnet18_30iters.json.gz", "NVIDIA GeForce RTX 2080 Ti", 8, 9628, 51, 1, 0,
     4103.141, 10149.748, 0, 0},
    {"param_8xv100_dlrm_8ranks.tar.gz", "Tesla V100-SXM2-32GB", 8, 2104, 58, 3, 64, 4.285, 10.887,
     1, 13.0},
    {"tracelens_8xb200_llm_eager_rank0.json.gz", "NVIDIA B200", 8, 768, 28, 1, 1, 10.794, 83.366, 0,
     0},
    {"tracelens_8xmi300x_resnet18_ddp_rank0.json.gz", "AMD Instinct MI300X", 8, 2995, 50, 2, 17,
     81.365, 86.568, 3, 15.9},
    {"tracelens_h100_qwen0.5b_b16_s559_forward.json.gz", "NVIDIA H100 80GB HBM3", 1, 1465, 19, 1, 0,
     45.433, 49.653, 1, 47.1},
    {"tracelens_h100_timesformer_forward.json.gz", "NVIDIA H100 80GB HBM3", 1, 446, 18, 1, 0,
     154.856, 155.916, 1, 382.5},
};

std::size_t kinds_of(const Trace& trace) {
  std::set<std::string_view> kinds;
  for (const NameId name : trace.kernels.name) kinds.insert(trace[name].substr(0, 70));
  return kinds.size();
}

std::size_t nccl_kernels(const Recording& recording) {
  std::size_t count = 0;
  for (const Trace& trace : recording.traces) {
    for (const NameId name : trace.kernels.name)
      count += trace[name].find("nccl") != std::string_view::npos;
  }
  return count;
}

double median_ms(std::vector<NamedTime> steps) {
  if (steps.empty()) return 0;
  std::sort(steps.begin(), steps.end(),
            [](const NamedTime& a, const NamedTime& b) { return a.tally.ns < b.tally.ns; });
  const std::size_t upper = steps.size() / 2, lower = (steps.size() - 1) / 2;
  return static_cast<double>(steps[lower].tally.ns + steps[upper].tally.ns) * 0.5e-6;
}

}  // namespace

TEST_CASE("counts, busy time and steps of every Kineto file equal the table of the data set") {
  const auto folder = test::find_data("traces/kineto");
  if (!folder) return;
  const KernelNames names = KernelNames::builtin();
  for (const Row& row : kRows) {
    CAPTURE(row.file);
    const Recording recording = read_recording(*folder / row.file);
    std::vector<Summary> ranks;
    for (const Trace& trace : recording.traces) ranks.push_back(summarize(trace, names));
    const Summary all = summarize_ranks(ranks);
    CHECK(all.gpu == row.gpu);
    CHECK(all.gpus_in_host == row.gpus);
    CHECK(all.kernels == row.kernels);
    CHECK(kinds_of(recording.traces.front()) == row.kinds);
    CHECK(all.streams == row.streams);
    CHECK(nccl_kernels(recording) == row.nccl);
    CHECK(std::abs(static_cast<double>(all.busy_ns) * 1e-6 - row.busy_ms) <= 0.001);
    CHECK(std::abs(static_cast<double>(all.span_ns) * 1e-6 - row.span_ms) <= 0.001);
    CHECK(all.steps.size() == row.steps);
    // The table gives tenths, three of them (95.551 as 95.5) not rounded to nearest.
    CHECK(std::abs(median_ms(all.steps) - row.median_step_ms) <= 0.06);
    for (const auto& [kind, left_out] : all.left_out) {
      CAPTURE(kind);
      CHECK_FALSE(left_out.is_damage);
    }
  }
}

TEST_CASE("the one busy time that differs from the table is the sum of the same times as doubles") {
  const auto file = test::find_data("traces/kineto/hta_v100_resnet50_5steps_ns.json.gz");
  if (!file) return;
  const Recording recording = read_recording(*file);
  // Microseconds since 1970, whose nearest doubles lie 0.25 us apart.
  std::vector<std::pair<double, double>> spans;
  for (const Span& span : recording.traces.at(0).kernels.span) {
    const auto us = [](std::int64_t ns) {
      return static_cast<double>(static_cast<long double>(ns) / 1000);
    };
    const double begin = us(span.begin_ns);
    spans.emplace_back(begin, begin + us(span.duration_ns));
  }
  std::sort(spans.begin(), spans.end());
  double busy_us = 0, end = 0;
  for (const auto& [begin, its_end] : spans) {
    busy_us += std::max(0.0, its_end - std::max(begin, end));
    end = std::max(end, its_end);
  }
  CHECK(std::abs(busy_us * 1e-3 - 468.173) <= 0.001);
}

TEST_CASE(
    "nvprof logs, the Nsight Systems export and execution traces hold what their READMEs count") {
  const auto folder = test::find_data("traces");
  if (!folder) return;
  const KernelNames names = KernelNames::builtin();
  struct Count {
    const char* file;
    std::uint64_t kernels, copies, memsets, calls, nodes, gpu_nodes;
  };
  const Count counts[] = {
      // 16,238 rows: these and 229 rows of unified memory.
      {"nvprof/titanxp_cfd_gpu_trace.csv.gz", 14003, 2005, 1, 0, 0, 0},
      {"nvprof/titanxp_cfd_gpu_summary.csv", 14003, 2005, 1, 0, 0, 0},
      {"nvprof/titanxp_cfd_default.csv", 14003, 2005, 1, 132151, 0, 0},
      {"nvprof/titanxp_babelstream_gpu_trace.txt.gz", 501, 103, 0, 0, 0, 0},
      {"nvprof/titanxp_bfs_gpu_summary.txt", 0, 0, 0, 0, 0, 0},
      {"profiles/orion/resnet50_32_fb1.csv.gz", 946, 0, 0, 0, 0, 0},
      {"profiles/orion/resnet101_32_fb1.csv.gz", 1847, 0, 0, 0, 0, 0},
      {"profiles/orion/mobilenetv2_64_fb1.csv.gz", 890, 0, 0, 0, 0, 0},
      {"profiles/orion/bert_8_fb1.csv.gz", 4777, 0, 0, 0, 0, 0},
      {"profiles/orion/transformer_xl_8_fb1.csv.gz", 4354, 0, 0, 0, 0, 0},
      // The README speaks of 3 copies; the table of the file has 4 rows.
      {"nsys/cutlass_gemm_a100pcie_nsys2023.2.sqlite", 6, 4, 0, 21, 0, 0},
      // 157 of the GPU nodes, all of them copies, have no duration.
      {"chakra/mlc_feeder_chakra_et.tar.gz", 896, 163, 0, 0, 3664, 1216},
      {"chakra/mlc_pytorch_et_1.0.2.tgz", 0, 0, 0, 0, 263, 0},
      {"chakra/param_resnet50_b32_1gpu_et.json.gz", 0, 0, 0, 0, 14392, 0},
      {"chakra/param_resnet50_2gpu_et.json.gz", 0, 0, 0, 0, 14392, 0},
      {"chakra/param_mlp_et.json.gz", 0, 0, 0, 0, 931, 0},
      {"chakra/param_8xv100_dlrm_et_8ranks.tar.gz", 0, 0, 0, 0, 8 * 1675, 0},
      {"chakra/param_hf_gpt2large_b1_s512_et.json.tar.gz", 0, 0, 0, 0, 27156, 0},
  };
  for (const Count& count : counts) {
    CAPTURE(count.file);
    std::vector<Summary> ranks;
    const Recording recording = read_recording(*folder / count.file);
    for (const Trace& trace : recording.traces) ranks.push_back(summarize(trace, names));
    const Summary s = summarize_ranks(ranks);
    CHECK(s.kernels == count.kernels);
    CHECK(s.copies == count.copies);
    CHECK(s.memsets == count.memsets);
    CHECK(s.calls == count.calls);
    CHECK(s.nodes == count.nodes);
    CHECK(s.gpu_nodes == count.gpu_nodes);
  }
}

TEST_CASE("the Chakra trace's GPU nodes take 329.5 ms, 36.7 of them in 7 NCCL kernels") {
  const auto file = test::find_data("traces/chakra/mlc_feeder_chakra_et.tar.gz");
  if (!file) return;
  const Recording recording = read_recording(*file);
  const Summary s = summarize(recording.traces.front(), KernelNames::builtin());
  CHECK(std::abs(static_cast<double>(s.gpu_nodes_ns) * 1e-6 - 329.5) <= 0.05);
  CHECK(s.collective_kernels == 7);
  for (const ClassTime& c : s.classes) {
    if (c.kernel_class != KernelClass::Collective) continue;
    CHECK(std::abs(static_cast<double>(c.kernels.ns) * 1e-6 - 36.7) <= 0.05);
  }
}

TEST_CASE("the copy kernel of the text trace takes 1.2376 ms, as its README says") {
  const auto file = test::find_data("traces/nvprof/titanxp_babelstream_gpu_trace.txt.gz");
  if (!file) return;
  const Recording recording = read_recording(*file);
  const Trace& trace = recording.traces.front();
  std::vector<std::int64_t> times;
  for (std::size_t i = 0; i < trace.kernels.size(); ++i) {
    if (trace[trace.kernels.name[i]].find("copy_kernel") != std::string_view::npos) {
      times.push_back(trace.kernels.span[i].duration_ns);
    }
  }
  REQUIRE(times.size() == 100);
  std::nth_element(times.begin(), times.begin() + 50, times.end());
  CHECK(std::abs(static_cast<double>(times[50]) * 1e-6 - 1.2376) <= 0.006);
}

TEST_CASE(
    "at least 99 % of GPU time has a class, and 95 % of convolution time an algorithm, over all "
    "files") {
  const auto folder = test::find_data("traces");
  if (!folder) return;
  const KernelNames names = KernelNames::builtin();
  double total = 0, other = 0, convolution = 0, named = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(*folder)) {
    // "profiles" holds layer times and collective tables, no recordings.
    const bool is_table = file.path().string().find("/profiles/") != std::string::npos;
    if (!file.is_regular_file() || is_table || file.path().filename() == "README.md") continue;
    const Recording recording = read_recording(file.path());
    for (const Trace& trace : recording.traces) {
      const Summary s = summarize(trace, names);
      total += static_cast<double>(s.gpu_time_ns);
      for (const ClassTime& c : s.classes) {
        if (c.kernel_class == KernelClass::Other) other += static_cast<double>(c.kernels.ns);
        if (c.kernel_class == KernelClass::Convolution)
          convolution += static_cast<double>(c.kernels.ns);
      }
      for (const AlgorithmTime& a : s.algorithms) {
        if (a.algorithm != Algorithm::None) named += static_cast<double>(a.kernels.ns);
      }
    }
  }
  REQUIRE(convolution > 0);
  std::printf("GPU time with a class: %.3f %%; convolution time with an algorithm: %.3f %%\n",
              100 * (1 - other / total), 100 * named / convolution);
  CHECK(other <= 0.01 * total);
  CHECK(named >= 0.95 * convolution);
}
