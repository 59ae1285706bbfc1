#include "tools/calibrate/calibrate_measure.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <memory>
#include <utility>
#include <variant>

#include "calibrate/collect/collector.hpp"
#include "calibrate/collect/tables.hpp"
#include "calibrate/cuda/cuda_device.hpp"
#include "calibrate/device/fake_device.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "tools/calibrate/calibrate_profile.hpp"
#include "tools/calibrate/calibrate_summary.hpp"
#include "tools/command/library_folders.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"

namespace tracecast {
namespace {

using namespace calibrate;

volatile std::sig_atomic_t interrupted = 0;

/// While it lives, the first Ctrl-C asks to stop after the experiment that runs; the second one
/// ends the program.
class InterruptGuard {
 public:
  InterruptGuard() {
    interrupted = 0;
    for (const int signal : {SIGINT, SIGTERM}) {
      std::signal(signal, [](int number) {
        interrupted = 1;
        std::signal(number, SIG_DFL);
      });
    }
  }
  ~InterruptGuard() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
  }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
};

/// What is written where.
struct Places {
  std::filesystem::path folder;   ///< tables and journals
  std::filesystem::path profile;  ///< the profile file
};

Places places_of(const std::string& out, const std::string& gpu) {
  if (out.ends_with(".textproto")) {
    std::filesystem::path folder = out;
    return {.folder = folder.replace_extension(".measured"), .profile = out};
  }
  const std::filesystem::path folder = out.empty() ? "calibration-" + gpu : out;
  return {.folder = folder, .profile = folder / "profile.textproto"};
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder)) {
    throw InputError("--out " + folder.string(), error ? error.message() : "not a folder",
                     "a folder that can be written");
  }
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday);
}

