#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/job/network_file.hpp"
#include "sim/plan/purchase/hour_price.hpp"
#include "sim/plan/purchase/remembered_cells.hpp"
#include "tools/command/cell.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/interval_json.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/version.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/plan/compare_page.hpp"
#include "tools/plan/compare_serving.hpp"
#include "tools/plan/measured_runs.hpp"
#include "tools/predict/cluster_options.hpp"
#include "tools/predict/host_options.hpp"
#include "tools/predict/recorded_host.hpp"
#include "tools/report/page.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::uint64_t kMostSmallFile = 1 << 20;
constexpr double kMillion = 1e6;

struct Options {
  Job job;
  Place place;  ///< host, disk and links
  std::vector<std::string> gpus;
  std::vector<std::int64_t> batches{kUsualBatch};
  std::string catalogue, measured, report, host_from;
  std::int64_t total_gpus = 1;
  bool serves = false;
  ServingComparison serving;
  double ttft_ms = 0, tpot_ms = 0;
  SourceOptions sources;
  std::string format = "text";
};

/// One GPU and batch.
struct Row {
  std::string gpu;
  std::int64_t batch = 1;
  plan::MatrixCell cell;
  std::optional<double> owned_usd, rented_usd;  ///< per unit of work
};

/// What money and energy are reported for.
struct Work {
  std::string name;  ///< "epoch", "million tokens", "million samples"
  std::string key;   ///< of JSON
  double samples = kMillion;
};

Work work_of(const Job& job) {
  if (job.epoch_samples) return {"epoch", "epoch", static_cast<double>(*job.epoch_samples)};
  if (job.seq_len)
    return {"million tokens", "million_tokens", kMillion / static_cast<double>(*job.seq_len)};
  return {"million samples", "million_samples", kMillion};
}

std::vector<plan::PlanJob> jobs_of(const Options& options, const Hardware& hardware) {
  std::vector<plan::PlanJob> jobs;
  for (const std::int64_t asked : options.batches) {
    const std::int64_t batch = asked == kUsualBatch ? usual_batch(options.job.network) : asked;
    plan::PlanJob job;
    job.id = fmt::format("batch {}", batch);
    job.job = options.job;
    job.place = options.place;
    job.job.batch = batch;
    job.samples = 1;
    job.gangs = {static_cast<int>(options.total_gpus)};
    jobs.push_back(std::move(job));
  }
  if (!options.measured.empty()) {
    const auto runs = read_measured_runs(options.measured, hardware.gpus());
    if (add_runs(runs, jobs) == 0) say("warning: no run of --measured is of this job");
  }
  return jobs;
}

/// What is not the usual of input, host and links, as flags that say it.
std::vector<std::pair<std::string, std::string>> setting_of(const Options& options) {
  const Job& j = options.job;
  const Place& p = options.place;
  std::string input = j.data == "synthetic" ? "" : j.data;
  const auto add = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) input += fmt::format("{}{} {}", input.empty() ? "" : ", ", what, value);
  };
  add("pipeline", j.pipeline);
  if (j.workers) add("workers", std::to_string(*j.workers));
  if (p.cpu_threads) add("CPU threads", std::to_string(*p.cpu_threads));
  if (p.cpu_quota) add("quota of CPUs", low_precision(*p.cpu_quota, 7));
  add("host", p.host_cpu);
  add("machine", p.machine);
  add("disk", p.disk);
  std::string links = p.nic.empty() ? "" : "NIC " + p.nic;
  if (p.no_p2p) links += links.empty() ? "no peer access" : ", no peer access";
  std::vector<std::pair<std::string, std::string>> lines;
  if (!input.empty()) lines.emplace_back("Input", input);
  if (!links.empty()) lines.emplace_back("Links", links);
  return lines;
}

