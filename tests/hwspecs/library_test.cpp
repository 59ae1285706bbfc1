#include "hwspecs/library.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "hwspecs/software/mlperf_round.hpp"
#include "hwspecs/software/published_source.hpp"
#include "hwspecs/software/release_history.hpp"
#include "sim/base/error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("hwspecs/library");

/// A folder of specs for one test.
struct Folder {
  test::TemporaryFolder root;
  void write(const std::string& path, std::string_view text) const {
    std::filesystem::create_directories((root.path() / path).parent_path());
    std::ofstream(root.path() / path) << text;
  }
  [[nodiscard]] SpecLibrary library() const {
    return SpecLibrary::embedded().with_folder(root.path());
  }
  [[nodiscard]] std::string error() const {
    try {
      (void)library();
    } catch (const InputError& error) {
      return error.what();
    }
    return "none";
  }
};

constexpr const char* kDisk = R"(id: "lab_disk" name: "Lab disk"
sources { key: "us" title: "our disk" where: "fio, 2026-01" }
kind { value: HDD source: "us" }
sequential_read_mb_per_s { value: 100 source: "us" }
sequential_write_mb_per_s { value: 90 source: "us" }
random_read_iops { value: 120 source: "us" }
latency_us { value: 8000 source: "us" }
)";

constexpr const char* kPytorch3 = R"(id: "pytorch_3" name: "PyTorch 3" based_on: "pytorch_2"
era { framework: "pytorch" from_version: "3.0" from_date: "2027-05" source: "us" }
source { key: "us" title: "invented" where: "for a test" }
cudnn_version { value: 10 source: "us" }
tf32 { source: "us" }
)";

TEST_CASE("the library of the binary has every kind of file") {
  const SpecLibrary& specs = SpecLibrary::embedded();
  CHECK(specs.find_framework("pytorch").id == "pytorch");                     // that file
  CHECK(specs.find_framework("pytorch", SoftwareWords{}).id == "pytorch_2");  // what runs today
  CHECK(specs.find_strategy("ddp").id == "ddp");
  CHECK(specs.find_data_set("imagenet").id == "imagenet");
  CHECK(specs.channels().size() >= 4);
  CHECK(specs.launchers().size() >= 1);
  CHECK(specs.training_software().size() >= 8);
  CHECK(specs.gpus().find("t4").id == "t4");
  CHECK(specs.cost().id == default_cost_profile().id);
}

TEST_CASE("a folder adds a disk and leaves the library as it was") {
  const Folder folder;
  folder.write("disk/lab.textproto", kDisk);
  const SpecLibrary library = folder.library();
  CHECK(library.disks().find("lab_disk").latency.in_us() == doctest::Approx(8000));
  CHECK(library.disks().find("nvme_ssd").id == "nvme_ssd");
  CHECK_THROWS_AS((void)SpecLibrary::embedded().disks().find("lab_disk"), InputError);
}

TEST_CASE("a framework version is one file, chosen by version and by date") {
  const Folder folder;
  folder.write("framework/pytorch_3.textproto", kPytorch3);
  const SpecLibrary library = folder.library();
  const auto id = [&](std::string_view version, std::string_view date) {
    return library.find_framework("pytorch", {.version = version, .date = date}).id;
  };
  CHECK(id("1.8", "") == "pytorch");
  CHECK(id("2.4", "") == "pytorch_2");
  CHECK(id("3.1", "") == "pytorch_3");
  CHECK(id("", "2025-01") == "pytorch_2");
  CHECK(id("", "2027-06") == "pytorch_3");
  CHECK(id("", "") == "pytorch_3");  // today
  const FrameworkProfile& three = library.find_framework("pytorch_3");
  const FrameworkProfile& two = library.find_framework("pytorch_2");
  CHECK(three.optimizer.multi_tensor);  // of pytorch_2
  CHECK(three.host.dispatch_per_op == two.host.dispatch_per_op);
  CHECK(three.convolutions.cudnn_version == 10);
  GpuSpec ampere;
  ampere.peaks = {{Precision::Tf32, MathUnit::TensorCore, 156.0_TFLOPps}};
  CHECK(library.defaults_of(two, {}, ampere).fp32_runs_as_tf32);
  CHECK_FALSE(library.defaults_of(three, {}, ampere).fp32_runs_as_tf32);  // its own rule
  CHECK(SpecLibrary::embedded()
            .find_framework("pytorch", SoftwareWords{.version = "3.1", .date = ""})
            .id == "pytorch_2");
}

