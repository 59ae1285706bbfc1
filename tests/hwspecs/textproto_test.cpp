#include "hwspecs/loaders/textproto.hpp"

#include <doctest/doctest.h>

#include <string>

#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/error.hpp"

// The reader is private to its box; its errors are seen through the GPU loader.

TEST_SUITE_BEGIN("hwspecs/loaders/textproto");

namespace tracecast {
namespace {

std::string syntax_error(const std::string& text) {
  try {
    (void)load_gpu_spec(text, "x.textproto");
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("a syntax error names file, line, column, what was found and what was expected") {
  struct Row {
    const char* what;
    std::string text;
    const char* place;
    const char* message;
  };
  const Row rows[] = {
      {"a misspelt field gets the nearest one", "id: \"a\"\nsm_cuont { value: 1 }\n",
       "x.textproto:2:", "sm_count"},
      {"a misspelt enumerator gets the nearest one", "memory_type { value: HBM22 }",
       "x.textproto:1:", "nearest: HBM2)"},
      {"a singular field twice", "id: \"a\"\nid: \"b\"\n", "x.textproto:2:", "second time"},
      {"a message that does not end", "sm_count { value: 3\n", "x.textproto:2:", "expected"},
      {"a value of the wrong type", "id: 3", "x.textproto:1:5", "string"},
      {"a count with a fraction", "sm_count { value: 3.5 }", "x.textproto:1:", "integer"},
      {"a count beyond 64 bits", "sm_count { value: 99999999999999999999 }",
       "x.textproto:1:", "out of range"},
      {"a string that does not end", "id: \"abc\nname: \"b\"", "x.textproto:1:", "cross line"},
      {"bytes that are no text", std::string("\x00\x01\xff\x7f", 4), "x.textproto:1:", "control"},
      {"a control character by escape", "id: \"a\\nb\"", "x.textproto:1", "plain text"},
      {"bytes that are no UTF-8", "name: \"\\377\\376\"", "x.textproto:1", "plain text"},
      {"an extension nobody knows", "[foo.bar]: 1", "x.textproto:1:", "expected"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::string error = syntax_error(row.text);
    CAPTURE(error);
    CHECK(error.starts_with(row.place));
    CHECK(error.find(row.message) != error.npos);
    CHECK(error.find('\n') == error.npos);
  }
}

TEST_CASE("text of more than 1 MiB is refused before it is read") {
  CHECK(syntax_error(std::string((1 << 20) + 1, ' ')).find("at most 1048576 bytes") !=
        std::string::npos);
}

TEST_CASE("deep nesting ends in an error, not in the stack's end") {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "sm_count {";
  CHECK(syntax_error(text).starts_with("x.textproto:1:"));
}

}  // namespace
}  // namespace tracecast

TEST_SUITE_END();
