#include "models/language/forward.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"

namespace tracecast::test {
namespace {

ServedNetwork served(std::string_view name, ModelSharing sharing = {}) {
  return {find_network(name)->language(), {}, sharing, {}, true};
}

/// Multiply-adds of all GEMMs of a list.
double gemms(const std::vector<ForwardKernel>& kernels) {
  double sum = 0;
  for (const ForwardKernel& kernel : kernels)
    if (const auto* p = std::get_if<ForwardGemm>(&kernel.work))
      sum += kernel.times * p->batch * p->m * p->n * p->k;
  return sum;
}
double communicated(const std::vector<ForwardKernel>& kernels, Collective collective) {
  double sum = 0;
  for (const ForwardKernel& kernel : kernels)
    if (const auto* e = std::get_if<ForwardCommunication>(&kernel.work))
      if (e->collective == collective) sum += kernel.times * e->bytes;
  return sum;
}

TEST_SUITE_BEGIN("models/language/forward");

TEST_CASE("a row is multiplied with every weight of the layers once, whoever shares them") {
  for (const char* name : {"llama3_8b", "qwen3_32b", "codellama_34b"}) {
    CAPTURE(name);
    const ParameterShares p = parameters(served(name).network);
    const double weights = p.mixers + p.feed_forward;
    // Biases are weights without a GEMM: less than a thousandth.
    CHECK(gemms(row_kernels(served(name), 7)) == doctest::Approx(7 * weights).epsilon(1e-3));
    CHECK(gemms(row_kernels(served(name, {.tensor = 4}), 7)) ==
          doctest::Approx(7 * weights / 4).epsilon(1e-3));
    CHECK(gemms(logit_kernels(served(name), 3)) ==
          doctest::Approx(3.0 * static_cast<double>(served(name).network.vocabulary) *
                          static_cast<double>(served(name).network.width)));
  }
}

TEST_CASE("tensor ranks sum twice a layer, and the words' rows once") {
  const ServedNetwork s = served("llama3_8b", {.tensor = 2});
  // 32 layers, rows of 4096 values of 2 bytes.
  CHECK(communicated(row_kernels(s, 10), Collective::AllReduce) == 10.0 * 4096 * 2 * (2 * 32 + 1));
  CHECK(communicated(row_kernels(served("llama3_8b"), 10), Collective::AllReduce) == 0);
  CHECK(communicated(row_kernels(served("llama3_8b", {.pipeline = 4}), 10),
                     Collective::SendReceive) == 3 * 2 * 10.0 * 4096 * 2);
}

TEST_CASE(
    "ranks that attend to their own sequences gather tokens for the experts and send results "
    "back") {
  const ServedNetwork s = served("mixtral_8x7b", {.experts = 4, .data = 4});
  const auto kernels = row_kernels(s, 10);
  CHECK(communicated(kernels, Collective::AllGather) == 32.0 * 40 * 4096 * 2);
  CHECK(communicated(kernels, Collective::ReduceScatter) == 32.0 * 40 * 4096 * 2);
  for (const ForwardKernel& kernel : kernels) {
    if (const auto* e = std::get_if<ExpertsWork>(&kernel.work)) {
      CHECK(e->tokens == 40);
      CHECK(e->width == 14336);
      // 80 pairs over 4 ranks.
      CHECK(e->load.rows == doctest::Approx(20));
    }
  }
}

TEST_CASE("tokens fall on experts as a binomial distribution has it") {
  // One token takes 2 of 8: two experts, each a tile.
  const ExpertLoad one = random_expert_load(1, 2, 8, 1);
  CHECK(one.experts == doctest::Approx(2));
  CHECK(one.rows == doctest::Approx(2));
  for (const double tiles : one.tiles) CHECK(tiles == doctest::Approx(2));
  // 3 tokens, 1 of 2 each: an expert has 0, 1, 2, 3 of them with 1, 3, 3, 1 in 8.
  const ExpertLoad three = random_expert_load(3, 1, 2, 2);
  CHECK(three.experts == doctest::Approx(7.0 / 8));
  CHECK(three.rows == doctest::Approx(1.5));
  CHECK(three.others == doctest::Approx(1.5));
  CHECK(three.tiles[0] == doctest::Approx(7.0 / 8));
  // Many tokens: the normal distribution goes on where the sum stops; tiles are between rows / size
  // and that and one more.
  for (const double tokens : {500.0, 513.0, 4000.0}) {
    const ExpertLoad many = random_expert_load(tokens, 8, 64, 1);
    for (std::size_t i = 0; i < kExpertTileRows.size(); ++i) {
      CHECK(many.tiles[i] >= many.rows / kExpertTileRows[i]);
      CHECK(many.tiles[i] <= many.rows / kExpertTileRows[i] + 64.01);
    }
  }
  const ExpertLoad below = random_expert_load(511, 8, 64, 1),
                   above = random_expert_load(513, 8, 64, 1);
  CHECK(below.tiles[0] == doctest::Approx(above.tiles[0]).epsilon(0.01));
}

TEST_CASE("sharing that the network does not divide is refused with the flag's name") {
  CHECK_THROWS_AS(check_sharing(served("llama3_8b", {.tensor = 3})), InputError);
  CHECK_THROWS_AS(check_sharing(served("llama3_8b", {.pipeline = 64})), InputError);
  CHECK_THROWS_AS(check_sharing(served("llama3_8b", {.tensor = 2, .experts = 2})), InputError);
  CHECK_THROWS_AS(check_sharing(served("mixtral_8x7b", {.tensor = 2, .experts = 4})), InputError);
  CHECK_THROWS_AS(check_sharing(served("mixtral_8x7b", {.tensor = 0})), InputError);
  check_sharing(served("mixtral_8x7b", {.tensor = 2, .experts = 2}));
}

TEST_CASE("heads of keys that do not divide are held by several ranks") {
  // 8 heads of keys over 16 ranks: one each.
  CHECK(served_cache(served("llama3_405b", {.tensor = 16})).token.in_bytes() == 126 * 2 * 128 * 2);
  CHECK(served_cache(served("llama3_405b", {.tensor = 8})).token.in_bytes() == 126 * 2 * 128 * 2);
  CHECK(served_cache(served("llama3_405b")).token.in_bytes() == 126 * 8 * 2 * 128 * 2);
}

TEST_CASE("weights of the ranks add up to the network's, norms and router apart") {
  const ServedNetwork one = served("mixtral_8x7b"), four = served("mixtral_8x7b", {.tensor = 4});
  const ParameterShares p = parameters(one.network);
  CHECK(served_weight_bytes(one).in_bytes() == doctest::Approx(2 * p.total()));
  CHECK(served_weight_bytes(four).in_bytes() ==
        doctest::Approx(2 * ((p.total() - p.norms - p.router) / 4 + p.norms + p.router)));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
