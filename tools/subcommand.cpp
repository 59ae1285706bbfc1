#include "tools/subcommand.hpp"

#include <CLI/CLI.hpp>

namespace tracecast {

void add_source_options(CLI::App& verb, SourceOptions& sources) {
  verb.add_option("--profile", sources.profile, "Cost profile instead of the built-in one")
      ->type_name("FILE");
  verb.add_option("--set", sources.sets,
                  "Change one value: cost.PARAMETER, framework.launch_us, framework.tf32=0, ...")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
  verb.add_option("--hwspecs", sources.hwspecs, "Folder with further GPU specs")->type_name("DIR");
}

void add_format_option(CLI::App& verb, std::string& format) {
  verb.add_option("--format", format, "text, json or csv")
      ->type_name("F")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json", "csv"}));
}

}  // namespace tracecast
