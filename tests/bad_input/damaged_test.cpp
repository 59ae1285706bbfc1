#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/data.hpp"
#include "tests/support/onnx_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;

/// `content` cut short, or with one to eight bits turned over, or both.
std::string damage(std::string content, Random& random) {
  const std::uint64_t way = random.below(3);
  if (way != 0) content.resize(random.below(content.size() + 1));
  if (way != 1 && !content.empty()) {
    for (std::uint64_t flips = 1 + random.below(8); flips > 0; --flips) {
      char& byte = content[random.below(content.size())];
      byte = static_cast<char>(byte ^ (1 << random.below(8)));
    }
  }
  return content;
}

/// Feeds `copies` damaged versions of `original` to the program; "FILE" in the arguments is their
/// path.
void check_survives_damage(const std::string& original, const std::string& file_name, int copies,
                           const std::vector<std::string>& arguments, Random& random) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / file_name;
  std::vector<std::string> replaced = arguments;
  for (std::string& word : replaced) {
    if (word == "FILE") word = path.string();
    if (word == "FOLDER") word = folder.path().string();
  }
  for (int copy = 0; copy < copies; ++copy) {
    CAPTURE(file_name);
    CAPTURE(copy);
    write_file(path, damage(original, random));
    check_survives(replaced);
  }
}

const std::vector<std::string> kPredict = {"predict",        "FILE",    "--gpu",
                                           "v100_sxm2_16gb", "--batch", "4"};

TEST_SUITE_BEGIN("bad_input/damaged");

TEST_CASE("a damaged network is answered or refused") {
  Random random(20240501);
  check_survives_damage(onnx::small_network().bytes(), "small.onnx", 60, kPredict, random);
}

TEST_CASE("a damaged real network is answered or refused") {
  const auto folder = find_data("onnx");
  if (!folder) return;
  Random random(20240502);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(*folder)) {
    if (entry.path().extension() == ".onnx") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  REQUIRE_FALSE(files.empty());
  for (const fs::path& file : files) {
    check_survives_damage(read_file(file, 1 << 24), file.filename(), 12, kPredict, random);
  }
}

TEST_CASE("a damaged GPU spec is used or refused") {
  Random random(20240503);
  check_survives_damage(read_file("hwspecs/gpu/t4.textproto", 1 << 20), "t4.textproto", 60,
                        {"predict", "alexnet", "--gpu", "t4", "--hwspecs", "FOLDER"}, random);
}

TEST_CASE("a damaged cost profile is used or refused") {
  Random random(20240504);
  check_survives_damage(read_file("hwspecs/cost/default.textproto", 1 << 20), "profile.textproto",
                        60, {"predict", "alexnet", "--gpu", "t4", "--profile", "FILE"}, random);
}

TEST_CASE("a damaged table of measurements is judged or refused") {
  const auto table = find_data("published/core.csv");
  if (!table) return;
  Random random(20240505);
  const std::string head = read_file(*table, 1 << 26).substr(0, 3000);
  check_survives_damage(head, "table.csv", 40, {"validate", "FILE"}, random);
}

TEST_CASE("a damaged compressed table is judged or refused") {
  const auto table = find_data("kernels_tf/conv_k40.csv.gz");
  if (!table) return;
  Random random(20240506);
  const std::string head = read_file(*table, 1 << 26).substr(0, 4000);
  check_survives_damage(head, "table.csv.gz", 20, {"validate", "FILE"}, random);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
