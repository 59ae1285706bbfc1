#include "models/lowering/precision.hpp"

#include <doctest/doctest.h>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/error.hpp"
#include "tests/models/lowering/gpus.hpp"

using namespace tracecast;

TEST_SUITE("models/lowering/precision") {
  TEST_CASE("a mode that a GPU lacks becomes what the libraries run instead, and says why") {
    struct Row {
      const char* what;
      PrecisionMode asked;
      GpuSpec gpu;
      PrecisionMode runs;
      bool falls_back, has_note;
    };
    using enum PrecisionMode;
    const Row rows[] = {
        {"fp32 needs nothing", Fp32, test::kepler(), Fp32, false, false},
        {"tf32 on Ampere", Tf32, test::ampere(), Tf32, false, false},
        {"tf32 is ignored before", Tf32, test::volta(), Fp32, true, false},
        {"half on tensor cores", Fp16, test::volta(), Fp16, false, false},
        {"half at double rate", Amp, test::pascal_with_fast_half(), Amp, false, false},
        {"half as storage", Fp16, test::pascal_with_slow_half(), Fp16, false, true},
        {"mixed precision as storage", Amp, test::kepler(), Amp, false, true},
        {"bfloat16 as storage", Bf16, test::volta(), Bf16, false, true},
        {"bfloat16 on tensor cores", Bf16, test::ampere(), Bf16, false, false},
        {"fp8 on Hopper", Fp8, test::hopper(), Fp8, false, false},
        {"fp8 before", Fp8, test::ampere(), Bf16, true, false},
        {"fp8 before bfloat16", Fp8, test::volta(), Fp16, true, false},
        {"int8 by dp4a", Int8, test::pascal_with_slow_half(), Int8, false, false},
        {"int8 on tensor cores", Int8, test::ampere(), Int8, false, false},
        {"int8 beside tensor cores of 16 bits", Int8, test::volta(), Fp16, true, false},
        {"no dp4a on GP100", Int8, test::pascal_with_fast_half(), Fp32, true, false},
        {"no dp4a on Kepler", Int8, test::kepler(), Fp32, true, false},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const PrecisionChoice choice = choose_precision(row.asked, false, row.gpu);
      CHECK(choice.mode == row.runs);
      CHECK(choice.fallback.empty() == !row.falls_back);
      CHECK(choice.note.empty() == !row.has_note);
    }
  }

  TEST_CASE("nothing trains in int8; fp8 does") {
    CHECK_THROWS_AS((void)choose_precision(PrecisionMode::Int8, true, test::ampere()), InputError);
    CHECK(choose_precision(PrecisionMode::Fp8, true, test::hopper()).mode == PrecisionMode::Fp8);
  }

  TEST_CASE("int8 units are in the specs where the architecture has them") {
    // dp4a came with compute capability 6.1, int8 tensor cores with 7.5 (CUDA C++ Programming
    // Guide, Arithmetic Instructions; Turing whitepaper); Volta's tensor cores take fp16 alone.
    const GpuCatalog catalog = GpuCatalog::embedded();
    for (const GpuSpec& gpu : catalog.all()) {
      CAPTURE(gpu.id);
      const auto dp4a = gpu.find_peak(Precision::Int8, MathUnit::CudaCore);
      const auto tensor = gpu.find_peak(Precision::Int8, MathUnit::TensorCore);
      const int capability = gpu.compute_capability;
      const auto half = gpu.find_peak(Precision::Fp16, MathUnit::TensorCore);
      CHECK(tensor.has_value() ==
            (half && capability >= 75));  // TU116 and TU117 have no tensor cores
      CHECK((dp4a || tensor) == (capability >= 61));
      if (dp4a) CHECK(*dp4a / gpu.peak_fp32() == doctest::Approx(4).epsilon(0.01));
      if (tensor) {
        // Twice the 16-bit rate; GeForce halves FP16 with FP32 sums, so four times there; Blackwell
        // Ultra gave its int8 units up for FP4.
        const double ratio = *tensor / *half;
        CHECK((capability == 103 ? ratio < 0.1
                                 : ratio == doctest::Approx(2).epsilon(0.01) ||
                                       ratio == doctest::Approx(4).epsilon(0.01)));
      }
      const auto fp8 = gpu.find_peak(Precision::Fp8, MathUnit::TensorCore);
      CHECK(fp8.has_value() == (capability >= 89));
      if (fp8) CHECK(*fp8 >= *gpu.find_peak(Precision::Fp16, MathUnit::TensorCore) * 1.99);
    }
  }
}
