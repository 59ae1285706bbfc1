#include <doctest/doctest.h>
#include <sqlite3.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/bad_input/inert.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/onnx_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;

bool is_reported(const std::string& text) { return text.find("owned") != std::string::npos; }

/// A profile of PyTorch's with the name wherever one can stand.
std::string kineto(std::string_view name) {
  const std::string n = raw_json(name);
  const auto event = [](const std::string& category, const std::string& json_name, int begin,
                        int duration, const std::string& arguments) {
    return R"({"ph":"X","cat":")" + category + R"(","name":)" + json_name +
           R"(,"pid":0,"tid":1,"ts":)" + std::to_string(begin) + R"(,"dur":)" +
           std::to_string(duration) + R"(,"args":{)" + arguments + "}},";
  };
  return R"({"deviceProperties":[{"id":0,"name":)" + n + R"(}],"traceEvents":[)" +
         R"({"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":)" + n + "}}," +
         event("cpu_op", n, 0, 90,
               R"("External id":5,"Input Dims":[[2,3]],"Input type":[)" + n +
                   R"(],"Concrete Inputs":[)" + n + "]") +
         event("user_annotation", n, 0, 95, "") +
         event("user_annotation", R"("ProfilerStep#1")", 0, 1000, "") +
         event("cuda_runtime", R"("cudaLaunchKernel")", 10, 5,
               R"("correlation":1,"External id":5)") +
         event("cuda_runtime", n, 20, 5, R"("correlation":2)") +
         event("kernel", n, 100, 50, R"("device":0,"stream":7,"correlation":1,"External id":5)") +
         event("gpu_memcpy", n, 200, 50, R"("device":0,"stream":7,"correlation":2,"bytes":64)") +
         event("kernel", R"("ncclDevKernel_AllReduce_Sum_f32_RING_LL")", 300, 50,
               R"("device":0,"stream":20,"correlation":3,"Collective name":"allreduce","dtype":)" +
                   n + R"(,"In msg nelems":8,"Out msg nelems":8,"Group size":2,)" +
                   R"("Process Group Name":)" + n) +
         R"({"ph":)" + n + R"(,"cat":)" + n + R"(,"name":)" + n + R"(,"ts":1,"dur":)" + n + "}]}";
}

/// Every subcommand of `trace` that reads one recording.
std::string check_trace_inert(const fs::path& file) {
  CAPTURE(file.filename().string());
  std::string all = check_formats_inert({"trace", "summary", file});
  all += check_formats_inert({"trace", "diff", file, file});
  for (const ProcessResult& replay :
       {run_tracecast({"trace", "replay", file, "--as-recorded"}),
        run_tracecast({"trace", "replay", file, "--gpu", "t4", "--from", "v100"}),
        run_tracecast({"trace", "replay", file, "--gpu", "t4"})})
    check_inert(replay, "text");
  check_inert(run_tracecast({"trace", "replay", file, "--as-recorded", "--format", "json"}),
              "json");
  return all;
}

/// What a browser shows of a document: its strings, escapes read, one to a line.
std::string strings_of(const std::string& json) {
  std::string all;
  const auto add = [&](const auto& self, const nlohmann::json& value) -> void {
    if (value.is_string()) {
      for (const char c : value.get<std::string>()) all += c == '\n' ? ' ' : c;
      all += '\n';
    }
    if (value.is_structured())
      for (const nlohmann::json& part : value) self(self, part);
  };
  add(add, nlohmann::json::parse(json));
  return all;
}

TEST_SUITE_BEGIN("bad_input/foreign_text");

TEST_CASE("names in PyTorch profiles command no terminal, no spreadsheet, and break no JSON") {
  const TemporaryFolder folder;
  for (const bool is_utf8 : {true, false}) {
    CAPTURE(is_utf8);
    const fs::path file = folder.path() / "trace.json";
    write_file(file, kineto(std::string(kHostile) + std::string(is_utf8 ? "" : kNoUtf8)));
    CHECK(is_reported(check_trace_inert(file)));
    const ProcessResult chrome =
        run_tracecast({"trace", "convert", file, "--to", "chrome", "-o", "-"});
    CHECK(is_reported(chrome.out));
    check_inert(chrome, "json");
    for (const std::string target : {"perfetto", "chakra", "tracecast"}) {
      CAPTURE(target);
      const fs::path out = folder.path() / ("out." + target);
      const ProcessResult converted =
          run_tracecast({"trace", "convert", file, "--to", target, "-o", out});
      CHECK(converted.exit_code == 0);
      check_inert(converted, "text");
      if (target != "perfetto") CHECK(is_reported(check_formats_inert({"trace", "summary", out})));
    }
    const fs::path replayed = folder.path() / "replayed.json";
    check_inert(run_tracecast({"trace", "replay", file, "--as-recorded", "--trace", replayed}), "");
    check_inert({.exit_code = 0, .out = read_file(replayed, 1 << 20), .err = ""}, "json");
  }
}

TEST_CASE("names in execution traces, nvprof's logs, kernel lists and SQLite command nothing") {
  const TemporaryFolder folder;
  const std::string text(kHostile), line(kHostileLine);
  struct Row {
    const char* file;
    std::string content;
    bool is_shown = true;  ///< the summary names it
  };
  const Row rows[] = {
      {"execution.json",
       R"({"schema":"1.0.1","nodes":[{"name":)" + raw_json(text) +
           R"(,"id":3,"parent":1,"inputs":[],"input_types":[],"input_shapes":[]},)" +
           R"({"name":"b","id":4,"parent":3,"inputs":[]}]})",
       false},
      {"nvprof.csv",
       "==1== NVPROF is profiling process 1, command: " + line +
           "\n==1== Profiling result:\n"
           "\"Start\",\"Duration\",\"Device\",\"Context\",\"Stream\",\"Name\",\"Correlation_ID\"\n"
           "s,ms,,,,,\n1.5,0.25," +
           raw_csv(line + std::string(kNoUtf8) + " (0)") + ",\"1\",\"7\"," +
           raw_csv(line + std::string(kNoUtf8)) + ",105\n"},
      {"sums.csv",
       "==1== Profiling result:\n"
       "\"Type\",\"Time(%)\",\"Time\",\"Calls\",\"Avg\",\"Min\",\"Max\",\"Name\"\n"
       ",%,ms,,us,us,ms,\n\"GPU activities\",75,30,6,5000,1000,9," +
           raw_csv(line) + "\n\"API calls\",75,30,6,5000,1000,9," + raw_csv(line) + "\n"},
      {"metrics.csv",
       "==1== Profiling result:\n"
       "\"Device\",\"Kernel\",\"Invocations\",\"Metric Name\",\"Metric Description\",\"Min\","
       "\"Max\",\"Avg\"\n\"Tesla K80 (0)\"," +
           raw_csv(line) + ",\"8\"," + raw_csv(line) + "," + raw_csv(line) + ",1,2,1.5\n"},
      {"list.csv", "Name,Duration\n" + raw_csv(line + std::string(kNoUtf8)) + ",3000\n"},
  };
  for (const Row& row : rows) {
    write_file(folder.path() / row.file, row.content);
    CAPTURE(std::string(row.file));
    CHECK(is_reported(check_formats_inert({"trace", "summary", folder.path() / row.file})) ==
          row.is_shown);
    check_formats_inert({"trace", "diff", folder.path() / row.file, folder.path() / row.file});
  }

  const fs::path sqlite = folder.path() / "export.sqlite";
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(sqlite.c_str(), &database) == SQLITE_OK);
  char* name = sqlite3_mprintf("'%q'", text.c_str());
  const std::string sql =
      "CREATE TABLE StringIds (id INTEGER, value TEXT);"
      "INSERT INTO StringIds VALUES (1, " +
      std::string(name) +
      ");"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
      "streamId INTEGER, correlationId INTEGER, demangledName INTEGER, shortName INTEGER, gridX "
      "INTEGER, gridY INTEGER, gridZ INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, "
      "registersPerThread INTEGER, staticSharedMemory INTEGER, dynamicSharedMemory INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1000, 3500, 0, 7, 11, 1, 1, 252, 128, 96, "
      "128, 1, 1, 40, 64, 32768);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, globalTid INTEGER, "
      "correlationId INTEGER, nameId INTEGER);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (900, 950, 5, 11, 1);"
      "CREATE TABLE NVTX_EVENTS (start INTEGER, end INTEGER, text TEXT, textId INTEGER, globalTid "
      "INTEGER);"
      "INSERT INTO NVTX_EVENTS VALUES (0, 5000, " +
      std::string(name) +
      ", NULL, 5);"
      "CREATE TABLE TARGET_INFO_GPU (id INTEGER, cuDevice INTEGER, name TEXT, totalMemory INTEGER);"
      "INSERT INTO TARGET_INFO_GPU VALUES (0, 0, " +
      std::string(name) + ", 16);";
  sqlite3_free(name);
  REQUIRE(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
  CHECK(is_reported(check_trace_inert(sqlite)));
}

TEST_CASE("names in ONNX files command nothing, however the network is shown") {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "network.onnx";
  for (const bool is_utf8 : {true, false}) {
    CAPTURE(is_utf8);
    const std::string name = std::string(kHostile) + std::string(is_utf8 ? "" : kNoUtf8);
    onnx::Model model = onnx::small_network();
    // An operator, a tensor and an operator's kind that nobody knows.
    model.nodes[0] = onnx::Message(model.nodes[0]).text(3, name);
    model.nodes[1] = onnx::node("Relu", {"conv"}, {name}).text(3, name + "2");
    model.nodes.insert(model.nodes.begin() + 2, onnx::node(name, {name}, {"relu"}, {}, name));
    write_file(file, model.bytes());
    const std::vector<std::string> predict = {"predict", file, "--gpu", "t4", "--batch", "2"};
    const auto with = [&predict](std::vector<std::string> more) {
      more.insert(more.begin(), predict.begin(), predict.end());
      return more;
    };
    std::string all = check_formats_inert(predict) + check_formats_inert({"networks", file});
    all += check_formats_inert(with({"--explain"}));
    all += check_formats_inert(with({"--gpus", "2", "--machine", "pcie_host_2017"}));
    all += check_formats_inert(with({"--gpus", "2", "--machine", "pcie_host_2017", "--explain"}));
    for (const char* stage : {"graph", "kernels", "program"}) {
      const ProcessResult dump = run_tracecast(with({"--dump", stage}));
      CAPTURE(stage);
      CHECK(dump.exit_code == 0);
      check_inert(dump, "text");
      CHECK(is_reported(dump.out));
    }
    CHECK(is_reported(all));
    const fs::path trace = folder.path() / "trace.json";
    check_inert(run_tracecast(with({"--trace", trace})), "text");
    check_inert({.exit_code = 0, .out = read_file(trace, 1 << 22), .err = ""}, "json");
  }
}

TEST_CASE("names and sources in specs and cluster files command nothing") {
  const TemporaryFolder folder;
  // Control characters are refused where specs are read; what else could command is shown inert.
  const std::string name = textproto_string(kHostileText);
  std::string spec = read_file("hwspecs/gpu/t4.textproto", 1 << 20);
  const auto replace = [&spec](const std::string& piece, const std::string& by) {
    for (std::size_t at = 0; (at = spec.find(piece, at)) != std::string::npos; at += by.size())
      spec.replace(at, piece.size(), by);
  };
  replace("id: \"t4\"", "id: \"invented\"");
  replace("name: \"Tesla T4\"", "name: " + name);
  replace("alias: \"tesla t4\"", "alias: " + textproto_string("=evil owned\u202E"));
  replace("alias: \"t4_16gb\"", "");
  replace("title: \"NVIDIA Turing GPU Architecture Whitepaper WP-09183-001\"", "title: " + name);
  write_file(folder.path() / "invented.textproto", spec);
  CHECK(is_reported(check_formats_inert({"gpus", "--hwspecs", folder.path()})));
  CHECK(is_reported(check_formats_inert({"gpus", "invented", "--hwspecs", folder.path()})));
  CHECK(is_reported(check_formats_inert(
      {"predict", "alexnet", "--gpu", "invented", "--batch", "2", "--hwspecs", folder.path()})));
  check_formats_inert(
      {"colocate", "alexnet:2", "alexnet:2", "--gpu", "invented", "--hwspecs", folder.path()});

  const fs::path cluster = folder.path() / "cluster.txt";
  write_file(cluster, "id: \"c\" group { name: " + name +
                          " count: 2 machine: \"dgx1_v100\" switch: " + name +
                          " } network { link: \"infiniband_edr\" switch { name: " + name + " } }");
  check_formats_inert({"cluster", "--cluster", cluster});
  check_formats_inert({"collectives", "--cluster", cluster});
  check_formats_inert(
      {"predict", "alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "2", "--cluster", cluster});
}

TEST_CASE("ids of jobs, offers, groups and rules of plans and schedules command nothing") {
  const TemporaryFolder folder;
  const std::string name = textproto_string(kHostileText);
  const auto put = [&](const char* file, const std::string& text) {
    write_file(folder.path() / file, text);
    return (folder.path() / file).string();
  };
  const std::string jobs =
      put("jobs", "job { id: " + name + " network: \"alexnet\" batch: 64 samples: 1e8 }");
  const std::string own = put("fleet", "group { name: " + name + " gpu: \"t4\" }");
  const std::string prices =
      put("prices", "id: " + name + " name: " + name + " date: " + name + " offer { id: " + name +
                        " gpu: \"v100\" usd_per_hour: 3 note: " + name + " }");
  CHECK(is_reported(check_formats_inert(
      {"plan", jobs, "--catalogue", prices, "--deadline", "60d", "--worlds", "10"})));
  CHECK(is_reported(
      check_formats_inert({"plan", jobs, "--fleet", own, "--deadline", "600d", "--worlds", "10"})));
  const std::string trace =
      put("jobs.csv", "job_id,submit_s,num_gpu,duration_s\n" + raw_csv(kHostile) + ",0,1,100\n");
  const std::string fleet = put("other", "group { name: " + name + " gpu: " + name + " }");
  const std::string rules = put("rules", "id: " + name + " title: " + name + " source: " + name);
  check_formats_inert({"schedule", trace, "--fleet", fleet, "--rules-file", rules});
  const fs::path per_job = folder.path() / "per_job.csv";
  check_inert(run_tracecast({"schedule", trace, "--fleet", fleet, "--per-job", per_job}), "text");
  check_inert({.exit_code = 0, .out = read_file(per_job, 1 << 20), .err = ""}, "csv");
}

TEST_CASE("pages show foreign names in letters: nothing in them turns the direction of writing") {
  const TemporaryFolder folder;
  const std::string name = textproto_string(kHostileText);
  const auto put = [&](const char* file, const std::string& text) {
    write_file(folder.path() / file, text);
    return (folder.path() / file).string();
  };
  const std::string jobs =
      put("jobs", "job { id: " + name + " network: \"alexnet\" batch: 64 samples: 1e8 }");
  const std::string prices =
      put("prices", "offer { id: " + name + " gpu: \"v100\" usd_per_hour: 3 }");
  const std::string trace =
      put("jobs.csv", "job_id,submit_s,num_gpu,model,duration_s\n" + raw_csv(kHostile) + ",0,1," +
                          raw_csv(kHostile) + ",100\n");
  const std::string fleet = put("fleet", "group { name: " + name + " gpu: " + name + " }");
  const std::string kernels = put("k.json", kineto(std::string(kHostile)));
  onnx::Model model = onnx::small_network();
  model.nodes[0] = onnx::Message(model.nodes[0]).text(3, kHostile);
  const std::string network = put("n.onnx", model.bytes());
  const std::vector<std::string> commands[] = {
      {"plan", jobs, "--catalogue", prices, "--deadline", "60d", "--worlds", "10"},
      {"schedule", trace, "--fleet", fleet},
      {"trace", "summary", kernels},
      {"trace", "replay", kernels, "--gpu", "t4", "--from", "v100"},
      {"predict", network, "--gpu", "t4", "--batch", "2"},
      {"predict", "alexnet", "--gpu", "t4", "--set", "gpu.memory_bandwidth=2x"},
  };
  for (std::vector<std::string> words : commands) {
    const fs::path page = folder.path() / (std::string(kHostileText) + ".html");
    words.insert(words.end(), {"--report", page});
    CAPTURE(words[0]);
    const ProcessResult result = run_tracecast(words);
    if (result.err.find("no page") != std::string::npos) return;
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    // The page's own script may hold what foreign names may not: what it says lies behind it.
    const std::string html = read_file(page, 1 << 26);
    const std::size_t at = html.find("id=\"data\">");
    REQUIRE(at != std::string::npos);
    const std::size_t begin = html.find('{', at);
    check_inert({.exit_code = 0,
                 .out = html.substr(begin, html.find("</script>", begin) - begin),
                 .err = ""},
                "json");
    // Nor as an escape, which a reader of JSON takes for the mark itself.
    const std::string data = html.substr(begin, html.find("</script>", begin) - begin);
    check_inert({.exit_code = 0, .out = strings_of(data), .err = ""}, "text");
  }
}

TEST_CASE("cells of measured tables command nothing, judged or skipped") {
  const TemporaryFolder folder;
  const fs::path table = folder.path() / "table.csv";
  const std::string header =
      "id,source,date,gpu,gpus,nodes,interconnect,framework,framework_name,framework_version,"
      "precision,xla,network,data,phase,batch_per_gpu,samples_per_s,notes\n";
  std::string rows;
  const std::vector<std::string> good = {"r1",         "paper",     "2018-01", "v100_sxm2_16gb",
                                         "1",          "1",         "",        "tensorflow",
                                         "TensorFlow", "1.8",       "fp32",    "no",
                                         "alexnet",    "synthetic", "train",   "64",
                                         "1000",       ""};
  for (std::size_t hostile = 0; hostile < good.size(); ++hostile) {
    if (hostile == 4 || hostile == 5 || hostile == 15 || hostile == 16) continue;  // numbers
    for (std::size_t i = 0; i < good.size(); ++i) {
      rows += i > 0 ? "," : "";
      rows += i == hostile ? raw_csv(std::string(kHostile) + std::string(kNoUtf8)) : good[i];
    }
    rows += '\n';
  }
  write_file(table, header + rows);
  CHECK(is_reported(check_formats_inert({"validate", table})));
  check_inert(run_tracecast({"validate", table, "--only", "gpu=" + std::string(kHostile)}), "text");

  write_file(table, raw_csv(kHostile) + ",b\n1,2\n");
  check_inert(run_tracecast({"validate", table}), "text");

  const fs::path kernels = folder.path() / "gemm.csv";
  std::string gemms =
      "source,gpu,dtype,op,pass,batch,m,n,k,trans_a,trans_b,layout,kernel,time_us,timing,framework,"
      "clock_mhz,tflops,gbps,suspect,split,note\n";
  for (int i = 1; i <= 40; ++i) {
    gemms += raw_csv(kHostile) + ",t4,fp32,gemm,forward,1,512,512," + std::to_string(64 * i) +
             ",N,N,row," + raw_csv(kHostile) + "," + std::to_string(50 * i) + ",events,cuda," +
             ",,,,," + raw_csv(kHostile) + "\n";
  }
  write_file(kernels, gemms + raw_csv(kHostile) + "\n");
  for (const std::string format : {"text", "json"})
    check_inert(run_tracecast({"calibrate", "--from", kernels, "--no-uncertainty", "--list-refused",
                               "--format", format}),
                format);
}

TEST_CASE("what is quoted from flags, file names and files in complaints commands nothing") {
  const TemporaryFolder folder;
  const std::string name = std::string(kHostile) + std::string(kNoUtf8);
  const fs::path odd = folder.path() / name;
  write_file(odd, name);
  const std::vector<std::string> commands[] = {
      {name},
      {"--" + name},
      {"predict", name, "--gpu", "t4"},
      {"predict", "/" + name + ".onnx", "--gpu", "t4"},
      {"predict", odd, "--gpu", "t4"},
      {"predict", "alexnet", "--gpu", name},
      {"predict", "alexnet", "--gpu", "t4", "--batch", name},
      {"predict", "alexnet", "--gpu", "t4", "--framework", name},
      {"predict", "alexnet", "--gpu", "t4", "--set", name},
      {"predict", "alexnet", "--gpu", "t4", "--profile", odd},
      {"predict", "alexnet", "--gpu", "t4", "--hwspecs", folder.path() / name / "absent"},
      {"predict", "alexnet", "--gpu", "t4", "--trace", folder.path() / "absent" / name},
      {"networks", name},
      {"colocate", name, "--gpu", "t4"},
      {"gpus", name},
      {"study", "run", name},
      {"validate", odd},
      {"trace", "summary", odd},
      {"trace", "summary", odd, odd},
      {"trace", "replay", odd, "--as-recorded"},
      {"trace", "diff", odd, odd},
      {"trace", "convert", odd, "--to", name},
      {"calibrate", "--from", odd},
      {"cluster", "--cluster", odd},
  };
  for (const auto& command : commands) {
    const ProcessResult result = run_tracecast(command);
    CAPTURE(command[0]);
    CAPTURE(command[command.size() - 1]);
    CHECK(result.exit_code == 2);
    CHECK(count_lines(result.err) == 1);
    check_inert(result, "text");
  }
  // A recording's own name stands in the answers.
  write_file(odd, kineto("gemm"));
  check_trace_inert(odd);
  const ProcessResult converted =
      run_tracecast({"trace", "convert", odd, "--to", "chrome", "-o", odd.string() + "2"});
  CHECK(converted.exit_code == 0);
  check_inert(converted, "text");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
