#include "sim/base/error.hpp"

#include <doctest/doctest.h>

#include <string>

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/base/error");

TEST_CASE("an input error says where, what was found, what was expected") {
  CHECK(std::string(InputError("gpu.textproto:12", "-3", "a positive number").what()) ==
        "gpu.textproto:12: found -3; expected a positive number");
  CHECK(std::string(InputError("--batch", "nothing", "").what()) == "--batch: found nothing");
}

TEST_CASE("an input error is one short line whatever the file held") {
  const std::string hostile = "a\nb\r\tc\x1b[31m\x7f\u202E\xC2\x9B\x9b" + std::string(100'000, 'x');
  const std::string message = InputError(hostile, hostile, hostile).what();
  CHECK(message.size() < 1000);
  CHECK(message.starts_with("a\\x0ab\\x0d\\x09c\\x1b[31m\\x7f\\u202e\\u009b\\x9bxxx"));
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = byte < 0x20 || byte == 0x7f;
    CHECK_FALSE(control);
  }
}

TEST_CASE("a long part of an input error is cut between letters") {
  std::string text = "x";
  for (int i = 0; i < 500; ++i) text += "é";
  const std::string message = InputError("file", text, "").what();
  CHECK(message.ends_with("é..."));
}

TEST_CASE("a check that holds does nothing, one that fails says what it means and where") {
  const int blocks = 3;
  CHECK_NOTHROW(TRACECAST_CHECK(blocks > 0, "a kernel has blocks"));
  try {
    TRACECAST_CHECK(blocks > 3, "a kernel has more than three blocks");
    FAIL("must throw");
  } catch (const InternalError& error) {
    const std::string message = error.what();
    CHECK(message.find("blocks > 3") != std::string::npos);
    CHECK(message.find("more than three blocks") != std::string::npos);
    CHECK(message.find("error_test.cpp:") != std::string::npos);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
