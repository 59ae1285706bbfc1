#include "tools/command/subcommand.hpp"

#include <CLI/CLI.hpp>

#include "sim/base/error.hpp"
#include "sim/job/hardware_factor.hpp"

namespace tracecast {

void add_source_options(CLI::App& subcommand, SourceOptions& sources) {
  subcommand.add_option("--profile", sources.profile, "Cost profile instead of the built-in one")
      ->type_name("FILE");
  subcommand
      .add_option("--set", sources.sets,
                  "Change one value: cost.PARAMETER, framework.launch_us, framework.tf32=0, "
                  "gpu.memory_bandwidth=2x, link.bandwidth=2x, ...")
      ->type_name("PATH=VALUE")
      ->allow_extra_args(false);
  subcommand.add_option("--hwspecs", sources.hwspecs, "Folder with further GPU specs")
      ->type_name("DIR");
}

void add_format_option(CLI::App& subcommand, std::string& format) {
  subcommand.add_option("--format", format, "text, json or csv")
      ->type_name("F")
      ->capture_default_str()
      ->check(CLI::IsMember({"text", "json", "csv"}));
}

void refuse_given(const CLI::App& subcommand, std::initializer_list<const char*> flags,
                  const std::string& found, const std::string& expected) {
  for (const char* flag : flags) {
    if (subcommand.get_option(flag)->count() > 0) throw InputError(flag, found, expected);
  }
}

void refuse_software_settings(const SourceOptions& sources) {
  const char* const expected = "gpu., link. and so on: no kernel runs here, machines and links do";
  if (!sources.profile.empty())
    throw InputError("--profile", sources.profile, "none: no kernel runs here");
  for (const std::string& set : sources.sets) {
    if (!is_hardware_factor(set)) throw InputError("--set", set, expected);
  }
}

}  // namespace tracecast