TEST_CASE(
    "a release of cuDNN, software of transformers and assumptions about machines are files too") {
  const Folder folder;
  folder.write("release/cudnn.textproto", R"(id: "cudnn" name: "cuDNN"
sources { key: "us" title: "invented" where: "for a test" }
release { version: 9 month: "2024-02" source: "us" }
release { version: 11 month: "2027-01" source: "us" }
)");
  folder.write("training_software/mine.textproto", R"(id: "mine" name: "Mine" based_on: "fsdp_pure"
sources { key: "us" title: "invented" where: "for a test" }
update_bytes { value: 33 source: "us" }
)");
  folder.write("host/default.textproto",
               R"(era { from_year: 0 cpu: "epyc_7742" sockets: 1 reason: "ours" })");
  folder.write("host/ranks.textproto", R"(
source { key: "us" title: "invented" where: "for a test" }
rank_sd { value: 0.5 source: "us" }
shared_board_time_factor { value: 1.5 source: "us" }
staged_copies_gb_per_s { value: 2 source: "us" }
tcp_gb_per_s { value: 3 source: "us" }
tcp_cpu { value: "epyc_7742" source: "us" }
tcp_link { value: "ethernet_100g" source: "us" }
)");
  const SpecLibrary library = folder.library();
  CHECK(library.find_releases("cudnn").newest("2027-02") == 11);
  const TrainingSoftware& mine = library.find_training_software("mine");
  CHECK(mine.update_bytes == 33);
  CHECK(mine.loss == LossKernels::LogSoftmax);
  CHECK_FALSE(mine.wide_gradients);
  CHECK(library.default_host(2020).cpu == "epyc_7742");
  CHECK(library.rank_variation().rank_sd == 0.5);
  CHECK(library.rank_variation().tcp_thread.in_gb_per_s() == 3);
  CHECK(library.rank_variation().tcp_cpu == "epyc_7742");
  CHECK(SpecLibrary::embedded().rank_variation().rank_sd < 0.5);
}

TEST_CASE("rounds of MLPerf build on the one before") {
  const SpecLibrary& specs = SpecLibrary::embedded();
  const auto find = [&](const char* round, const char* benchmark) {
    const MlperfRound* known = specs.find_mlperf_round(round);
    REQUIRE(known != nullptr);
    return known->find(benchmark);
  };
  CHECK(specs.find_mlperf_round("v9.9") == nullptr);
  CHECK(specs.newest_mlperf_round().id == "v5.0");
  CHECK(find("v0.6", "maskrcnn")->framework == "pytorch");
  CHECK(find("v0.7", "maskrcnn")->framework == "pytorch_apex");
  CHECK(find("v3.0", "maskrcnn")->framework == "pytorch_nvidia");
  CHECK_FALSE(find("v0.7", "resnet")->cuda_graphs);
  CHECK(find("v5.0", "resnet")->cuda_graphs);
  CHECK(find("v0.5", "retinanet") == nullptr);
  GpuSpec ampere, ada, hopper;
  ampere.compute_capability = 80;
  ada.compute_capability = 89;
  hopper.compute_capability = 90;
  hopper.architecture = Architecture::Hopper;
  const MlperfBenchmark& bert = *find("v3.0", "bert");
  CHECK(bert.network_on(&ampere) == "bert_large_mlperf");
  CHECK(bert.network_on(&ada) == "bert_large_mlperf_unfused");
  CHECK(bert.network_on(nullptr) == "bert_large_mlperf_unfused");
  CHECK(find("v0.7", "bert")->network_on(&ampere) == "bert_large_mlperf_unfused");
  CHECK(bert.precision_on(&hopper) == "fp8");
  CHECK(bert.precision_on(&ampere) == "amp");
  for (const MlperfRound& round : specs.mlperf_rounds()) {
    CAPTURE(round.id);
    CHECK_NOTHROW((void)specs.find_strategy(round.strategy));
    for (const MlperfBenchmark& benchmark : round.benchmarks) {
      if (!benchmark.network.empty())
        CHECK_NOTHROW((void)specs.find_framework(benchmark.framework));
    }
  }
}

