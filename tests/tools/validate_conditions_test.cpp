#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/file.hpp"
#include "tests/support/onnx_bytes.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

using Json = nlohmann::json;

TEST_SUITE_BEGIN("tools/validate_conditions");

/// What `validate` answers of a table of that name.
Json validated(const std::string& content, const std::string& file = "mine.csv") {
  const TemporaryFolder folder;
  const std::string path = folder.path() / file;
  write_file(path, content);
  const ProcessResult result = tracecast({"validate", path, "--format", "json"});
  CAPTURE(result.err);
  REQUIRE(result.exit_code != 2);
  return Json::parse(result.out);
}

/// Samples per second that `predict` answers.
double predicted(Words words) {
  words.insert(words.begin(), "predict");
  words.insert(words.end(), {"--format", "json"});
  const ProcessResult result = tracecast(words);
  CAPTURE(line_of(words));
  CAPTURE(result.err);
  REQUIRE(result.exit_code != 2);  // 1: predicted, as if it fitted
  return Json::parse(result.out)["throughput_samples_per_s"]["value"];
}

/// A row of each value in one more column, after one where it is empty.
Json with_column(const std::string& network, const std::string& phase, const std::string& column,
                 const std::vector<std::string>& values) {
  std::string table =
      "gpu,gpus,framework,precision,network,phase,batch_per_gpu,samples_per_s," + column + "\n";
  const std::string row = "rtx3090,1,pytorch,amp," + network + "," + phase + ",64,1000,";
  table += row + "\n";
  for (const std::string& value : values) table += row + value + "\n";
  return validated(table)["rows"];
}

TEST_CASE("a row is predicted as its columns say that it ran") {
  struct Row {
    const char* network;
    const char* column;
    const char* value;
    Words flags;
    bool differs;  ///< from the row that does not say it
  };
  const Row rows[] = {
      {"resnet50", "image_size", "448", {"--image-size", "448"}, true},
      {"resnet50", "image_size", "320x320", {"--image-size", "320"}, true},
      {"resnet50", "image_size", "224", {}, false},
      {"bert_base", "seq_len", "384", {"--seq-len", "384"}, true},
      {"bert_base", "seq_len", "384.0", {"--seq-len", "384"}, true},
      {"resnet50", "channels_last", "yes", {"--channels-last"}, true},
      {"resnet50", "channels_last", "no", {}, false},
      {"vit_b_16", "compiled", "inductor", {"--framework", "pytorch_compile"}, true},
      {"vit_b_16", "compiled", "no", {}, false},
      {"resnet50", "framework_version", "1.5", {"--framework-version", "1.5"}, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.column);
    CAPTURE(row.value);
    for (const char* phase : {"infer", "train"}) {
      CAPTURE(phase);
      const Json reports = with_column(row.network, phase, row.column, {row.value});
      REQUIRE(reports.size() == 2);
      CAPTURE(reports[1]["skipped"].dump());
      REQUIRE(reports[1]["predicted"].is_number());
      Words flags = {row.network, "--gpu", "rtx3090", "--precision", "amp",
                     "--batch",   "64",    "--phase", phase};
      flags.insert(flags.end(), row.flags.begin(), row.flags.end());
      CHECK(reports[1]["predicted"].get<double>() == doctest::Approx(predicted(flags)));
      CHECK((reports[1]["predicted"] != reports[0]["predicted"]) == row.differs);
    }
  }
}

TEST_CASE("rows that differ in one of these columns alone are predicted apart") {
  const Json sizes = with_column("resnet50", "infer", "image_size", {"192", "256", "192"});
  CHECK(sizes[1]["predicted"] > sizes[0]["predicted"]);
  CHECK(sizes[2]["predicted"] < sizes[0]["predicted"]);
  CHECK(sizes[3]["predicted"] == sizes[1]["predicted"]);
}

