#include "traces/kernel_names/kernel_names.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "sim/base/error.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

/// "class algorithm pass precision unit tile", a dash for what the name does not tell.
std::string described(const KernelNameInfo& info) {
  std::ostringstream text;
  text << to_string(info.kernel_class) << ' ' << to_string(info.algorithm) << ' '
       << (info.has_pass ? to_string(info.pass) : "-") << ' '
       << (info.precision ? to_string(*info.precision) : "-") << ' ' << to_string(info.unit) << ' ';
  if (info.tile_m > 0) {
    text << info.tile_m << 'x' << info.tile_n;
  } else {
    text << '-';
  }
  return text.str();
}

std::string refusal(const std::string& table) {
  try {
    (void)KernelNames::parse(table, "rules");
    return "taken";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("each name of the list is understood as the list says") {
  const KernelNames names = KernelNames::builtin();
  std::ifstream list("tests/traces/kernel_names.txt");
  REQUIRE(list.is_open());
  std::size_t rows = 0;
  for (std::string line; std::getline(list, line);) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::size_t bar = line.find(" | ");
    REQUIRE(bar != std::string::npos);
    const std::string name = line.substr(bar + 3);
    CAPTURE(name);
    CHECK(described(names.find(name)) == line.substr(0, bar));
    ++rows;
  }
  CHECK(rows >= 500);
}

TEST_CASE(
    "the first rule that holds wins, words are found in any order, and letter case does not "
    "count") {
  const KernelNames names = KernelNames::parse(
      "# comment\n[class]\nalpha beta => gemm\n.gamma => pooling none backward\nalpha !delta => "
      "softmax\n"
      "[precision]\nhalf => fp16\n[unit]\nmma => tensor_core\n",
      "rules");
  CHECK(names.find("BETA_alpha").kernel_class == KernelClass::Gemm);
  CHECK(names.find("alpha").kernel_class == KernelClass::Softmax);
  CHECK(names.find("alpha_delta").kernel_class == KernelClass::Other);
  CHECK(names.find("void gamma_x").kernel_class == KernelClass::Pooling);
  CHECK(names.find("void gamma_x").pass == Pass::Backward);
  CHECK(names.find("x_gamma").kernel_class == KernelClass::Other);
  CHECK(names.find("Half").precision == Precision::Fp16);
  CHECK_FALSE(names.find("x").precision.has_value());
  CHECK(names.find("hmma").unit == MathUnit::TensorCore);
}

TEST_CASE("the tile of a GEMM is read from where its library writes it") {
  const KernelNames names = KernelNames::parse("[class]\ngemm => gemm\n", "rules");
  struct Row {
    const char* name;
    int m, n;
  };
  const Row rows[] = {
      {"volta_sgemm_128x64_nn", 128, 64},
      {"cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4", 256, 64},
      {"sm90_gemm_warpsize2x2x1_tilesize128x256x64_stage4", 128, 256},
      {"Cijk_gemm_Ailk_MT64x32x64_MI16x16x1", 64, 32},
      {"gemm_4x4_no_tile", 0, 0},
      {"gemm_1024x6", 0, 0},
      {"gemm", 0, 0},
      {"gemm_12x", 0, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(names.find(row.name).tile_m == row.m);
    CHECK(names.find(row.name).tile_n == row.n);
  }
}

TEST_CASE("a table with a mistake is refused by line") {
  struct Row {
    const char *table, *message;
  };
  const Row rows[] = {
      {"gemm => gemm", "rules:1"},
      {"[class]\n\ngemm gemm", "rules:3"},
      {"[class]\n=> gemm", "rules:2"},
      {"[class]\ngemm => gem", "nearest: gemm"},
      {"[classes]", "rules:1: found [classes]; expected [class], [precision] or [unit]"},
      {"[unit]\na => tensor_core b", "rules:2"},
  };
  for (const Row& row : rows) {
    const std::string message = refusal(row.table);
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
  }
}

TEST_CASE("short names lose what people do not say") {
  CHECK(short_kernel_name(
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(float)") ==
        "reduce_kernel");
  CHECK(short_kernel_name("void cudnn::bn_bw_1C11_kernel_new<float>(int, int)") ==
        "cudnn::bn_bw_1C11_kernel_new");
  CHECK(short_kernel_name("void (anonymous namespace)::softmax<4>(x)") == "softmax");
  CHECK(short_kernel_name("volta_sgemm_64x64_nn") == "volta_sgemm_64x64_nn");
  CHECK(short_kernel_name("<x>") == "<x>");
}
