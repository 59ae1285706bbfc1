#include "hwspecs/collective_library.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/base/error.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

using Files = std::vector<std::pair<std::string_view, std::string_view>>;

constexpr std::string_view kBase = R"(
id: "base" name: "Base"
sources { key: "us" title: "estimate" where: "made up" }
library { value: "toy" source: "us" }
from_version { value: "1.0" source: "us" }
from_date { value: "2017-01" source: "us" }
kind { value: CHANNELS source: "us" }
host_bridge_overhead { value: 1.5 source: "us" }
path { algorithm: RING protocol: SIMPLE base_us: 8 nvlink_us: 3 pcie_us: 5 network_us: 9 bandwidth_fraction: 1 source: "us" }
cap { from_capability: 80 algorithm: RING protocol: SIMPLE in_all_gb_per_s: [200, 200, 100] source: "us" }
)";
constexpr std::string_view kNext = R"(
id: "next" name: "Next" based_on: "base"
sources { key: "us" title: "estimate" where: "made up" }
from_version { value: "1.2" source: "us" }
from_date { value: "2018-06" source: "us" }
path { algorithm: RING protocol: SIMPLE base_us: 7 nvlink_us: 3 pcie_us: 5 network_us: 9 bandwidth_fraction: 1 source: "us" }
path { algorithm: TREE protocol: LL base_us: 4 nvlink_us: 1 pcie_us: 1 network_us: 5 bandwidth_fraction: 0.25 source: "us" }
cap { from_capability: 80 algorithm: RING protocol: SIMPLE source: "us" }
)";

std::vector<CollectiveLibrary> parse_collective_libraries(const Files& files) {
  const auto id_of = [](std::string_view text) {
    const std::size_t begin = text.find("id: \"") + 5;
    return text.substr(begin, text.find('"', begin) - begin);
  };
  const FindSpecText find = [&](std::string_view id) -> std::optional<SpecText> {
    for (const auto& [where, text] : files) {
      if (id_of(text) == id) return SpecText{text, std::string(where)};
    }
    return std::nullopt;
  };
  std::vector<CollectiveLibrary> libraries;
  for (const auto& [where, text] : files) {
    libraries.push_back(parse_collective_library(text, where, find));
  }
  return libraries;
}

std::string refusal(const Files& files) {
  try {
    (void)parse_collective_libraries(files);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST_SUITE_BEGIN("hwspecs/collective_library");

TEST_CASE("a file based on another has its values but where it says otherwise") {
  const auto libraries = parse_collective_libraries(Files{{"b", kBase}, {"n", kNext}});
  REQUIRE(libraries.size() == 2);
  const CollectiveLibrary &base = libraries[0], &next = libraries[1];
  CHECK(next.library == "toy");
  CHECK(next.from_version == "1.2");
  CHECK(next.host_bridge_overhead == 1.5);
  CHECK(base.paths.size() == 1);
  REQUIRE(next.paths.size() == 2);
  CHECK(base.paths[0].base.in_us() == doctest::Approx(8));
  CHECK(next.paths[0].base.in_us() == doctest::Approx(7));
  // A cap without a number lifts the one of the base.
  CHECK(base.caps[0].in_all.size() == 3);
  REQUIRE(next.caps.size() == 1);
  CHECK(next.caps[0].in_all.empty());
}

TEST_CASE("malformed files are refused") {
  const auto with = [](std::string_view from, std::string_view to) {
    std::string text(kBase);
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
  };
  const auto refused = [&](const std::string& text) { return refusal(Files{{"file", text}}); };
  CHECK(refused(std::string(kBase)) == "");
  CHECK(refused(with("RING protocol: SIMPLE base_us: 8", "RING protocol: SIMPLE base_us: -8")) !=
        "");
  CHECK(refused(with("bandwidth_fraction: 1", "bandwidth_fraction: 0")) != "");
  CHECK(refused(with("[200, 200, 100]", "[200, 200]")).find("three") != std::string::npos);
  CHECK(refused(with("\"1.0\"", "\"one\"")) != "");
  CHECK(refused(with("\"2017-01\"", "\"once\"")) != "");
  CHECK(refused(with("library { value: \"toy\" source: \"us\" }", "")) != "");
  CHECK(refused(with("host_bridge_overhead { value: 1.5", "host_bridge_overhead { value: nan")) !=
        "");
  CHECK(refused(with("name: \"Base\"", "name: \"Base\" based_on: \"base\"")).find("circle") !=
        std::string::npos);
  CHECK(refusal(Files{{"n", kNext}}).find("based_on") != std::string::npos);
}

TEST_CASE("a version or a date picks the state of the library at that time") {
  struct Row {
    const char* version;
    const char* date;
    const char* id;
  };
  const Row rows[] = {
      {"2.0", "", "nccl_2_0"},     {"2.0.5", "", "nccl_2_0"},   {"2.3.7", "", "nccl_2_1"},
      {"2.4", "", "nccl_2_4"},     {"2.10.3", "", "nccl_2_9"},  {"2.18", "", "nccl_2_17"},
      {"1.3", "", "nccl_2_0"},     {"", "2017-08", "nccl_2_0"}, {"", "2018", "nccl_2_1"},
      {"", "2019-02", "nccl_2_4"}, {"", "2020-07", "nccl_2_5"}, {"", "2012", "nccl_2_0"},
      {"2.4", "2024", "nccl_2_4"}, {"2.21", "", "nccl_2_17"},   {"2.23", "", "nccl_2_23"},
      {"", "2025", "nccl_2_23"},   {"", "", "nccl_2_23"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.version);
    CAPTURE(row.date);
    CHECK(find_collective_library("nccl", row.version, row.date).id == row.id);
  }
  CHECK_THROWS_AS((void)find_collective_library("nickel"), InputError);
  CHECK_THROWS_AS((void)find_collective_library("nccl", "two"), InputError);
  CHECK_THROWS_AS((void)find_collective_library("nccl", "", "soon"), InputError);
}

TEST_CASE("every library with channels has a ring with the simple protocol") {
  for (const CollectiveLibrary& library : collective_libraries()) {
    CAPTURE(library.id);
    const bool ring = std::any_of(library.paths.begin(), library.paths.end(), [](const auto& p) {
      return p.algorithm == CollectiveAlgorithm::Ring && p.protocol == CollectiveProtocol::Simple;
    });
    CHECK(ring == (library.kind == LibraryKind::Channels));
    const bool has_steps =
        library.kind == LibraryKind::HostSteps || library.kind == LibraryKind::TreeCopies;
    CHECK((library.step > Seconds(0)) == has_steps);
    CHECK(library.kernels.empty() == (library.kind != LibraryKind::Kernels));
    CHECK(library.otherwise.empty() == (library.kind != LibraryKind::Kernels));
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
