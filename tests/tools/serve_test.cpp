#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

ProcessResult serve(Words words) {
  words.insert(words.begin(), "serve");
  return tracecast(words);
}
Json report(Words words, int exit_code = 0) {
  words.insert(words.end(), {"--format", "json"});
  CAPTURE(line_of(words));
  const ProcessResult result = serve(words);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == exit_code);
  return Json::parse(result.out);
}
const Words kSmall = {"llama3_8b", "--gpu", "h100", "--input", "500", "--output", "50"};
Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}
double value(const Json& doc, const char* latency, const char* of = "mean") {
  return doc.at(latency).at(of).at("value").get<double>();
}

TEST_SUITE_BEGIN("tools/serve");

TEST_CASE("text keeps to 80 columns; the same words, the same bytes") {
  for (const Words& load : {Words{"--rate", "4/s"}, Words{"--batch", "8"},
                            Words{"--concurrency", "16", "--price-per-hour", "2.5"},
                            Words{"--find", "rate", "--ttft", "500ms", "--tpot", "30ms"}}) {
    const Words words = with(kSmall, load);
    const ProcessResult first = serve(words), second = serve(words);
    REQUIRE(first.exit_code == 0);
    CHECK(first.out == second.out);
    std::size_t columns = 0;
    for (std::size_t at = 0; at < first.out.size();) {
      const std::size_t end = std::min(first.out.find('\n', at), first.out.size());
      // A plus-minus sign is two bytes and one column.
      const auto line = first.out.substr(at, end - at);
      const auto continuation = std::count_if(line.begin(), line.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
      });
      columns = std::max(columns, line.size() - static_cast<std::size_t>(continuation));
      at = end + 1;
    }
    CHECK(columns <= 80);
  }
}

TEST_CASE("without load a request's token takes what one of a batch of one does") {
  const Json alone = report(with(kSmall, {"--rate", "0.01", "--requests", "3", "--warm-up", "0"}));
  const Json batch = report(with(kSmall, {"--batch", "1"}));
  // Every request takes the same; the mean of equal numbers may round.
  CHECK(value(alone, "tpot_ms", "p50") == value(batch, "tpot_ms"));
  CHECK(value(alone, "tpot_ms", "p99") == value(batch, "tpot_ms"));
  // A client sees the server before the engine, too.
  CHECK(value(alone, "ttft_ms") ==
        doctest::Approx(value(batch, "ttft_ms") + alone.at("frontend_ms").get<double>()));
}

TEST_CASE(
    "an answer has every key, intervals around values, and power between idle and the limit") {
  const Json a = report(with(kSmall, {"--rate", "10"}));
  for (const char* latency : {"ttft_ms", "tpot_ms", "e2e_ms"}) {
    for (const char* of : {"mean", "p50", "p90", "p99"}) {
      const Json& f = a.at(latency).at(of);
      CHECK(f.at("low").get<double>() <= f.at("value").get<double>());
      CHECK(f.at("high").get<double>() >= f.at("value").get<double>());
      CHECK(f.at("simulation_half_width").get<double>() >= 0);
    }
    CHECK(value(a, latency, "p50") <= value(a, latency, "p90"));
    CHECK(value(a, latency, "p90") <= value(a, latency, "p99"));
  }
  CHECK(a.at("power_w").at("avg").get<double>() > a.at("power_w").at("idle").get<double>());
  CHECK(a.at("power_w").at("avg").get<double>() <= 700);
  CHECK(a.at("tokens_per_s_per_gpu").get<double>() > 0);
  CHECK(a.at("kv_tokens").get<std::int64_t>() > 0);
  CHECK(a.at("cost_usd_per_million_tokens").is_null());
  double shares = 0;
  for (const Json& part : a.at("breakdown")) shares += part.at("share").get<double>();
  CHECK(shares == doctest::Approx(1));
  const Json priced = report(with(kSmall, {"--rate", "10", "--price-per-hour", "3.6"}));
  // 0.001 USD a second over so many tokens a second.
  CHECK(priced.at("cost_usd_per_million_tokens").get<double>() ==
        doctest::Approx(1e3 / priced.at("tokens_per_s").get<double>()));
}

