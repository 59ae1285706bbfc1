#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "tools/report/page.hpp"
#include "tools/study/study_page.hpp"

namespace tracecast {
namespace {

struct StudyOptions {
  std::string id;
  SourceOptions sources;
  std::string format = "text";
  std::string report;  ///< file
  bool strict = false;
};

std::string list_studies(const std::string& format) {
  if (format == "json") {
    nlohmann::ordered_json doc{{"schema", "tracecast.studies/" + std::to_string(kSchema)},
                               {"version", kVersion},
                               {"studies", nlohmann::ordered_json::array()}};
    for (const Study& study : studies()) {
      doc["studies"].push_back({{"id", study.id},
                                {"title", study.title},
                                {"question", study.question},
                                {"rows", study.rows.size()}});
    }
    return json_text(doc) + '\n';
  }
  std::string text = format == "csv" ? "id,rows,title\n" : "id        rows  title\n";
  for (const Study& study : studies()) {
    text += format == "csv" ? csv_line(study.id, study.rows.size(), study.title)
                            : fmt::format("{:<9} {:>4}  {}\n", study.id, study.rows.size(),
                                          wrap(study.title, 64, 16));
  }
  return text;
}

int run(const StudyOptions& options) {
  check_report(options.report);
  const Study& study = find_study(options.id);
  const Hardware hardware = load_hardware(options.sources);
  const std::vector<StudyResult> results = run_study(study, hardware);
  if (!options.report.empty()) write_page(study_page(study, results, hardware), options.report);
  write_report(options.format == "json"  ? study_json(study, results, hardware)
               : options.format == "csv" ? study_csv(study, results)
                                         : study_text(study, results));
  const bool all = std::all_of(results.begin(), results.end(),
                               [](const StudyResult& result) { return result.agrees; });
  return options.strict && !all ? kExitNo : kExitDone;
}

}  // namespace

void add_study_command(CLI::App& app, int& exit_code) {
  CLI::App* subcommand =
      app.add_subcommand("study", "Published studies beside what we predict for them");
  subcommand->require_subcommand(1);

  auto listing = std::make_shared<std::string>("text");
  CLI::App* list = subcommand->add_subcommand("list", "The studies, and how many rows each has");
  add_format_option(*list, *listing);
  list->callback([listing, &exit_code] {
    write_report(list_studies(*listing));
    exit_code = kExitDone;
  });

  auto options = std::make_shared<StudyOptions>();
  CLI::App* one =
      subcommand->add_subcommand("run", "Set up a study's experiments and answer its rows");
  one->add_option("id", options->id, "Study, such as s_osu (see `study list`)")
      ->required()
      ->type_name("ID");
  add_source_options(*one, options->sources);
  add_format_option(*one, options->format);
  add_report_option(*one, options->report);
  one->add_flag("--strict", options->strict, "Exit with 1 when a row does not agree");
  one->footer("Example: tracecast study run s_osu --format json");
  one->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tracecast
