#include "tools/command/amounts.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("tools/command/amounts");

TEST_CASE("sizes are read as people write them") {
  struct Row {
    const char* text;
    double bytes;
  };
  const Row rows[] = {
      {"1", 1},         {"4096", 4096},    {"1e6", 1e6},       {"1K", 1024},
      {"64k", 65536},   {"64KiB", 65536},  {"64 kib", 65536},  {"1M", 1048576},
      {"1Mi", 1048576}, {"1.5K", 1536},    {"1G", 1073741824}, {"2T", 2.0 * 1099511627776},
      {"1kB", 1000},    {"1.5 GB", 1.5e9}, {"3mb", 3e6},       {"12B", 12},
      {"0.1K", 102},  // to the byte
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    CHECK(parse_size("--sizes", row.text).in_bytes() == row.bytes);
  }
  CHECK(parse_sizes("--sizes", {"1K", "1M"}).size() == 2);
}

TEST_CASE("what is no size, or too small or large, is reported what is expected") {
  for (const char* text : {"", " ", "K", "1X", "1KX", "1KBB", "x", "1,5", "nan", "inf", "-1", "0",
                           "1e16", "1000000T", "1e999", "1 K B", "0x10", "++1", "1..2"}) {
    CAPTURE(text);
    try {
      (void)parse_size("--sizes", text);
      FAIL("accepted");
    } catch (const InputError& error) {
      CHECK(std::string(error.what()) == "--sizes: found \"" + std::string(text) +
                                             "\"; expected 1 to 1e15 bytes, such as 4096, 64KiB, "
                                             "1M or 1.5GB");
    }
  }
}

TEST_CASE("sizes and counts are written in the unit that suits them") {
  CHECK(size_text(Bytes(768)) == "768 B");
  CHECK(size_text(Bytes(65536)) == "64 KiB");
  CHECK(size_text(Bytes(1.5 * 1073741824)) == "1.50 GiB");
  CHECK(short_count(0) == "0");
  CHECK(short_count(768) == "768");
  CHECK(short_count(999.6) == "1.00 k");
  CHECK(short_count(431'080) == "431 k");
  CHECK(short_count(25'557'032) == "25.6 M");
  CHECK(short_count(999.7e6) == "1.00 G");
  CHECK(short_count(6.738416e9) == "6.74 G");
  CHECK(short_count(175e9) == "175 G");
  CHECK(short_count(3.14e13) == "31.4 T");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
