#include <doctest/doctest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <variant>

#include "calibrate/table/measurement.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"

TEST_SUITE_BEGIN("calibrate/table/engine_rows");

namespace tracecast {
namespace {

/// The first row of a table under this name.
MeasurementOrReason first_row(const std::string& header, const std::string& row,
                              std::optional<GemmEngine> engine = {}) {
  static const GpuCatalog gpus = GpuCatalog::embedded();
  static const auto specs = std::make_shared<SpecsAtClock>(gpus);
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / "table.csv";
  write_file(file, header + "\n" + row + "\n");
  CsvReader csv(file);
  MeasurementContext context{.specs = specs, .framework = [](std::string_view id) {
                               return SpecLibrary::embedded().find_framework(id);
                             }};
  context.engine = engine;
  const auto reader = find_measurement_reader(csv, context);
  REQUIRE(reader);
  REQUIRE(csv.next());
  return reader->read(csv);
}

const std::string kPrefill =
    "gpu,attn_dtype,kv_cache_dtype,batch_size,isl,num_heads,num_key_value_heads,head_dim,"
    "window_size,time_us,low_us,high_us,tables,trtllm_us,sglang_us,vllm_us,power_w,power_limit_w,"
    "flag";
const std::string kDecode =
    "gpu,attn_dtype,kv_cache_dtype,batch_size,step,num_heads,num_key_value_heads,head_dim,"
    "window_size,time_us,low_us,high_us,tables,trtllm_us,sglang_us,vllm_us,power_w,power_limit_w,"
    "flag";
const std::string kExperts =
    "gpu,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
    "distribution,gated,time_us,low_us,high_us,tables,trtllm_us,sglang_us,vllm_us,power_w,"
    "power_limit_w,flag";
const std::string kLatentPrefill =
    "gpu,kv_cache_dtype,batch_size,isl,num_heads,framework,form,time_us,low_us,high_us,tables,"
    "kernel_source,power_w,power_limit_w,flag";
const std::string kLatentDecode =
    "gpu,kv_cache_dtype,batch_size,step,num_heads,framework,time_us,low_us,high_us,tables,"
    "kernel_source,power_w,power_limit_w,flag";
const std::string kQuantization =
    "gpu,quant_dtype,m,k,time_us,low_us,high_us,tables,trtllm_us,sglang_us,vllm_us,power_w,"
    "power_limit_w,flag";

const EngineCall& call_of(const MeasurementOrReason& row) {
  return std::get<EngineCall>(std::get<Measurement>(row).work);
}

}  // namespace

TEST_CASE("attention of new tokens: sizes, formats, and whose widths") {
  const std::string text = "b200,bfloat16,fp8,2,512,32,8,192,128,20,18,25,3,21,19,,,,spread";
  const auto row = first_row(kPrefill, text);
  REQUIRE(call_of(row).calls.size() == 2);  // vLLM has no figure
  const auto& trtllm = std::get<PrefillWork>(call_of(row).calls[0]);
  CHECK(trtllm.tokens == 512);
  CHECK(trtllm.kv_heads == 8);
  CHECK(trtllm.window == 128);
  CHECK(trtllm.format == AttentionFormat::HalfOver8);
  CHECK(trtllm.value_width == 192);
  CHECK(std::get<PrefillWork>(call_of(row).calls[1]).value_width == 128);
  CHECK(std::get<Measurement>(row).time.in_us() == doctest::Approx(20));
  CHECK(std::get<Measurement>(row).flag.empty());
  const auto one = first_row(kPrefill, text, GemmEngine::SgLang);
  CHECK(call_of(one).calls.size() == 1);
  CHECK(std::get<Measurement>(one).time.in_us() == doctest::Approx(19));
  CHECK(std::holds_alternative<std::string>(first_row(kPrefill, text, GemmEngine::Vllm)));
}

TEST_CASE("the token that attends counts as a key") {
  const auto row =
      first_row(kDecode, "l40s,bfloat16,bfloat16,4,1023,16,2,128,0,12,11,13,2,12,,,,,l2");
  const auto& work = std::get<DecodeWork>(call_of(row).calls[0]);
  CHECK(work.keys == 1024);
  CHECK(work.key_values == 256);
  CHECK(std::get<Measurement>(row).flag == "l2");
}

TEST_CASE("a rank owns its part of the experts and of their width") {
  const auto row =
      first_row(kExperts, "b200,nvfp4,64,4096,1536,8,128,2,4,power_law_1.2,1,30,30,30,1,,30,,,,");
  const auto& work = std::get<ExpertsWork>(call_of(row).calls[0]);
  CHECK(work.width == 768);
  CHECK(work.load.experts <= 32);
  // The rank with most tokens has more than its even share of 64 * 8 pairs.
  CHECK(work.load.rows > 64 * 8 / 4);
  CHECK(work.load.rows + work.load.others == doctest::Approx(64 * 8));
  CHECK(work.format == ExpertFormat::Fp4);
}

TEST_CASE("MoE networks are read as the collectors timed them") {
  const std::string shape = ",64,4096,1536,8,128,1,16,balanced,0,30,30,30,3,31,30,29,,,";
  const auto work = [&](const char* format, GemmEngine engine) {
    const auto row = first_row(kExperts, std::string("b200,") + format + shape, engine);
    return std::get<ExpertsWork>(call_of(row).calls[0]);
  };
  // 8 of 128 experts: every other token has one of its 8 there. SGLang's calls begin with those 32
  // and multiply their 256 - 32 others.
  const ExpertsWork sglang = work("bfloat16", GemmEngine::SgLang);
  CHECK(sglang.tokens == 32);
  CHECK(sglang.perhaps_strays == 224);
  CHECK(sglang.gated);
  CHECK(work("int4_wo", GemmEngine::SgLang).strays == 224);
  CHECK(work("nvfp4", GemmEngine::SgLang).gemms_alone);
  CHECK(work("w4a16_mxfp4", GemmEngine::SgLang).tokens == 64);
  const ExpertsWork trtllm = work("bfloat16", GemmEngine::TensorRtLlm);
  CHECK(trtllm.tokens == 64);
  CHECK(trtllm.perhaps_strays == 0);
  CHECK(!trtllm.gated);
  CHECK(work("bfloat16", GemmEngine::Vllm).gated);
}

TEST_CASE("latent attention has one engine a row, absorbed or projected") {
  const auto absorbed = first_row(
      kLatentPrefill, "h100_sxm5_80gb,bfloat16,1,256,16,sglang,absorbed,40,40,40,1,flash,,,");
  const auto& work = std::get<PrefillWork>(call_of(absorbed).calls[0]);
  CHECK(work.kv_heads == 1);
  CHECK(work.key_width == 576);
  CHECK(work.engine == GemmEngine::SgLang);
  const auto decode =
      first_row(kLatentDecode, "h100_sxm5_80gb,fp8,8,255,128,vllm,40,40,40,1,flash,,,");
  const auto& cached = std::get<DecodeWork>(call_of(decode).calls[0]);
  CHECK(cached.keys == 256);
  CHECK(cached.key_values == 576);
  CHECK(cached.gemms == 1088);
  CHECK(cached.fp8_cache);
}

TEST_CASE("vLLM's calls over latent caches hold the GEMMs around them and wait for the host") {
  const auto prompt = [](const char* engine, const char* form) {
    const auto row = first_row(kLatentPrefill, std::string("h100_sxm5_80gb,bfloat16,1,256,16,") +
                                                   engine + "," + form + ",40,40,40,1,flash,,,");
    return std::get<PrefillWork>(call_of(row).calls[0]);
  };
  CHECK(prompt("vllm", "projected").eager);
  CHECK(prompt("vllm", "projected").expands == 512);
  CHECK(!prompt("trtllm", "projected").eager);
  CHECK(prompt("trtllm", "projected").expands == 0);
  const auto row =
      first_row(kLatentDecode, "h100_sxm5_80gb,bfloat16,8,255,128,vllm,40,40,40,1,flash,,,");
  CHECK(std::get<DecodeWork>(call_of(row).calls[0]).eager);
  CHECK(std::get<DecodeWork>(call_of(row).calls[0]).absorbs == 128);
}

TEST_CASE("shapes that only late collectors had are known as such") {
  struct Row {
    const char* what;
    const char* shape;  ///< heads, heads of keys, width, window
    int tables;
    GemmEngine engine;
    bool is_late;
  };
  const Row rows[] = {{"a shape of all collectors", "32,8,128,0", 6, GemmEngine::SgLang, false},
                      {"of three tables one each", "32,8,128,0", 3, GemmEngine::SgLang, true},
                      {"a window", "32,8,128,8192", 4, GemmEngine::SgLang, true},
                      {"vLLM's early window", "32,8,128,128", 4, GemmEngine::Vllm, false},
                      {"and a late one", "32,8,256,1024", 4, GemmEngine::Vllm, true},
                      {"wide heads of many tables", "32,8,256,0", 6, GemmEngine::SgLang, false}};
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::string text = std::string("l40s,bfloat16,bfloat16,4,1023,") + row.shape +
                             ",12,11,13," + std::to_string(row.tables) + ",12,12,12,,,";
    const auto work =
        std::get<DecodeWork>(call_of(first_row(kDecode, text, row.engine)).calls.front());
    CHECK(work.late == row.is_late);
    CHECK(work.casts == row.is_late);
  }
  const auto prompt = [](GemmEngine engine) {
    const std::string text = "b200,bfloat16,bfloat16,2,512,32,8,256,1024,20,18,25,3,21,19,20,,,";
    return std::get<PrefillWork>(call_of(first_row(kPrefill, text, engine)).calls.front());
  };
  CHECK(!prompt(GemmEngine::Vllm).writes_cache);
  CHECK(prompt(GemmEngine::SgLang).writes_cache);
}

