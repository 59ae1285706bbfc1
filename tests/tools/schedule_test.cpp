#include <doctest/doctest.h>
#include <fmt/format.h>

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

Json report(Words words) {
  words.insert(words.begin(), "schedule");
  words.insert(words.end(), {"--format", "json"});
  CAPTURE(line_of(words));
  const ProcessResult result = tracecast(words);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return Json::parse(result.out);
}

/// A file in a folder of its own.
class WrittenFile {
 public:
  explicit WrittenFile(std::string_view content, const char* name = "jobs.csv")
      : path_(folder_.path() / name) {
    write_file(path_, content);
  }
  [[nodiscard]] std::string path() const { return path_.string(); }
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::filesystem::path path_;
};

constexpr std::string_view kJobs =
    "job_id,submit_s,duration_s,num_gpu\na,0,100,1\nb,10,50,2\nc,20,30,1\n";

TEST_SUITE_BEGIN("tools/schedule");

TEST_CASE("a trace of three jobs, in text, JSON and CSV, per job and as a Gantt chart") {
  const WrittenFile jobs(kJobs);
  const std::string per_job = (jobs.folder() / "out.csv").string(),
                    gantt = (jobs.folder() / "gantt.json").string();
  const Json doc = report(
      {jobs.path(), "--gpus", "2", "--gpus-per-node", "2", "--per-job", per_job, "--trace", gantt});
  // b waits for both GPUs until a ends at 100 and holds up c: b ends at 150, c at 180.
  CHECK(doc["jobs"] == 3);
  CHECK(doc["policy"] == "fifo");
  CHECK(doc["rules"] == "ideal");
  CHECK(doc["avg_jct_s"].get<double>() == doctest::Approx((100 + 140 + 160) / 3.0));
  CHECK(doc["median_jct_s"].get<double>() == doctest::Approx(140));
  CHECK(doc["makespan_s"].get<double>() == doctest::Approx(180));
  CHECK(doc["utilization"].get<double>() == doctest::Approx((100 + 100 + 30) / (2 * 180.0)));
  CsvReader reader(per_job);
  std::size_t rows = 0;
  while (reader.next()) ++rows;
  CHECK(rows == 3);
  const Json events = Json::parse(read_file(gantt, 1 << 20))["traceEvents"];
  // Names of the type and of two GPUs; a on one GPU, b on two, c on one.
  CHECK(events.size() == 1 + 2 + 1 + 2 + 1);
  CHECK(
      tracecast({"schedule", jobs.path(), "--gpus", "2", "--gpus-per-node", "2", "--policy", "all"})
          .out.find("srtf") != std::string::npos);
}

TEST_CASE("the same call gives the same bytes") {
  const WrittenFile jobs(kJobs);
  const Words words{"schedule", jobs.path(), "--gpus", "2",        "--gpus-per-node",
                    "1",        "--policy",  "all",    "--format", "json"};
  CHECK(tracecast(words).out == tracecast(words).out);
}

TEST_CASE("throughputs are predicted where no table is given, and exported in Gavel's layout") {
  const WrittenFile jobs("job_id,submit_s,num_gpu,model,batch,steps\n0,0,1,resnet50,32,1000\n");
  const std::string out = (jobs.folder() / "rates.json").string();
  const Json doc =
      report({jobs.path(), "--gpus", "1", "--gpu", "v100_sxm2_16gb", "--export-throughputs", out});
  const Json rates = Json::parse(read_file(out, 1 << 20));
  const double rate =
      rates["v100_sxm2_16gb"]["('resnet50 (batch size 32)', 1)"]["null"].get<double>();
  CHECK(doc["avg_jct_s"].get<double>() == doctest::Approx(1000 / rate).epsilon(1e-5));
  CHECK(doc["energy_kwh"].get<double>() > 0);
}

