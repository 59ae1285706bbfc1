#include "models/expert_load.hpp"

#include <doctest/doctest.h>

#include <cmath>

TEST_SUITE_BEGIN("models/expert_load");

namespace tracecast {

TEST_CASE("round robin gives every expert its share") {
  // 64 tokens with 8 of 128 experts each: 4 a piece, 16 experts on one of 8 ranks.
  const ExpertLoad load = expert_load({.tokens = 64, .per_token = 8, .experts = 128, .ranks = 8});
  CHECK(load.experts == 16);
  CHECK(load.rows == 64);
  CHECK(load.others == 64 * 8 - 64);
  CHECK(load.tiles[0] == 16);  // of 8 rows
}

TEST_CASE("fewer tokens than a stride spread over it") {
  // 2 tokens, stride 16: experts 0, 16, ... of the first, 8, 24, ... of the second; the first rank
  // of 8 owns 0 to 15.
  const ExpertLoad load = expert_load({.tokens = 2, .per_token = 8, .experts = 128, .ranks = 8});
  CHECK(load.experts == 2);
  CHECK(load.rows == 2);
}

TEST_CASE("a rank computes a tile even where no token comes") {
  const ExpertLoad load = expert_load({.tokens = 1, .per_token = 1, .experts = 2, .ranks = 2});
  CHECK(load.rows >= 1);
  CHECK(load.tiles[3] == 1);
}

TEST_CASE("tokens of a rank are those with an expert there") {
  // Stride 16: token t takes t, t + 16, ... of 128. A rank with 16 experts holds one of every
  // token's, one with 8 every other token's.
  CHECK(expert_load({.tokens = 64, .per_token = 8, .experts = 128, .ranks = 8}).tokens == 64);
  CHECK(expert_load({.tokens = 64, .per_token = 8, .experts = 128, .ranks = 16}).tokens == 32);
  // 32 experts: two of each token's.
  const ExpertLoad load = expert_load({.tokens = 64, .per_token = 8, .experts = 128, .ranks = 4});
  CHECK(load.tokens == 64);
  CHECK(load.rows == 128);
}

TEST_CASE("what rounding leaves of few pairs goes to ranks in turn") {
  // 64 pairs on 896 experts: 0.07 each, nearly all of them rounded away and dealt out again; the
  // fullest of 16 ranks gets few more than 4.
  const ExpertLoad load =
      expert_load({.tokens = 4, .per_token = 16, .experts = 896, .ranks = 16, .exponent = 1.2});
  CHECK(load.rows >= 4);
  CHECK(load.rows <= 10);
  CHECK(load.tokens <= 4);
}

TEST_CASE("a power law fills the fullest rank beyond its share, and no expert beyond the tokens") {
  for (const double exponent : {1.01, 1.2}) {
    const Routing routing{
        .tokens = 4096, .per_token = 8, .experts = 256, .ranks = 8, .exponent = exponent};
    const ExpertLoad load = expert_load(routing);
    CHECK(load.rows > 4096.0 * 8 / 8);
    CHECK(load.rows <= 4096.0 * 32);
    // Tiles hold the rows, and waste at most one tile an expert.
    for (std::size_t i = 0; i < kExpertTileRows.size(); ++i) {
      CHECK(load.tiles[i] * kExpertTileRows[i] >= load.rows - 1e-6);
      CHECK(load.tiles[i] * kExpertTileRows[i] <= load.rows + load.experts * kExpertTileRows[i]);
    }
    CHECK(expert_load(routing) == load);  // the same every time
  }
}

TEST_CASE("all pairs stay on one rank where there is one") {
  for (const double exponent : {0.0, 1.01, 1.2}) {
    const ExpertLoad load =
        expert_load({.tokens = 1000, .per_token = 4, .experts = 64, .exponent = exponent});
    CHECK(load.rows == doctest::Approx(4000).epsilon(0.15));
    CHECK(load.others == 0);
  }
}

}  // namespace tracecast
