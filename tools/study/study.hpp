#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/job/resolved_job.hpp"

namespace tracecast {

/// One finding of a study, as its file states it (tools/study/study.proto).
struct StudyRow {
  std::string id, finding, printed, unit, experiment;
  std::optional<double> published;
  bool fitted = false;
  std::optional<double> factor, points, neutral, at_least, at_most;
};
struct Study {
  std::string id, title, question;
  std::vector<std::string> setting;
  std::vector<StudyRow> rows;
  InputRecord record;  ///< the file it came from
};
/// Throws InputError: syntax, no rows, an id twice, a row without experiment or without a test.
[[nodiscard]] Study parse_study(std::string_view text, std::string_view where);
/// The studies in the binary, by id.
[[nodiscard]] const std::vector<Study>& studies();
/// Case does not matter, and '-' is '_'. Throws InputError with the nearest id.
[[nodiscard]] const Study& find_study(std::string_view id);

/// KEY=VALUE words of an experiment, each to be asked for by what runs it. Lookups throw InputError
/// naming the row and the key: absent, or not of the type.
class StudyArguments {
 public:
  /// `text`: "NAME KEY=VALUE ...". Throws InputError: a word without '=', a key twice.
  StudyArguments(std::string_view text, std::string_view row);
  [[nodiscard]] const std::string& experiment() const { return experiment_; }
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::string text(std::string_view key, std::string_view otherwise) const;
  [[nodiscard]] double number(std::string_view key) const;
  [[nodiscard]] double number(std::string_view key, double otherwise) const;
  [[nodiscard]] std::int64_t integer(std::string_view key) const;
  [[nodiscard]] std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  /// "8,16,32".
  [[nodiscard]] std::vector<std::int64_t> integers(std::string_view key) const;
  /// Throws InputError when a key was given that nobody asked for: a misspelt one is not ignored.
  void check_all_used() const;

 private:
  const std::string* find(std::string_view key) const;
  std::string row_, experiment_;
  std::map<std::string, std::string, std::less<>> values_;
  mutable std::map<std::string, bool, std::less<>> used_;
};

/// What one experiment answers.
struct StudyReport {
  std::optional<double> value;  ///< in the row's unit; nothing: we cannot say
  std::string why;  ///< what decides it, with the numbers behind it, in one or two sentences
};

/// What experiments share while one study runs: hardware, profiles, and single-GPU predictions made
/// before.
struct StudyContext {
  const Hardware& hardware;
  /// Results that several rows need, under a key that the experiment chooses.
  std::map<std::string, double> known;
};

/// A kind of experiment that rows can name.
struct StudyExperiment {
  std::string_view name;
  std::function<StudyReport(const StudyArguments&, StudyContext&)> run;
};
/// All kinds. A new family of experiments is a source of its own and a line in this function
/// (study.cpp).
[[nodiscard]] std::vector<StudyExperiment> study_experiments();
/// Parameter servers and their channels (study_parameter_server.cpp).
[[nodiscard]] std::vector<StudyExperiment> parameter_server_experiments();
/// CPU threads, GPUs and neighbours in one box (study_resources.cpp).
[[nodiscard]] std::vector<StudyExperiment> resource_experiments();

/// What a profiler says of a process that trains on all GPUs of a box (study_profile.cpp).
[[nodiscard]] std::vector<StudyExperiment> profile_experiments();

/// Jobs assigned to machines with GPUs of two types (study_schedule.cpp).
[[nodiscard]] std::vector<StudyExperiment> schedule_experiments();

/// A row with our answer.
struct StudyResult {
  const StudyRow* row = nullptr;
  std::optional<double> predicted;
  bool agrees = false;
  std::string why;
};
/// Whether the prediction passes every test of the row; false without a prediction.
[[nodiscard]] bool agrees(const StudyRow& row, std::optional<double> predicted);
/// Runs every experiment, in order. Throws InputError: an experiment that nobody knows.
[[nodiscard]] std::vector<StudyResult> run_study(const Study& study, const Hardware& hardware);

[[nodiscard]] std::string study_text(const Study& study, const std::vector<StudyResult>& results);
[[nodiscard]] std::string study_json(const Study& study, const std::vector<StudyResult>& results,
                                     const Hardware& hardware);
[[nodiscard]] std::string study_csv(const Study& study, const std::vector<StudyResult>& results);

}  // namespace tracecast