TEST_CASE("no format's arithmetic is above its own roof") {
  for (const char* gpu : {"rtx5090", "l40s", "a100", "h100", "b300"}) {
    for (const char* precision : {"bf16", "fp8", "nvfp4", "int8", "int4_wo"}) {
      CAPTURE(gpu);
      CAPTURE(precision);
      const Json a = report({"llama3_1b", "--gpu", gpu, "--precision", precision, "--concurrency",
                             "128", "--input", "1000", "--output", "20", "--no-intervals"});
      CHECK(a.at("model_flops_utilization") > 0.05);
      CHECK(a.at("model_flops_utilization") < 1);
    }
  }
}

TEST_CASE("what an answer rests on is reported, of a named network, too") {
  const Json a = report(with(kSmall, {"--rate", "1/s", "--requests", "20"}));
  std::vector<std::string> seen;
  for (const Json& input : a.at("inputs")) {
    seen.push_back(input.at("kind").get<std::string>() + ' ' + input.at("name").get<std::string>());
    CHECK(input.at("sha256").get<std::string>().size() == 64);
  }
  CHECK(seen == std::vector<std::string>{"network zoo:llama3_8b", "gpu h100_sxm5_80gb",
                                         "engine " + a.at("engine").get<std::string>(),
                                         "cost_profile default"});
}

TEST_CASE("a recorded load is replayed, row by row") {
  const TemporaryFolder folder;
  const std::string trace = (folder.path() / "requests.csv").string(),
                    out = (folder.path() / "out.csv").string();
  write_file(trace, "arrival_s,input_tokens,output_tokens\n0,100,20\n0.5,2000,1\n0.5,300,40\n");
  const Json a = report({"llama3_8b", "--gpu", "h100", "--trace", trace, "--per-request", out});
  CHECK(a.at("requests") == 3);
  CsvReader rows{out};
  std::size_t count = 0;
  while (rows.next()) ++count;
  CHECK(count == 3);
  CHECK(a.at("inputs").at(0).at("kind") == "requests");
  // A clock that counts from 1970 is no idle time before the first request.
  write_file(trace,
             "arrival_s,input_tokens,output_tokens\n1.7e9,100,20\n1700000000.5,2000,1\n"
             "1700000000.5,300,40\n");
  const Json dated = report({"llama3_8b", "--gpu", "h100", "--trace", trace});
  for (const char* figure : {"tokens_per_s", "utilization", "energy_j_per_token"})
    CHECK(dated.at(figure).get<double>() == doctest::Approx(a.at(figure).get<double>()));
}

TEST_CASE("the load that is found stays within its limits, and a tenth more does not") {
  const Json found = report(with(kSmall, {"--find", "rate", "--ttft", "200ms", "--tpot", "20ms"}));
  const double rate = found.at("rate_per_s").get<double>();
  REQUIRE(rate > 0);
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "out.csv").string();
  report(with(kSmall,
              {"--find", "rate", "--ttft", "200ms", "--requests", "60", "--per-request", out}));
  CsvReader rows{out};
  std::size_t count = 0;
  while (rows.next()) ++count;
  CHECK(count == 60);
  const auto meets = [&](double at) {
    const Json a = report(with(kSmall, {"--rate", std::to_string(at), "--no-intervals"}));
    return value(a, "ttft_ms", "p90") <= 200 && value(a, "tpot_ms", "p90") <= 20;
  };
  CHECK(meets(rate));
  CHECK_FALSE(meets(rate * 1.1));
  // What nothing meets is answered with no.
  CHECK(serve(with(kSmall, {"--find", "rate", "--tpot", "0.1ms"})).exit_code == 1);
}