TEST_CASE("records of published rows: conditions, the strongest use, the later program") {
  const PublishedSource source = parse_published_source(R"(id: "x" name: "X"
sources { key: "us" title: "invented" where: "for a test" }
rows { table: "a.csv" where { column: "source" begins: "blog" } }
program { source: "us" data: "memory" parallel_layout { zero: 1 } }
program { source: "us" rows { where { column: "gpu" is_not: "t4" is_not: "p4" } } data: "real" }
used_for { use: FIT rows { where { column: "gpu" has: "00" } where { column: "gpus" is: "1" is: "2" } } what: "w" record: "r" }
used_for { use: CHOICE what: "w" record: "r" }
)",
                                                        "x");
  const std::vector<PublishedSource> all{source};
  const std::vector<std::string> columns{"source", "gpu", "gpus"};
  const PublishedRecords records(all, "a.csv.gz", columns);
  const auto row = [](std::string_view from, std::string_view gpu, std::string_view gpus) {
    return [=](std::string_view column) -> std::string_view {
      return column == "source" ? from : column == "gpu" ? gpu : column == "gpus" ? gpus : "";
    };
  };
  CHECK(records.used_for(row("blog 1", "v100", "2")).value == RowUse::Fit);
  CHECK(records.used_for(row("blog 1", "v100", "4")).value == RowUse::Choice);
  CHECK(records.used_for(row("blog 1", "t4", "1")).value == RowUse::Choice);
  CHECK(records.used_for(row("their blog", "v100", "1")).value == RowUse::None);
  CHECK(records.program_of(row("blog 1", "v100", "1")).data == "real");
  CHECK(records.program_of(row("blog 1", "v100", "1")).parallel_layout.zero == 1);
  CHECK(records.program_of(row("blog 1", "t4", "1")).data == "memory");
  CHECK(records.program_of(row("", "t4", "1")).data.empty());
  CHECK(PublishedRecords(all, "b.csv", columns).used_for(row("blog 1", "v100", "1")).value ==
        RowUse::None);
}

TEST_CASE("what a record of a use names is there: a note by its number, or a file") {
  namespace fs = std::filesystem;
  const auto exists = [](const fs::path& named) {
    if (fs::exists(named)) return true;
    if (!fs::is_directory(named.parent_path())) return false;
    for (const auto& file : fs::directory_iterator(named.parent_path())) {
      if (file.path().filename().string().starts_with(named.filename().string())) return true;
    }
    return false;
  };
  for (const PublishedSource& source : SpecLibrary::embedded().published_sources()) {
    CAPTURE(source.id);
    for (const PublishedUse& use : source.uses) {
      CAPTURE(use.record);
      const std::string named = use.record.substr(0, use.record.find_first_of(" ,:"));
      CHECK(exists(named));
    }
  }
}

TEST_CASE("names are the program's own: a folder that has others is refused") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "name");
  std::ofstream(folder.path() / "name/networks.textproto") << "# none\n";
  CHECK_THROWS_AS((void)SpecLibrary::embedded().with_folder(folder.path()), InputError);
}

TEST_CASE("the source tree's own files as a folder change nothing") {
  const SpecLibrary& before = SpecLibrary::embedded();
  const SpecLibrary after = before.with_folder("hwspecs");
  CHECK(after.framework_ids() == before.framework_ids());
  CHECK(after.strategy_ids() == before.strategy_ids());
  CHECK(after.gpus().all().size() == before.gpus().all().size());
  for (const FrameworkProfile& profile : before.frameworks()) {
    const FrameworkProfile& same = after.find_framework(profile.id);
    REQUIRE(same.values.size() == profile.values.size());
    for (std::size_t i = 0; i < profile.values.size(); ++i) {
      CHECK(same.values[i].value == profile.values[i].value);
    }
  }
  CHECK(after.cost().parameters.size() == before.cost().parameters.size());
}

TEST_CASE("what if: changed specs stand beside those of the file, for copies as for folders") {
  const SpecLibrary& before = SpecLibrary::embedded();
  const BytesPerSecond read = before.disks().find("hdd").sequential_read;
  const SpecLibrary after = before.with_changed<DiskSpec>([](DiskSpec disk) {
    disk.sequential_read = disk.sequential_read * 2;
    return disk;
  });
  CHECK(after.disks().find("hdd").sequential_read / read == doctest::Approx(2));
  CHECK(before.disks().find("hdd").sequential_read / read == doctest::Approx(1));
  const Folder folder;
  folder.write("disk/lab.textproto", kDisk);
  const SpecLibrary both = after.with_folder(folder.root.path());
  CHECK(both.disks().find("lab_disk").sequential_read.in_si() == doctest::Approx(200e6));
}

