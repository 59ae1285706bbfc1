#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "sim/job/mode/served_requests.hpp"
#include "sim/job/sha256.hpp"
#include "tools/command/output.hpp"
#include "tools/command/parse_flags.hpp"
#include "tools/command/subcommand.hpp"
#include "tools/command/whole_number.hpp"
#include "tools/predict/cluster_options.hpp"
#include "tools/report/page.hpp"
#include "tools/serve/idle_flags.hpp"
#include "tools/serve/serve_flags.hpp"
#include "tools/serve/serve_page.hpp"
#include "tools/serve/serve_report.hpp"

namespace tracecast {

/// What the flags of `serve` say.
struct ServeOptions {
  ServingJob job;
  ServingLoad load;
  Place place;
  std::int64_t gpus = 1, batch = 0, concurrency = 0, requests = 0, seed = 1;
  std::int64_t tokens_per_step = 0, sequences = 0, graph_tokens = -1, context = 0;
  double memory_share = 0, price_per_hour = 0;
  std::string rate, trace, find, ttft, tpot, per_request, report, measured;
  Place measured_place;
  std::int64_t measured_gpus = 0, measured_tensor = 0;
  bool sweep = false, no_intervals = false;
  SourceOptions sources;
  std::string format = "text";
};

namespace {

constexpr std::uint64_t kMostTrace = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostKept =
    4'000'000;  // requests whose rows are kept: 1.5 GB with their text
constexpr std::uint64_t kMostResult = std::uint64_t{1} << 28;

/// "4/s", "4", "240/min".
double rate_of(const std::string& text) {
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto value = parse_double(std::string_view(text).substr(0, slash));
  const std::string unit = slash < text.size() ? text.substr(slash + 1) : "s";
  const double per = unit == "s" ? 1 : unit == "min" ? 60 : unit == "h" ? 3600 : 0;
  if (!value || !(*value > 0) || !(*value < 1e9) || per == 0)
    throw InputError("--rate", '"' + text + '"', "requests per second above 0, as 4/s or 240/min");
  return *value / per;
}

/// "500ms", "0.5s", "30": ms.
double ms_of(const char* flag, const std::string& text) {
  std::string_view word(text);
  double factor = 1;
  if (word.ends_with("ms")) {
    word.remove_suffix(2);
  } else if (word.ends_with("s")) {
    word.remove_suffix(1);
    factor = 1e3;
  }
  const auto value = parse_double(word);
  if (!value || !(*value > 0)) throw InputError(flag, '"' + text + '"', "a time above 0, as 500ms");
  return *value * factor;
}

/// The file of --measured and the load it was measured at.
void read_measured(const ServeOptions& o, ServeQuestion& question) {
  MeasuredRunReport run;
  run.result = read_benchmark_result(read_file(o.measured, kMostResult), o.measured);
  run.load = o.load;
  use_load_of(run.result, o.measured, run.load);
  run.load.seed = static_cast<std::uint64_t>(o.seed);
  question.measured = std::move(run);
  const std::filesystem::path path(o.measured);
  question.inputs.push_back({"measured", path.filename().string(), Hash(sha256_of_file(path))});
}

/// What the measured run says of steps there: the answer to it, and the factors that would make it
/// the measured one.
void compare_measured(const ServeOptions& o, ServeQuestion& question, const Hardware& hardware,
                      Served& served) {
  MeasuredRunReport& run = *question.measured;
  ServingJob job = question.job;
  Place place = o.place;
  if (!o.measured_place.gpu.empty()) place.gpu = o.measured_place.gpu;
  if (o.measured_gpus > 0) place.gpus = o.measured_gpus;
  if (o.measured_tensor > 0) job.tensor = o.measured_tensor;
  Served there(job, place, hardware);
  run.predicted = there.report(run.load);
  ServedMeasurement measured;
  measured.load = run.load;
  measured.ttft_ms = run.result.ttft_ms.mean;
  measured.tpot_ms = run.result.tpot_ms.mean ? run.result.tpot_ms.mean : run.result.itl_ms.mean;
  if (run.load.output < 2) measured.tpot_ms.reset();
  run.correction = there.fit(measured);
  const Place& here = o.place;
  run.is_same_place = hardware.gpus().find(place.gpu).id == hardware.gpus().find(here.gpu).id &&
                      place.gpus == here.gpus && job.tensor == question.job.tensor;
  served.correct(run.correction, run.is_same_place);
}

/// The flag that says the load; none where the measured one is asked for. Throws InputError: none,
/// or several.
std::string load_flag(const ServeOptions& o) {
  const std::pair<bool, const char*> loads[] = {
      {o.batch > 0, "--batch"},    {o.concurrency > 0, "--concurrency"},
      {!o.rate.empty(), "--rate"}, {!o.trace.empty(), "--trace"},
      {!o.find.empty(), "--find"}, {o.sweep, "--sweep"}};
  std::string found;
  for (const auto& [is_given, flag] : loads) {
    if (!is_given) continue;
    if (!found.empty())
      throw InputError("tracecast serve", "several loads: " + found + " and " + flag,
                       "one of --batch, --concurrency, --rate, --trace, --find, --sweep");
    found = flag;
  }
  if (found.empty() && o.measured.empty())
    throw InputError("tracecast serve", "no load",
                     "one of --batch, --concurrency, --rate, --trace, --find, --sweep");
  return found;
}

/// Refuses what was given and could change nothing.
void refuse_unused(const ServeOptions& o, const CLI::App& subcommand) {
  const ServeContext context{.load = load_flag(o),
                             .drafts = o.job.drafted > 0,
                             .swaps = to_lower(o.job.preemption) == "swap",
                             .shares_prefix = o.load.shared_prefix > 0,
                             .is_measured = !o.measured.empty()};
  refuse_idle_serve_flags(
      context, [&](std::string_view flag) { return subcommand.count(std::string(flag)) > 0; });
}

void read_load(ServeOptions& o, ServeQuestion& question) {
  ServingLoad& load = o.load;
  if (!o.measured.empty()) read_measured(o, question);
  if (load_flag(o).empty()) {
    load = question.measured->load;
    load.intervals = !o.no_intervals;
    load.seed = static_cast<std::uint64_t>(o.seed);
    return;
  }
  if (o.batch > 0) load.batch = o.batch;
  if (o.concurrency > 0) load.concurrency = o.concurrency;
  if (!o.rate.empty()) load.per_second = rate_of(o.rate);
  if (!o.trace.empty()) {
    load.trace = read_requests(read_file(o.trace, kMostTrace), o.trace);
    const std::filesystem::path path(o.trace);
    question.inputs.push_back({"requests", path.filename().string(), Hash(sha256_of_file(path))});
    load.input = load.output = 1;
    for (const serve::Request& r : *load.trace) {
      load.input = std::max(load.input, r.input);
      load.output = std::max(load.output, r.output);
    }
  }
  load.requests = o.requests > 0      ? static_cast<std::uint64_t>(o.requests)
                  : o.concurrency > 0 ? steady_requests(o.concurrency)
                                      : ServingLoad{}.requests;
  load.seed = static_cast<std::uint64_t>(o.seed);
  load.intervals = !o.no_intervals;
  if (!o.find.empty()) {
    if (o.find != "rate") throw InputError("--find", '"' + o.find + '"', "rate");
    if (o.ttft.empty() && o.tpot.empty())
      throw InputError("--find", "no limit", "--ttft or --tpot");
    if (!o.ttft.empty()) question.ttft_ms = ms_of("--ttft", o.ttft);
    if (!o.tpot.empty()) question.tpot_ms = ms_of("--tpot", o.tpot);
  }
}

std::string page_of(const std::string& format, const ServeQuestion& q, const ServingReport& a) {
  return format == "json" ? serve_json(q, a) : format == "csv" ? serve_csv(q, a) : serve_text(q, a);
}

/// Tensor ranks 1, 2, 4, ... and requests in flight 1, 2, 4, ... of all GPUs.
int sweep(const ServeOptions& o, const ServeQuestion& question, const Hardware& hardware) {
  std::vector<FrontPoint> points;
  constexpr std::int64_t kMostInFlight = 1024;
  for (std::int64_t tensor = 1; tensor <= o.gpus && tensor <= 8; tensor *= 2) {
    ServeQuestion q = question;
    q.job.tensor = tensor;
    std::optional<Served> served;
    try {
      served.emplace(q.job, o.place, hardware);
      if (q.measured) compare_measured(o, q, hardware, *served);
    } catch (const InputError& error) {
      if (tensor == 1) throw;
      say("left out: tp " + std::to_string(tensor) + ": " + error.what());
      continue;
    }
    for (std::int64_t load = 1; load <= kMostInFlight; load *= 2) {
      q.load.concurrency = load;
      q.load.requests = steady_requests(load);
      q.load.intervals = false;
      points.push_back({o.gpus, tensor, load, served->report(q.load)});
      say_progress(fmt::format("tp {} in flight {}", tensor, load));
      if (!points.back().report.fits) break;
    }
  }
  say_progress("");
  mark_front(points);
  if (!o.report.empty()) write_front_page(question, points, o.report);
  write_report(o.format == "json"  ? front_json(question, points)
               : o.format == "csv" ? front_csv(points)
                                   : front_text(question, points));
  return std::any_of(points.begin(), points.end(), [](const auto& p) { return p.report.fits; })
             ? kExitDone
             : kExitNo;
}

ServeQuestion question_of(ServeOptions& o, const CLI::App& subcommand) {
  ServeQuestion question;
  refuse_unused(o, subcommand);
  read_load(o, question);
  o.place.gpus = o.gpus;
  if (o.tokens_per_step > 0) o.job.tokens_per_step = o.tokens_per_step;
  if (o.sequences > 0) o.job.sequences = o.sequences;
  if (o.graph_tokens >= 0) o.job.graph_tokens = o.graph_tokens;
  if (o.memory_share > 0) o.job.memory_share = o.memory_share;
  if (o.context > 0) o.job.context = o.context;
  if (o.price_per_hour > 0) question.price_per_hour = o.price_per_hour;
  question.job = o.job;
  question.load = o.load;
  return question;
}

int serve_command(ServeOptions& o, const CLI::App& subcommand) {
  check_report(o.report);
  ServeQuestion question = question_of(o, subcommand);
  const Hardware hardware = load_hardware(o.sources);
  if (o.sweep) return sweep(o, question, hardware);
  Served served(o.job, o.place, hardware);
  if (question.measured) compare_measured(o, question, hardware, served);
  ServingReport report;
  if (!o.find.empty()) {
    Served::Found found = served.find_rate(o.load, question.ttft_ms, question.tpot_ms);
    question.found_rate = found.per_second;
    question.load.per_second = found.per_second;
    report = std::move(found.report);
    if ((!o.report.empty() || !o.per_request.empty()) && found.per_second > 0)
      report = served.report(question.load, true);
  } else {
    const bool keeps = !o.per_request.empty() || !o.report.empty();
    if (keeps && !o.load.trace && o.load.requests > kMostKept)
      throw InputError("--requests", fmt::format("{}", o.load.requests),
                       fmt::format("at most {} with --per-request or --report", kMostKept));
    report = served.report(o.load, keeps);
  }
  if (!o.per_request.empty()) {
    refuse_standard_output("--per-request", o.per_request);
    write_requests_csv(o.per_request, report);
  }
  if (!o.report.empty()) write_serve_page(question, report, o.report);
  write_report(page_of(o.format, question, report));
  const bool found_none = question.found_rate && !(*question.found_rate > 0);
  return report.fits && !found_none ? kExitDone : kExitNo;
}

void add_sharing(CLI::App& subcommand, ServeOptions& o) {
  const auto count = [&](const char* flag, std::int64_t& value, const char* text,
                         std::int64_t least) {
    subcommand.add_option(flag, value, text)
        ->type_name("N")
        ->check(whole_number(least, 1'000'000) & CLI::Range(least, std::int64_t{1'000'000}));
  };
  count("--gpus", o.gpus, "GPUs in total; replicas share them", 1);
  count("--tp", o.job.tensor, "Tensor ranks of a replica; else all GPUs, at most 8", 1);
  count("--pp", o.job.pipeline, "Stages of its pipeline", 1);
  count("--ep", o.job.experts, "Ranks among which experts are divided", 1);
  count("--dp", o.job.data, "Ranks that attend to sequences of their own", 1);
  count("--max-batched-tokens", o.tokens_per_step, "Tokens of a step; else the engine's", 1);
  count("--max-sequences", o.sequences, "Sequences at once; else the engine's", 1);
  count("--graph-tokens", o.graph_tokens,
        "Steps with prompts of up to so many tokens run in captured graphs; else the engine's", 0);
  subcommand
      .add_option("--context", o.context,
                  "Most tokens of a request, input and output; else as the network's configuration "
                  "says")
      ->type_name("N")
      ->check(whole_number(1, 1 << 25) & CLI::Range(1, 1 << 25));
  subcommand.add_option("--memory-share", o.memory_share, "Of the board that the engine takes")
      ->type_name("SHARE")
      ->check(number_within(0.01, 1));
  subcommand
      .add_option("--engine", o.job.engine, "vllm, sglang, tensorrt_llm, ideal, or a profile's id")
      ->type_name("E")
      ->capture_default_str();
  subcommand.add_option("--engine-version", o.job.engine_version, "Such as 0.11; else the newest")
      ->type_name("V");
  subcommand
      .add_option("--precision", o.job.precision,
                  "bf16, fp8, fp8_block, nvfp4, mxfp4, int8, int8_wo, int4_wo")
      ->type_name("P")
      ->capture_default_str();
  subcommand.add_option("--kv-precision", o.job.kv_precision, "bf16 or fp8")->type_name("P");
  subcommand
      .add_option("--preemption", o.job.preemption,
                  "Who has to go computes again, or swaps its cache to the host: recompute, swap")
      ->type_name("P")
      ->capture_default_str();
  subcommand.add_option("--swap-gib", o.job.swap_gib, "Of the host for that, per GPU")
      ->type_name("GIB")
      ->check(number_within(0, 1e5))
      ->capture_default_str();
  subcommand
      .add_option("--router", o.job.router, "round_robin, least_loaded, prefix_aware or prefix")
      ->type_name("R")
      ->capture_default_str();
  subcommand.add_option("--draft-tokens", o.job.drafted, "That a draft proposes each step")
      ->type_name("N")
      ->check(whole_number(0, 64) & CLI::Range(0, 64));
  subcommand.add_option("--draft-acceptance", o.job.accepted, "Share of them that is kept")
      ->type_name("SHARE")
      ->check(number_within(0, 1));
  subcommand
      .add_option("--draft-network", o.job.draft_network, "What proposes them; else at no cost")
      ->type_name("NETWORK");
}

void add_load(CLI::App& subcommand, ServeOptions& o) {
  const auto count = [&](const char* flag, std::int64_t& value, const char* text,
                         std::int64_t most) {
    return subcommand.add_option(flag, value, text)
        ->type_name("N")
        ->check(whole_number(1, most) & CLI::Range(std::int64_t{1}, most));
  };
  count("--input", o.load.input, "Tokens of a prompt", 1 << 24);
  count("--output", o.load.output, "Tokens of an answer", 1 << 24);
  subcommand
      .add_option("--least-share", o.load.least_share,
                  "Lengths are drawn evenly between this share of them and the whole")
      ->type_name("SHARE")
      ->check(number_within(0, 1));
  subcommand
      .add_option("--shared-prefix", o.load.shared_prefix, "Tokens that all prompts begin with")
      ->type_name("T")
      ->check(whole_number(0, 1 << 24) & CLI::Range(0, 1 << 24));
  count("--prefixes", o.load.prefixes, "Different prefixes, drawn evenly", 1 << 30);
  count("--batch", o.batch, "One batch, all prompts at once", 1'000'000);
  count("--concurrency", o.concurrency, "Requests in flight: each answer lets the next in",
        1'000'000);
  subcommand.add_option("--rate", o.rate, "Requests that arrive, as 4/s")->type_name("R");
  subcommand.add_option("--arrivals", o.load.arrivals, "poisson, bursty or even")->type_name("A");
  subcommand
      .add_option("--trace", o.trace, "Requests, CSV: arrival_s, input_tokens, output_tokens")
      ->type_name("FILE");
  subcommand
      .add_option("--find", o.find, "rate: the load that stays within --ttft and --tpot (p90)")
      ->type_name("WHAT");
  subcommand.add_option("--ttft", o.ttft, "Limit to the first token, as 500ms")->type_name("T");
  subcommand.add_option("--tpot", o.tpot, "Limit per output token, as 30ms")->type_name("T");
  subcommand.add_flag("--sweep", o.sweep, "Tokens/s a GPU against a user, over --tp and load");
  subcommand
      .add_option("--disaggregate", o.load.disaggregate,
                  "Phases on their own GPUs: prefill=2xh100,decode=4xh200")
      ->type_name("SPEC");
  count("--requests", o.requests,
        "Requests that are simulated; else 1000, and 20 times those in flight", 1'000'000'000);
  subcommand.add_option("--warm-up", o.load.warm_up, "Share of them that is not measured")
      ->type_name("SHARE")
      ->check(number_within(0, 0.9));
  subcommand.add_option("--seed", o.seed, "Of arrivals and lengths")
      ->type_name("SEED")
      ->check(whole_number(0, 1'000'000'000) & CLI::Range(0, 1'000'000'000));
  subcommand.add_flag("--no-intervals", o.no_intervals, "One simulation instead of three");
}

void add_measured_options(CLI::App& subcommand, ServeOptions& o) {
  subcommand
      .add_option("--measured", o.measured,
                  "Result of vllm bench serve or genai-perf (JSON): compared, and corrects the "
                  "answer; its load where no other is given")
      ->type_name("FILE");
  subcommand
      .add_option("--measured-gpu", o.measured_place.gpu, "Where it was measured; else --gpu")
      ->type_name("ID");
  const auto count = [&](const char* flag, std::int64_t& value, const char* text) {
    subcommand.add_option(flag, value, text)
        ->type_name("N")
        ->check(whole_number(1, 1'000'000) & CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}));
  };
  count("--measured-gpus", o.measured_gpus, "GPUs of that run; else --gpus");
  count("--measured-tp", o.measured_tensor, "Its tensor ranks; else --tp");
}

/// Declares the subcommand with its flags, which are kept in `options`.
CLI::App* add_serve_subcommand(CLI::App& app, ServeOptions& options) {
  ServeOptions* o = &options;
  o->load.input = 1024;
  o->load.output = 128;
  CLI::App* subcommand = app.add_subcommand(
      "serve", "A language model that answers requests: latency, tokens/s, energy, cost");
  subcommand->add_option("network", o->job.network, "Name, or a config.json")
      ->required()
      ->type_name("NETWORK");
  subcommand->add_option("--gpu", o->place.gpu, "GPU")->type_name("ID");
  subcommand->add_option("--machine", o->place.machine, "Machine; else a usual one for the GPU")
      ->type_name("ID");
  add_link_options(*subcommand, o->place);
  add_sharing(*subcommand, *o);
  add_load(*subcommand, *o);
  subcommand
      ->add_option("--price-per-hour", o->price_per_hour, "USD of a GPU: cost per million tokens")
      ->type_name("USD")
      ->check(positive_number());
  add_measured_options(*subcommand, *o);
  subcommand
      ->add_option("--per-request", o->per_request, "Write one row per request to this CSV file")
      ->type_name("FILE");
  add_report_option(*subcommand, o->report);
  add_source_options(*subcommand, o->sources);
  add_format_option(*subcommand, o->format);
  return subcommand;
}

}  // namespace

