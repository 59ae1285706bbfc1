#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "calibrate/table/csv_reader.hpp"
#include "sim/base/text.hpp"
#include "tests/support/data.hpp"
#include "tests/validation/validated_rows.hpp"

namespace tracecast::test {
namespace {

TEST_SUITE_BEGIN("validation/neusight_convolution");

struct Timed {
  double measured_us = 0, predicted_us = 0;
};
/// Of one session: what was convolved -> times.
using Session = std::map<std::string, Timed>;
using Sessions = std::map<std::string, Session>;

Sessions read_sessions(const std::string& table) {
  const auto predicted = predict_rows(table, {"source=neusight"});
  CsvReader reader(table);
  const auto text = [&](std::string_view column) {
    return std::string(reader.field(reader.find_column(column).value()));
  };
  Sessions sessions;
  while (reader.next()) {
    const auto known = predicted.find(reader.line());
    if (known == predicted.end()) continue;
    sessions[text("gpu")][text("n") + ' ' + text("c") + ' ' + text("h") + ' ' + text("k")] = {
        parse_double(text("time_us")).value(), known->second};
  }
  return sessions;
}

/// Mean time that short rows of a session take over their prediction: the host's.
double host_delay_us(const Session& session) {
  constexpr double kShort = 250;
  double sum = 0;
  int count = 0;
  for (const auto& [shape, row] : session) {
    if (row.predicted_us > kShort) continue;
    sum += row.measured_us - row.predicted_us;
    ++count;
  }
  REQUIRE(count > 100);
  REQUIRE(sum > 0);
  return sum / count;
}

/// Delays of all sessions but one.
using Delays = std::map<std::string, double>;

/// A shape's delay over its session's mean, from the other sessions. Each tells it to 12 % of its
/// kernels and 20 us; before they do, it is 1 give or take 0.6.
double relative_delay(const std::string& shape, const Sessions& sessions, const Delays& others) {
  constexpr double kUncertainty = 0.6;
  double weights = 1 / (kUncertainty * kUncertainty), sum = weights;
  for (const auto& [gpu, delay] : others) {
    const auto row = sessions.at(gpu).find(shape);
    if (row == sessions.at(gpu).end()) continue;
    const double sd = (0.12 * row->second.predicted_us + 20) / delay;
    sum += (row->second.measured_us - row->second.predicted_us) / delay / (sd * sd);
    weights += 1 / (sd * sd);
  }
  return std::max(sum / weights, 0.0);
}

double geometric_mean(const Delays& delays) {
  double sum = 0;
  for (const auto& [gpu, delay] : delays) sum += std::log(delay);
  return std::exp(sum / static_cast<double>(delays.size()));
}

/// Mean absolute errors over 100 us in percent.
struct Errors {
  double one_delay = 0;  ///< every row delayed by the same time, the other sessions' geometric mean
  double by_shape = 0;   ///< delayed as the same shape was in the other sessions
};

Errors judge(const std::string& gpu, const Sessions& sessions, const Delays& all) {
  Delays others = all;
  others.erase(gpu);
  const double delay = geometric_mean(others);
  Errors errors;
  int count = 0;
  for (const auto& [shape, row] : sessions.at(gpu)) {
    if (row.measured_us < 100) continue;
    const auto error = [&](double extra) {
      return 100 * std::abs((row.predicted_us + extra) / row.measured_us - 1);
    };
    errors.one_delay += error(delay);
    errors.by_shape += error(delay * relative_delay(shape, sessions, others));
    ++count;
  }
  return {errors.one_delay / count, errors.by_shape / count};
}

// Times between two events round one op of an idle host. What the host adds is not the GPU's: of
// kernels under 0.2 ms it is between nothing and twice the mean, unrelated to shape, algorithm or
// workspace, and yet in all five sessions the same for the same shape (correlation 0.96 to 0.99),
// as if the process that ran the shapes in one order had grown slower. So a constant cannot follow
// it, and the other sessions can. No row of these tables is used for anything but the delay, and
// none of the GPU judged.
TEST_CASE("convolutions of five GPUs are predicted within the bounds") {
  const auto table = find_data("kernels/conv.csv.gz");
  if (!table) return;
  const Sessions sessions = read_sessions(table->string());
  REQUIRE(sessions.size() == 5);
  Delays delays;
  for (const auto& [gpu, session] : sessions) delays[gpu] = host_delay_us(session);
  Errors mean;
  for (const auto& [gpu, session] : sessions) {
    const Errors errors = judge(gpu, sessions, delays);
    MESSAGE(fmt::format(
        "{:<15} {} rows, host {:.0f} us: {:.1f} % with one delay, {:.1f} % with each shape's", gpu,
        session.size(), delays.at(gpu), errors.one_delay, errors.by_shape));
    mean.one_delay += errors.one_delay / 5;
    mean.by_shape += errors.by_shape / 5;
  }
  MESSAGE(fmt::format("mean: {:.1f} %, {:.1f} %", mean.one_delay, mean.by_shape));
  CHECK(mean.one_delay <= 22);
  CHECK(mean.by_shape <= 18);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
