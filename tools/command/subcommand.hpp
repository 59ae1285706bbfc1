#pragma once
#include <initializer_list>
#include <string>

#include "sim/job/resolved_job.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// A subcommand of the command line. `add` declares its flags under `app` and stores its result
/// there. Each returns the exit code through `exit_code` when its flags have been parsed and it has
/// run.
void add_predict_command(CLI::App& app, int& exit_code);
void add_colocate_command(CLI::App& app, int& exit_code);
void add_validate_command(CLI::App& app, int& exit_code);
void add_gpus_command(CLI::App& app, int& exit_code);
void add_hardware_command(CLI::App& app, int& exit_code);
void add_networks_command(CLI::App& app, int& exit_code);
void add_calibrate_command(CLI::App& app, int& exit_code);
void add_cluster_command(CLI::App& app, int& exit_code);
void add_collectives_command(CLI::App& app, int& exit_code);
void add_net_command(CLI::App& app, int& exit_code);
void add_compare_command(CLI::App& app, int& exit_code);
void add_plan_command(CLI::App& app, int& exit_code);
void add_schedule_command(CLI::App& app, int& exit_code);
void add_serve_command(CLI::App& app, int& exit_code);
void add_study_command(CLI::App& app, int& exit_code);
void add_sweep_command(CLI::App& app, int& exit_code);
void add_query_command(CLI::App& app, int& exit_code);
void add_trace_command(CLI::App& app, int& exit_code);

/// Flags that several subcommands share: --profile, --set and --hwspecs; --format text|json|csv.
void add_source_options(CLI::App& subcommand, SourceOptions& sources);
void add_format_option(CLI::App& subcommand, std::string& format);
/// Refuses those of a subcommand's flags that were given where they mean nothing. Throws InputError
/// naming the first.
void refuse_given(const CLI::App& subcommand, std::initializer_list<const char*> flags,
                  const std::string& found, const std::string& expected);
/// The same of what --profile and --set change, for subcommands about machines and links alone.
void refuse_software_settings(const SourceOptions& sources);

/// Exit codes; DESIGN.md calls them stable.
inline constexpr int kExitDone = 0;
inline constexpr int kExitNo = 1;  ///< answered, and the answer is no
inline constexpr int kExitWrongInput = 2;
inline constexpr int kExitNoGpu = 3;
inline constexpr int kExitOurBug = 70;
inline constexpr int kExitInterrupted = 130;  ///< by the user; what shells expect

}  // namespace tracecast
