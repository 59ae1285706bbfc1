#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/job/predictor.hpp"
#include "sim/store/sweep_store.hpp"
#include "tools/sweep/grid.hpp"

namespace tracecast {

/// What became of a point: the words of the column `status`.
inline constexpr const char* kPredicted = "predicted";
inline constexpr const char* kTooLarge = "does not fit";  ///< answered as if it did
inline constexpr const char* kRefused = "refused";        ///< why stands in the column `refused`
/// Also as versions before 0.2.0 wrote it.
[[nodiscard]] inline bool is_predicted(std::string_view status) {
  return status == kPredicted || status == "answered";
}
inline constexpr const char* kOurBug = "bug";  ///< asked again by the next run

/// The tables of a file of sweeps, one for each subcommand, in their order: "predictions" and
/// "servings". Columns: the flags that were given, what they came to (`used_...`), the answer;
/// names end in units, shares are 0 to 1.
[[nodiscard]] std::vector<store::PointTable> sweep_tables();

/// Answers points as `predict` and `serve` do. One thread's; several may share the predictor.
class PointAnswerer {
 public:
  explicit PointAnswerer(Predictor predictor);
  ~PointAnswerer();
  PointAnswerer(PointAnswerer&&) noexcept;

  /// From now on this one answers predictions; its hardware is the same.
  void use(Predictor predictor);
  /// All but `point` and `state` of its row. What is refused is a row that says why, and so is what
  /// breaks down by a fault of ours.
  [[nodiscard]] store::PointRow report(const SweepPoint& point);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A row as bytes that another process of the same program reads, and back.
[[nodiscard]] std::string row_bytes(const store::PointRow& row);
[[nodiscard]] store::PointRow row_from(std::string_view& bytes);

}  // namespace tracecast
