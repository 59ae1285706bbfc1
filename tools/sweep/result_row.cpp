#include "tools/sweep/result_row.hpp"

#include <cstring>
#include <iterator>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/job/mode/serving_job.hpp"
#include "sim/job/sha256.hpp"
#include "tools/command/version.hpp"
#include "tools/predict/predict_options.hpp"
#include "tools/serve/serve_flags.hpp"
#include "tools/sweep/result_columns.hpp"

namespace tracecast {
namespace {

using store::Value;

/// The words of a point but for those of the load: the same server, which keeps its prices from one
/// load to the next.
std::string server_of(const SweepPoint& point) {
  static const std::set<std::string> of_loads = {
      "--input",    "--output",      "--batch",          "--concurrency",  "--rate", "--requests",
      "--arrivals", "--seed",        "--warm-up",        "--find",         "--ttft", "--tpot",
      "--trace",    "--least-share", "--price-per-hour", "--shared-prefix"};
  std::string key;
  for (const std::string& word : point.words)
    if (!of_loads.contains(word.substr(0, word.find('=')))) key += word + '\n';
  return key;
}

}  // namespace

std::vector<store::PointTable> sweep_tables() {
  std::vector<store::PointTable> tables;
  for (const SweepSubcommand subcommand : kSweepSubcommands) {
    store::PointTable table{subcommand == SweepSubcommand::Predict ? "predictions" : "servings",
                            asked_columns(subcommand)};
    const auto reports =
        subcommand == SweepSubcommand::Predict ? prediction_columns() : serving_columns();
    table.columns.insert(table.columns.end(), reports.begin(), reports.end());
    table.columns.push_back({"refused", store::ColumnType::Text});
    tables.push_back(std::move(table));
  }
  return tables;
}

struct PointAnswerer::State {
  explicit State(Predictor p) : predictor(std::move(p)) {}
  Predictor predictor;
  PredictFlags predict;
  std::optional<ServeFlags> serve;
  std::string server;  ///< whose `served` is
  std::optional<Served> served;

  void report_predict(const SweepPoint& point, store::PointRow& row) {
    const PredictQuestion question = predict.read(point.words, predictor.hardware());
    const Forecast forecast = predictor.predict(question.job, question.job, question.parallelism);
    row.status = forecast.fits() ? kPredicted : kTooLarge;
    row.inputs = inputs_json(forecast.inputs);
    append_prediction(forecast, row.values);
  }

  void report_serve(const SweepPoint& point, store::PointRow& row) {
    if (!serve) serve.emplace();
    ServedPlace asked = serve->read(point.words);
    ServeQuestion& question = asked.question;
    if (const std::string key = server_of(point); !served || key != server) {
      served.reset();
      served.emplace(question.job, asked.place, predictor.hardware());
      server = key;
    }
    ServingReport report;
    if (question.ttft_ms || question.tpot_ms) {
      Served::Found found = served->find_rate(question.load, question.ttft_ms, question.tpot_ms);
      question.found_rate = found.per_second;
      report = std::move(found.report);
    } else {
      report = served->report(question.load);
    }
    row.status = report.fits ? kPredicted : kTooLarge;
    std::vector<InputRecord> inputs = question.inputs;
    inputs.insert(inputs.end(), report.inputs.begin(), report.inputs.end());
    row.inputs = inputs_json(inputs);
    append_serving(question, report, row.values);
  }
};

PointAnswerer::PointAnswerer(Predictor predictor)
    : state_(std::make_unique<State>(std::move(predictor))) {}
PointAnswerer::~PointAnswerer() = default;
PointAnswerer::PointAnswerer(PointAnswerer&&) noexcept = default;

void PointAnswerer::use(Predictor predictor) { state_->predictor = std::move(predictor); }

store::PointRow PointAnswerer::report(const SweepPoint& point) {
  store::PointRow row;
  row.table = static_cast<std::size_t>(point.subcommand);
  row.question = point.question;
  row.version = kVersion;
  row.values = point.asked;
  const auto refuse = [&](const char* status, const char* why) {
    static const std::vector<store::PointTable> tables = sweep_tables();
    row.status = status;
    row.inputs.clear();
    row.values.resize(point.asked.size());
    row.values.resize(tables[row.table].columns.size());
    row.values.back() = std::string(why);
  };
  try {
    if (point.subcommand == SweepSubcommand::Predict) {
      state_->report_predict(point, row);
    } else {
      state_->report_serve(point, row);
    }
    row.values.emplace_back();  // not refused
    row.inputs_sha256 = sha256(row.inputs);
  } catch (const InputError& error) {
    refuse(kRefused, error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    refuse(kOurBug, error.what());
  }
  return row;
}

std::string row_bytes(const store::PointRow& row) {
  std::string bytes;
  const auto raw = [&](const auto& number) {
    bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const auto text = [&](const std::string& word) {
    raw(word.size());
    bytes += word;
  };
  raw(row.table);
  raw(row.point);
  for (const std::string* word :
       {&row.question, &row.state, &row.version, &row.status, &row.inputs_sha256, &row.inputs})
    text(*word);
  raw(row.values.size());
  for (const Value& value : row.values) {
    raw(static_cast<char>(value.index()));
    if (const auto* whole = std::get_if<std::int64_t>(&value)) raw(*whole);
    if (const auto* number = std::get_if<double>(&value)) raw(*number);
    if (const auto* word = std::get_if<std::string>(&value)) text(*word);
  }
  return bytes;
}

store::PointRow row_from(std::string_view& bytes) {
  store::PointRow row;
  const auto raw = [&](auto& number) {
    TRACECAST_CHECK(bytes.size() >= sizeof number, "a row comes whole");
    std::memcpy(&number, bytes.data(), sizeof number);
    bytes.remove_prefix(sizeof number);
  };
  const auto text = [&](std::string& word) {
    std::size_t size = 0;
    raw(size);
    TRACECAST_CHECK(bytes.size() >= size, "a row comes whole");
    word = bytes.substr(0, size);
    bytes.remove_prefix(size);
  };
  raw(row.table);
  raw(row.point);
  for (std::string* word :
       {&row.question, &row.state, &row.version, &row.status, &row.inputs_sha256, &row.inputs})
    text(*word);
  std::size_t count = 0;
  raw(count);
  for (std::size_t i = 0; i < count; ++i) {
    char kind = 0;
    raw(kind);
    if (kind == 0) {
      row.values.emplace_back();
    } else if (kind == 1) {
      std::int64_t whole = 0;
      raw(whole);
      row.values.emplace_back(whole);
    } else if (kind == 2) {
      double number = 0;
      raw(number);
      row.values.emplace_back(number);
    } else {
      std::string word;
      text(word);
      row.values.emplace_back(std::move(word));
    }
  }
  return row;
}

}  // namespace tracecast
