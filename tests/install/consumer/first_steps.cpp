#include <cstdio>

#include "sim/job/predictor.hpp"

/// What a user of the library writes first: a job, a place, an answer.
int main() {
  using namespace tracecast;
  const Predictor predictor(Hardware::embedded());
  const Job job{.network = "resnet50", .batch = 64, .precision = "amp"};
  Place place;
  place.gpu = "v100";
  const Forecast forecast = predictor.predict(job, place);
  const Interval& rate = forecast.throughput_samples_per_s;
  std::printf("%.0f samples/s (%.0f to %.0f)\n", rate.value, rate.low, rate.high);
  return forecast.fits() ? 0 : 1;
}
