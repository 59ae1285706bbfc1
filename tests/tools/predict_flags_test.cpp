#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "sim/base/file.hpp"
#include "tests/support/onnx_bytes.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/predict_modes.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

ProcessResult predict(const Arguments& arguments) {
  Words command = {"predict"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return tracecast(std::move(command));
}

std::string joined(const Arguments& words) {
  std::string text;
  for (const std::string& word : words) text += word + ' ';
  return text;
}

/// A text with one part for another in it.
std::string edited(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE_MESSAGE(at != std::string::npos, "nowhere: " << from);
  return text.replace(at, from.size(), to);
}
/// One of the project's own files.
std::string own_file(const std::string& path) { return read_file(path, 1 << 20); }

/// Files that flags name.
class Files {
 public:
  Files() {
    std::filesystem::create_directories(folder_.path() / "specs/cpu");
    write("small.onnx", onnx::small_network().bytes());
    write("cluster.textproto", "group { name: \"one\" machine: \"dgx1_v100\" gpus: 2 }\n");
    write("runs.csv", "network,gpu,samples_per_s\nalexnet,v100_sxm2_16gb,1000\nalexnet,k80,100\n");
    const std::string ceiling = "name: \"clock.ceiling\" value: 0.";
    const std::string memory = "name: \"cpu.memory_efficiency\" value: 0.";
    const std::string stream = "name: \"memory.efficiency\" value: 0.";
    std::string profile = own_file("hwspecs/cost/default.textproto");
    profile = edited(std::move(profile), ceiling + "9", ceiling + "4");
    profile = edited(std::move(profile), stream + "8", stream + "4");
    write("profile.textproto", edited(std::move(profile), memory + "7", memory + "3"));
    struct Board {
      const char *id, *rate, *slower;
    };
    for (const Board& board : {Board{"v100_sxm2_16gb", "900", "700"},
                               {"a100_sxm4_80gb", "2039", "1500"},
                               {"k80", "240", "190"}}) {
      const std::string name = std::string(board.id) + ".textproto";
      const std::string field = "dram_gb_per_s { value: ";
      write("specs/" + name,
            edited(own_file("hwspecs/gpu/" + name), field + board.rate, field + board.slower));
    }
    write("specs/cpu/e5_2698_v4.textproto",
          edited(own_file("hwspecs/cpu/e5_2698_v4.textproto"), "all_core_clock_mhz { value: 2700",
                 "all_core_clock_mhz { value: 2550"));
  }
  [[nodiscard]] Arguments in_place(Arguments words) const {
    for (std::string& word : words) {
      constexpr std::string_view kMark = "FOLDER";
      if (word.starts_with(kMark)) word = folder_.path().string() + word.substr(kMark.size());
    }
    return words;
  }
  /// Removes what was written; whether there was anything.
  [[nodiscard]] bool take_written() const {
    const bool trace = std::filesystem::remove(folder_.path() / "trace.json");
    return std::filesystem::remove(folder_.path() / "report.html") || trace;
  }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_.path() / name, std::ios::binary) << text;
  }
  TemporaryFolder folder_;
};

/// The flags that `predict --help` lists: the first of each entry, "--cudnn-benchmark" of
/// "--cudnn-benchmark,--no-...".
std::vector<std::string> flags_of_program() {
  std::vector<std::string> flags;
  std::istringstream lines(predict({"--help"}).out);
  std::string line;
  while (std::getline(lines, line)) {
    if (!line.starts_with("  --")) continue;
    const std::size_t end = line.find_first_of(" ,", 2);
    flags.push_back(line.substr(2, end == std::string::npos ? end : end - 2));
  }
  return flags;
}

const FlagValue* find_value(const std::string& flag, const std::string& mode) {
  for (const FlagValue& row : predict_flag_values()) {
    if (row.flag == flag && mode.starts_with(row.mode)) return &row;
  }
  return nullptr;
}

const Excuse* find_excuse(const std::string& flag, const std::string& mode) {
  for (const Excuse& row : predict_excuses()) {
    if (row.flag == flag && mode.starts_with(row.mode)) return &row;
  }
  return nullptr;
}

/// The command without a flag that is to be given another value.
Arguments without(Arguments command, const std::string& flag) {
  const auto at = std::find(command.begin(), command.end(), flag);
  if (at != command.end()) command.erase(at, at + 2);
  return command;
}

Arguments with(const Arguments& command, const std::string& flag, const Arguments& value) {
  Arguments words = without(command, flag);
  words.push_back(flag);
  words.insert(words.end(), value.begin(), value.end());
  return words;
}

struct Count {
  int honoured = 0, refused = 0, excused = 0;
};

