#include "models/canonical/strides.hpp"

#include <doctest/doctest.h>

namespace tracecast::canonical {
namespace {

TEST_SUITE_BEGIN("models/canonical/strides");

TEST_CASE("a shape is a view of another where every step still says where the next one lies") {
  struct Row {
    const char* what;
    Shape shape;
    Strides strides;
    Shape as;
    std::optional<Strides> expected;
  };
  const Row rows[] = {
      // Tokens of 3 x 6 heads of 64 in one row of 1152.
      {"a row is taken apart",
       {4, 197, 1152},
       {226944, 1152, 1},
       {4, 197, 3, 6, 64},
       Strides{226944, 1152, 384, 64, 1}},
      {"and put together",
       {4, 197, 3, 6, 64},
       {226944, 1152, 384, 64, 1},
       {4, 197, 1152},
       Strides{226944, 1152, 1}},
      // Heads before tokens: samples and heads do not follow each other with one step.
      {"heads that lie side by side are no batch",
       {4, 6, 197, 64},
       {75648, 64, 384, 1},
       {24, 197, 64},
       std::nullopt},
      {"nor are turned patches rows of their images",
       {4, 196, 384},
       {75264, 1, 196},
       {784, 384},
       std::nullopt},
      {"dimensions of one element do not matter", {4, 1, 8}, {8, 77, 1}, {32}, Strides{1}},
      {"a part of a row stays where it is", {4, 10, 8}, {320, 32, 1}, {40, 8}, Strides{32, 1}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(view(row.shape, row.strides, row.as) == row.expected);
  }
}

TEST_CASE("layouts are told by their steps") {
  const Shape image = {2, 3, 4, 5};
  CHECK(contiguous(image) == Strides{60, 20, 5, 1});
  CHECK(channels_last(image) == Strides{60, 1, 15, 3});
  CHECK(is_contiguous(image, contiguous(image)));
  CHECK_FALSE(is_contiguous(image, channels_last(image)));
  CHECK(is_channels_last(image, channels_last(image)));
  CHECK_FALSE(is_channels_last(image, contiguous(image)));
  CHECK_FALSE(is_channels_last({2, 3, 4}, {12, 1, 3}));
  // Channels 0 to 2 of 6: gaps between the pixels.
  CHECK_FALSE(is_dense(image, {120, 20, 5, 1}));
  CHECK(is_dense(image, channels_last(image)));
}

TEST_CASE("results of arithmetic lie as their operand, without its gaps") {
  CHECK(dense_like({2, 3, 4, 5}, {120, 1, 30, 6}) == Strides{60, 1, 15, 3});
  CHECK(dense_like({4, 6, 197, 64}, {226944, 64, 1152, 1}) == Strides{75648, 64, 384, 1});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::canonical