TEST_CASE("what cannot be asked is refused with the column, never predicted as something else") {
  struct Row {
    const char* network;
    const char* column;
    std::vector<std::string> values;
  };
  const Row rows[] = {
      {"resnet50", "image_size", {"448x608", "large", "-3", "0", "1e9"}},
      {"bert_base", "image_size", {"224"}},
      {"resnet50", "seq_len", {"128"}},
      {"bert_base", "seq_len", {"many", "-1", "0", "12.5", "4096", "1e300"}},
      {"resnet50", "channels_last", {"maybe", "nhwc"}},
      {"resnet50", "compiled", {"yes", "nvfuser", "xla"}},
  };
  for (const Row& row : rows) {
    const Json reports = with_column(row.network, "infer", row.column, row.values);
    REQUIRE(reports.size() == row.values.size() + 1);
    CHECK(reports[0]["predicted"].is_number());
    for (std::size_t i = 1; i < reports.size(); ++i) {
      CAPTURE(row.column);
      CAPTURE(row.values[i - 1]);
      CAPTURE(reports[i].dump());
      CHECK(reports[i]["predicted"].is_null());
      REQUIRE(reports[i]["skipped"].is_string());
      const std::string reason = reports[i]["skipped"];
      std::string as_flag = row.column;
      for (char& c : as_flag) c = c == '_' ? '-' : c;
      const bool names_it =
          reason.find(row.column) != reason.npos || reason.find(as_flag) != reason.npos ||
          reason.find("image size") != reason.npos || reason.find("tokens") != reason.npos;
      CHECK(names_it);
    }
  }
}

TEST_CASE("no table ignores such a column: its rows are asked so, or skipped") {
  // A row of each kind that is predicted.
  const std::pair<const char*, const char*> tables[] = {
      {"source,gpu,dtype,op,pass,batch,m,n,k,layout,time_us,timing",
       "x,t4,fp32,bmm,forward,1,64,64,64,row,100,loop"},
      {"model,gpu,tp,prompt,batch,output,prompt_ms,token_ms,e2e_ms,flag",
       "llama2-70b,a100_sxm4_80gb,8,512,2,256,100,40,1300,"},
      {"gpu,dtype,op,pass,hidden,input,batch,timesteps,layers,input_mode,time_us,timing,algo,"
       "framework,split",
       "v100_sxm2_16gb,fp32,lstm,forward,512,512,32,50,1,linear,1000,loop,,cuDNN 7,"},
      {"gpu,model,batch,seq,phase,dtype,option,e2e_ms", "t4,bert_base,1,128,inf,fp32,,20"},
      {"series_id,round,benchmark,gpu_id,gpus,nodes,batch_per_gpu,throughput",
       "a,v1.0,resnet,a100_sxm4_80gb,8,1,256,20000"},
      {"set,gpu,gpus,layers,hidden,heads,seq_len,global_batch,micro_batch,tensor_parallel,data_"
       "parallel,pipeline_parallel,iteration_ms",
       "single_node,A100,4,24,2048,16,1024,16,4,1,2,2,410"},
  };
  for (const auto& [header, row] : tables) {
    for (const auto& [column, value] :
         {std::pair{"image_size", "448"}, std::pair{"channels_last", "yes"},
          std::pair{"compiled", "inductor"}, std::pair{"framework_version", "1.5"},
          std::pair{"seq_len", "384"}}) {
      if (std::string(header).find(column) != std::string::npos) continue;
      CAPTURE(header);
      CAPTURE(column);
      const std::string table =
          std::string(header) + "," + column + "\n" + row + ",\n" + row + "," + value + "\n";
      const Json rows = validated(table)["rows"];
      REQUIRE(rows.size() >= 2);
      const Json& said = rows.back();
      CAPTURE(said.dump());
      CHECK(rows[0]["predicted"].is_number());
      if (said["predicted"].is_number()) {
        CHECK(said["predicted"] != rows[0]["predicted"]);
      } else {
        std::string reason = said["skipped"];
        for (char& c : reason) c = c == '-' ? '_' : c;  // of a flag
        CHECK(reason.find(column) != std::string::npos);
      }
    }
  }
}

