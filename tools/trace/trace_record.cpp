#include "tools/trace/trace_record.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "calibrate/cuda/library.hpp"
#include "sim/base/error.hpp"
#include "tools/calibrate/calibrate_measure.hpp"
#include "tools/command/library_folders.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/trace/record_environment.hpp"
#include "tools/trace/recorded_program.hpp"
#include "traces/cupti/recorded_process.hpp"

namespace tracecast {
namespace {

namespace fs = std::filesystem;
using calibrate::cuda::Library;
using traces::cupti::RecordedProcess;

constexpr char kWho[] = "tracecast trace record: ";

struct RecordOptions {
  std::vector<std::string> command;
  std::string out, from, steps, delay, duration;
  int buffers_mib = 64;
};

/// What the recording needs of this machine.
struct Machine {
  std::string cupti;    ///< as dlopen finds it
  std::string missing;  ///< the reason why nothing can be recorded; empty = nothing is missing
};

/// The newest CUPTI that the driver serves. The driver is asked here, so that a machine without a
/// GPU is refused before the program runs.
Machine look_at_machine() {
  const std::vector<fs::path> folders = library_folders();
  Machine machine;
  const std::vector<std::string> driver_name = {"libcuda.so.1"};
  const auto driver = Library::open(driver_name, folders, machine.missing);
  if (!driver) {
    machine.missing = "no NVIDIA driver: " + machine.missing;
    return machine;
  }
  const auto init = driver->find<int (*)(unsigned)>({"cuInit"});
  const auto count = driver->find<int (*)(int*)>({"cuDeviceGetCount"});
  const auto version = driver->find<int (*)(int*)>({"cuDriverGetVersion"});
  const auto name_of = driver->find<int (*)(int, const char**)>({"cuGetErrorName"});
  int devices = 0, cuda = 0;
  if (init == nullptr || count == nullptr || version == nullptr || name_of == nullptr) {
    machine.missing = driver->name() + " is no driver of CUDA 9 or later";
  } else if (const int result = init(0); result != 0) {
    const char* name = nullptr;
    name_of(result, &name);
    machine.missing =
        fmt::format("no usable GPU (cuInit: {})", name != nullptr ? name : std::to_string(result));
  } else if (count(&devices) != 0 || devices == 0) {
    machine.missing = "no usable GPU: the driver sees none";
  } else {
    version(&cuda);
    const auto cupti = Library::open(calibrate::cuda::toolkit_sonames("libcupti", cuda / 1000),
                                     folders, machine.missing);
    if (cupti) {
      machine.missing.clear();
      machine.cupti = cupti->name();
    }
  }
  return machine;
}

/// Beside the program, or where it was installed.
fs::path injected_library() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  const fs::path folder = program.parent_path();
  for (const fs::path& place : {folder, folder / TRACECAST_LIBRARIES_FROM_PROGRAM}) {
    const fs::path file = place / "libtracecast_inject.so";
    if (fs::is_regular_file(file, error)) return file.lexically_normal();
  }
  throw InputError(folder.string(), "no libtracecast_inject.so",
                   "it beside the program, or in " TRACECAST_LIBRARIES_FROM_PROGRAM);
}

/// Where streams are kept while the program runs: on the disk that the recording goes to.
fs::path make_scratch_folder(const fs::path& out) {
  fs::path folder = out;
  folder += ".streams";
  std::error_code error;
  if (!fs::create_directory(folder, error)) {
    if (!error) {
      throw InputError(folder.string(), "the rest of a recording that did not end",
                       "nothing there: convert it with --from, or remove it");
    }
    throw InputError(folder.string(), error.message(), "a place to record to");
  }
  return fs::absolute(folder);
}

std::vector<RecordedProcess> scan_folder(const fs::path& folder) {
  std::vector<RecordedProcess> processes;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().extension() == ".stream")
      processes.push_back(traces::cupti::scan_stream(at->path()));
  }
  if (error) throw InputError(folder.string(), error.message(), "a folder of streams");
  std::sort(processes.begin(), processes.end(), [](const auto& a, const auto& b) {
    return std::pair(a.rank, a.pid) < std::pair(b.rank, b.pid);
  });
  return processes;
}

/// "recording.tar.gz" for "recording.json.gz": several processes make an archive.
fs::path archive_name(fs::path out) {
  while (out.extension() == ".gz" || out.extension() == ".json") out.replace_extension();
  return out += ".tar.gz";
}

void say_process(const RecordedProcess& process, std::uint64_t steps) {
  std::string line = fmt::format("  process {}", process.pid);
  if (process.rank) line += fmt::format(" (rank {})", *process.rank);
  line += fmt::format(": {} kernels, {} copies, {} calls, {} steps", process.kernels,
                      process.copies, process.calls, steps);
  say(line);
  if (process.is_by_events) say("  kernels timed by CUDA events: CUPTI was refused");
  if (process.is_cut_short) say("  cut short: the program was killed, or the disk is full");
  for (const auto& [what, count] : process.losses) {
    const std::string times = count > 1 ? fmt::format(": {}", count) : "";
    say("  lost: " + what + times);
  }
}

