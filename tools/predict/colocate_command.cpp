#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/mode/colocation_job.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "tools/predict/together_pages.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

struct ColocateOptions {
  std::vector<std::string> jobs;
  PlacedJob common;
  SourceOptions sources;
  bool mps = false;
  std::string format = "text";
  std::string report;  ///< file
};

/// One job as it is asked for: NETWORK[:BATCH][@GPU], where NETWORK may be job:ID.
struct JobWord {
  std::string network;
  std::int64_t batch = kUsualBatch;
  std::size_t gpu = 0;
};

/// The GPUs that jobs can be put on, and why so many.
struct BoxGpus {
  std::size_t count = 0;
  std::string reason;
};

/// Those of a host of `--machine`; without one, as many as the largest host that is known has.
BoxGpus gpus_of_box(const ColocateOptions& options, const Hardware& hardware) {
  if (!options.common.machine.empty()) {
    const MachineSpec& machine = hardware.machines().find(options.common.machine);
    const std::size_t count = machine.slots_of_host();
    return {count, fmt::format("{}{} has {} GPU{}", machine.hosts > 1 ? "a host of " : "",
                               machine.id, count, count == 1 ? "" : "s")};
  }
  std::size_t most = 0;
  for (const MachineSpec& machine : hardware.machines().all())
    most = std::max(most, machine.slots_of_host());
  return {most, "no machine that is known has more; --machine names one"};
}

JobWord parse_word(const std::string& text, const BoxGpus& box) {
  JobWord word;
  std::string rest = text;
  if (const std::size_t at = rest.rfind('@'); at != std::string::npos) {
    const auto gpu = parse_integer(std::string_view(rest).substr(at + 1));
    if (!gpu || *gpu < 0 || static_cast<std::size_t>(*gpu) >= box.count) {
      throw InputError(
          "colocate", "\"" + text + "\"",
          fmt::format("a GPU of the box after @: {} ({})",
                      box.count == 1 ? "0" : fmt::format("0 to {}", box.count - 1), box.reason));
    }
    word.gpu = static_cast<std::size_t>(*gpu);
    rest.resize(at);
  }
  const std::size_t prefix = rest.starts_with(kJobPrefix) ? kJobPrefix.size() : 0;
  if (const std::size_t at = rest.rfind(':'); at != std::string::npos && at >= prefix) {
    const auto batch = parse_integer(std::string_view(rest).substr(at + 1));
    if (!batch || *batch < 1 || *batch > kMostBatch) {
      throw InputError("colocate", "\"" + text + "\"", "a batch after the colon: 1 to 1000000");
    }
    word.batch = *batch;
    rest.resize(at);
  }
  word.network = std::move(rest);
  return word;
}

/// Everything that was made of the words.
struct Together {
  std::vector<JobWord> words;
  std::vector<ResolvedJob> jobs;
  std::vector<Prediction> predictions;
  Colocation shared;
};

Together share(const ColocateOptions& options, const Hardware& hardware) {
  Together all;
  std::vector<ColocatedJob> parts;
  const BoxGpus box = gpus_of_box(options, hardware);
  for (const std::string& text : options.jobs) all.words.push_back(parse_word(text, box));
  for (const JobWord& word : all.words) {
    PlacedJob job = options.common;
    job.network = word.network;
    job.batch = word.batch;
    all.jobs.push_back(make_job(job, hardware));
    if (all.jobs.back().cpu) throw InputError("--gpu", job.gpu, "a GPU: jobs share no CPU here");
    all.predictions.push_back(predict(all.jobs.back(), hardware));
    warn_of_power_limit(all.predictions.back().power, all.jobs.back().gpu.id, all.jobs.back());
    parts.push_back(colocated(all.jobs.back(), all.predictions.back(), word.gpu));
  }
  const auto loads = std::find_if(all.jobs.begin(), all.jobs.end(),
                                  [](const ResolvedJob& job) { return job.input.has_value(); });
  const ResolvedJob& first = loads == all.jobs.end() ? all.jobs.front() : *loads;
  all.shared = colocate(parts, shared_box(first, hardware, options.mps));
  return all;
}

double samples_per_s(const Together& all, std::size_t j, Seconds step) {
  return static_cast<double>(all.jobs[j].options.batch) / step.in_s();
}

std::string text_of(const ColocateOptions& options, const Together& all) {
  const ResolvedJob& first = all.jobs.front();
  std::string text =
      fmt::format("{} on {}, {}\n\n", all.jobs.size() == 1 ? "One job" : "Jobs",
                  printable(first.gpu.name), options.mps ? "under MPS" : "in time slices");
  if (!all.shared.fits) {
    return text + fmt::format("They do not fit: {} of {} GiB of device memory\n",
                              three_digits(all.shared.device_memory.in_bytes() / 0x1p30),
                              three_digits(first.gpu.memory.in_bytes() / 0x1p30));
  }
  text += fmt::format("{:<32} {:>3} {:>11} {:>11} {:>7} {:>7}\n", "job", "GPU", "samples/s",
                      "alone", "of it", "GPU %");
  for (std::size_t j = 0; j < all.jobs.size(); ++j) {
    const JobShare& share = all.shared.jobs[j];
    text += fmt::format("{} {:>3} {:>11} {:>11} {:>7.2f} {:>6.0f} %\n", fit(options.jobs[j], 32),
                        all.words[j].gpu, low_precision(samples_per_s(all, j, share.together), 11),
                        low_precision(samples_per_s(all, j, share.alone), 11),
                        share.normalized_rate(), 100 * share.gpu_share);
  }
  text += fmt::format("{:<32} {:>36.2f}\n", "together", all.shared.normalized_sum());
  text += fmt::format("\nCPU threads     {} busy, each at {:.0f} % of a core of its own\n",
                      three_digits(all.shared.busy_threads), 100 * all.shared.cpu_speed);
  text += fmt::format("Device memory   {} of {} GiB\n",
                      three_digits(all.shared.device_memory.in_bytes() / 0x1p30),
                      three_digits(first.gpu.memory.in_bytes() / 0x1p30));
  return text;
}