TEST_CASE("tables of whole networks on GPUs on sale are read as they are") {
  const Json timm = validated(
      "id,gpu,gpu_as_published,gpus,framework,framework_version,compiled,precision,channels_last,"
      "network,network_as_published,phase,"
      "batch_per_gpu,image_size,samples_per_s\n"
      "a,rtx3090,RTX 3090,1,pytorch,2.4,no,amp,yes,resnet50,resnet50,infer,64,288,1000\n"
      "b,rtx_pro_6000,RTX PRO 6000 Blackwell "
      "Max-Q,1,pytorch,2.9.1,no,amp,no,resnet50,resnet50,infer,64,224,1000\n"
      "c,rtx3090,RTX 3090,1,pytorch,2.4,no,amp,yes,,regnety_032,infer,64,,1000\n"
      "d,rtx3090,RTX 3090,1,pytorch,2.4,no,amp,yes,,tinynet_e,infer,64,106,1000\n",
      "timm.csv")["rows"];
  CHECK(
      timm[0]["predicted"].get<double>() ==
      doctest::Approx(predicted({"resnet50", "--gpu", "rtx3090", "--framework-version", "2.4",
                                 "--precision", "amp", "--phase", "infer", "--batch", "64",
                                 "--image-size", "288", "--channels-last", "--cudnn-benchmark"})));
  CHECK(timm[1]["predicted"].get<double>() ==
        doctest::Approx(predicted({"resnet50", "--gpu", "rtx_pro_6000_maxq", "--framework-version",
                                   "2.9.1", "--precision", "amp", "--phase", "infer", "--batch",
                                   "64", "--cudnn-benchmark"})));
  CHECK(timm[2]["predicted"].is_number());  // by its published name
  CHECK(timm[3]["skipped"] == "network tinynet_e is not in the zoo");

  const Json paddle = validated(
      "id,gpu,framework,framework_as_published,precision,network,network_as_published,phase,batch_"
      "per_gpu,image_size,samples_per_s\n"
      "a,t4,tensorrt,Paddle Inference,fp16,vit_b_16,ViT_base_patch16_384,infer,4,384,100\n",
      "paddleclas.csv")["rows"];
  CHECK(paddle[0]["predicted"].get<double>() ==
        doctest::Approx(
            predicted({"vit_b_16", "--gpu", "t4", "--framework", "tensorrt", "--framework-version",
                       "7.2", "--precision", "fp16", "--phase", "infer", "--batch", "4",
                       "--image-size", "384", "--data", "memory"})));

  const Json bert = validated(
      "id,gpu,network,precision,sparse,seq_len,batch_per_gpu,latency_ms,samples_per_s\n"
      "a,t4,bert_large,fp16,,384,8,100,80\n"
      "b,t4,bert_large,int8,sparse,384,8,100,80\n",
      "trt_bert.csv");
  CHECK(bert["rows"][0]["metric"] == "latency_ms");
  CHECK(bert["rows"][0]["predicted"].get<double>() ==
        doctest::Approx(8e3 / predicted({"bert_large_squad", "--gpu", "t4", "--framework",
                                         "tensorrt", "--precision", "fp16", "--phase", "infer",
                                         "--batch", "8", "--seq-len", "384", "--cuda-graphs"})));
  CHECK(bert["rows"][0]["low"] < bert["rows"][0]["predicted"]);
  CHECK(bert["rows"][0]["high"] > bert["rows"][0]["predicted"]);
  CHECK(bert["rows"][1]["skipped"] == "sparse GEMMs have no cost model");

  const Json mlperf = validated(
      "id,gpu,gpus,nodes,round,benchmark,network,scenario,precision,samples_per_s,tokens_per_s,"
      "single_stream_p90_ms,duplicate_of\n"
      "a,a30,1,1,v1.1,resnet50,resnet50,Offline,int8,18000,,,\n"
      "b,a30,1,1,v1.1,resnet50,resnet50,SingleStream,int8,,,0.6,\n"
      "c,a30,1,1,v1.1,resnet50,resnet50,Server,int8,17000,,,\n"
      "d,a30,1,1,v1.1,resnet50,resnet50,Offline,int8,18000,,,a\n",
      "mlperf_inference.csv");
  const Words a30 = {"resnet50", "--gpu",   "a30",   "--framework",   "tensorrt", "--precision",
                     "int8",     "--phase", "infer", "--cuda-graphs", "--batch"};
  const auto of_batch = [&a30](const char* batch) {
    Words words = a30;
    words.emplace_back(batch);
    return predicted(words);
  };
  CHECK(mlperf["rows"][0]["id"] == "a.samples_per_s");
  CHECK(mlperf["rows"][0]["predicted"].get<double>() == doctest::Approx(of_batch("1024")));
  CHECK(mlperf["rows"][1]["id"] == "b.single_stream_p90_ms");
  CHECK(mlperf["rows"][1]["predicted"].get<double>() == doctest::Approx(1e3 / of_batch("1")));
  CHECK(mlperf["rows"][2]["skipped"].get<std::string>().find("serve") != std::string::npos);
  CHECK(mlperf["rows"][3]["skipped"] == "the same run as an earlier row");
}