TEST_CASE("quantisation is reported by its header") {
  const auto row = first_row(kQuantization, "l40s,fp8,128,4096,3,3,3,2,3,,3,,,");
  CHECK(std::get<QuantizationWork>(call_of(row).calls[0]).cols == 4096);
}

TEST_CASE("broken rows are named, with what was expected") {
  struct Row {
    const char* what;
    const std::string& header;
    const char* text;
  };
  const Row rows[] = {
      {"a type nobody knows", kPrefill, "b200,fp7,fp8,2,512,32,8,128,0,20,18,25,3,21,,,,,"},
      {"more heads of keys than of queries", kPrefill,
       "b200,fp8,fp8,2,512,8,32,128,0,20,18,25,3,21,,,,,"},
      {"no tokens", kPrefill, "b200,fp8,fp8,2,0,32,8,128,0,20,18,25,3,21,,,,,"},
      {"a time below zero", kDecode, "b200,bfloat16,fp8,2,5,32,8,128,0,-20,18,25,3,-2,,,,,"},
      {"a time that is no number", kDecode, "b200,bfloat16,fp8,2,5,32,8,128,0,nan,1,2,3,nan,,,,,"},
      {"a negative window", kDecode, "b200,bfloat16,fp8,2,5,32,8,128,-1,20,18,25,3,2,,,,,"},
      {"more experts a token than there are", kExperts,
       "b200,fp8,64,4096,1536,200,128,2,4,balanced,1,30,30,30,1,,30,,,,"},
      {"more ranks than experts", kExperts,
       "b200,fp8,64,4096,1536,8,128,2,256,balanced,1,30,30,30,1,,30,,,,"},
      {"a power law without exponent", kExperts,
       "b200,fp8,64,4096,1536,8,128,2,4,power_law_,1,30,30,30,1,,30,,,,"},
      {"a format nobody knows", kExperts,
       "b200,fp9,64,4096,1536,8,128,2,4,balanced,1,30,30,30,1,,30,,,,"},
      {"an engine nobody knows", kLatentDecode,
       "h100_sxm5_80gb,fp8,8,255,128,tgi,40,40,40,1,flash,,,"},
      {"a form nobody knows", kLatentPrefill,
       "h100_sxm5_80gb,bfloat16,1,256,16,vllm,folded,40,40,40,1,flash,,,"},
      {"another type than fp8", kQuantization, "l40s,int8,128,4096,3,3,3,2,3,,3,,,"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK_THROWS_AS((void)first_row(row.header, row.text, GemmEngine::TensorRtLlm), InputError);
  }
}

}  // namespace tracecast
