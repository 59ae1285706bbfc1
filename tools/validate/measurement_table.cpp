#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/measurement.hpp"
#include "calibrate/table/row_roofline.hpp"
#include "tools/validate/validation.hpp"

namespace tracecast {
namespace {

/// Rows of one kernel, library call or layer: what calibration fits, validation predicts.
class MeasuredRows final : public RowPredictor {
 public:
  MeasuredRows(std::unique_ptr<MeasurementReader> reader, const Hardware& hardware)
      : reader_(std::move(reader)), hardware_(hardware) {}
  std::string_view table() const override { return reader_->table(); }
  std::string_view unit() const override {
    return reader_->time_unit() == Seconds(1) ? "W" : in_ms() ? "ms" : "us";
  }
  std::string_view convention() const override { return reader_->convention(); }

  bool use_power() override { return reader_->use_power(); }
  std::string_view metric() const override { return reader_->time_column(); }
  bool use_engine(std::string_view name) override {
    for (std::size_t e = 0; e < kGemmEngineCount; ++e) {
      const auto engine = static_cast<GemmEngine>(e);
      if (to_string(engine) == name) return reader_->use_engine(engine);
    }
    return false;
  }

  RowResult predict(const CsvReader& row) override {
    const MeasurementOrReason read = reader_->read(row);
    if (const auto* reason = std::get_if<std::string>(&read)) return skip(*reason);
    const auto& measurement = std::get<Measurement>(read);
    const auto estimate = estimate_measurement(measurement, *measurement.spec, hardware_.cost());
    if (!estimate) return skip("no kernel runs for this op");
    const Seconds unit = reader_->time_unit();
    const auto roofline = roofline_of(measurement);
    const auto in_units = [&](Seconds RowRoofline::*which) {
      return roofline ? std::optional((*roofline).*which / unit) : std::nullopt;
    };
    return {.measured = RowFields(row).positive(reader_->time_column()),
            .predicted = interval90(estimate->time / unit, estimate->log_sd),
            .basis = is_fitted(measurement, hardware_.cost()) ? kFittedBasis : estimate->basis,
            .skipped = {},
            .flag = measurement.flag,
            .plain_roofline = in_units(&RowRoofline::plain),
            .three_roofline = in_units(&RowRoofline::three_constants)};
  }

 private:
  [[nodiscard]] bool in_ms() const { return reader_->time_unit() == Seconds(1e-3); }

  std::unique_ptr<MeasurementReader> reader_;
  const Hardware& hardware_;
};

/// A table that is known, none of whose rows can be predicted yet.
class UnpredictedTable final : public RowPredictor {
 public:
  UnpredictedTable(std::string_view name, std::string_view unit, std::string_view reason)
      : name_(name), unit_(unit), reason_(reason) {}
  std::string_view table() const override { return name_; }
  std::string_view unit() const override { return unit_; }
  RowResult predict(const CsvReader&) override { return skip(std::string(reason_)); }

 private:
  std::string_view name_, unit_, reason_;
};

TableKind unpredicted(std::string_view name, std::string_view unit,
                      std::vector<std::string_view> required, std::string_view reason) {
  return {.name = name,
          .required = std::move(required),
          .make = [name, unit, reason](const CsvReader&, const Hardware&) {
            return std::unique_ptr<RowPredictor>(
                std::make_unique<UnpredictedTable>(name, unit, reason));
          }};
}

}  // namespace

std::vector<TableKind> measurement_tables() {
  std::vector<TableKind> kinds = {unpredicted("sparse GEMMs", "us", {"sparsity", "time_us"},
                                              "sparse GEMMs have no cost model")};
  for (const auto& tables : {kernel_measurement_tables(), session_measurement_tables(),
                             gemm_measurement_tables(), engine_measurement_tables()}) {
    for (const MeasurementTable& table : tables) {
      kinds.push_back({.name = table.name,
                       .required = table.required,
                       .make = [make = table.make](const CsvReader&, const Hardware& hardware) {
                         return std::unique_ptr<RowPredictor>(std::make_unique<MeasuredRows>(
                             make(measurement_context(hardware)), hardware));
                       }});
    }
  }
  return kinds;
}

MeasurementContext measurement_context(const Hardware& hardware) {
  return {.specs = std::make_shared<SpecsAtClock>(hardware.gpus()),
          .framework = [&hardware](std::string_view id) { return hardware.framework(id); },
          .library = hardware.specs()};
}

}  // namespace tracecast