std::vector<Row> rows_of(const Options& options, const Hardware& hardware,
                         const plan::Catalogue& catalogue) {
  std::vector<plan::Offer> places;
  for (const std::string& word : options.gpus) {
    plan::Offer place;
    place.gpu = hardware.gpus().find(word).id;
    place.gpus = static_cast<int>(options.total_gpus);
    places.push_back(std::move(place));
  }
  const std::vector<plan::PlanJob> jobs = jobs_of(options, hardware);
  const Predictor predictor(hardware);
  const plan::RememberedCells cells(predictor, "", "");
  const plan::PlanMatrix matrix =
      plan::make_matrix(jobs, places, std::cref(cells), plan::fitted_error_shares());
  // Refused everywhere: a word that is wrong is no answer of "no".
  if (std::none_of(matrix.cells.begin(), matrix.cells.end(),
                   [](const plan::MatrixCell& cell) { return cell.refused.empty(); })) {
    for (const plan::PlanJob& job : jobs) predictor.check(job.job);
    // So is one of the host, its input or the links.
    if (!setting_of(options).empty()) {
      Place place = options.place;
      place.gpu = places.front().gpu;
      if (options.total_gpus > 1) place.gpus = options.total_gpus;
      (void)predictor.predict(jobs.front().job, place);
    }
  }
  const double samples = work_of(options.job).samples;
  std::vector<Row> rows;
  for (const plan::Offer& place : places) {
    const plan::HourPrice hour = plan::hour_price(catalogue, place.gpu);
    for (std::size_t j = 0; j < jobs.size(); ++j) {
      const plan::MatrixCell* cell = matrix.find(j, place.gpu, "", place.gpus);
      TRACECAST_CHECK(cell != nullptr, "the matrix has every place that was asked for");
      Row row{place.gpu, jobs[j].job.batch, *cell, {}, {}};
      if (cell->refused.empty() && cell->fits) {
        const double gpu_hours = samples / cell->samples_per_s.value / 3600 * place.gpus;
        const double energy_usd = cell->power ? cell->power->in_w() / place.gpus / 1000 *
                                                    catalogue.pue * catalogue.energy_usd_per_kwh
                                              : 0;
        if (hour.owned_usd) row.owned_usd = gpu_hours * (*hour.owned_usd + energy_usd);
        if (hour.rented_usd) row.rented_usd = gpu_hours * *hour.rented_usd;
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string if_known(const std::optional<double>& value) {
  return value ? low_precision(*value, 7) : std::string("-");
}

std::string text_of(const Options& options, const std::vector<Row>& rows,
                    const plan::Catalogue& catalogue) {
  const Work work = work_of(options.job);
  std::string page;
  add_line(page, "Network", options.job.network);
  add_line(page, "GPUs", fmt::format("{} of each kind", options.total_gpus));
  for (const auto& [name, value] : setting_of(options)) add_line(page, name, value);
  add_line(page, "Money",
           fmt::format("USD per {}; {}{}", work.name, catalogue.name,
                       options.catalogue.empty() ? ", partly guessed (--catalogue FILE)" : ""));
  page += fmt::format("\n{:<16} {:>6} {:>7} {:>7} {:>7} {:>6} {:>6} {:>7}\n", "gpu", "batch", "/s",
                      "low", "high", "GiB", "W", "own");
  page.insert(page.size() - 1, fmt::format(" {:>7}", "rent"));
  for (const Row& row : rows) {
    const plan::MatrixCell& c = row.cell;
    if (!c.refused.empty()) {
      page +=
          fit(row.gpu, 16) + fmt::format(" {:>6}  ", row.batch) + last_cell(c.refused, 25) + '\n';
      continue;
    }
    page +=
        fmt::format("{} {:>6} {:>7} {:>7} {:>7} {:>6} {:>6} {:>7} {:>7}\n", fit(row.gpu, 16),
                    row.batch, low_precision(c.samples_per_s.value, 7),
                    low_precision(c.samples_per_s.low, 7), low_precision(c.samples_per_s.high, 7),
                    c.fits ? low_precision(c.needed.in_gib(), 6) : "no fit",
                    c.power ? low_precision(c.power->in_w(), 6) : "-", if_known(row.owned_usd),
                    if_known(row.rented_usd));
  }
  return page;
}

Json json_row(const Row& row, const Work& work) {
  const plan::MatrixCell& c = row.cell;
  const bool known = c.refused.empty();
  const auto number = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  return {{"gpu", row.gpu},
          {"batch_per_gpu", row.batch},
          {"throughput_samples_per_s", known ? interval_json(c.samples_per_s) : Json()},
          {"basis", known ? Json(c.basis) : Json()},
          {"memory_bytes", known ? Json(c.needed.in_bytes()) : Json()},
          {"memory_capacity_bytes", known ? Json(c.capacity.in_bytes()) : Json()},
          {"fits", c.fits},
          {"fit_probability", known ? Json(c.fit_probability) : Json()},
          {"power_w", c.power ? Json(c.power->in_w()) : Json()},
          {"owned_usd_per_" + work.key, number(row.owned_usd)},
          {"rented_usd_per_" + work.key, number(row.rented_usd)},
          {"refused", known ? Json() : Json(c.refused)}};
}

std::string json_of(const Options& options, const std::vector<Row>& rows,
                    const plan::Catalogue& catalogue) {
  Json doc{{"schema", fmt::format("tracecast.compare/{}", kSchema)},
           {"version", kVersion},
           {"network", options.job.network},
           {"gpus", options.total_gpus},
           {"data", options.job.data},
           {"nic", options.place.nic.empty() ? Json() : Json(options.place.nic)},
           {"no_p2p", options.place.no_p2p},
           {"catalogue",
            {{"id", catalogue.id},
             {"date", catalogue.date},
             {"is_embedded", options.catalogue.empty()}}}};
  doc["rows"] = Json::array();
  for (const Row& row : rows) doc["rows"].push_back(json_row(row, work_of(options.job)));
  return json_text(doc) + "\n";
}

std::string csv_of(const Options& options, const std::vector<Row>& rows) {
  const Work work = work_of(options.job);
  std::string text = fmt::format(
      "gpu,batch_per_gpu,throughput_samples_per_s,throughput_low_samples_per_s,"
      "throughput_high_samples_per_s,memory_bytes,fits,power_w,owned_usd_per_{0},"
      "rented_usd_per_{0}\n",
      work.key);
  for (const Row& row : rows) {
    const plan::MatrixCell& c = row.cell;
    if (!c.refused.empty()) {
      text += csv_line(row.gpu, row.batch, "", "", "", "", "no", "", "", "");
      continue;
    }
    text += csv_line(row.gpu, row.batch, c.samples_per_s.value, c.samples_per_s.low,
                     c.samples_per_s.high, c.needed.in_bytes(), c.fits ? "yes" : "no",
                     c.power ? std::optional(c.power->in_w()) : std::nullopt, row.owned_usd,
                     row.rented_usd);
  }
  return text;
}

int run_serving(const Options& options, const Hardware& hardware,
                const plan::Catalogue& catalogue) {
  ServingComparison asked = options.serving;
  asked.job.network = options.job.network;
  if (!options.job.precision.empty()) asked.job.precision = options.job.precision;
  asked.gpus = options.total_gpus;
  asked.place = options.place;
  if (options.ttft_ms > 0) asked.ttft_ms = options.ttft_ms;
  if (options.tpot_ms > 0) asked.tpot_ms = options.tpot_ms;
  const bool has_limits = asked.ttft_ms || asked.tpot_ms;
  if (has_limits == !asked.in_flight.empty())
    throw InputError("--serve", has_limits ? "limits and --concurrency" : "no load",
                     "--concurrency N,M or limits: --ttft-ms, --tpot-ms");
  const std::vector<ServingRow> rows = compare_serving(asked, options.gpus, hardware, catalogue);
  const auto json = [&] {
    return serving_rows_json(asked, rows, catalogue, options.catalogue.empty());
  };
  if (!options.report.empty()) write_compare_page(json(), options.report);
  const std::string prices =
      catalogue.name + (options.catalogue.empty() ? ", partly guessed (--catalogue FILE)" : "");
  write_report(options.format == "json"  ? json()
               : options.format == "csv" ? serving_rows_csv(rows)
                                         : serving_rows_text(asked, rows, prices));
  return std::any_of(rows.begin(), rows.end(),
                     [](const ServingRow& row) { return row.refused.empty(); })
             ? kExitDone
             : kExitNo;
}

int run(Options& options) {
  if (!options.host_from.empty()) take_recorded_host(options.host_from, options.job.software);
  check_report(options.report);
  const Hardware hardware = load_hardware(options.sources);
  const plan::Catalogue catalogue =
      options.catalogue.empty()
          ? plan::embedded_catalogue(hardware.gpus(), plan::Priced::MachinesAndCards)
          : plan::load_catalogue(read_file(options.catalogue, kMostSmallFile), options.catalogue,
                                 hardware.gpus());
  if (options.serves) return run_serving(options, hardware, catalogue);
  const std::vector<Row> rows = rows_of(options, hardware, catalogue);
  bool any = false;
  for (const Row& row : rows) any = any || (row.cell.refused.empty() && row.cell.fits);
  if (!options.report.empty())
    write_compare_page(json_of(options, rows, catalogue), options.report);
  write_report(options.format == "json"  ? json_of(options, rows, catalogue)
               : options.format == "csv" ? csv_of(options, rows)
                                         : text_of(options, rows, catalogue));
  return any ? kExitDone : kExitNo;
}

void add_serving(CLI::App& subcommand, Options& options) {
  ServingComparison& s = options.serving;
  CLI::Option* serve =
      subcommand.add_flag("--serve", options.serves,
                          "Requests that are answered: tokens/s, latency, USD per million tokens");
  for (const char* of_steps :
       {"--batch", "--phase", "--framework", "--optimizer", "--lora", "--lora-targets",
        "--base-precision", "--image-size", "--seq-len", "--epoch-samples", "--measured",
        "--framework-version", "--data", "--host-cpu", "--cpu-threads", "--cpu-quota", "--workers",
        "--disk", "--pipeline"})
    serve->excludes(subcommand.get_option(of_steps));
  const auto tokens = [&](const char* flag, std::int64_t& value, const char* text) {
    subcommand.add_option(flag, value, text)
        ->needs(serve)
        ->check(whole_number(1, 1 << 24) & CLI::Range(1, 1 << 24))
        ->type_name("T")
        ->capture_default_str();
  };
  tokens("--input", s.input, "Tokens of a prompt, with --serve");
  tokens("--output", s.output, "Tokens of an answer, with --serve");
  subcommand.add_option("--concurrency", s.in_flight, "Requests in flight, one or several")
      ->needs(serve)
      ->delimiter(',')
      ->check(whole_number(1, 1'000'000) & CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->type_name("N,M");
  const auto limit = [&](const char* flag, double& value, const char* text) {
    subcommand.add_option(flag, value, text)
        ->needs(serve)
        ->check(positive_number())
        ->type_name("MS");
  };
  limit("--ttft-ms", options.ttft_ms, "Limit to the first token of nine requests in ten");
  limit("--tpot-ms", options.tpot_ms, "Limit per output token of nine requests in ten");
  subcommand.add_option("--engine", s.job.engine, "As `serve` has it")
      ->needs(serve)
      ->type_name("E");
  subcommand.add_option("--kv-precision", s.job.kv_precision, "As `serve` has it")
      ->needs(serve)
      ->type_name("P");
}

}  // namespace

void add_compare_command(CLI::App& app, int& exit_code) {
  auto options = std::make_shared<Options>();
  Job& job = options->job;
  CLI::App* subcommand =
      app.add_subcommand("compare", "One job on many GPUs: speed, memory, watts and money");
  subcommand->add_option("network", job.network, "Zoo name or file")
      ->required()
      ->type_name("NETWORK");
  subcommand->add_option("--gpu", options->gpus, "GPUs, such as v100,a100,h100")
      ->required()
      ->delimiter(',')
      ->type_name("A,B,C");
  subcommand
      ->add_option("--batch", options->batches,
                   "Samples per step and GPU, one or several [what an .onnx file fixes, else 1]")
      ->delimiter(',')
      ->check(whole_number(1, kMostBatch) & CLI::Range(std::int64_t{1}, kMostBatch))
      ->type_name("N,M");
  subcommand->add_option("--gpus", options->total_gpus, "Of each kind, in total [1]")
      ->check(whole_number(1, 1024) & CLI::Range(1, 1024))
      ->type_name("N");
  subcommand->add_option("--phase", job.phase, "train, infer, forward or forward_backward")
      ->type_name("PHASE")
      ->capture_default_str();
  subcommand
      ->add_option("--precision", job.precision,
                   "fp32, tf32, amp, fp16, bf16, fp8, int8; with --serve as `serve` has it")
      ->type_name("P");
  subcommand->add_option("--framework", job.software.framework, "As `predict` has it")
      ->type_name("F");
  subcommand->add_option("--framework-version", job.software.version, "As `predict` has it")
      ->type_name("V");
  subcommand->add_option("--optimizer", job.optimizer, "As `predict` has it")->type_name("O");
  subcommand->add_option("--lora", job.lora_rank, "Train adapters of this rank alone")
      ->check(whole_number(1, 65536) & CLI::Range(std::int64_t{1}, std::int64_t{65536}))
      ->type_name("RANK");
  subcommand->add_option("--lora-targets", job.lora_targets, "As `predict` has it")->type_name("T");
  subcommand->add_option("--base-precision", job.base_precision, "As `predict` has it")
      ->type_name("P");
  subcommand->add_option("--image-size", job.image_size, "Side of square images, pixels")
      ->check(whole_number(1, 1'000'000) & CLI::Range(1, 1'000'000))
      ->type_name("S");
  subcommand
      ->add_option("--seq-len", job.seq_len, "Tokens per sample; money per million tokens then")
      ->check(whole_number(1, 100'000'000) & CLI::Range(1, 100'000'000))
      ->type_name("L");
  subcommand->add_option("--epoch-samples", job.epoch_samples, "Samples of an epoch, for its money")
      ->check(whole_number(1, 1'000'000'000'000) &
              CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000'000}))
      ->type_name("N");
  subcommand
      ->add_option("--catalogue", options->catalogue,
                   "Prices; default: the dated ones in the program")
      ->type_name("FILE");
  subcommand
      ->add_option("--measured", options->measured,
                   "Runs that were timed; they correct the others of the same job")
      ->type_name("FILE");
  add_host_options(*subcommand, job, options->place);
  subcommand->add_option("--host-from", options->host_from, "As `predict` has it")
      ->type_name("TRACE");
  add_link_options(*subcommand, options->place);
  add_serving(*subcommand, *options);
  add_report_option(*subcommand, options->report);
  add_source_options(*subcommand, options->sources);
  add_format_option(*subcommand, options->format);
  subcommand->footer("Example: tracecast compare resnet50 --gpu v100,a100,h100 --batch 64,128");
  subcommand->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace tracecast
