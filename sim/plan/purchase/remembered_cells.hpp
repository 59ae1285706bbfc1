#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "sim/job/predictor.hpp"
#include "sim/plan/purchase/matrix.hpp"

namespace tracecast::plan {

/// Predictions of cells by several threads, kept in a file between runs (sim/store). What was under
/// way when a run ended is asked again, all else is not.
class RememberedCells {
 public:
  /// `fingerprint`: all that decides an answer but the question: the program and the files it was
  /// given. `file` empty: nothing is kept. `threads` 0: as many as the machine has. Throws
  /// InputError.
  RememberedCells(Predictor predictor, std::string fingerprint, const std::filesystem::path& file,
                  unsigned threads = 0);
  ~RememberedCells();
  RememberedCells(const RememberedCells&) = delete;
  RememberedCells& operator=(const RememberedCells&) = delete;

  [[nodiscard]] std::vector<Cell> operator()(const std::vector<CellQuestion>& questions) const;
  /// Cells that the last call had to predict.
  [[nodiscard]] std::size_t predicted() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A cell as text, exact to the last bit, and back. Throws InputError: no such text.
[[nodiscard]] std::string cell_text(const Cell& cell);
[[nodiscard]] Cell cell_from(std::string_view text);

}  // namespace tracecast::plan