Json json_of(const ColocateOptions& options, const Together& all) {
  Json doc{{"schema", "tracecast.colocation/" + std::to_string(kSchema)},
           {"version", kVersion},
           {"gpu", all.jobs.front().gpu.id},
           {"mps", options.mps},
           {"fits", all.shared.fits},
           {"device_memory_bytes", all.shared.device_memory.in_bytes()}};
  doc["jobs"] = Json::array();
  for (std::size_t j = 0; j < all.jobs.size(); ++j) {
    Json job{{"network", all.words[j].network},
             {"batch_per_gpu", all.jobs[j].options.batch},
             {"gpu_index", all.words[j].gpu}};
    if (all.shared.fits) {
      const JobShare& share = all.shared.jobs[j];
      job["throughput_samples_per_s"] = samples_per_s(all, j, share.together);
      job["alone_samples_per_s"] = samples_per_s(all, j, share.alone);
      job["normalized_rate"] = share.normalized_rate();
      job["gpu_share"] = share.gpu_share;
    }
    doc["jobs"].push_back(std::move(job));
  }
  if (all.shared.fits) {
    doc["normalized_sum"] = all.shared.normalized_sum();
    doc["cpu_speed"] = all.shared.cpu_speed;
    doc["busy_threads"] = all.shared.busy_threads;
  }
  return doc;
}

std::string csv_of(const ColocateOptions& options, const Together& all) {
  std::string text = "job,gpu_index,samples_per_s,alone_samples_per_s,normalized_rate,gpu_share\n";
  for (std::size_t j = 0; j < all.jobs.size(); ++j) {
    text += csv_field(options.jobs[j]) + ',' + std::to_string(all.words[j].gpu);
    if (all.shared.fits) {
      const JobShare& share = all.shared.jobs[j];
      text +=
          fmt::format(",{},{},{},{}", samples_per_s(all, j, share.together),
                      samples_per_s(all, j, share.alone), share.normalized_rate(), share.gpu_share);
    } else {
      text += ",,,,";
    }
    text += '\n';
  }
  return text;
}

int colocate_command(const ColocateOptions& options) {
  check_report(options.report);
  const Hardware hardware = load_hardware(options.sources);
  const Together all = share(options, hardware);
  for (const ResolvedJob& job : all.jobs) {
    for (const std::string& warning : job.warnings) say("warning: " + warning);
  }
  if (!options.report.empty()) write_colocate_page(json_of(options, all), options.report);
  write_report(options.format == "json"  ? json_text(json_of(options, all)) + '\n'
               : options.format == "csv" ? csv_of(options, all)
                                         : text_of(options, all));
  return all.shared.fits ? kExitDone : kExitNo;
}

}  // namespace

void add_colocate_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<ColocateOptions>();
  PlacedJob& job = options->common;
  CLI::App* subcommand =
      app.add_subcommand("colocate", "Jobs at once on one GPU, or on GPUs of one box");
  subcommand
      ->add_option("jobs", options->jobs,
                   "NETWORK[:BATCH][@GPU] each; NETWORK may be job:ID, a training program")
      ->required()
      ->type_name("JOB");
  subcommand->add_option("--gpu", job.gpu, "GPU, such as v100 (see `gpus`)")
      ->required()
      ->type_name("ID");
  subcommand->add_flag("--mps", options->mps, "Kernels of all jobs overlap (CUDA MPS)");
  subcommand
      ->add_option("--framework", job.software.framework, "Of networks; programs have their own")
      ->type_name("F")
      ->capture_default_str();
  subcommand->add_option("--data", job.data, "Of networks, as in predict")
      ->type_name("D")
      ->capture_default_str();
  subcommand->add_option("--machine", job.machine, "Machine whose CPUs and links the jobs share")
      ->type_name("ID");
  subcommand->add_option("--cpu-threads", job.cpu_threads, "CPU threads that all jobs may use")
      ->type_name("T");
  add_source_options(*subcommand, options->sources);
  add_format_option(*subcommand, options->format);
  add_report_option(*subcommand, options->report);
  subcommand->footer("Example: tracecast colocate job:lstm_wikitext2:20 resnet50:64 --gpu v100");
  subcommand->callback([options, &exit_code] { exit_code = colocate_command(*options); });
}

}  // namespace tracecast