TEST_CASE("a rate that is found is none that only a thousand requests bear") {
  // Where all wait, the GPU completes what a closed loop of many requests does; 10 seconds' limit
  // is longer than the simulated load.
  const Json full = report(with(kSmall, {"--concurrency", "512", "--no-intervals"}));
  const double most = full.at("tokens_per_s").get<double>() / 50;
  for (const Words& limit : {Words{"--ttft", "10s"}, Words{"--tpot", "500ms"}}) {
    CAPTURE(limit.front());
    const Json found = report(with(with(kSmall, {"--find", "rate", "--no-intervals"}), limit));
    CHECK(found.at("rate_per_s").get<double>() < 1.04 * most);
    CHECK(found.at("rate_per_s").get<double>() > 0.9 * most);
  }
}

TEST_CASE("a rate above what is completed is called so") {
  const Json found = report(with(kSmall, {"--find", "rate", "--tpot", "500ms", "--no-intervals"}));
  const double most = found.at("rate_per_s").get<double>();
  const auto at = [&](double rate) {
    return report(with(kSmall, {"--rate", std::to_string(rate), "--no-intervals"}));
  };
  CHECK(at(0.8 * most).at("overloaded_at_requests_per_s").is_null());
  const Json over = at(1.2 * most);
  CHECK(over.at("limited_by") == "queue");
  CHECK(over.at("overloaded_at_requests_per_s").get<double>() ==
        doctest::Approx(most).epsilon(0.05));
  CHECK(serve(with(kSmall, {"--rate", "100000"})).out.find("overloaded ") != std::string::npos);
}

TEST_CASE("a closed loop is asked for long enough that its start does not weigh in") {
  const Words many = with(kSmall, {"--concurrency", "512", "--no-intervals"});
  const Json usual = report(many), longer = report(with(many, {"--requests", "40000"}));
  for (const char* latency : {"ttft_ms", "tpot_ms"}) {
    CHECK(value(usual, latency) == doctest::Approx(value(longer, latency)).epsilon(0.05));
    CHECK(value(usual, latency, "p90") ==
          doctest::Approx(value(longer, latency, "p90")).epsilon(0.05));
  }
  const Json brief = report(with(many, {"--requests", "1000"}));
  CHECK(brief.at("assumptions").dump().find("the start weighs in") != std::string::npos);
  CHECK(usual.at("assumptions").dump().find("the start weighs in") == std::string::npos);
}

TEST_CASE("a sweep's front: no point of it is beaten in both figures") {
  const Json doc = report(
      {"llama3_8b", "--gpu", "h100", "--gpus", "2", "--input", "500", "--output", "50", "--sweep"});
  const Json& points = doc.at("points");
  CHECK(points.size() == 22);
  for (const Json& a : points) {
    if (!a.value("best", false)) continue;
    for (const Json& b : points) {
      CHECK_FALSE((b.at("tokens_per_s_per_gpu") > a.at("tokens_per_s_per_gpu") &&
                   b.at("tokens_per_s_per_user") > a.at("tokens_per_s_per_user")));
    }
  }
}

TEST_CASE("what does not fit is answered with no and the smallest change") {
  const Json a = report({"llama3_70b", "--gpu", "h100", "--gpus", "1", "--batch", "1"}, 1);
  CHECK(a.at("memory").at("fits") == false);
  CHECK(a.at("change") == "--tp 2");
  const ProcessResult text = serve({"llama3_70b", "--gpu", "h100", "--batch", "1"});
  CHECK(text.exit_code == 1);
  CHECK(text.out.find("--tp 2") != std::string::npos);
}