TEST_CASE("a file that is wrong is refused with one line that names it") {
  struct Row {
    const char *path, *text, *expected;
  };
  const Row rows[] = {
      {"disk/bad.textproto", "id: \"bad\" name: \"bad\"", "bad.textproto"},
      {"framework/x.textproto", "id: \"x\" based_on: \"pytroch\"", "based_on \"pytroch\""},
      {"framework/x.textproto", "id: \"x\" based_on: \"x\"", "no circle"},
      {"strategy/x.textproto", "id: \"x\" nme: \"x\"", "found field \"nme\""},
      {"strategies/x.textproto", "id: \"x\"", "nearest: strategy"},
      {"host/rank.textproto", "", "nearest: ranks.textproto"},
      {"release/x.textproto", "id: \"x\"", "no release"},
      {"training_software/x.textproto", "id: \"x\" name: \"x\"", "no framework"},
      {"dataset/x.textproto", "id: \"x\" alias: \"mnist\"", "x.textproto"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.path);
    const Folder folder;
    folder.write(row.path, row.text);
    const std::string error = folder.error();
    CAPTURE(error);
    CHECK(error.find(row.expected) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
  const Folder twice;
  twice.write("disk/a.textproto", kDisk);
  twice.write("disk/b.textproto", kDisk);
  CHECK(twice.error().find("each id once") != std::string::npos);
  CHECK_THROWS_AS((void)SpecLibrary::embedded().with_folder("/nowhere/at/all"), InputError);
}

TEST_CASE("what a file says of another file's id is found without reading the rest") {
  const SpecLibrary& specs = SpecLibrary::embedded();
  int eras = 0, containers = 0, compiled = 0, usual = 0, loaders = 0;
  for (const FrameworkProfile& profile : specs.frameworks()) {
    CAPTURE(profile.id);
    if (profile.era) {
      ++eras;
      // An old state is the one of its last day, a new one that of its first.
      const std::string date = profile.era->is_newest ? profile.era->date : "2010-01";
      CHECK(specs.find_framework(profile.era->framework, std::nullopt, date, false).id ==
            profile.id);
    }
    if (profile.container_of && profile.id == *profile.container_of + "_nvidia") {
      ++containers;
      CHECK(specs.find_framework(*profile.container_of, std::nullopt, "", true).id == profile.id);
    }
    if (profile.compiler && !profile.container_of) {
      ++compiled;
      CHECK(specs.find_compiled_framework(profile.compiler->framework, profile.compiler->name).id ==
            profile.id);
    }
  }
  for (const StrategyProfile& strategy : specs.strategies()) {
    for (const UsualStrategy& use : strategy.usual) {
      CAPTURE(strategy.id);
      if (!use.before_date.empty()) continue;
      ++usual;
      CHECK(specs.usual_strategy(use.framework, "", use.several_nodes).id == strategy.id);
    }
    for (const std::string& alias : strategy.aliases) {
      CHECK(specs.find_strategy(alias).id == strategy.id);
    }
  }
  for (const InputPipelineProfile& pipeline : specs.input_pipelines()) {
    for (const std::string& framework : pipeline.frameworks) {
      CAPTURE(pipeline.id);
      ++loaders;
      CHECK(specs.input_pipeline_of(framework, pipeline.version_word).id == pipeline.id);
    }
  }
  for (const CollectiveLibrary& library : specs.collective_libraries()) {
    CAPTURE(library.id);
    CHECK(specs.find_collective_library(library.library, library.from_version).id == library.id);
  }
  for (const DataSetSpec& data_set : specs.data_sets()) {
    for (const std::string& alias : data_set.aliases) {
      CHECK(specs.find_data_set(alias).id == data_set.id);
    }
  }
  CHECK(eras >= 5);
  CHECK(containers >= 1);
  CHECK(compiled >= 1);
  CHECK(usual >= 5);
  CHECK(loaders >= 5);
}

TEST_CASE("several threads may ask a library that nobody has asked yet") {
  const Folder folder;
  folder.write("framework/pytorch_3.textproto", kPytorch3);
  const SpecLibrary library = folder.library();
  std::vector<std::thread> threads;
  std::vector<int> found(4, 0);
  for (std::size_t t = 0; t < found.size(); ++t) {
    threads.emplace_back([&library, &found, t] {
      const SpecLibrary copy = library;
      for (const GpuSpec& gpu : copy.gpus().all()) found[t] += !gpu.id.empty();
      for (const StrategyProfile& strategy : copy.strategies()) found[t] += !strategy.id.empty();
      found[t] += copy.find_channel("grpc").id == "grpc";
      found[t] += copy.find_collective_library("nccl").library == "nccl";
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : found) CHECK(count == found.front());
}

}  // namespace
}  // namespace tracecast
