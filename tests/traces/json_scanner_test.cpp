#include "traces/bytes/json_scanner.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "tests/traces/text_source.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

using Text = test::TextSource;

/// What the scanner makes of a document: every value in brackets that say its kind.
std::string walk(JsonScanner& json) {
  std::string_view key;
  std::string out;
  switch (json.peek()) {
    case JsonKind::Object:
      json.enter_object();
      while (json.next_key(key)) {
        out += "K(" + std::string(key) + ")";
        out += walk(json);
      }
      return "O(" + out + ")";
    case JsonKind::Array:
      json.enter_array();
      while (json.next_element()) out += walk(json);
      return "A(" + out + ")";
    case JsonKind::String:
      return "S(" + std::string(json.text()) + ")";
    case JsonKind::Number:
      return "N(" + std::string(json.text()) + ")";
    case JsonKind::Literal:
      return "L(" + std::string(json.text()) + ")";
  }
  return "?";
}

std::string walked(const std::string& text, std::size_t piece = 7) {
  Text source(text, piece);
  JsonScanner json(source, "t.json");
  std::string out = walk(json);
  CHECK(json.at_end());
  return out;
}

std::string refusal(const std::string& text, bool by_skipping) {
  Text source(text, 7);
  JsonScanner json(source, "t.json");
  try {
    if (by_skipping) {
      json.skip();
    } else {
      (void)walk(json);
    }
    return json.at_end() ? "taken" : "more text follows";
  } catch (const InputError& error) {
    return error.what();
  }
}

}  // namespace

TEST_CASE("every kind of value is handed out as it is written, whatever the pieces it arrives in") {
  const std::string text =
      "{ \"a\" : [1, -2.50, 1e9 , true,false,null, NaN, -Infinity], \"\":{}, \"s\":\"x\\\"y\", "
      "\"e\":[ ] }\n";
  const std::string expected =
      "O(K(a)A(N(1)N(-2.50)N(1e9)L(true)L(false)L(null)L(NaN)N(-Infinity))K()O()K(s)S(x\"y)K(e)A()"
      ")";
  for (const std::size_t piece : {1, 2, 3, 5, 8, 13, 1000}) {
    CAPTURE(piece);
    CHECK(walked(text, piece) == expected);
  }
}

TEST_CASE("escapes become the letters that they stand for") {
  struct Row {
    const char *what, *json, *text;
  };
  const Row rows[] = {
      {"control letters", R"("a\n\t\r\b\fz")", "a\n\t\r\b\fz"},
      {"slash and backslash", R"("\/\\")", "/\\"},
      {"two bytes: U+00E9", R"("\u00e9")", "\xC3\xA9"},
      {"three bytes: U+20AC", R"("\u20AC")", "\xE2\x82\xAC"},
      {"a pair of halves: U+1F600", R"("\ud83d\ude00")", "\xF0\x9F\x98\x80"},
      {"a single half becomes the replacement character", R"("\ud83dx")", "\xEF\xBF\xBDx"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    CHECK(walked(row.json) == "S(" + std::string(row.text) + ")");
  }
}

TEST_CASE(
    "a string longer than the window is whole, and a skipped one of any length costs no memory") {
  const std::string longer(700'000, 'x');
  CHECK(walked("[\"" + longer + "\"]", 65536) == "A(S(" + longer + "))");

  // 32 MiB: twice what a kept string may have.
  const std::string huge(std::size_t{32} << 20, 'x');
  Text kept_source("\"" + huge + "\"", 1 << 16);
  JsonScanner kept(kept_source, "t.json");
  CHECK_THROWS_WITH_AS((void)kept.text(), doctest::Contains("a value over 16 MiB"), InputError);
  Text skipped_source("[\"" + huge + "\", 1]", 1 << 16);
  JsonScanner skipped(skipped_source, "t.json");
  skipped.skip();
  CHECK(skipped.at_end());
}

TEST_CASE("raw gives a value with all its brackets") {
  Text source(R"({"d": [[32, 3], ["a]\"", {}]], "n": 17 })");
  JsonScanner json(source, "t.json");
  json.enter_object();
  std::string_view key;
  REQUIRE(json.next_key(key));
  CHECK(json.raw() == R"([[32, 3], ["a]\"", {}]])");
  REQUIRE(json.next_key(key));
  CHECK(key == "n");
  CHECK(json.raw() == "17");
  CHECK_FALSE(json.next_key(key));
}