TEST_CASE("a checkpoint stored in 8 bits is not called 16 without a word") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "config.json").string();
  Json config = Json::parse(read_file("tests/models/language/configs/llama3_8b.json", 1 << 20));
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  write_file(path, config.dump());
  const auto says = [&](const Words& more) {
    const Words words = with({path, "--gpu", "h100", "--batch", "1"}, more);
    return serve(words).out.find("--precision fp8_block") != std::string::npos;
  };
  CHECK(says({}));
  CHECK_FALSE(says({"--precision", "fp8_block"}));
}

TEST_CASE("phases on GPUs of two kinds") {
  const Json a =
      report(with(kSmall, {"--rate", "5", "--disaggregate", "prefill=1xh100,decode=2xh200"}));
  CHECK(a.at("gpus") == 3);
  CHECK(value(a, "ttft_ms") < value(a, "e2e_ms"));
}

TEST_CASE("GPUs that read prompts count in what all GPUs do") {
  // Long prompts and few answers: all of the arithmetic is that of the prompts.
  const Words job = {"llama3_8b", "--gpu",  "h100", "--input",    "4000", "--output",
                     "20",        "--rate", "6",    "--requests", "200"};
  const Json apart = report(with(job, {"--disaggregate", "prefill=1xh100,decode=1xh100"}));
  const Json both = report(job);
  const double mfu = apart.at("model_flops_utilization"), busy = apart.at("utilization");
  const double one_mfu = both.at("model_flops_utilization"), one_busy = both.at("utilization");
  // The same arithmetic on twice as many GPUs.
  CHECK(mfu * busy == doctest::Approx(one_mfu * one_busy / 2).epsilon(0.15));
  CHECK(mfu > 0.2);
  double prompts = 0, all = 0;
  for (const Json& part : apart.at("breakdown")) {
    all += part.at("share").get<double>();
    if (part.at("class") == "prompt attention") prompts = part.at("share");
  }
  CHECK(all == doctest::Approx(1));
  CHECK(prompts > 0.01);
  // Both pools draw their power.
  const double active_idle = apart.at("power_w").at("idle");
  CHECK(apart.at("power_w").at("avg").get<double>() > active_idle * 1.1);
}

TEST_CASE(
    "an engine's version that is newer than what is known is said, and widens the intervals") {
  struct Row {
    const char *engine, *newer, *known;
  };
  for (const Row& row :
       {Row{"vllm", "0.33", "0.17"}, Row{"sglang", "0.9.1", "0.4"}, Row{"trtllm", "2.0", "1.0"}}) {
    CAPTURE(row.engine);
    const Words job = with(kSmall, {"--batch", "8", "--engine", row.engine});
    const Json newest = report(job), known = report(with(job, {"--engine-version", row.known})),
               newer = report(with(job, {"--engine-version", row.newer}));
    CHECK(newest.at("e2e_ms") == known.at("e2e_ms"));
    CHECK(value(newer, "e2e_ms") == value(known, "e2e_ms"));
    const auto width = [](const Json& a) {
      const Json& of = a.at("e2e_ms").at("mean");
      return of.at("high").get<double>() / of.at("low").get<double>();
    };
    CHECK(width(newer) > width(known) * 1.05);
    const std::string notes = newer.at("assumptions").dump();
    CHECK(notes.find(std::string(row.newer) + " is newer than " + row.known) != std::string::npos);
    CHECK(notes.find("guessed") != std::string::npos);
    CHECK(known.at("assumptions").dump().find("newer") == std::string::npos);
  }
  CHECK(serve(with(kSmall, {"--batch", "8", "--engine-version", "0.33"})).out.find("0.17") !=
        std::string::npos);
  const ProcessResult word = serve(with(kSmall, {"--batch", "8", "--engine-version", "latest"}));
  CHECK(word.exit_code == 2);
  CHECK(word.err.find("--engine-version") != std::string::npos);
}

