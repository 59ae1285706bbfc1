#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/properties/command.hpp"

namespace tracecast::test {

/// One figure of an answer: `predict` has one, `compare` one for every GPU and batch.
struct ReportRow {
  std::string what{};  ///< which one; empty: there is but one
  double time_s = 0;   ///< of a step, of a request, of all jobs on their GPUs, or dollars of a plan
  double per_s = 0;    ///< samples or tokens of answers; 0: there is no such figure
  bool fits = true;
  std::string state{};  ///< for people: what paces it, "at its power limit"
};

/// What a command answers, as far as properties speak of it.
struct Report {
  std::vector<ReportRow> rows;
  std::vector<std::string> faults{};  ///< of its own arithmetic; empty: it adds up
};

/// Asks in this process what the program would answer. Remembers hardware and graphs.
class Asker {
 public:
  Asker();
  ~Asker();
  Asker(const Asker&) = delete;
  Asker& operator=(const Asker&) = delete;

  /// Nothing: it is refused. What ends in a bug of ours is an answer without rows whose fault that
  /// is.
  [[nodiscard]] std::optional<Report> ask(const Command& command);
  /// Whether the report of `predict` names kernels that do better at a batch (or length) from
  /// `least` to `most`.
  [[nodiscard]] bool names_kernels(const Command& command, bool is_length, std::int64_t least,
                                   std::int64_t most);
  /// The page that people get, in JSON: what does not add up in it. For commands that `ask` reads
  /// otherwise.
  [[nodiscard]] std::vector<std::string> faults_in_json(const Command& command);
  /// Why the last question was refused.
  [[nodiscard]] const std::string& refusal() const { return refusal_; }
  /// Graphs of the jobs so far are needed no more.
  void forget();

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
  std::string refusal_;
};

}  // namespace tracecast::test
