#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/table/csv_reader.hpp"
#include "calibrate/table/row_fields.hpp"
#include "models/onnx/import.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "tests/support/data.hpp"

namespace tracecast {
namespace {

/// What the source counts in gmacs beside multiply-adds: fvcore (fvcore/nn/jit_handles.py,
/// batchnorm_flop_jit, norm_flop_counter) adds 2 an element for batch norms in evaluation and 5 for
/// other norms, 1 an element for pooling to given sizes.
double counted_beside(const NetworkGraph& graph) {
  double count = 0;
  for (const Op& op : graph.ops()) {
    const auto elements = static_cast<double>(element_count(graph.tensor(op.inputs.front()).shape));
    switch (op.kind) {
      case OpKind::BatchNorm:
        count += 2 * elements;
        break;
      case OpKind::LayerNorm:
      case OpKind::GroupNorm:
      case OpKind::InstanceNorm:
        count += 5 * elements;
        break;
      default:
        break;
    }
  }
  return count;
}

/// Networks whose count in the table is of something else than the file holds.
bool is_counted_otherwise(std::string_view model) {
  // Its convolutions standardize their weights in every pass, which the source counts as norms; the
  // exporter computed the result once.
  return model == "nf_regnet_b0";
}

TEST_SUITE_BEGIN("models/onnx/market_files");

TEST_CASE("multiply-adds of exported networks are those of the published table") {
  const auto folder = test::find_data("market");
  if (!folder) return;
  std::map<std::pair<std::string, std::string>, std::string> published;
  CsvReader rows(*folder / "timm.csv.gz");
  const RowFields row(rows);
  while (rows.next()) {
    const std::pair key(std::string(row.text("network_as_published")),
                        std::string(row.text("image_size")));
    if (!row.text("gmacs").empty()) published[key] = row.text("gmacs");
  }
  CsvReader files(*folder / "onnx" / "files.csv");
  const RowFields file(files);
  int judged = 0;
  while (files.next()) {
    const std::string name(file.text("file"));
    CAPTURE(name);
    const std::string bytes = read_file(*folder / "onnx" / name, 1 << 24);
    const OnnxNetwork network = import_onnx(bytes, name, {.batch = 2});
    CHECK(network.warnings.empty());
    const auto known =
        published.find({std::string(file.text("model")), std::string(file.text("image_size"))});
    if (known == published.end() || is_counted_otherwise(file.text("model"))) continue;
    ++judged;
    const double expected = parse_double(known->second).value();
    const std::size_t point = known->second.find('.');
    const auto digits =
        point == std::string::npos ? 0.0 : static_cast<double>(known->second.size() - point - 1);
    const double tolerance = std::max(0.01 * expected, 0.5001 * std::pow(10, -digits));
    const double macs = network.graph.forward_macs() / 2e9;
    const double with_norms = macs + counted_beside(network.graph) / 2e9;
    CAPTURE(expected);
    CAPTURE(macs);
    CAPTURE(with_norms);
    CHECK(
        (std::fabs(macs - expected) <= tolerance || std::fabs(with_norms - expected) <= tolerance));
  }
  CHECK(judged >= 40);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