TEST_CASE("vLLM takes steps of 2,048 tokens on A100, whatever its memory") {
  const Words load = {"--input", "8000", "--output", "20", "--rate", "1", "--requests", "60"};
  const auto on = [&](const Words& more) {
    return report(with(with({"llama3_8b", "--gpu", "a100_80gb"}, load), more));
  };
  const Json own = on({}), small = on({"--max-batched-tokens", "2048", "--max-sequences", "256"}),
             large = on({"--max-batched-tokens", "8192", "--max-sequences", "1024"});
  CHECK(own.at("ttft_ms") == small.at("ttft_ms"));
  CHECK(own.at("kv_tokens") == small.at("kv_tokens"));
  CHECK(own.at("steps") != large.at("steps"));
}

TEST_CASE("input that cannot be is refused in one line") {
  const TemporaryFolder folder;
  const std::string backwards = (folder.path() / "backwards.csv").string(),
                    headless = (folder.path() / "headless.csv").string(),
                    negative = (folder.path() / "negative.csv").string(),
                    late = (folder.path() / "late.csv").string(),
                    lengthy = (folder.path() / "lengthy.csv").string();
  write_file(backwards, "arrival_s,input_tokens,output_tokens\n1,10,10\n0.5,10,10\n");
  write_file(late, "arrival_s,input_tokens,output_tokens\n1.7e18,10,10\n");
  write_file(headless, "time,in,out\n1,10,10\n");
  write_file(lengthy, "arrival_s,input_tokens,output_tokens\n1,10,10\n2,4000,97\n");
  write_file(negative, "arrival_s,input_tokens,output_tokens\n1,-10,10\n");
  const Words base = {"llama3_8b", "--gpu", "h100"};
  struct Row {
    const char* what;
    Words words;
    const char* says;
  };
  const Row rows[] = {
      {"no load", base, "--rate"},
      {"two loads", with(base, {"--rate", "1", "--batch", "1"}), "several loads"},
      {"a negative rate", with(base, {"--rate", "-1"}), "--rate"},
      {"a rate of no unit", with(base, {"--rate", "1/d"}), "--rate"},
      {"an unknown network", {"llama9", "--gpu", "h100", "--batch", "1"}, "llama"},
      {"a network of images", {"resnet50", "--gpu", "h100", "--batch", "1"}, "resnet50"},
      {"an unknown engine", with(base, {"--batch", "1", "--engine", "vlm"}), "vllm"},
      {"an unknown precision", with(base, {"--batch", "1", "--precision", "fp7"}), "fp8"},
      {"an unknown cache", with(base, {"--batch", "1", "--kv-precision", "fp4"}), "fp8"},
      {"no GPU", {"llama3_8b", "--batch", "1"}, "--gpu"},
      {"heads that do not divide", with(base, {"--batch", "1", "--gpus", "3", "--tp", "3"}),
       "heads"},
      {"GPUs that do not divide", with(base, {"--batch", "1", "--gpus", "3", "--tp", "2"}),
       "multiple"},
      {"experts of none", with(base, {"--batch", "1", "--gpus", "2", "--ep", "2"}), "experts"},
      {"arrivals out of order", with(base, {"--trace", backwards}), "backwards.csv:3"},
      {"arrivals in nanoseconds", with(base, {"--trace", late}), "late.csv:2"},
      {"columns missing", with(base, {"--trace", headless}), "arrival_s"},
      {"negative lengths", with(base, {"--trace", negative}), "negative.csv:2"},
      {"find without limits", with(base, {"--find", "rate"}), "--ttft"},
      {"a limit that is none", with(base, {"--find", "rate", "--ttft", "soon"}), "--ttft"},
      {"a preemption of no kind", with(base, {"--rate", "1", "--preemption", "swop"}), "swap"},
      {"a router of no kind", with(base, {"--batch", "1", "--router", "prefx"}), "prefix"},
      {"lengths over the context",
       {"llama2_7b", "--gpu", "h100", "--batch", "1", "--input", "4000", "--output", "97"},
       "context of 4096"},
      {"a trace over the context",
       {"llama2_7b", "--gpu", "h100", "--trace", lengthy},
       "request 1: found 4097 tokens"},
      {"a rate found over the context",
       {"llama2_7b", "--gpu", "h100", "--find", "rate", "--tpot", "50", "--input", "4097"},
       "context of 4096"},
      {"positions that were not learned",
       {"tests/models/language/configs/opt_1.3b.json", "--gpu", "h100", "--batch", "1", "--context",
        "4096"},
       "2048 positions"},
      {"more rows than are kept",
       with(base, {"--rate", "1", "--requests", "4000001", "--per-request", "out.csv"}),
       "--per-request"},
      {"phases of no kind", with(base, {"--rate", "1", "--disaggregate", "prefill=h100"}),
       "--disaggregate"},
      {"phases in a closed loop",
       with(base, {"--concurrency", "2", "--disaggregate", "prefill=1xh100,decode=1xh100"}),
       "--disaggregate"},
      {"phases of one batch",
       with(base, {"--batch", "2", "--disaggregate", "prefill=1xh100,decode=1xh100"}),
       "--disaggregate"},
      {"limits of a load that is given", with(base, {"--rate", "1", "--ttft", "300ms"}), "--ttft"},
      {"a draft of one batch", with(base, {"--batch", "2", "--draft-tokens", "3"}),
       "--draft-tokens"},
      {"a draft's acceptance alone", with(base, {"--rate", "1", "--draft-acceptance", "0.7"}),
       "--draft-tokens"},
      {"lengths beside recorded ones", with(base, {"--trace", lengthy, "--input", "10"}),
       "--input"},
      {"ranks of a sweep over ranks", with(base, {"--sweep", "--tp", "1"}), "--tp"},
      {"a price that no line of a sweep has", with(base, {"--sweep", "--price-per-hour", "2"}),
       "--price-per-hour"},
      {"arrivals in a closed loop", with(base, {"--concurrency", "2", "--arrivals", "even"}),
       "--arrivals"},
      {"room for what is not swapped", with(base, {"--rate", "1", "--swap-gib", "8"}),
       "--preemption swap"},
      {"the place of no measured run", with(base, {"--rate", "1", "--measured-gpu", "l40s"}),
       "--measured"},
      {"a share that is no number", with(base, {"--rate", "1", "--memory-share", "nan"}),
       "--memory-share"},
      {"an endless price", with(base, {"--rate", "1", "--price-per-hour", "inf"}),
       "a number above 0"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const ProcessResult result = serve(row.words);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.err.find(row.says) != std::string::npos);
    CHECK(result.out.empty());
  }
}

