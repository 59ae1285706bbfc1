#include "sim/job/mode/serving_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "hwspecs/loaders/known_names.hpp"
#include "models/graph_text.hpp"
#include "models/language/config.hpp"
#include "models/language/graph.hpp"
#include "models/zoo/parts/network_word.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"
#include "sim/job/mode/pool_sums.hpp"
#include "sim/job/mode/serving_state.hpp"
#include "sim/job/network_file.hpp"
#include "sim/job/newer_version.hpp"
#include "sim/job/sha256.hpp"
#include "sim/network/collective.hpp"

namespace tracecast {
namespace {

constexpr std::uint64_t kMostConfig = std::uint64_t{16} << 20;
constexpr std::int64_t kMostTokens = 1 << 24;  ///< of a prompt or an answer
/// Requests at once, and of a simulation; the latest arrival in seconds: the clock of microseconds
/// goes on to ninety times that.
constexpr std::int64_t kMostInFlight = 1'000'000;
constexpr std::uint64_t kMostRequests = 1'000'000'000;
/// Of one replica: far beyond what its percentiles need.
constexpr std::uint64_t kMostRequestsEach = 100'000;
constexpr double kLatestArrival = 1e11;

struct PrecisionWord {
  std::string_view word;
  GemmFormat gemms;
  ExpertFormat experts;
};
constexpr std::array<PrecisionWord, 9> kPrecisions = {{
    {"bf16", GemmFormat::Half, ExpertFormat::Half},
    {"fp16", GemmFormat::Half, ExpertFormat::Half},
    {"fp8", GemmFormat::Fp8, ExpertFormat::Fp8},
    {"fp8_block", GemmFormat::Fp8Block, ExpertFormat::Fp8Block},
    {"nvfp4", GemmFormat::Fp4, ExpertFormat::Fp4},
    // MoE networks kept in mxfp4 keep all else in 16 bits (OpenAI, gpt-oss model card, 2025).
    {"mxfp4", GemmFormat::Half, ExpertFormat::Fp4Weights},
    {"int8", GemmFormat::Int8, ExpertFormat::Fp8},
    {"int8_wo", GemmFormat::Int8Weights, ExpertFormat::Half},
    {"int4_wo", GemmFormat::Int4Weights, ExpertFormat::Int4Weights},
}};

ServedFormats formats_of(const ServingJob& job) {
  std::vector<std::string> words;
  for (const PrecisionWord& p : kPrecisions) {
    words.emplace_back(p.word);
    if (to_lower(job.precision) != p.word) continue;
    ServedFormats formats{p.gemms, p.experts, false};
    const std::string kv = to_lower(job.kv_precision);
    if (kv == "fp8" || kv == "int8") {
      formats.fp8_cache = true;
    } else if (!kv.empty() && kv != "bf16" && kv != "fp16") {
      throw InputError("--kv-precision", '"' + job.kv_precision + '"', "bf16, fp16 or fp8");
    }
    return formats;
  }
  throw InputError("--precision", '"' + job.precision + '"',
                   describe_choices(job.precision, words));
}

/// What `--precision` leaves out of how the configuration says that weights are stored; none:
/// nothing.
std::string precision_note(const ServingJob& job) {
  if (to_lower(job.precision) != "bf16") return {};
  const bool is_file = is_network_path(job.network);
  const auto named = is_file ? std::nullopt : read_network_word(job.network);
  const std::string stored =
      is_file ? stored_precision(read_file(job.network, kMostConfig), job.network)
      : named ? named->stored
              : std::string();
  if (stored.empty()) return {};
  const bool is_word = std::any_of(kPrecisions.begin(), kPrecisions.end(),
                                   [&](const PrecisionWord& p) { return p.word == stored; });
  return fmt::format("weights of 16 bits; its {} stores them as ",
                     is_file ? "configuration" : "name") +
         stored + (is_word ? ": --precision " + stored : ", which is not predicted");
}

LanguageNetwork network_of(const std::string& word, std::vector<InputRecord>& inputs) {
  refuse_other_file(word);
  if (is_network_path(word)) {
    const std::string bytes = read_file(word, kMostConfig);
    if (!is_config_path(word))
      throw InputError(word, "no config.json", "a language model's config.json, or its name");
    inputs.push_back({"network", name_of_config(word), Hash(sha256(bytes))});
    return read_config_json(bytes, word);
  }
  const ZooEntry* entry = find_network(word);
  if (entry == nullptr || entry->language == nullptr) {
    std::vector<std::string> names;
    for (const ZooEntry& e : zoo())
      if (e.language != nullptr) names.emplace_back(e.name);
    throw InputError("network", '"' + word + '"', describe_choices(word, names));
  }
  inputs.push_back({"network", fmt::format("zoo:{}", entry->name), Hash([name = entry->name] {
                      return sha256(graph_text(build_network(name, {})));
                    })});
  return entry->language();
}

/// Throws InputError: lengths of none, or over the context.
void check_length(const LanguageNetwork& network, std::int64_t input, std::int64_t output,
                  const std::string& where) {
  if (input < 1 || output < 1 || input > kMostTokens || output > kMostTokens)
    throw InputError(where, fmt::format("{} and {} tokens", input, output),
                     fmt::format("1 to {} of each", kMostTokens));
  if (network.context > 0 && input + output > network.context)
    throw InputError(where, fmt::format("{} tokens of input and output", input + output),
                     fmt::format("at most the network's context of {}", network.context));
}

/// Texts of up to `tokens`, whatever the configuration says, as engines allow for positions that
/// are computed.
void use_context(std::int64_t tokens, LanguageNetwork& network,
                 std::vector<std::string>& assumptions) {
  if (tokens < 1) throw InputError("--context", std::to_string(tokens), "1 token or more");
  const std::int64_t learned = learned_positions(network);
  if (learned > 0 && tokens > learned)
    throw InputError("--context", std::to_string(tokens),
                     fmt::format("at most the {} positions that were learned", learned));
  if (network.context > 0 && tokens > network.context)
    assumptions.push_back(fmt::format(
        "texts of up to {} tokens as asked: its configuration says {}", tokens, network.context));
  network.context = tokens;
}

ServedFigure figure(double value, double slow, double fast, double half_width) {
  return {{value, std::min(value, fast), std::max(value, slow)}, half_width};
}

ServedLatency latency(const serve::Samples& at, const serve::Samples& slow,
                      const serve::Samples& fast) {
  const serve::Uncertainty s = serve::uncertainty_of(at), u = serve::uncertainty_of(slow),
                           l = serve::uncertainty_of(fast);
  return {figure(s.mean, u.mean, l.mean, s.mean_half_width),
          figure(s.p50, u.p50, l.p50, s.p50_half_width),
          figure(s.p90, u.p90, l.p90, s.p90_half_width),
          figure(s.p99, u.p99, l.p99, s.p99_half_width)};
}

ServedLatency alike(double value, double log_sd) {
  const ServedFigure f{interval90(value, log_sd), 0};
  return {f, f, f, f};
}

serve::Arrivals arrivals_of(const std::string& word) {
  const std::vector<std::string> words = {"poisson", "bursty", "even"};
  const auto it = std::find(words.begin(), words.end(), to_lower(word));
  if (it == words.end())
    throw InputError("--arrivals", '"' + word + '"', describe_choices(word, words));
  return static_cast<serve::Arrivals>(it - words.begin());
}

serve::Router router_of(const std::string& word) {
  const std::vector<std::string> words = {"round_robin", "least_loaded", "prefix_aware", "prefix"};
  const auto it = std::find(words.begin(), words.end(), to_lower(word));
  if (it == words.end())
    throw InputError("--router", '"' + word + '"', describe_choices(word, words));
  return static_cast<serve::Router>(it - words.begin());
}

bool swaps(const ServingJob& job) {
  const std::vector<std::string> words = {"recompute", "swap"};
  const std::string word = to_lower(job.preemption);
  if (word != words[0] && word != words[1])
    throw InputError("--preemption", '"' + job.preemption + '"',
                     describe_choices(job.preemption, words));
  return word == words[1];
}

constexpr double kNinety = 1.645;  // standard deviations to either end of a 90 % interval
constexpr double kGib = 1 << 30;

}  // namespace

ServedFormats Served::State::formats_on(const GpuSpec& gpu) {
  ServedFormats formats = formats_of(job);
  if (formats.experts == ExpertFormat::Fp4Weights && mma_kind(gpu) == MmaKind::TensorMemory) {
    formats.experts = ExpertFormat::Fp4WeightsFp8;
    assumptions.emplace_back("activations of mxfp4 experts in mxfp8, which this board multiplies");
  }
  // Engines keep what a board cannot multiply and widen it (vLLM,
  // quantization/utils/marlin_utils_fp8.py: "weight-only FP8").
  const GemmFormat asked = formats.gemms;
  const bool is_fp4 = asked == GemmFormat::Fp4;
  if ((is_fp4 || asked == GemmFormat::Fp8 || asked == GemmFormat::Fp8Block) &&
      !gpu.find_peak(math_of(asked), MathUnit::TensorCore)) {
    formats.gemms = is_fp4 ? GemmFormat::Int4Weights : GemmFormat::Int8Weights;
    assumptions.push_back(
        fmt::format("weights alone in {} bits: {} multiplies none such", is_fp4 ? 4 : 8, gpu.id));
  }
  return formats;
}

EngineProfile Served::State::engine_in(const std::string& machine) {
  const std::string& id = hardware.machines().find(machine).cpu;
  if (id.empty() || id == engine.reference_cpu) return engine;
  const CpuSpec &host = hardware.cpus().find(id),
                &reference = hardware.cpus().find(engine.reference_cpu);
  const double slower = reference.single_thread_speed() / host.single_thread_speed();
  assumptions.push_back(fmt::format("host costs as on one thread of {}: {:.3g} times those of {}",
                                    host.name, slower, reference.name));
  return engine.on_host(slower);
}

Side Served::State::make_side(const std::string& gpu_word, std::int64_t gpus) {
  Side side;
  const GpuSpec& gpu = hardware.gpus().find(gpu_word);
  side.gpu = gpu.id;
  side.gpus = gpus;
  ModelSharing sharing{job.tensor, job.pipeline, job.experts, job.data};
  if (sharing.tensor == 0) {
    const std::int64_t left = std::max<std::int64_t>(1, gpus / (job.pipeline * job.data));
    sharing.tensor = std::min<std::int64_t>(8, left);
  }
  side.served = {network, formats_on(gpu), sharing, engine.kernels, engine.fuses_sums};
  check_sharing(side.served);
  if (gpus % sharing.gpus() != 0)
    throw InputError("--gpus", std::to_string(gpus),
                     fmt::format("a multiple of --tp times --pp times --dp, {}", sharing.gpus()));
  side.replicas = gpus / sharing.gpus();
  Place one = place;
  one.gpu = gpu.id;
  one.gpus = sharing.gpus();
  side.cluster = std::make_unique<Cluster>(make_cluster(one, gpu.id, hardware));
  for (const std::string& line : side.cluster->assumptions) assumptions.push_back(line);
  side.machine = side.cluster->fabric.machine_of(FabricNodeId{0}).id;
  const GpuSpec& board = side.cluster->fabric.gpu_of(Rank{0});
  side.price = std::make_unique<serve::StepPrice>(side.served, engine_in(side.machine), board,
                                                  hardware.cost(), side.cluster->fabric);
  return side;
}

serve::Pool Served::State::pool_of(const Side& side, const serve::ServedMemory& memory,
                                   double time_factor) const {
  serve::Pool pool;
  pool.price = side.price.get();
  const ModelSharing& s = side.served.sharing;
  pool.workers = static_cast<std::uint32_t>(side.replicas * s.data * s.pipeline);
  pool.router = router_of(job.router);
  const GpuSpec& board = side.price->gpu();
  pool.limits.tokens_per_step = job.tokens_per_step.value_or(engine.tokens_of(board));
  pool.limits.sequences = job.sequences.value_or(engine.sequences_of(board));
  pool.limits.cache_blocks =
      std::max<std::int64_t>(1, memory.cache_tokens / engine.block_tokens / s.pipeline);
  pool.limits.drafted = job.drafted;
  pool.limits.accepted = job.accepted;
  pool.limits.draft_seconds = draft_seconds;
  pool.limits.time_factor = time_factor;
  pool.limits.prompt_factor = factors.prompt_factor;
  pool.limits.token_factor = factors.token_factor;
  if (swaps(job)) {
    const double token = std::max(1.0, memory.cache_token.in_bytes());
    pool.limits.swap_seconds_per_token = token / host_bytes_per_s();
    pool.limits.swap_blocks =
        static_cast<std::int64_t>(job.swap_gib * kGib / token / engine.block_tokens) / s.pipeline;
  }
  return pool;
}

void Served::State::use_disaggregation(const std::string& spec) {
  if (spec == disaggregated) return;
  const auto refuse = [&] {
    throw InputError("--disaggregate", '"' + spec + '"', "prefill=2xh100,decode=4xh200");
  };
  const auto side_of = [&](std::string_view key) {
    const std::size_t at = spec.find(std::string(key) + "=");
    if (at == std::string::npos) refuse();
    const std::size_t begin = at + key.size() + 1,
                      end = std::min(spec.find(',', begin), spec.size());
    const std::string word = spec.substr(begin, end - begin);
    const std::size_t x = word.find('x');
    const auto count = parse_integer(std::string_view(word).substr(0, x));
    if (x == std::string::npos || !count || *count < 1) refuse();
    if (*count > kMostGpus)
      throw InputError("--disaggregate", fmt::format("{} GPUs", *count),
                       fmt::format("1 to {}", kMostGpus));
    return make_side(word.substr(x + 1), *count);
  };
  prefill = side_of("prefill");
  main = side_of("decode");
  disaggregated = spec;
}

void Served::State::check_load(const ServingLoad& load) const {
  if (load.trace) {
    for (const serve::Request& r : *load.trace)
      check_length(network, r.input, r.output, fmt::format("--trace, request {}", r.number));
  } else {
    check_length(network, load.input, load.output, "--input, --output");
  }
  for (const auto& [flag, count] :
       {std::pair{"--concurrency", load.concurrency}, std::pair{"--batch", load.batch}}) {
    if (count && (*count < 1 || *count > kMostInFlight))
      throw InputError(flag, fmt::format("{}", *count), fmt::format("1 to {}", kMostInFlight));
  }
  if (load.requests < 1 || load.requests > kMostRequests)
    throw InputError("--requests", fmt::format("{}", load.requests),
                     fmt::format("1 to {}", kMostRequests));
  if (!load.trace && load.requests > kMostRequestsEach * static_cast<std::uint64_t>(main.replicas))
    throw InputError(
        "--requests", fmt::format("{} on {} replicas", load.requests, main.replicas),
        fmt::format("at most {} a replica: more change nothing in the result", kMostRequestsEach));
  if (load.per_second && !(*load.per_second > 0 && std::isfinite(*load.per_second)))
    throw InputError("--rate", fmt::format("{}", *load.per_second), "requests per second above 0");
  if (load.per_second && static_cast<double>(load.requests) / *load.per_second > kLatestArrival)
    throw InputError("--rate",
                     fmt::format("{} requests at {:g}/s", load.requests, *load.per_second),
                     fmt::format("requests that all arrive within {:g} s", kLatestArrival));
}

/// Boards, clusters, engine and costs that an answer rests on.
void Served::State::add_hardware(std::vector<InputRecord>& records, const ServingLoad& load) const {
  for (const Side* side : {&main, load.disaggregate.empty() ? nullptr : &prefill}) {
    if (side == nullptr || (side == &prefill && prefill.gpu == main.gpu)) continue;
    records.push_back({"gpu", side->gpu, hash_of(side->price->gpu().values)});
    if (side->cluster->file) records.push_back(*side->cluster->file);
  }
  records.push_back({"engine", engine.id, hash_of(engine.values)});
  records.push_back(hardware.cost_record());
}

ServingReport Served::State::begin_report(const ServingLoad& load) const {
  ServingReport a;
  const ModelSharing& s = main.served.sharing;
  a.network = job.network;
  a.gpu = main.gpu;
  a.machine = main.machine;
  a.engine = engine.id;
  a.gpus = main.gpus + (load.disaggregate.empty() ? 0 : prefill.gpus);
  a.replicas = main.replicas;
  a.tensor = s.tensor;
  a.pipeline = s.pipeline;
  a.experts = s.experts;
  a.data = s.data;
  a.assumptions = assumptions;
  if (load.concurrency && load.requests < 10 * static_cast<std::uint64_t>(*load.concurrency))
    a.assumptions.push_back(
        fmt::format("{} requests, {:.2g} of each in flight: the start weighs in", load.requests,
                    static_cast<double>(load.requests) / static_cast<double>(*load.concurrency)));
  a.inputs = inputs;
  add_hardware(a.inputs, load);
  std::int64_t longest = load.input + load.output;
  if (load.trace) {
    longest = 2;
    for (const serve::Request& r : *load.trace) longest = std::max(longest, r.input + r.output);
  }
  a.memory = memory_of(main, longest);
  a.replica_cache_tokens = a.memory.cache_tokens * s.data;
  const std::int64_t needed = load.batch ? *load.batch * longest : longest * s.pipeline;
  a.fits = a.memory.cache_tokens >= needed;
  if (a.fits && !load.disaggregate.empty())
    a.fits = memory_of(prefill, longest).cache_tokens >= longest;
  if (!a.fits)
    a.change =
        serve::smallest_change(main.served, engine, main.price->gpu(), memory_options(), needed);
  return a;
}

void Served::State::add_static(ServingReport& a, const ServingLoad& load) {
  serve::StaticBatch batch;
  batch.inputs.assign(static_cast<std::size_t>(*load.batch), load.input);
  batch.output = load.output;
  std::optional<std::int64_t> budget = job.tokens_per_step;
  serve::StaticResult r = serve::run_static(*main.price, batch, budget);
  const double uncertainty = correct_uncertainty(r.whole_log_sd) / r.whole_log_sd;
  const double token_part = r.e2e_ms - r.ttft_ms;
  r.ttft_ms *= factors.prompt_factor;
  r.tpot_ms *= factors.token_factor;
  r.e2e_ms = r.ttft_ms + token_part * factors.token_factor;
  for (double* sd : {&r.first_log_sd, &r.token_log_sd, &r.whole_log_sd}) *sd *= uncertainty;
  a.ttft_ms = alike(r.ttft_ms, r.first_log_sd);
  a.tpot_ms = alike(r.tpot_ms, r.token_log_sd);
  const auto of_step = [&](double ms) {
    return ServedFigure{interval90(ms * factors.token_factor, r.token_log_sd), 0};
  };
  a.tpot_ms.p50 = of_step(r.token_p50_ms);
  a.tpot_ms.p90 = of_step(r.token_p90_ms);
  a.tpot_ms.p99 = of_step(r.token_p99_ms);
  a.itl_ms = a.tpot_ms;
  a.e2e_ms = alike(r.e2e_ms, r.whole_log_sd);
  a.log_sd = r.whole_log_sd;
  a.requests = static_cast<std::uint64_t>(*load.batch);
  a.steps = static_cast<std::uint64_t>(load.output);
  const double tokens = static_cast<double>(*load.batch * load.output);
  a.tokens_per_s = tokens / (r.e2e_ms * 1e-3) * static_cast<double>(a.replicas);
  a.tokens_per_s_per_gpu = a.tokens_per_s / static_cast<double>(a.gpus);
  a.tokens_per_s_per_user = r.tpot_ms > 0 ? 1e3 / r.tpot_ms : 0;
  a.requests_per_s = a.tokens_per_s / static_cast<double>(load.output);
  a.utilization = 1;
  serve::PartTimes parts = r.first.parts;
  parts.add(r.middle.parts, static_cast<double>(load.output - 1));
  const double busy = parts.total();
  for (std::size_t i = 0; i < serve::kStepParts; ++i)
    a.shares.emplace_back(to_string(static_cast<serve::StepPart>(i)), parts.seconds[i] / busy);
  a.guessed_share = parts.guessed / busy;
  const double active_idle = main.price->active_idle().in_w();
  a.power_w = active_idle + parts.joules / busy;
  a.idle_power_w = active_idle;
  // Of the times that are printed: the parts are those of the middle token for all.
  a.energy_j_per_token =
      a.power_w * static_cast<double>(main.served.sharing.gpus()) * (r.e2e_ms * 1e-3) / tokens;
  a.limited_by =
      load.output == 1 || r.ttft_ms > r.e2e_ms / 2 ? "prefill compute" : "decode bandwidth";
  a.mfu = parts.roof_seconds / busy;
}

serve::RunResult Served::State::simulate(const ServingLoad& load, double factor,
                                         std::vector<serve::Request>* kept) const {
  serve::LoadOptions options;
  options.arrivals = arrivals_of(load.arrivals);
  options.per_second = load.per_second.value_or(1);
  options.requests = load.requests;
  options.lengths = {
      load.input, load.output, load.least_share, load.shared_prefix,
      static_cast<std::uint32_t>(std::clamp<std::int64_t>(load.prefixes, 1, 1 << 30))};
  options.seed = load.seed;
  std::unique_ptr<serve::RequestSource> source = load.trace ? serve::replay(*load.trace)
                                                 : load.concurrency
                                                     ? serve::make_closed_load(options)
                                                     : serve::make_load(options);
  serve::RunOptions run;
  if (load.concurrency) run.concurrency = static_cast<std::uint64_t>(*load.concurrency);
  if (!load.trace)
    run.first_measured =
        static_cast<std::uint64_t>(load.warm_up * static_cast<double>(load.requests));
  if (kept != nullptr) run.on_request = [kept](const serve::Request& r) { kept->push_back(r); };
  const std::int64_t longest = load.input + load.output;
  const serve::Pool pool = pool_of(main, memory_of(main, longest), factor);
  if (!load.disaggregate.empty()) {
    run.prefill = pool_of(prefill, memory_of(prefill, longest), factor);
    // A rank sends its share of the cache to its twin over the nearest network port, else over
    // PCIe.
    const ServedCache cache = served_cache(main.served);
    run.transfer_seconds_per_token =
        (cache.token + cache.window_token).in_bytes() / host_bytes_per_s();
    run.transfer_latency = 50e-6;
  }
  return serve::run(pool, *source, run);
}

void Served::State::add_simulated(ServingReport& a, const ServingLoad& load, bool keeps) {
  const auto log_sd_of = [](const serve::WorkerTotals& t) {
    return t.busy_us > 0 ? t.sd_us / t.busy_us : 0;
  };
  double expected_sd = 1;  // of the answer; without a measurement's own spread, any will do
  if (correction && correction->log_sd > 0) {
    factors.prompt_factor = factors.token_factor = 1;
    expected_sd = std::max(1e-6, log_sd_of(simulate(load, 1, nullptr).totals));
  }
  const double left = correct_uncertainty(expected_sd) / expected_sd;
  const serve::RunResult r = simulate(load, 1, keeps ? &a.served : nullptr);
  const serve::WorkerTotals& t = r.totals;
  a.log_sd = left * log_sd_of(t);
  if (load.intervals) {
    const serve::RunResult slow = simulate(load, std::exp(kNinety * a.log_sd), nullptr);
    const serve::RunResult fast = simulate(load, std::exp(-kNinety * a.log_sd), nullptr);
    a.ttft_ms = latency(r.ttft_ms, slow.ttft_ms, fast.ttft_ms);
    a.tpot_ms = latency(r.tpot_ms, slow.tpot_ms, fast.tpot_ms);
    a.itl_ms = latency(r.itl_ms, slow.itl_ms, fast.itl_ms);
    a.e2e_ms = latency(r.e2e_ms, slow.e2e_ms, fast.e2e_ms);
    a.queue_ms = latency(r.queue_ms, slow.queue_ms, fast.queue_ms);
  } else {
    a.ttft_ms = latency(r.ttft_ms, r.ttft_ms, r.ttft_ms);
    a.tpot_ms = latency(r.tpot_ms, r.tpot_ms, r.tpot_ms);
    a.itl_ms = latency(r.itl_ms, r.itl_ms, r.itl_ms);
    a.e2e_ms = latency(r.e2e_ms, r.e2e_ms, r.e2e_ms);
    a.queue_ms = latency(r.queue_ms, r.queue_ms, r.queue_ms);
  }
  a.frontend_ms = engine.frontend.in_ms();
  for (ServedLatency* seen : {&a.ttft_ms, &a.e2e_ms}) {
    for (ServedFigure* f : {&seen->mean, &seen->p50, &seen->p90, &seen->p99}) {
      const double uncertainty = std::exp(kNinety * engine.host_log_sd);
      f->interval.value += a.frontend_ms;
      f->interval.low += a.frontend_ms / uncertainty;
      f->interval.high += a.frontend_ms * uncertainty;
    }
  }
  a.requests = r.requests;
  a.turned_away = r.turned_away;
  a.preemptions = t.preemptions;
  a.swapped = t.swapped;
  a.steps = t.steps + r.prefill_totals.steps;
  a.recomputed_share = t.prompt_tokens > 0 ? t.computed_again / t.prompt_tokens : 0;
  // A recording counts from its first request: its clock may be of any origin.
  const double began = load.trace && !load.trace->empty()
                           ? static_cast<double>(load.trace->front().arrival) * 1e-6
                           : 0;
  const double span = std::max(r.span_s - began, 1e-9);
  a.tokens_per_s = r.output_tokens / span;
  a.tokens_per_s_per_gpu = a.tokens_per_s / static_cast<double>(a.gpus);
  a.tokens_per_s_per_user = r.tpot_ms.mean() > 0 ? 1e3 / r.tpot_ms.mean() : 0;
  a.requests_per_s =
      static_cast<double>(r.tpot_ms.weight() > 0 ? a.tokens_per_s : 0) /
      std::max(1.0, r.output_tokens / std::max<double>(1, static_cast<double>(r.requests)));
  PoolSums all(static_cast<double>(a.gpus), static_cast<double>(main.served.sharing.tensor), span);
  all.add(main, t);
  if (!load.disaggregate.empty()) all.add(prefill, r.prefill_totals);
  a.utilization = all.utilization;
  const double blocks =
      static_cast<double>(std::max<std::int64_t>(1, a.memory.cache_tokens / engine.block_tokens));
  a.cache_use = t.busy_us > 0 ? t.blocks_us / t.busy_us / blocks *
                                    static_cast<double>(main.served.sharing.pipeline)
                              : 0;
  const serve::PartTimes& parts = all.parts;
  const double total = std::max(parts.total(), 1e-12);
  for (std::size_t i = 0; i < serve::kStepParts; ++i)
    a.shares.emplace_back(to_string(static_cast<serve::StepPart>(i)), parts.seconds[i] / total);
  a.guessed_share = parts.guessed / total;
  a.idle_power_w = all.idle_w;
  a.power_w = all.power_w;
  a.energy_j_per_token = all.joules / std::max(1.0, r.output_tokens);
  if (all.busy_s > 0) a.mfu = parts.roof_seconds / all.busy_s;
  const auto share = [&](serve::StepPart p) {
    return parts.seconds[static_cast<std::size_t>(p)] / total;
  };
  if (r.queue_ms.mean() > 0.5 * r.ttft_ms.mean() && r.queue_ms.mean() > 0.1 * r.e2e_ms.mean())
    a.limited_by = a.cache_use > 0.85 ? "KV memory" : "queue";
  else if (share(serve::StepPart::Host) > 0.3)
    a.limited_by = "host";
  else if (share(serve::StepPart::Communications) > 0.35)
    a.limited_by = "network";
  else
    a.limited_by =
        r.ttft_ms.mean() > 0.5 * r.e2e_ms.mean() ? "prefill compute" : "decode bandwidth";
  // A queue that never ends shows in a thousand requests as some waiting.
  const bool may_overflow = all.fullest > 0.9 || r.queue_ms.mean() > 0.1 * r.e2e_ms.mean();
  if (!load.per_second || is_searching || !may_overflow) return;
  const double most = saturated_rate(load);
  if (most > 0 && *load.per_second > most) {
    a.overloaded_at = most;
    a.limited_by = a.cache_use > 0.85 ? "KV memory" : "queue";
  }
}

void check_served_lengths(const std::string& network, std::int64_t input, std::int64_t output,
                          const std::string& where) {
  std::vector<InputRecord> ignored;
  check_length(network_of(network, ignored), input, output, where);
}

Served::Served(const ServingJob& job, const Place& place, const Hardware& hardware)
    : state_(std::make_unique<State>(job, place, hardware)) {
  State& s = *state_;
  s.engine = hardware.specs().find_engine(job.engine, job.engine_version);
  if (s.engine.is_newer(job.engine_version)) {
    s.engine.system_log_sd = std::hypot(s.engine.system_log_sd, s.engine.newer_log_sd);
    s.assumptions.push_back(newer_version_note(s.engine.name, job.engine_version,
                                               s.engine.known_version, s.engine.newer_log_sd));
  }
  if (job.graph_tokens)
    s.engine.graph_tokens =
        static_cast<int>(std::clamp<std::int64_t>(*job.graph_tokens, 0, 1 << 30));
  s.network = network_of(job.network, s.inputs);
  if (job.context) use_context(*job.context, s.network, s.assumptions);
  if (std::string note = precision_note(job); !note.empty())
    s.assumptions.push_back(std::move(note));
  (void)router_of(job.router);
  (void)swaps(job);
  if (place.gpu.empty()) throw InputError("tracecast serve", "no GPU", "--gpu ID");
  s.main = s.make_side(place.gpu, place.gpus.value_or(1));
  if (!job.draft_network.empty()) {
    // The draft runs on one GPU of the replica, a token at a time.
    ServedNetwork draft{network_of(job.draft_network, s.inputs),
                        formats_of(job),
                        {},
                        s.engine.kernels,
                        s.engine.fuses_sums};
    serve::StepPrice price(draft, s.engine, s.main.price->gpu(), hardware.cost(),
                           s.main.cluster->fabric);
    serve::StepBatch one;
    one.decodes = one.words = 1;
    one.keys = 1024;
    s.draft_seconds = price.price(one).gpu_seconds;
  }
}
Served::~Served() = default;
Served::Served(Served&&) noexcept = default;

ServingReport Served::report(const ServingLoad& load, bool keeps_requests) {
  State& s = *state_;
  s.check_load(load);
  if (!load.disaggregate.empty()) s.use_disaggregation(load.disaggregate);
  ServingReport a = s.begin_report(load);
  if (!a.fits) return a;
  if (load.batch)
    s.add_static(a, load);
  else
    s.add_simulated(a, load, keeps_requests);
  return a;
}

}  // namespace tracecast