/// Progress on stderr while it is a terminal: one line, drawn over.
class ProgressLine {
 public:
  ProgressLine() : is_terminal_(::isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const CollectProgress& p) {
    if (!is_terminal_) return;
    const auto now = std::chrono::steady_clock::now();
    if (is_shown_ && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    is_shown_ = true;
    const double share = static_cast<double>(p.done) / static_cast<double>(p.planned);
    talk(fmt::format("\r{} {:>5}/{} {:>5.0f} s  {}", bar(share, 16), p.done, p.planned,
                     p.elapsed.in_s(), fit(fit_within(p.last->experiment, 36), 36)));
  }
  void clear() {
    if (is_shown_) talk('\r' + std::string(79, ' ') + '\r');
    is_shown_ = false;
  }

 private:
  static void talk(const std::string& text) {
    // Talk that nobody can read is no error.
    if (::write(STDERR_FILENO, text.data(), text.size()) < 0) return;
  }
  bool is_terminal_, is_shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

/// The device to measure, or nothing after saying why there is none.
std::unique_ptr<Device> open_device(const MeasureOptions& options, const Hardware& hardware) {
  if (!options.rehearse.empty()) {
    const GpuSpec& gpu = hardware.gpus().find(options.rehearse);
    return std::make_unique<FakeDevice>(rehearsal_truth(gpu, hardware.specs().cost()), FakeFaults{},
                                        static_cast<std::uint64_t>(options.seed));
  }
  auto opened = open_cuda_device({.folders = library_folders()}, options.gpu);
  if (auto* none = std::get_if<NoDevice>(&opened)) {
    say("tracecast calibrate: " + none->reason);
    return nullptr;
  }
  return std::move(std::get<std::unique_ptr<Device>>(opened));
}

/// Every table, each written beside and renamed.
std::string write_tables(const std::vector<CollectedTable>& tables, const Places& places,
                         std::vector<std::filesystem::path>& files) {
  std::string list;
  for (const CollectedTable& table : tables) {
    files.push_back(places.folder / table.name);
    write_file(files.back(), table.content);
    list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", table.name, table.rows);
  }
  return list;
}

/// Fits and writes the profile; what to say of it.
std::string write_profile(const MeasuredTables& measured, const Hardware& hardware,
                          const Places& places) {
  const auto local = fit_local_profile(measured, hardware);
  if (!local) return fmt::format("{:<14}none yet: too few rows\n", "profile");
  write_file(places.profile, format_cost_profile(local->profile));
  const BoardFactors& board = local->profile.board;
  return fmt::format(
      "{:<14}{} rows; mean error {:.1f} -> {:.1f} %, median {:.1f} -> {:.1f} %\n"
      "{:<14}{:.3f} of the arithmetic, {:.3f} of the bandwidth that its spec\n{:14}and the shared "
      "parameters say\n{:<14}{}\n{:14}tracecast predict NETWORK --gpu ID --profile FILE uses it\n",
      "fit", local->rows, 100 * local->mean_before, 100 * local->mean_after,
      100 * local->median_before, 100 * local->median_after, "this board", board.arithmetic,
      board.bandwidth, "", "profile", printable(places.profile.string()), "");
}

}  // namespace

int run_measure(const MeasureOptions& options) {
  const std::optional<Seconds> budget =
      options.budget.empty() ? std::nullopt
                             : std::optional(parse_duration(options.budget, "--budget"));
  const Hardware hardware = load_hardware(options.sources);
  const std::unique_ptr<Device> device = open_device(options, hardware);
  if (!device) return kExitNoGpu;
  const GpuSpec& gpu = find_spec(hardware.gpus(), device->identity(),
                                 options.rehearse.empty() ? options.spec : options.rehearse);
  const Places places = places_of(options.out, gpu.id);
  make_folder(places.folder);

  const PlanSize size = options.quick ? PlanSize::Quick : PlanSize::Full;
  const Plan plan = make_plan(*device, size);
  const std::filesystem::path journal_path =
      places.folder / fmt::format("{}.journal", to_string(size));
  Journal journal(journal_path, {.plan = plan.hash,
                                 .gpu = gpu.id,
                                 .device = device->identity().fingerprint(),
                                 .date = today()});
  if (journal.dropped() > 0) {
    say(fmt::format("{}: {} damaged line(s) dropped; measured again", journal_path.string(),
                    journal.dropped()));
  }

  CollectResult result;
  {
    InterruptGuard guard;
    ProgressLine progress;
    result = collect(*device, plan, gpu, hardware.cost(), journal,
                     {.rules = rules_for(size),
                      .budget = budget,
                      .should_stop = [] { return interrupted != 0; },
                      .on_progress = [&](const CollectProgress& p) { progress.show(p); }});
  }
  const CollectCounts counts = count(plan, journal);
  const std::string so_far = fmt::format("{} of {} experiments are in {}", counts.done,
                                         counts.planned, journal_path.string());
  if (result.end == CollectEnd::Interrupted) {
    say("interrupted: " + so_far + "; the same command goes on");
    return kExitInterrupted;
  }
  if (result.end == CollectEnd::DeviceLost) {
    say("tracecast calibrate: the GPU failed at " + result.loss + "; " + so_far);
    return kExitNoGpu;
  }

  std::string report = device_text(device->identity(), gpu) + counts_text(counts);
  report += rates_text(plan, journal);
  report += fmt::format("{:<14}{:.0f} s of the GPU's time in this call\n", "spent",
                        result.elapsed.in_s());
  if (result.end == CollectEnd::Budget) {
    report += fmt::format("{:<14}{} of {} experiments done; the same command goes on\n",
                          "not complete", counts.done, counts.planned);
  }
  MeasuredTables measured{
      .files = {}, .gpu = gpu.id, .device = device->identity(), .date = journal.header().date};
  const auto tables = collected_tables(plan, journal, gpu.id, device->identity());
  report += fmt::format("{:<14}{}\n", "tables",
                        wrap(write_tables(tables, places, measured.files), 65, 14));
  report += fmt::format("{:<14}{}\n", "in", printable(places.folder.string()));
  report += write_profile(measured, hardware, places);
  write_report(report);
  return kExitDone;
}

}  // namespace tracecast