TEST_CASE("--networks predicts the rows of a list from its files, before the zoo") {
  const TemporaryFolder folder;
  const std::string networks = folder.path() / "networks", table = folder.path() / "mine.csv";
  std::filesystem::create_directory(networks);
  const auto list = [&](const std::string& rows) {
    write_file(networks + "/files.csv", "file,model,image_size\n" + rows);
  };
  write_file(networks + "/small.onnx", onnx::small_network().bytes());
  write_file(table,
             "gpu,gpus,framework,precision,network,network_as_published,phase,batch_per_gpu,"
             "image_size,samples_per_s\n"
             "rtx3090,1,pytorch,amp,,mine,infer,64,32,1000\n"
             "rtx3090,1,pytorch,amp,resnet18,resnet18,infer,64,32,1000\n"
             "rtx3090,1,pytorch,amp,resnet18,resnet18,infer,64,224,1000\n");
  const auto ask = [&](const Words& more) {
    Words words = {"validate", table, "--networks", networks, "--format", "json"};
    words.insert(words.end(), more.begin(), more.end());
    return tracecast(words);
  };
  list("small.onnx,mine,32\nsmall.onnx,resnet18,32\n");
  const ProcessResult done = ask({});
  CAPTURE(done.err);
  REQUIRE(done.exit_code == 0);
  const Json doc = Json::parse(done.out);
  const double by_file = predicted({networks + "/small.onnx", "--gpu", "rtx3090", "--precision",
                                    "amp", "--phase", "infer", "--batch", "64"});
  CHECK(doc["rows"][0]["predicted"].get<double>() == doctest::Approx(by_file));
  CHECK(doc["rows"][1]["predicted"].get<double>() == doctest::Approx(by_file));
  CHECK(doc["rows"][2]["predicted"].get<double>() < by_file / 2);
  int by_network = 0, from_files = 0;
  for (const Json& group : doc["groups"]) {
    by_network += group["by"] == "network_as_published" ? 1 : 0;
    if (group["by"] == "network_from" && group["key"] == "file") from_files = group["n"];
  }
  CHECK(by_network == 2);
  CHECK(from_files == 2);

  struct Bad {
    const char* rows;
    const char* complaint;
  };
  const Bad bad[] = {{"absent.onnx,mine,32\n", "absent.onnx"},
                     {"small.onnx,mine,32\nsmall.onnx,mine,32\n", "a second time"},
                     {"", "a header and no rows"}};
  for (const Bad& row : bad) {
    CAPTURE(row.complaint);
    list(row.rows);
    const ProcessResult refused = ask({});
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find(row.complaint) != std::string::npos);
  }
  list("small.onnx,mine,32\n");
  write_file(table,
             "gpu,gpus,framework,precision,network,phase,batch_per_gpu,samples_per_s\n"
             "rtx3090,1,pytorch,amp,resnet18,infer,64,1000\n");
  CHECK(ask({}).exit_code == 2);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
