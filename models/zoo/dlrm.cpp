#include <string>
#include <vector>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kDlrm =
    "Naumov et al., arXiv 1906.00091; github.com/facebookresearch/dlrm";

/// A table and how many of its rows a sample adds up.
struct Table {
  std::int64_t rows, bag = 1;
};
struct DlrmLayout {
  std::int64_t dense_inputs, width;
  std::vector<std::int64_t> bottom,
      top;  ///< layers' widths; the bottom's last is `width`, the top's last 1
  std::vector<Table> tables;
  std::int64_t cross_layers = 0, cross_rank = 0;  ///< crossing instead of dot products when not 0
};

struct Dlrm {
  GraphBuilder& b;
  const DlrmLayout& layout;

  /// Linear layers with ReLU after all but the last of `open_end`.
  TensorId perceptron(const std::string& name, TensorId x, const std::vector<std::int64_t>& widths,
                      bool open_end) const {
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string layer = name + "." + std::to_string(i);
      x = b.linear_layer(layer, x, widths[i], true);
      if (!open_end || i + 1 < widths.size()) x = b.activation(layer + ".relu", x, "relu", true);
    }
    return x;
  }
  /// The dense features and a row, or sum of rows, of every table; batch x (1 + tables) * width.
  TensorId features(TensorId dense, std::int64_t batch) const {
    std::vector<TensorId> parts = {dense};
    for (std::size_t i = 0; i < layout.tables.size(); ++i) {
      const std::string name = "emb." + std::to_string(i);
      const TensorId ids = b.input(name + ".ids", {batch, layout.tables[i].bag}, true);
      const TensorId table = b.weight(name + ".weight", {layout.tables[i].rows, layout.width});
      parts.push_back(b.embedding_bag(name, ids, table));
    }
    return b.concat("features", parts, 1);
  }
  /// GEMMs of every pair of features, once each, behind the dense ones.
  TensorId dot_interaction(TensorId dense, TensorId all, std::int64_t batch) const {
    const auto count = static_cast<std::int64_t>(layout.tables.size()) + 1;
    const std::int64_t pairs = count * (count - 1) / 2;
    const TensorId rows = b.reshape("features.rows", all, {batch, count, layout.width});
    TensorId gemms = b.matmul("interaction", rows, rows, false, true);
    gemms = b.reshape("interaction.view", gemms, {batch, count * count});
    const TensorId lower = b.tensor({.name = "interaction.lower",
                                     .shape = {pairs},
                                     .role = TensorRole::Buffer,
                                     .is_integer = true});
    const TensorId both[] = {dense, b.gather("interaction.pairs", gemms, lower, 1)};
    return b.concat("interaction.cat", both, 1);
  }
  /// x0 * (W (V x) + bias) + x, several times (Wang et al., arXiv 2008.13535).
  TensorId cross(TensorId x0) const {
    TensorId x = x0;
    for (std::int64_t i = 0; i < layout.cross_layers; ++i) {
      const std::string name = "cross." + std::to_string(i);
      TensorId y = b.linear_layer(name + ".v", x, layout.cross_rank, false);
      y = b.linear_layer(name + ".w", y, b.shape(x0)[1], true);
      x = b.add(name + ".add", b.mul(name + ".mul", x0, y), x);
    }
    return x;
  }
};

// dlrm_s_pytorch.py and, with crossing, MLPerf's recommendation_v2/torchrec_dlrm. Tables have
// sparse gradients, as there; the loss is binary cross-entropy there.
NetworkGraph dlrm(const BuildOptions& options, const DlrmLayout& layout) {
  GraphBuilder b("dlrm", options.batch);
  const Dlrm parts{b, layout};
  TensorId dense = b.input("dense", {options.batch, layout.dense_inputs});
  dense = parts.perceptron("bottom", dense, layout.bottom, false);
  TensorId x = parts.features(dense, options.batch);
  x = layout.cross_layers > 0 ? parts.cross(x) : parts.dot_interaction(dense, x, options.batch);
  x = parts.perceptron("top", x, layout.top, true);
  b.graph().outputs = {b.activation("sigmoid", x, "sigmoid")};
  return std::move(b).take();
}