TEST_CASE("numbers of the usual form are read at once, others left to be read as text") {
  struct Row {
    const char *json, *whole, *thousandths;  // "" = not taken
  };
  const Row rows[] = {
      {"7", "7", "7000"},
      {"0", "0", "0"},
      {"999999999999999999", "999999999999999999", ""},
      {"1000000000000000000", "", ""},
      {"1669783687464181", "1669783687464181", "1669783687464181000"},
      {"1669783687464181.25", "", "1669783687464181250"},
      {"2000000000000000", "2000000000000000", "2000000000000000000"},
      {"2000000000000000.001", "", ""},
      {"9999999999999999.999", "", ""},
      {"12.345", "", "12345"},
      {"12.3456", "", ""},
      {"12.", "", ""},
      {"-5", "", ""},
      {"1e3", "", ""},
      {"\"5\"", "", ""},
      {"[5]", "", ""},
  };
  for (const Row& row : rows) {
    CAPTURE(row.json);
    for (const std::size_t piece : {1, 3, 100}) {
      const auto read = [&](bool is_whole) {
        Text source("[" + std::string(row.json) + ", 6]", piece);
        JsonScanner json(source, "t.json");
        json.enter_array();
        REQUIRE(json.next_element());
        std::int64_t value = 0;
        const bool is_taken = is_whole ? json.take_whole(value) : json.take_thousandths(value);
        std::string found = is_taken ? std::to_string(value) : "";
        if (!is_taken) CHECK(json.raw() == row.json);
        REQUIRE(json.next_element());
        CHECK(json.text() == "6");
        return found;
      };
      // A number that ends where the piece does may go on in the next one.
      const std::string whole = read(true), thousandths = read(false);
      CHECK((whole == row.whole || (piece < 100 && whole.empty())));
      CHECK((thousandths == row.thousandths || (piece < 100 && thousandths.empty())));
    }
  }
}

TEST_CASE("what is left of an object is skipped, and reading goes on behind it") {
  const std::string text =
      R"([{"a": 1, "b": {"c": [1, "}"]}, "d": "\"}"}, {"a": 2}, {"a": {"b": 3, "e": []}, "f": 4}, 5])";
  for (const std::size_t piece : {1, 2, 7, 1000}) {
    CAPTURE(piece);
    Text source(text, piece);
    JsonScanner json(source, "t.json");
    std::string_view key;
    json.enter_array();
    for (const char* first : {"1", "2"}) {
      REQUIRE(json.next_element());
      json.enter_object();
      REQUIRE(json.next_key(key));
      CHECK(json.text() == first);
      json.leave_object();
    }
    REQUIRE(json.next_element());
    json.enter_object();
    REQUIRE(json.next_key(key));
    json.enter_object();
    json.leave_object();
    REQUIRE(json.next_key(key));
    CHECK(key == "f");
    json.leave_object();
    REQUIRE(json.next_element());
    CHECK(json.text() == "5");
    CHECK_FALSE(json.next_element());
    CHECK(json.at_end());
  }
}

TEST_CASE("what is no JSON is refused with the place") {
  struct Row {
    const char *what, *json, *message;
  };
  const Row rows[] = {
      {"nothing", "", "t.json, byte 0: found the end of the file; expected more JSON"},
      {"no value", "[1,]", "byte 3: found \"]\"; expected a JSON value"},
      {"no comma", "[1 2]", "byte 3: found \"2\"; expected \",\" or \"]\""},
      {"no colon", "{\"a\" 1}", "byte 5: found \"1\"; expected \":\""},
      {"a name without quotes", "{a:1}", "byte 1: found \"a\"; expected a name in quotes"},
      {"the wrong bracket", "[1}", "byte 2: found \"}\"; expected \",\" or \"]\""},
      {"an end within a string", "[\"abc", "expected the end of a string"},
      {"an end within an escape", "[\"abc\\", "expected the end of a string"},
      {"an end within an object", "{\"a\":1", "found the end of the file"},
      {"a zero byte", "[1,#]", "expected a JSON value"},
      {"\\u without digits", "\"\\u12x4\"", "found \\u without four hexadecimal digits"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const std::string message = refusal(row.json, false);
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
  }
}

TEST_CASE("a million brackets are refused, walked or skipped") {
  for (const bool by_skipping : {false, true}) {
    CAPTURE(by_skipping);
    CHECK(refusal(std::string(1'000'000, '['), by_skipping).find("nesting deeper than 256") !=
          std::string::npos);
  }
}

TEST_CASE("a skipped value is checked for balance") {
  CHECK(refusal("[{\"a\":[1,2,\"]\"]}]", true) == "taken");
  CHECK(refusal("[{]", true).find("found \"]\"; expected \"}\"") != std::string::npos);
  CHECK(refusal("[[1,2]", true).find("found the end of the file") != std::string::npos);
}