TEST_CASE("data that a job loads is part of its predicted rate, or the file is refused") {
  const std::string head = "job_id,submit_s,num_gpu,model,batch,steps,data\n";
  const auto makespan = [&](const char* data) {
    const WrittenFile jobs(head + "0,0,1,alexnet,128,1000," + data + "\n");
    return report({jobs.path(), "--gpus", "1", "--gpu", "v100_sxm2_16gb"})["makespan_s"]
        .get<double>();
  };
  CHECK(makespan("imagenet") > 1.5 * makespan(""));
  CHECK(makespan("memory") > makespan("synthetic"));
  CHECK(makespan("synthetic") == doctest::Approx(makespan("")));
  const ProcessResult predicted =
      tracecast({"predict", "alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "128", "--data",
                 "imagenet", "--format", "json"});
  CHECK(makespan("imagenet") ==
        doctest::Approx(1000 * Json::parse(predicted.out)["step_time_s"]["value"].get<double>())
            .epsilon(1e-5));
  const WrittenFile rates("model,batch,gpus,steps_per_s\nalexnet,128,1,7\n", "rates.csv");
  struct Row {
    const char* what;
    std::string text;
    Words more;
    const char* named;
  };
  const Row rows[] = {
      {"a duration has its data in it",
       "job_id,submit_s,num_gpu,duration_s,data\na,0,1,9,imagenet\n",
       {},
       "imagenet"},
      {"a measured rate too",
       head + "a,0,1,alexnet,128,9,imagenet\n",
       {"--throughputs", rates.path()},
       "imagenet"},
      {"no such set", head + "a,0,1,alexnet,128,9,imagenot\n", {}, "imagenot"},
      {"text for pictures", head + "a,0,1,alexnet,128,9,text\n", {}, "text"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const WrittenFile jobs(row.text);
    Words words{"schedule", jobs.path(), "--gpus", "1", "--gpu", "v100_sxm2_16gb"};
    words.insert(words.end(), row.more.begin(), row.more.end());
    const ProcessResult result = tracecast(words);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(count_lines(result.err) == 1);
    CHECK(result.err.find(row.named) != std::string::npos);
    CHECK(result.err.find("jobs.csv:2") != std::string::npos);
  }
}

TEST_CASE(
    "columns of predict are heeded, refused where they are wrong, and idle beside a duration") {
  struct Column {
    const char *name, *good, *bad;
  };
  for (const Column& column : {Column{"precision", "amp", "fp7"},
                               {"framework", "tensorflow", "x"},
                               {"optimizer", "adam", "x"},
                               {"image_size", "200", "x"},
                               {"channels_last", "yes", "8"},
                               {"power_limit_w", "200", "9000"},
                               {"recompute", "full", "x"},
                               {"gpu", "", "v100"}}) {
    CAPTURE(column.name);
    const std::string head =
        std::string("job_id,submit_s,num_gpu,model,batch,steps,") + column.name + "\n";
    const std::string row = "0,0,1,resnet18,32,10,";
    const WrittenFile good(head + row + column.good + "\n"), bad(head + row + column.bad + "\n"),
        stated(std::string("job_id,submit_s,num_gpu,duration_s,") + column.name + "\n0,0,1,10," +
               column.bad + "\n");
    const auto run = [](const WrittenFile& file) {
      return tracecast({"schedule", file.path(), "--gpus", "1", "--gpu", "v100_sxm2_16gb"});
    };
    const ProcessResult refused = run(bad);
    CHECK(refused.exit_code == 2);
    CHECK(count_lines(refused.err) == 1);
    CHECK(refused.err.find(column.bad) != std::string::npos);
    CHECK(run(good).exit_code == 0);
    // A job that says how long it takes may be described in any words.
    CHECK(run(stated).exit_code == 0);
  }
}

TEST_CASE("an elastic gang has the sizes that the table knows within its bounds") {
  // Steps of 64 samples, whatever the number of GPUs: 1, 1.9, 3.6 and 6 a second.
  const WrittenFile rates(
      "model,gpu,global_batch,gpus,steps_per_s\nnet,a100,64,1,1\nnet,a100,64,2,1.9\n"
      "net,a100,64,4,3.6\nnet,a100,64,8,6\n",
      "rates.csv");
  const WrittenFile jobs(
      "job_id,submit_s,num_gpu,min_gpus,max_gpus,model,global_batch,steps,resize_s\n"
      "a,0,2,1,4,net,64,3600,10\nb,0,2,,,net,64,1900,\n");
  const Words words{
      jobs.path(),      "--gpus",        "4",          "--gpus-per-node", "4", "--gpu",
      "a100_sxm4_80gb", "--throughputs", rates.path(), "--policy"};
  const auto with = [&](const char* policy) {
    Words all = words;
    all.emplace_back(policy);
    return report(all);
  };
  // Both have two: b ends at 1000, a has 1700 left, starts with four in 10 s, and does 3.6 a
  // second.
  const Json equal = with("equal_gpus");
  CHECK(equal["makespan_s"].get<double>() == doctest::Approx(1010 + 1700 / 3.6));
  CHECK(equal["resizes"] == 1);
  CHECK(equal["overhead_s"].get<double>() == doctest::Approx(10));
  // fifo knows no sizes: two each, to the end.
  const Json fifo = with("fifo");
  CHECK(fifo["makespan_s"].get<double>() == doctest::Approx(3600 / 1.9));
  CHECK(fifo["resizes"] == 0);
  CHECK(fifo["utilization"].get<double>() < equal["utilization"].get<double>());
}

TEST_CASE("rates of an elastic gang are predicted size by size where no table is given") {
  const WrittenFile jobs(
      "job_id,submit_s,num_gpu,min_gpus,max_gpus,model,global_batch,steps\n"
      "a,0,1,1,4,resnet50,64,1000\n");
  const std::string out = (jobs.folder() / "rates.json").string();
  const Json doc =
      report({jobs.path(), "--gpus", "4", "--gpus-per-node", "4", "--gpu", "v100_sxm2_16gb",
              "--policy", "marginal_gain", "--export-throughputs", out});
  const Json rates = Json::parse(read_file(out, 1 << 20))["v100_sxm2_16gb"];
  const auto rate = [&](int gpus) {
    return rates[fmt::format("('resnet50 (batch size 64)', {})", gpus)]["null"].get<double>();
  };
  CHECK(rate(2) > rate(1));
  CHECK(rate(4) > rate(2));
  CHECK(rate(4) < 4 * rate(1));
  CHECK(doc["makespan_s"].get<double>() == doctest::Approx(1000 / rate(4)).epsilon(1e-5));
}

TEST_CASE("a spread gang runs as the table has it") {
  const WrittenFile rates(
      "gpu,job,batch,gpus,placement,steps_per_s\nV100,net,8,2,consolidated,10\n"
      "V100,net,8,2,unconsolidated,4\n",
      "rates.csv");
  const WrittenFile jobs(
      "job_id,submit_s,num_gpu,model,batch,steps\na,0,2,net,8,100\nb,0,2,net,8,100\n"
      "c,0,2,net,8,100\n");
  // Two machines of three: the third gang has the GPU left in each, 25 s where 10 would do.
  const auto with = [&](const char* rules) {
    return report({jobs.path(), "--gpus", "6", "--gpus-per-node", "3", "--gpu", "v100_sxm2_16gb",
                   "--throughputs", rates.path(), "--rules", rules});
  };
  CHECK(with("nearest")["makespan_s"].get<double>() == doctest::Approx(25));
  CHECK(with("nearest")["stagger_starts"] == 1);
  CHECK(with("ideal")["makespan_s"].get<double>() == doctest::Approx(10));
}

TEST_CASE("GPUs fail alone, as the fleet states") {
  const WrittenFile jobs("job_id,submit_s,duration_s,num_gpu\na,0,100000,4\n");
  const WrittenFile fleet(
      "group { gpus: 4 gpu: 'a' } failures { gpu_mtbf_hours: 20 checkpoint_interval_s: 600 "
      "restart_s: 60 source: 'made up' }",
      "fleet.textproto");
  const Json doc = report({jobs.path(), "--fleet", fleet.path()});
  const auto failures = doc["failures"].get<double>();
  CHECK(failures > 0);
  CHECK(doc["makespan_s"].get<double>() > 100000);
  CHECK(doc["makespan_s"].get<double>() <= 100000 + failures * 660);
}

TEST_CASE("what is wrong is said in one line, with exit code 2") {
  struct Row {
    const char* what;
    std::string content;
    Words flags;
  };
  const Words pool{"--gpus", "4", "--gpus-per-node", "4"};
  const Words v100{"--gpus", "4", "--gpus-per-node", "4", "--gpu", "v100_sxm2_16gb"};
  const std::string head = "job_id,submit_s,duration_s,num_gpu\n";
  std::string long_jobs = head;
  for (int j = 0; j < 50; ++j) long_jobs += "a,0,1e11,1\n";
  const std::vector<Row> rows = {
      {"goes back in time", "job_id,submit_s,duration_s,num_gpu\na,10,5,1\nb,9,5,1\n", pool},
      {"no GPUs", "job_id,submit_s,duration_s,num_gpu\na,0,5,0\n", pool},
      {"negative size", "job_id,submit_s,duration_s,num_gpu\na,0,5,-2\n", pool},
      {"no time", "job_id,submit_s,duration_s,num_gpu\na,0,0,1\n", pool},
      {"negative time", "job_id,submit_s,duration_s,num_gpu\na,0,-5,1\n", pool},
      {"an endless job", "job_id,submit_s,duration_s,num_gpu\na,0,1e13,1\n", pool},
      {"too many long jobs", long_jobs, pool},
      {"negative arrival", "job_id,submit_s,duration_s,num_gpu\na,-1,5,1\n", pool},
      {"not a number", "job_id,submit_s,duration_s,num_gpu\na,0,soon,1\n", pool},
      {"a gang larger than the fleet", "job_id,submit_s,duration_s,num_gpu\na,0,5,8\n", pool},
      {"no jobs", "job_id,submit_s,duration_s,num_gpu\n", pool},
      {"another table", "a,b\n1,2\n", pool},
      {"an unknown GPU",
       "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n",
       {"--gpus", "4", "--gpu", "v1000"}},
      {"a type that the fleet lacks", "job_id,submit_s,duration_s,num_gpu,gpu_types\na,0,5,1,t4\n",
       pool},
      {"a model without rates",
       "job_id,submit_s,num_gpu,model,batch,steps\na,0,1,nonet,1,5\n",
       {"--gpus", "1", "--gpu", "v100_sxm2_16gb"}},
      {"deadlines wanted",
       "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n",
       {"--gpus", "4", "--policy", "deadline"}},
      {"prices wanted",
       "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n",
       {"--gpus", "4", "--policy", "cost"}},
      {"pairs wanted",
       "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n",
       {"--gpus", "4", "--policy", "max_min", "--space-sharing"}},
      {"an unknown policy",
       "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n",
       {"--gpus", "4", "--policy", "srft"}},
      {"unknown rules",
       "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n",
       {"--gpus", "4", "--rules", "gavle"}},
      {"machines that do not divide",
       "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n",
       {"--gpus", "10", "--gpus-per-node", "4"}},
      {"limits that fall",
       "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n",
       {"--gpus", "4", "--queue-limits", "5,4"}},
      {"a measured job that is not there",
       "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n",
       {"--gpus", "4", "--measure", "0:9"}},
      {"no fleet", "job_id,submit_s,duration_s,num_gpu\na,0,5,1\n", {}},
      {"least above what is stated",
       "job_id,submit_s,num_gpu,min_gpus,max_gpus,model,batch,steps\na,0,2,3,4,resnet50,8,5\n",
       v100},
      {"most below what is stated",
       "job_id,submit_s,num_gpu,min_gpus,max_gpus,model,batch,steps\na,0,2,1,1,resnet50,8,5\n",
       v100},
      {"no least size",
       "job_id,submit_s,num_gpu,min_gpus,max_gpus,model,batch,steps\na,0,2,0,4,resnet50,8,5\n",
       v100},
      {"a resize that gains time",
       "job_id,submit_s,num_gpu,max_gpus,model,batch,steps,resize_s\na,0,1,2,resnet50,8,5,-1\n",
       v100},
      {"elastic without rates", "job_id,submit_s,duration_s,num_gpu,max_gpus\na,0,5,1,2\n", pool},
      {"no size has a rate but the stated",
       "job_id,submit_s,num_gpu,max_gpus,model,global_batch,steps\na,0,1,2,resnet50,1,5\n", v100},
      {"two batches",
       "job_id,submit_s,num_gpu,model,batch,global_batch,steps\na,0,1,resnet50,8,8,5\n", v100},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const WrittenFile jobs(row.content);
    Words words{"schedule", jobs.path()};
    words.insert(words.end(), row.flags.begin(), row.flags.end());
    const ProcessResult result = tracecast(words);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
    CHECK(result.err.find("expected") != std::string::npos);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
