#include <doctest/doctest.h>

#include <cmath>
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

TEST_SUITE_BEGIN("calibrate/table/gemm_rows");

namespace tracecast {
namespace {

MeasurementContext context() {
  static const GpuCatalog gpus = GpuCatalog::embedded();
  return {.specs = std::make_shared<SpecsAtClock>(gpus), .framework = [](std::string_view id) {
            return SpecLibrary::embedded().find_framework(id);
          }};
}

/// The first row of a table under this name.
MeasurementOrReason first_row(const std::string& name, const std::string& text,
                              std::optional<GemmEngine> engine = {}, bool power = false) {
  const test::TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / name;
  write_file(file, text);
  CsvReader csv(file);
  MeasurementContext known = context();
  known.engine = engine;
  known.power = power;
  static const MeasurementContext kept = known;  // specs outlive the rows
  known.specs = kept.specs;
  const auto reader = find_measurement_reader(csv, known);
  REQUIRE(reader);
  REQUIRE(csv.next());
  return reader->read(csv);
}

const std::string kEngines =
    "gpu,gemm_dtype,m,n,k,time_us,low_us,high_us,tables,trtllm_us,sglang_us,vllm_us,power_w,power_"
    "limit_w,flag\n";

const GemmCall& call_of(const MeasurementOrReason& row) {
  return std::get<GemmCall>(std::get<Measurement>(row).work);
}

}  // namespace

TEST_CASE("16-bit GEMMs call one library, whoever the engine is") {
  const auto row =
      first_row("g.csv", kEngines + "b200,bfloat16,8,64,32,3,3,3,2,3.1,2.9,,600,1000,\n");
  CHECK(call_of(row).gemms.size() == 1);
  CHECK_FALSE(call_of(row).gemms[0].engine.has_value());
  CHECK(std::get<Measurement>(row).time.in_us() == doctest::Approx(3.0));
  // x: 8 x 32, w: 64 x 32, out: 8 x 64 in 2 bytes; six copies of w in turn.
  CHECK(call_of(row).gemms[0].reuse.activations == 512 + 4096 + 1024);
  CHECK(call_of(row).gemms[0].reuse.weights == 512 + 6 * 4096 + 1024);
}

TEST_CASE("below 16 bits the figure over all is the median of the engines that have one") {
  const std::string text = kEngines + "b200,fp8,8,64,32,3,3,3,2,3.1,2.9,,,,spread\n";
  CHECK(call_of(first_row("g.csv", text)).gemms.size() == 2);
  const auto one = first_row("g.csv", text, GemmEngine::SgLang);
  CHECK(call_of(one).gemms.size() == 1);
  CHECK(std::get<Measurement>(one).time.in_us() == doctest::Approx(2.9));
  CHECK(
      std::get<Measurement>(one).flag.empty());  // engines that differ are no reason to stand apart
  CHECK(std::holds_alternative<std::string>(first_row("g.csv", text, GemmEngine::Vllm)));
}

TEST_CASE(
    "SGLang's copies have activations of their own, and lay out scales on data-centre Blackwell") {
  const auto gemm = [](const std::string& row, GemmEngine engine) {
    return call_of(first_row("g.csv", kEngines + row, engine)).gemms.at(0);
  };
  // x: 8 x 32 in 2 bytes and again in 1, w: 64 x 32 in 1, six times; out: 8 x 64 in 2.
  const std::string fp8 = "b200,fp8,8,64,32,3,3,3,2,3.1,2.9,,,,\n";
  CHECK(gemm(fp8, GemmEngine::SgLang).reuse.inputs == 6 * (512 + 256 + 2048) + 1024);
  CHECK(gemm(fp8, GemmEngine::TensorRtLlm).reuse.inputs == 0);
  CHECK_FALSE(gemm(fp8, GemmEngine::SgLang).packs_scales);
  const std::string fixed = "l40s,fp8_static,8,64,32,3,3,3,2,3.1,2.9,,,,\n";
  CHECK(gemm(fixed, GemmEngine::SgLang).reuse.inputs == 0);
  CHECK(gemm(fixed, GemmEngine::SgLang).is_quantised);
  CHECK_FALSE(gemm(fixed, GemmEngine::TensorRtLlm).is_quantised);
  CHECK_FALSE(gemm(fp8, GemmEngine::SgLang).is_quantised);
  const std::string blocks = ",fp8_block,8,128,128,3,3,3,2,3.1,2.9,,,,\n";
  CHECK(gemm("b200" + blocks, GemmEngine::SgLang).packs_scales);
  CHECK_FALSE(gemm("b200" + blocks, GemmEngine::TensorRtLlm).packs_scales);
  CHECK_FALSE(gemm("h100_sxm5_80gb" + blocks, GemmEngine::SgLang).packs_scales);
}

TEST_CASE("TensorRT-LLM's weights in turn are as many as fill L2, one to five") {
  const auto copies = [](const std::string& nk, GemmEngine engine,
                         const std::string& format = "fp8") {
    const auto gemm =
        call_of(first_row("g.csv", kEngines + "l40s," + format + ",1," + nk + ",9,9,9,2,9,9,9,,,\n",
                          engine))
            .gemms.at(0);
    return std::round(gemm.reuse.weights / (gemm.n * gemm.k));
  };
  // L2 of 100.7 MB; weights of 1, 33.6, 41.9 and 134 MB.
  CHECK(copies("1024,1024", GemmEngine::TensorRtLlm) == 5);
  CHECK(copies("4096,8192", GemmEngine::TensorRtLlm) == 3);
  CHECK(copies("5120,8192", GemmEngine::TensorRtLlm) == 3);
  CHECK(copies("8192,16384", GemmEngine::TensorRtLlm) == 1);
  CHECK(copies("8192,16384", GemmEngine::TensorRtLlm, "sq") == 5);  // a plug-in of 2025
  CHECK(copies("8192,16384", GemmEngine::SgLang) == 6);
}

TEST_CASE("flags, formats that a GPU lacks, and words that nobody knows") {
  const auto flagged =
      first_row("g.csv", kEngines + "l40s,fp8,8,64,32,3,3,3,2,3.1,,,,,spread;l2\n");
  CHECK(std::get<Measurement>(flagged).flag == "l2");
  const auto lacking =
      first_row("g.csv", kEngines + "a100_sxm4_80gb,fp8,8,64,32,3,3,3,2,3.1,,,,,\n");
  CHECK(std::get<std::string>(lacking) == "a100_sxm4_80gb has no fp8 on its tensor cores");
  CHECK_THROWS_AS((void)first_row("g.csv", kEngines + "l40s,fp9,8,64,32,3,3,3,2,3.1,,,,,\n"),
                  InputError);
}

TEST_CASE("board power is read in watts in place of the time") {
  const auto row =
      first_row("g.csv", kEngines + "b200,bfloat16,8,64,32,3,3,3,2,3,,,612,1000,\n", {}, true);
  CHECK(call_of(row).is_power);
  CHECK(std::get<Measurement>(row).time.in_s() == 612);
}

TEST_CASE("tables that share a header are reported by the format in their name, else by the GPU") {
  const std::string header = "gpu,m,n,k,time_us\n";
  const auto format = [&](const std::string& name, const char* gpu) {
    return call_of(first_row(name, header + gpu + ",8,64,32,20\n")).gemms[0].format;
  };
  CHECK(format("v100_gemm_fp16.csv", "v100_pcie_16gb") == GemmFormat::Half);
  CHECK(format("fp8_gemm.csv", "h100_sxm5_80gb") == GemmFormat::Fp8);
  CHECK(format("rows.csv", "v100_pcie_16gb") == GemmFormat::Half);
  CHECK(format("rows.csv", "h100_sxm5_80gb") == GemmFormat::Fp8);
}

TEST_CASE("a host takes longer for GEMMs of more than 2^21 multiply-adds, whatever their shape") {
  const std::string header = "gpu,m,n,k,time_us\n";
  const auto floor_us = [&](const char* shape) {
    return call_of(first_row("v100_gemm_fp16.csv", header + "v100_pcie_16gb," + shape + ",20\n"))
        .floor.in_us();
  };
  CHECK(floor_us("32,8192,8") == doctest::Approx(14));
  CHECK(floor_us("8192,8,32") == doctest::Approx(14));
  CHECK(floor_us("32,8192,9") == doctest::Approx(22));
  CHECK(floor_us("64,512,128") == doctest::Approx(22));
}

}  // namespace tracecast
