#include "sim/job/layer_table.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/job/predictor.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/job/layer_table");

TEST_CASE("layers take what the step's kernels take, each kernel once") {
  const Predictor predictor(Hardware::embedded());
  Job job;
  job.network = "resnet18";
  job.batch = 8;
  Place place;
  place.gpu = "v100_sxm2_16gb";
  const Forecast forecast = predictor.predict(job, place);
  const auto& [resolved, prediction] = std::get<OneGpuDetails>(*forecast.details);
  const std::vector<LayerRow> rows = layer_table(resolved, prediction);
  Seconds time{}, kernels{};
  std::size_t num_kernels = 0;
  for (const LayerRow& row : rows) {
    CAPTURE(row.name);
    CHECK(row.num_kernels > 0);
    CHECK(!row.bound.empty());
    CHECK(!row.basis.empty());
    CHECK(!row.shape.empty());
    time += row.time;
    num_kernels += row.num_kernels;
  }
  for (const ProgramKernel& kernel : prediction.program.kernels) kernels += kernel.duration;
  CHECK(num_kernels == prediction.program.kernels.size());
  CHECK(time.in_s() == doctest::Approx(kernels.in_s()).epsilon(1e-9));
  CHECK(std::count_if(rows.begin(), rows.end(), [](const LayerRow& row) {
          return row.kind == to_string(OpKind::Conv) && row.pass == to_string(Pass::Forward);
        }) == 20);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