std::vector<Table> single_rows(std::initializer_list<std::int64_t> rows) {
  std::vector<Table> tables;
  for (const std::int64_t count : rows) tables.push_back({.rows = count});
  return tables;
}

// bench/run_and_time.sh: ids beyond 40 million wrapped.
NetworkGraph mlperf(const BuildOptions& options) {
  return dlrm(options, {.dense_inputs = 13,
                        .width = 128,
                        .bottom = {512, 256, 128},
                        .top = {1024, 1024, 512, 256, 1},
                        .tables = single_rows(
                            {39884406, 39043,    17289,    7420,     20263,  3,     7120, 1543, 63,
                             38532951, 2953546,  403346,   10,       2208,   11938, 155,  4,    976,
                             14,       39979771, 25641295, 39664984, 585935, 12972, 108,  36})});
}

// bench/dlrm_s_criteo_kaggle.sh.
NetworkGraph kaggle(const BuildOptions& options) {
  return dlrm(
      options,
      {.dense_inputs = 13,
       .width = 16,
       .bottom = {512, 256, 64, 16},
       .top = {512, 256, 1},
       .tables = single_rows({1460,  583,  10131227, 2202608, 305, 24,     12517,   633,   3,
                              93145, 5683, 8351593,  3194,    27,  14992,  5461306, 10,    5652,
                              2173,  4,    7046547,  18,      15,  286181, 105,     142572})});
}

// bench/dlrm_s_benchmark.sh.
NetworkGraph benchmark(const BuildOptions& options) {
  return dlrm(options, {.dense_inputs = 512,
                        .width = 64,
                        .bottom = {512, 64},
                        .top = {1024, 1024, 1024, 1},
                        .tables = std::vector<Table>(8, {.rows = 1'000'000, .bag = 100})});
}

// dlrm_s_pytorch.py without flags. Bags have random lengths there; guess: two.
NetworkGraph smallest(const BuildOptions& options) {
  return dlrm(options, {.dense_inputs = 4,
                        .width = 2,
                        .bottom = {3, 2},
                        .top = {4, 2, 1},
                        .tables = {{4, 2}, {3, 2}, {2, 2}}});
}

NetworkGraph cross_network(const BuildOptions& options) {
  return dlrm(options,
              {.dense_inputs = 13,
               .width = 128,
               .bottom = {512, 256, 128},
               .top = {1024, 1024, 512, 256, 1},
               .tables = {{40000000, 3},   {39060, 2},     {17295, 1},   {7424, 2},  {20265, 6},
                          {3, 1},          {7122, 1},      {1543, 1},    {63, 1},    {40000000, 7},
                          {3067956, 3},    {405282, 8},    {10, 1},      {2209, 6},  {11938, 9},
                          {155, 5},        {4, 1},         {976, 1},     {14, 1},    {40000000, 12},
                          {40000000, 100}, {40000000, 27}, {590152, 10}, {12973, 3}, {108, 1},
                          {36, 1}},
               .cross_layers = 3,
               .cross_rank = 512});
}

}  // namespace

std::vector<ZooEntry> dlrm_networks() {
  return {
      {.name = "dlrm",
       .aliases = {"dlrm_mlperf", "dlrm_terabyte"},
       .title = "DLRM, MLPerf's, Criteo Terabyte",
       .source = kDlrm,
       .build = mlperf},
      {.name = "dlrm_kaggle", .title = "DLRM, Criteo Kaggle", .source = kDlrm, .build = kaggle},
      {.name = "dlrm_benchmark",
       .title = "DLRM of its benchmark script",
       .source = kDlrm,
       .build = benchmark},
      {.name = "dlrm_default",
       .title = "DLRM as it runs without flags",
       .source = kDlrm,
       .build = smallest},
      {.name = "dlrm_dcnv2",
       .title = "DLRM with cross network, MLPerf",
       .source = "MLPerf training v3.0, recommendation_v2/torchrec_dlrm",
       .build = cross_network},
  };
}

}  // namespace tracecast::zoo_builders