/// Gives the mode every flag of the program, one at a time.
Count walk(const Mode& mode) {
  const Files files;
  std::map<Arguments, ProcessResult> bases;  // most flags are given beside the same command
  Count count;
  for (const std::string& flag : flags_of_program()) {
    CAPTURE(std::string(mode.name));
    CAPTURE(flag);
    const FlagValue* row = find_value(flag, mode.name);
    if (row == nullptr) {
      FAIL_CHECK("a flag without a line in predict_flag_values()");
      continue;
    }
    Arguments base = mode.command;
    if (!row->beside.empty()) base = with(base, row->beside.front(), {row->beside.back()});
    const std::string spelled = *row->spelled ? row->spelled : flag;
    const Arguments changed = with(base, spelled, row->value);
    const auto [known, is_new] = bases.try_emplace(base);
    if (is_new) known->second = predict(files.in_place(base));
    const ProcessResult& without_it = known->second;
    const ProcessResult with_it = predict(files.in_place(changed));
    CAPTURE(joined(changed));
    CAPTURE(without_it.err);
    CAPTURE(with_it.err);
    REQUIRE(without_it.exit_code >= 0);
    REQUIRE(without_it.exit_code <= 1);
    const bool wrote = files.take_written();
    const Excuse* excuse = find_excuse(flag, mode.name);
    if (with_it.exit_code == 2) {
      CHECK(with_it.out.empty());
      CHECK(count_lines(with_it.err) == 1);
      CHECK(with_it.err.find("expected") != std::string::npos);
      CHECK(with_it.err.find("--") != std::string::npos);
      CHECK_FALSE(excuse);
      ++count.refused;
      continue;
    }
    REQUIRE(with_it.exit_code >= 0);
    REQUIRE(with_it.exit_code <= 1);
    const bool is_honoured = wrote || with_it.exit_code != without_it.exit_code ||
                             figures_of(with_it.out) != figures_of(without_it.out);
    if (excuse) {
      CHECK_MESSAGE(!is_honoured, "an excuse that is not needed");
      ++count.excused;
    } else {
      CHECK_MESSAGE(is_honoured, "neither honoured nor refused");
      if (is_honoured) ++count.honoured;
    }
  }
  return count;
}

/// All modes whose names begin so.
void walk_all(std::string_view prefix) {
  Count sum;
  int modes = 0;
  for (const Mode& mode : predict_modes()) {
    if (!std::string_view(mode.name).starts_with(prefix)) continue;
    const Count count = walk(mode);
    sum.honoured += count.honoured;
    sum.refused += count.refused;
    sum.excused += count.excused;
    ++modes;
  }
  CHECK(modes > 0);
  MESSAGE(std::string(prefix) << ": " << modes << " modes, " << sum.honoured << " honoured, "
                              << sum.refused << " refused, " << sum.excused << " excused");
}

TEST_SUITE_BEGIN("tools/predict/predict_flags");

TEST_CASE("every flag of predict has a value to be tried with, and no other has") {
  const std::vector<std::string> flags = flags_of_program();
  CHECK(flags.size() > 50);
  for (const std::string& flag : flags) {
    CAPTURE(flag);
    CHECK(find_value(flag, "any other mode"));
  }
  for (const FlagValue& row : predict_flag_values()) {
    CAPTURE(row.flag);
    CHECK(std::find(flags.begin(), flags.end(), row.flag) != flags.end());
  }
}

TEST_CASE("a number that no flag takes is reported which ones it does") {
  struct Row {
    Arguments flag;
    const char* says;
  };
  const Row rows[] = {
      {{"--batch", "1e9"}, "1 to 1000000"},
      {{"--batch", "1K"}, "1 to 1000000"},
      {{"--batch", "2.5"}, "1 to 1000000"},
      {{"--batch", "99999999999999999999"}, "1 to 1000000"},
      {{"--gpus", "1e3"}, "1 to 1000000"},
      {{"--accumulate", "1e2"}, "1 to 100000"},
      {{"--seq-len", "4K"}, "whole number"},
      {{"--image-size", "2e2"}, "whole number"},
      {{"--epoch-samples", "1M"}, "1 to 1000000000000"},
      {{"--tp", "2e0"}, "1 to 1000000"},
      {{"--zero", "one"}, "0 to 3"},
      {{"--workers", "1e1"}, "0 to 4096"},
      {{"--servers", "1e0"}, "whole number"},
  };
  for (const Row& row : rows) {
    CAPTURE(joined(row.flag));
    Arguments command = {"alexnet", "--gpu", "v100"};
    command.insert(command.end(), row.flag.begin(), row.flag.end());
    const ProcessResult result = predict(command);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find(row.flag.front()) != std::string::npos);
    CHECK(result.err.find(row.says) != std::string::npos);
  }
}

