#include "models/lowering/formats.hpp"

#include <doctest/doctest.h>

#include "tests/models/lowering/gpus.hpp"

using namespace tracecast;
using lowering::choose_formats;
using lowering::Formats;

TEST_SUITE("models/lowering/formats") {
  TEST_CASE("the arithmetic of a precision mode follows from the peaks of the spec") {
    struct Row {
      const char* what;
      PrecisionMode mode;
      GpuSpec gpu;
      Precision storage, math;
      MathUnit unit;
    };
    using enum Precision;
    const auto cuda = MathUnit::CudaCore, tensor = MathUnit::TensorCore;
    const Row rows[] = {
        {"fp32 ignores tensor cores", PrecisionMode::Fp32, test::ampere(), Fp32, Fp32, cuda},
        {"tf32 where there are such tensor cores", PrecisionMode::Tf32, test::ampere(), Fp32, Tf32,
         tensor},
        {"tf32 elsewhere is fp32", PrecisionMode::Tf32, test::volta(), Fp32, Fp32, cuda},
        {"half on tensor cores", PrecisionMode::Amp, test::volta(), Fp16, Fp16, tensor},
        {"half at double rate without tensor cores", PrecisionMode::Fp16,
         test::pascal_with_fast_half(), Fp16, Fp16, cuda},
        {"slow half arithmetic is not used", PrecisionMode::Fp16, test::pascal_with_slow_half(),
         Fp16, Fp32, cuda},
        {"half as storage alone", PrecisionMode::Fp16, test::kepler(), Fp16, Fp32, cuda},
        {"bfloat16 as storage alone", PrecisionMode::Bf16, test::volta(), Bf16, Fp32, cuda},
        {"bfloat16 on tensor cores", PrecisionMode::Bf16, test::ampere(), Bf16, Bf16, tensor},
        {"int8 dot products of CUDA cores", PrecisionMode::Int8, test::pascal_with_slow_half(),
         Int8, Int8, cuda},
        {"int8 on tensor cores", PrecisionMode::Int8, test::ampere(), Int8, Int8, tensor},
        {"fp8 GEMMs, bfloat16 in memory", PrecisionMode::Fp8, test::hopper(), Bf16, Fp8, tensor},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const Formats formats = choose_formats(row.mode, row.gpu);
      CHECK(formats.storage == row.storage);
      CHECK(formats.math == row.math);
      CHECK(formats.unit == row.unit);
    }
  }

  TEST_CASE(
      "mixed precision keeps weights, their gradients and states wide, integers as they are") {
    const Formats formats = choose_formats(PrecisionMode::Amp, test::volta());
    CHECK(formats.casts_weights());
    const auto bytes_of = [&](TensorRole role) {
      return lowering::tensor_bytes({.name = "", .shape = {10}, .role = role}, formats).in_bytes();
    };
    CHECK(bytes_of(TensorRole::Activation) == 20);
    CHECK(bytes_of(TensorRole::Gradient) == 20);
    CHECK(bytes_of(TensorRole::Weight) == 40);
    CHECK(bytes_of(TensorRole::WeightGradient) == 40);
    CHECK(bytes_of(TensorRole::OptimizerState) == 40);
    CHECK(lowering::tensor_bytes(
              {.name = "", .shape = {10}, .is_integer = true, .integer_bytes = 8}, formats)
              .in_bytes() == 80);
    CHECK_FALSE(choose_formats(PrecisionMode::Fp16, test::volta()).casts_weights());
  }
}