/// What `vllm bench serve --save-result` writes of a closed loop.
std::string vllm_result(double ttft_ms, double tpot_ms) {
  return Json{{"model_id", "meta-llama/Llama-3.1-8B"},
              {"num_prompts", 200},
              {"completed", 200},
              {"request_rate", "inf"},
              {"max_concurrency", 16},
              {"total_input_tokens", 200 * 1000},
              {"total_output_tokens", 200 * 100},
              {"mean_ttft_ms", ttft_ms},
              {"median_ttft_ms", ttft_ms},
              {"mean_tpot_ms", tpot_ms},
              {"output_throughput", 1000.0}}
      .dump();
}

TEST_CASE("a measured run is compared, and corrects its own load's answer to what was measured") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "run.json").string();
  const Words place = {"llama3_8b", "--gpu", "h100"};
  write_file(path, vllm_result(1, 1));
  const Words asked = with(place, {"--measured", path});
  const Json first = report(asked).at("measured");
  CHECK(first.at("tool") == "vllm bench serve");
  CHECK(first.at("rows").size() == 4);
  const auto predicted = [&](const char* metric) {
    for (const Json& row : first.at("rows"))
      if (row.at("metric") == metric) return row.at("predicted").at("value").get<double>();
    return 0.0;
  };
  const double ttft = 1.3 * predicted("ttft_ms"), tpot = 1.2 * predicted("tpot_ms");
  write_file(path, vllm_result(ttft, tpot));
  const Json doc = report(asked),
             plain = report(with(place, {"--concurrency", "16", "--input", "1000", "--output",
                                         "100", "--requests", "200", "--warm-up", "0"}));
  const Json& m = doc.at("measured");
  CHECK(m.at("met") == true);
  // What is compared is the prediction of the run's own load: its lengths, its requests in flight.
  CHECK(predicted("tpot_ms") == doctest::Approx(value(plain, "tpot_ms")).epsilon(1e-6));
  CHECK(m.at("token_step_factor").get<double>() == doctest::Approx(1.2).epsilon(0.1));
  CHECK(m.at("prompt_step_factor").get<double>() > 1.1);
  // The answer lies between the prediction and the run, nearer to the run; its interval is
  // narrower.
  const double corrected = value(doc, "tpot_ms");
  CHECK(corrected > predicted("tpot_ms") * 1.08);
  CHECK(corrected < tpot * 1.001);
  const auto width = [](const Json& d) {
    const Json& mean = d.at("tpot_ms").at("mean");
    return (mean.at("high").get<double>() - mean.at("low").get<double>()) /
           mean.at("value").get<double>();
  };
  CHECK(width(doc) < 0.8 * width(plain));
  // Elsewhere less of it holds.
  const Json there = report({"llama3_8b", "--gpu", "a100", "--measured", path, "--measured-gpu",
                             "h100", "--concurrency", "16", "--input", "1000", "--output", "100"});
  const Json bare = report(
      {"llama3_8b", "--gpu", "a100", "--concurrency", "16", "--input", "1000", "--output", "100"});
  const double gain = value(there, "tpot_ms") / value(bare, "tpot_ms");
  CHECK(gain > 1.02);
  CHECK(gain < corrected / predicted("tpot_ms"));
  CHECK(there.at("measured").at("same_place") == false);
}