/// Writes what was recorded and says so; false when there is nothing.
bool write_recording(const fs::path& folder, const RecordOptions& options) {
  std::vector<RecordedProcess> processes = scan_folder(folder);
  std::string refusal;
  for (const RecordedProcess& process : processes) {
    if (refusal.empty()) refusal = process.refusal;
  }
  std::erase_if(processes, [](const RecordedProcess& p) { return !p.has_gpu_work(); });
  if (processes.empty()) {
    say(kWho +
        (refusal.empty() ? "nothing was recorded: the program gave the GPU no work" : refusal));
    return false;
  }
  fs::path out = options.out;
  std::vector<std::uint64_t> steps;
  if (processes.size() == 1) {
    steps.push_back(traces::cupti::write_trace(processes.front(), out, options.steps));
  } else {
    out = archive_name(out);
    std::vector<fs::path> members;
    for (const RecordedProcess& process : processes) {
      const std::string name = process.rank
                                   ? fmt::format("rank{}_{}.json", *process.rank, process.pid)
                                   : fmt::format("process{}.json", process.pid);
      members.push_back(folder / name);
      steps.push_back(traces::cupti::write_trace(process, members.back(), options.steps));
    }
    traces::cupti::write_archive(members, out);
  }
  say(fmt::format("{}wrote {}", kWho, out.string()));
  for (std::size_t i = 0; i < processes.size(); ++i) say_process(processes[i], steps[i]);
  say(fmt::format("  tracecast trace summary {}", out.string()));
  return true;
}

double seconds_of(const std::string& text, const char* flag) {
  return parse_duration(text, flag).in_s();
}

std::vector<std::pair<std::string, std::string>> environment_of(const RecordOptions& options,
                                                                const fs::path& folder,
                                                                const std::string& cupti) {
  namespace env = record_environment;
  const std::string library = injected_library().string();
  std::vector<std::pair<std::string, std::string>> environment = {
      {"CUDA_INJECTION64_PATH", library},
      {"NVTX_INJECTION64_PATH", library},
      {env::kFolder, folder.string()},
      {env::kCupti, cupti},
      {env::kBuffers, std::to_string(options.buffers_mib)}};
  if (!options.delay.empty())
    environment.emplace_back(env::kDelay, fmt::format("{}", seconds_of(options.delay, "--delay")));
  if (!options.duration.empty()) {
    environment.emplace_back(env::kDuration,
                             fmt::format("{}", seconds_of(options.duration, "--duration")));
  }
  return environment;
}

int record(const RecordOptions& options) {
  if (!options.from.empty()) {
    return write_recording(options.from, options) ? kExitDone : kExitNo;
  }
  // Wrong flags come before a missing GPU.
  refuse_standard_output("--output", options.out);
  for (const auto& [text, flag] :
       {std::pair(options.delay, "--delay"), {options.duration, "--duration"}}) {
    if (!text.empty()) static_cast<void>(parse_duration(text, flag));
  }
  const Machine machine = look_at_machine();
  if (!machine.missing.empty()) {
    say(kWho + machine.missing);
    return kExitNoGpu;
  }
  const fs::path folder = make_scratch_folder(options.out);
  std::error_code error;
  int exit_code = 0;
  try {
    exit_code = run_program(options.command, environment_of(options, folder, machine.cupti));
  } catch (const InputError&) {
    fs::remove_all(folder, error);
    throw;
  }
  // What cannot be written now stays in the folder, for --from.
  const bool is_written = write_recording(folder, options);
  fs::remove_all(folder, error);
  return exit_code != 0 || is_written ? exit_code : kExitNo;
}

}  // namespace

void add_trace_record(CLI::App& trace, int& exit_code) {
  auto options = std::make_shared<RecordOptions>();
  CLI::App* subcommand =
      trace.add_subcommand("record", "Record what a program does on GPUs: trace record -- COMMAND");
  auto* command =
      subcommand
          ->add_option("command", options->command, "The program and its arguments, behind --")
          ->type_name("COMMAND");
  subcommand
      ->add_option("-o,--output", options->out,
                   "Recording: Chrome-trace JSON, gzip for .gz;\n"
                   "several processes make one .tar.gz")
      ->type_name("FILE")
      ->default_val("recording.json.gz");
  subcommand->add_option("--steps", options->steps, "NVTX ranges whose names begin so are steps")
      ->type_name("NAME");
  subcommand->add_option("--delay", options->delay, "Begin so long after CUDA starts: 90s, 2m")
      ->type_name("TIME");
  subcommand->add_option("--duration", options->duration, "Record so long: 20s, 1m")
      ->type_name("TIME");
  subcommand
      ->add_option(
          "--buffers", options->buffers_mib,
          "Most memory for records not yet written;\nbeyond it they are dropped and counted")
      ->type_name("MIB")
      ->capture_default_str()
      ->check(CLI::Range(2, 4096));
  subcommand->add_option("--from", options->from, "Convert what a killed tracecast left")
      ->type_name("FOLDER")
      ->excludes(command);
  subcommand->callback([options, command, &exit_code] {
    if (options->from.empty() && command->count() == 0)
      throw InputError("trace record", "no program", "-- COMMAND, or --from FOLDER");
    exit_code = record(*options);
  });
}

}  // namespace tracecast