TEST_CASE("hardware may be told to be so many times as fast") {
  const auto step = [](Arguments more) {
    Arguments command = {"vgg16", "--gpu", "v100_sxm2_16gb", "--batch", "32", "--format", "json"};
    command.insert(command.end(), more.begin(), more.end());
    const ProcessResult result = predict(command);
    CAPTURE(joined(more));
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return nlohmann::json::parse(result.out)["step_time_s"]["value"].get<double>();
  };
  const double as_is = step({});
  const double memory = step({"--set", "gpu.memory_bandwidth=2x"});
  const double compute = step({"--set", "gpu.compute=2x"});
  CHECK(memory < as_is);
  CHECK(memory > 0.5 * as_is);
  CHECK(compute < as_is);
  CHECK(compute > 0.5 * as_is);
  CHECK(step({"--set", "gpu.memory_bandwidth=2x", "--set", "gpu.compute=2x"}) < memory);
  const double slower = step({"--set", "gpu.compute=0.5x"});
  CHECK(slower > as_is);
  CHECK(slower < 2 * as_is);
  // Four cards over PCIe communication in half the time, or wait longer.
  const Arguments four = {"--gpus", "4", "--machine", "s_wisc_v100"};
  const auto among = [&](const char* set) {
    Arguments more = four;
    more.insert(more.end(), {"--set", set});
    return step(more);
  };
  CHECK(among("link.bandwidth=2x") < step(four));
  CHECK(among("pcie.bandwidth=0.5x") >= step(four));
  for (const char* wrong : {"gpu.memory_bandwidth=2", "gpu.memory_bandwidth=0x", "gpu.luck=2x",
                            "link.bandwidth=1e9x", "gpu.memory_bandwidth=twox"}) {
    const ProcessResult result = predict({"alexnet", "--gpu", "v100", "--set", wrong});
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
  }
}

TEST_CASE("warnings stand before the figures that they are about") {
  for (const Arguments& more : {Arguments{}, {"--gpus", "4"}}) {
    Arguments command = {"alexnet", "--gpu", "v100", "--precision", "fp8"};
    command.insert(command.end(), more.begin(), more.end());
    const std::string text = predict(command).out;
    CHECK(text.find("Warning") < text.find("Throughput"));
  }
}

TEST_CASE("what several flags ask for together is answered or refused") {
  const Arguments alone = {"alexnet", "--gpu", "v100"};
  const std::vector<Arguments> idle = {
      {"--explain", "--largest-batch"},
      {"--explain", "--epoch-samples", "1000"},
      {"--dump", "kernels", "--explain"},
      {"--phase", "infer", "--optimizer", "adam"},
      {"--phase", "infer", "--gpus", "4", "--strategy", "horovod"},
      {"--set", "sharing.time_slice_us=500"},
      {"--set", "nvlink.bandwidth=2x"},
      {"--seq-len", "128"},
  };
  for (const Arguments& flags : idle) {
    Arguments command = alone;
    command.insert(command.end(), flags.begin(), flags.end());
    CAPTURE(joined(command));
    CHECK(predict(command).exit_code == 2);
  }
  CHECK(predict({"bert_base", "--gpu", "v100", "--image-size", "64"}).exit_code == 2);
  // One GPU of a sweep over their number.
  CHECK(predict({"alexnet", "--gpu", "v100", "--gpus", "1", "--strategy", "ddp"}).exit_code == 0);
  CHECK(
      predict({"alexnet", "--gpu", "v100", "--phase", "infer", "--optimizer", "none"}).exit_code ==
      0);
}

// A case for each kind of answer, so that they run side by side.
TEST_CASE("one GPU honours or refuses every flag") { walk_all("one GPU"); }
TEST_CASE("a CPU honours or refuses every flag") { walk_all("CPU"); }
TEST_CASE("a network from a file honours or refuses every flag") { walk_all("ONNX file"); }
TEST_CASE("several GPUs honour or refuse every flag") { walk_all("several GPUs"); }
TEST_CASE("several GPUs of one process honour or refuse every flag") { walk_all("dataparallel"); }
TEST_CASE("parameter servers honour or refuse every flag") { walk_all("servers"); }
TEST_CASE("a transformer in stages honours or refuses every flag") {
  walk_all("sharded, pipeline");
}
TEST_CASE("a transformer of shared states honours or refuses every flag") {
  walk_all("sharded, sharded");
}
TEST_CASE("a training program honours or refuses every flag") { walk_all("training program"); }

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