TEST_CASE("genai-perf's results are read as well, whatever the unit") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "profile_export_genai_perf.json").string();
  const auto metric = [](const char* unit, double avg) {
    return Json{{"unit", unit}, {"avg", avg}};
  };
  write_file(path, Json{{"time_to_first_token", metric("ms", 80)},
                        {"inter_token_latency", metric("us", 9000)},
                        {"request_latency", metric("s", 0.971)},
                        {"output_token_throughput", metric("tokens/sec", 800)},
                        {"input_sequence_length", metric("tokens", 500)},
                        {"output_sequence_length", metric("tokens", 100)},
                        {"request_count", metric("requests", 100)},
                        {"input_config", {{"perf_analyzer", {{"stimulus", {{"concurrency", 8}}}}}}}}
                       .dump());
  const Json doc = report({"llama3_8b", "--gpu", "h100", "--measured", path});
  const Json& m = doc.at("measured");
  CHECK(m.at("tool") == "genai-perf");
  CHECK(m.at("load") == "8 in flight, 500 tokens in, 100 out");
  for (const Json& row : m.at("rows")) {
    if (row.at("metric") == "tpot_ms")
      CHECK(row.at("measured").get<double>() == doctest::Approx(9));
    if (row.at("metric") == "e2e_ms")
      CHECK(row.at("measured").get<double>() == doctest::Approx(971));
  }
}

