#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/lowering/lower.hpp"
#include "sim/base/text.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/support/data.hpp"

using namespace tracecast;

namespace {

Bytes workspace(const ConvAttributes& a, Algorithm algorithm, const GpuSpec& gpu) {
  for (const Candidate& candidate :
       convolution_candidates(a, Pass::Forward, PrecisionMode::Fp32, ImageLayout::Nchw, gpu)) {
    if (candidate.algorithm == algorithm) return candidate.workspace;
  }
  FAIL("no such candidate");
  return {};
}

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> cells(1);
  for (const char c : line) {
    if (c == ',') {
      cells.emplace_back();
    } else if (c != '\n' && c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

/// Calls `use` with a column-to-text map for every row of a gzipped table.
template <class Use>
void for_each_row(const std::string& path, Use use) {
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rb"), gzclose);
  REQUIRE(file);
  std::vector<char> buffer(1 << 16);
  std::vector<std::string> header;
  while (gzgets(file.get(), buffer.data(), static_cast<int>(buffer.size()))) {
    const std::vector<std::string> cells = split(buffer.data());
    if (header.empty()) {
      header = cells;
      continue;
    }
    std::map<std::string, std::string> row;
    for (std::size_t i = 0; i < header.size() && i < cells.size(); ++i) row[header[i]] = cells[i];
    use(row);
  }
}

}  // namespace

TEST_SUITE("models/lowering/workspace") {
  // ResNet's 3x3 layer at 14x14: n 32, c = k = 256, padding 1.
  ConvAttributes layer() {
    ConvAttributes a;
    a.n = 32, a.c = 256, a.k = 256, a.h = a.w = a.p = a.q = 14, a.r = a.s = 3;
    a.pad_top = a.pad_left = a.pad_bottom = a.pad_right = 1;
    return a;
  }

  TEST_CASE("workspace of each algorithm, by hand") {
    const ConvAttributes a = layer();
    const struct {
      const char* what;
      Algorithm algorithm;
      double bytes;
    } rows[] = {
        {"none", Algorithm::ImplicitGemm, 0},
        {"Volta: 6 bytes per output pixel", Algorithm::ImplicitPrecomputedGemm, 6 * 14 * 14},
        {"im2col matrix", Algorithm::ExplicitGemm, 4.0 * 32 * 256 * 9 * 14 * 14},
        // 14 + 2 = 16 fills a 16x16 transform: 16 * 9 complex values of 8 bytes.
        {"planes of filters and images, twice", Algorithm::Fft, 16.0 * 144 * (65536 + 8192)},
        {"one 32x32 tile per image", Algorithm::FftTiling, 8.0 * 32 * 17 * (65536 + 16384)},
        {"25 coefficients per filter plane", Algorithm::WinogradFused, 100.0 * 65536 + 4 * 256},
        // 4 x 4 tiles of 4x4 results per image; 36 values per tile and channel.
        {"transformed x, w and y", Algorithm::WinogradNonfused,
         4.0 * 36 * (65536 + 512 * (32 * 16))},
    };
    for (const auto& row : rows) {
      CAPTURE(row.what);
      CHECK(workspace(a, row.algorithm, test::volta()).in_bytes() == row.bytes);
    }
    CHECK(workspace(a, Algorithm::ImplicitPrecomputedGemm, test::kepler()).in_bytes() ==
          4 * 256 * 9);
  }

  TEST_CASE("workspaces agree with what cuDNN 7.6 reported") {
    const auto path = test::find_data("kernels/conv_cudnn_algos.csv.gz");
    if (!path) return;
    const std::map<std::string, Algorithm> names{
        {"FFT", Algorithm::Fft},
        {"FFT_TILING", Algorithm::FftTiling},
        {"GEMM", Algorithm::ExplicitGemm},
        {"WINOGRAD", Algorithm::WinogradFused},
        {"WINOGRAD_NONFUSED", Algorithm::WinogradNonfused}};
    std::map<Algorithm, std::vector<double>> errors;
    for_each_row(path->string(), [&](std::map<std::string, std::string>& row) {
      const auto name = names.find(row["algo"]);
      if (name == names.end() || row["op"] != "conv2d" || row["dtype"] != "fp32" ||
          row["workspace_bytes"].empty())
        return;
      if (row["gpu"] != "v100_sxm2_16gb" && row["gpu"] != "k80") return;
      const auto number = [&](const char* column) {
        return parse_integer(row[column]).value_or(0);
      };
      ConvAttributes a;
      a.n = number("n"), a.c = number("c"), a.h = number("h"), a.w = number("w"), a.k = number("k");
      a.r = number("r"), a.s = number("s"), a.p = number("p"), a.q = number("q"),
      a.groups = std::max(1LL, number("groups"));
      a.pad_top = a.pad_bottom = static_cast<int>(number("pad_h"));
      a.pad_left = a.pad_right = static_cast<int>(number("pad_w"));
      a.stride_h = static_cast<int>(number("stride_h")),
      a.stride_w = static_cast<int>(number("stride_w"));
      a.dilation_h = a.dilation_w = static_cast<int>(number("dil_h"));
      for (const Candidate& candidate : convolution_candidates(
               a, Pass::Forward, PrecisionMode::Fp32, ImageLayout::Nchw, test::volta())) {
        if (candidate.algorithm != name->second) continue;
        const double reported = parse_double(row["workspace_bytes"]).value_or(0);
        if (reported > 0)
          errors[name->second].push_back(std::abs(candidate.workspace.in_bytes() / reported - 1));
      }
    });
    // The median and the 80th percentile of the relative error.
    const std::map<Algorithm, std::pair<double, double>> bounds{
        {Algorithm::WinogradNonfused, {0.001, 0.001}},
        {Algorithm::WinogradFused, {0.001, 0.05}},
        {Algorithm::ExplicitGemm, {0.001, 0.001}},
        {Algorithm::Fft, {0.02, 0.05}},
        {Algorithm::FftTiling, {0.001, 0.01}}};
    for (auto& of_algorithm : errors) {
      auto& [algorithm, list] = of_algorithm;
      std::sort(list.begin(), list.end());
      CAPTURE(to_string(of_algorithm.first));
      CAPTURE(of_algorithm.second.size());
      CHECK(list.size() > 100);
      CHECK(list[list.size() / 2] <= bounds.at(algorithm).first);
      CHECK(list[list.size() * 8 / 10] <= bounds.at(algorithm).second);
    }
    CHECK(errors.size() == names.size());
  }
}
