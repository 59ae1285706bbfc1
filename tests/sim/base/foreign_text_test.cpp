#include "sim/base/foreign_text.hpp"

#include <doctest/doctest.h>

#include <string>

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/base/foreign_text");

TEST_CASE("what a terminal would obey is spelled out, all else stays as it is") {
  struct Row {
    const char* what;
    std::string text, shown;
  };
  const Row rows[] = {
      {"a plain name", "void gemm<float>(int)", "void gemm<float>(int)"},
      {"other alphabets", "größe 配列 🚀 é", "größe 配列 🚀 é"},
      {"escape sequence", "a\x1b[31mb", "a\\x1b[31mb"},
      {"window title: OSC, ended by BEL", "\x1b]0;t\x07", "\\x1b]0;t\\x07"},
      {"line breaks, tab, zero", std::string("a\r\nb\tc\0d", 8), "a\\x0d\\x0ab\\x09c\\x00d"},
      {"DEL", "a\x7f", "a\\x7f"},
      {"the C1 control U+009B in UTF-8", "\xC2\x9B", "\\u009b"},
      {"the C1 control as a single byte", "a\x9b", "a\\x9b"},
      {"text that runs right to left by order", "a\u202Eb\u2066c", "a\\u202eb\\u2066c"},
      {"marks of direction", "\u200E\u200F\u061C", "\\u200e\\u200f\\u061c"},
      {"line and paragraph separators", "\u2028\u2029", "\\u2028\\u2029"},
      {"cut short in the middle of a letter", "\xE9\x85", "\\xe9\\x85"},
      {"an overlong slash", "\xC0\xAF", "\\xc0\\xaf"},
      {"a surrogate", "\xED\xA0\x80", "\\xed\\xa0\\x80"},
      {"beyond Unicode", "\xF4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(printable(row.text) == row.shown);
    CHECK(printable(row.shown) == row.shown);
  }
}

TEST_CASE("a page keeps its lines and columns and stays JSON where it was JSON") {
  CHECK(printable_page("a\tb\n\x1b[2J\x7f\xC2\x9B\u202E\xff") ==
        "a\tb\n\\u001b[2J\\u007f\\u009b\\u202e\uFFFD");
  CHECK(printable_page("{\"größe\": 1}\n") == "{\"größe\": 1}\n");
}

TEST_CASE("text becomes a JSON string whatever its bytes") {
  CHECK(json_quoted("a\"b\\c\n\x1b\x7f\xC2\x9B\xff é") == R"("a\"b\\c\u000a\u001b\u007f\u009b)"
                                                          "\uFFFD é\"");
  CHECK(json_quoted("") == "\"\"");
  CHECK(as_utf8("a\x1b\xff é") == "a\x1b\uFFFD é");
}

TEST_CASE("a CSV field is quoted where it must be, and no spreadsheet computes it") {
  struct Row {
    const char* what;
    std::string text, field;
  };
  const Row rows[] = {
      {"plain", "gemm", "gemm"},
      {"comma and quote", "f(a, \"b\")", "\"f(a, \"\"b\"\")\""},
      {"formulas", "=1+1", "'=1+1"},
      {"by plus", "+A1", "'+A1"},
      {"by minus", "-A1", "'-A1"},
      {"by at", "@SUM(A1)", "'@SUM(A1)"},
      {"in full width", "＝1", "'＝1"},
      {"quoted as well", "=cmd|' /C calc'!A0,\"x\"", "\"'=cmd|' /C calc'!A0,\"\"x\"\"\""},
      {"a negative number is a number", "-1.5e-3", "-1.5e-3"},
      {"a single dash computes nothing", "-", "-"},
      {"a tab that hides a formula", "\t=1", "\\x09=1"},
      {"a row stays one line", "a\r\nb", "a\\x0d\\x0ab"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(csv_field(row.text) == row.field);
  }
}

TEST_CASE("columns are counted as terminals count them, and no letter is cut") {
  CHECK(columns("größe") == 5);
  CHECK(columns("配列") == 4);
  CHECK(columns("🚀") == 2);
  CHECK(columns("e\u0301") == 1);  // e and an acute accent
  CHECK(columns("") == 0);

  const std::string text = "配a列e\u0301";
  CHECK(first_columns(text, 2) == "配");
  CHECK(first_columns(text, 4) == "配a");
  CHECK(first_columns(text, 99) == text);
  CHECK(last_columns(text, 1) == "e\u0301");
  CHECK(last_columns(text, 2) == "e\u0301");
  CHECK(last_columns(text, 3) == "列e\u0301");
  CHECK(last_columns(text, 99) == text);
  CHECK(last_columns("e\u0301", 0).empty());

  CHECK(first_bytes("größe", 3) == "gr");
  CHECK(first_bytes("größe", 4) == "grö");
  CHECK(first_bytes("größe", 99) == "größe");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