TEST_CASE("results that cannot be used are refused in one line") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "run.json").string();
  struct Row {
    const char *what, *text, *says;
  };
  const Row rows[] = {
      {"no JSON", "{", "no JSON"},
      {"another tool's", R"({"latency": 3})", "mean_ttft_ms"},
      {"words for numbers", R"({"mean_ttft_ms": "fast"})", "mean_ttft_ms"},
      {"negative times", R"({"mean_ttft_ms": -3})", "a number from 0"},
      {"no load", R"({"mean_ttft_ms": 3, "completed": 0, "total_input_tokens": 4})", "lengths"},
      {"no figures", R"({"mean_ttft_ms": 0, "mean_tpot_ms": 0})", "no mean latency"},
      {"a network that is no name", R"({"mean_ttft_ms": 3, "model_id": 7})", "model_id: found 7"},
      {"a unit that is none", R"({"time_to_first_token": {"unit": 1, "avg": 1}})", "unit: found 1"},
      {"a unit of its own", R"({"time_to_first_token": {"unit": "h", "avg": 1}})", "unit"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    write_file(path, row.text);
    const ProcessResult result = serve({"llama3_8b", "--gpu", "h100", "--measured", path});
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.err.find(row.says) != std::string::npos);
  }
}

TEST_CASE("weights in 8 bits on a board that multiplies none are read as such and widened") {
  const auto of = [](const char* precision) {
    return report({"llama3_8b", "--gpu", "a100", "--input", "2000", "--output", "50", "--batch",
                   "4", "--precision", precision});
  };
  const Json wide = of("bf16"), low_precision = of("fp8");
  // The same GEMMs for prompts, half of the bytes for tokens.
  CHECK(value(low_precision, "ttft_ms") == doctest::Approx(value(wide, "ttft_ms")).epsilon(0.25));
  CHECK(value(low_precision, "tpot_ms") < 0.8 * value(wide, "tpot_ms"));
  CHECK(low_precision.at("assumptions").dump().find("weights alone in 8 bits") !=
        std::string::npos);
}

TEST_CASE("swapping and prefix-aware routing are words of the command") {
  const Json swapped =
      report({"llama3_8b", "--gpu", "l40s", "--input", "4000", "--output", "1500", "--concurrency",
              "64", "--requests", "128", "--preemption", "swap", "--swap-gib", "64"});
  CHECK(swapped.at("preemptions").get<int>() > 0);
  CHECK(swapped.at("swapped").get<int>() > 0);
  const Words shared = {"llama3_8b", "--gpu",           "h100", "--gpus",     "4",  "--tp",
                        "1",         "--input",         "4000", "--output",   "20", "--rate",
                        "20",        "--shared-prefix", "3500", "--prefixes", "200"};
  const double round = value(report(shared), "ttft_ms");
  CHECK(value(report(with(shared, {"--router", "prefix_aware"})), "ttft_ms") < round);
  CHECK(value(report(with(shared, {"--router", "prefix"})), "ttft_ms") < round);
}

TEST_CASE("lengths over the context of a file's network are refused") {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "config.json").string();
  write_file(
      path,
      R"({"model_type":"llama","hidden_size":1024,"num_hidden_layers":4,"num_attention_heads":8,
    "num_key_value_heads":8,"intermediate_size":4096,"vocab_size":32000,"max_position_embeddings":2048})");
  CHECK(serve({path, "--gpu", "h100", "--batch", "1", "--input", "1000", "--output", "100"})
            .exit_code == 0);
  const ProcessResult over =
      serve({path, "--gpu", "h100", "--batch", "1", "--input", "2000", "--output", "100"});
  CHECK(over.exit_code == 2);
  CHECK(over.err.find("2048") != std::string::npos);
}

TEST_CASE("a context that is asked for allows longer texts, says so, and changes nothing else") {
  const Words longest = {"llama2_7b", "--gpu", "h100",     "--batch", "1",
                         "--input",   "4000",  "--output", "96"};
  const Json usual = report(longest), asked = report(with(longest, {"--context", "8192"}));
  CHECK(usual.at("assumptions").size() + 1 == asked.at("assumptions").size());
  CHECK(usual.at("e2e_ms") == asked.at("e2e_ms"));
  Words longer = with(longest, {"--context", "8192"});
  longer[6] = "8000";
  CHECK(serve(longer).exit_code == 0);
  CHECK(serve(with(longest, {"--context", "4095"})).exit_code == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