void add_serve_command(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<ServeOptions>();
  CLI::App* subcommand = add_serve_subcommand(app, *o);
  subcommand->footer(
      "Example: tracecast serve llama3_70b --gpu h100 --gpus 8 --precision fp8 --input 2000 "
      "--output 300 --rate 4/s");
  subcommand->callback([o, subcommand, &exit_code] { exit_code = serve_command(*o, *subcommand); });
}

struct ServeFlags::Parser {
  ServeOptions options;
  CLI::App app{"", "tracecast"};
  CLI::App* subcommand = add_serve_subcommand(app, options);
  const ServeOptions unset = options;

  Parser() { add_version_flag(app); }
};

ServeFlags::ServeFlags() : parser_(std::make_unique<Parser>()) {}
ServeFlags::~ServeFlags() = default;
ServeFlags::ServeFlags(ServeFlags&&) noexcept = default;

ServedPlace ServeFlags::read(const std::vector<std::string>& words) {
  Parser& p = *parser_;
  p.app.clear();
  p.options = p.unset;
  std::vector<std::string> all{"serve"};
  all.insert(all.end(), words.begin(), words.end());
  parse_words(p.app, std::move(all));
  if (p.options.sweep)
    throw InputError("--sweep", "one answer asked for", "tracecast serve, or a grid of loads");
  return {question_of(p.options, *p.subcommand), p.options.place};
}

}  // namespace tracecast
