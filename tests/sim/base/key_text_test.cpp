#include "sim/base/key_text.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <vector>

#include "sim/base/units.hpp"

namespace tracecast {

enum class Color { Red, Green };
struct Part {
  int number = 0;
  std::optional<double> size{};
};
struct Whole {
  std::string name;
  Color color{};
  Part part{};
  std::vector<Part> more{};
};
static void add_members(KeyText& key, const Part& part) {
  TRACECAST_ADD_MEMBERS(key, part, number, size);
}
static void add_members(KeyText& key, const Whole& whole) {
  TRACECAST_ADD_MEMBERS(key, whole, name, color, part, more);
}

namespace {

template <class... Values>
std::string key(const Values&... values) {
  return KeyText().add(values...).text();
}

TEST_SUITE_BEGIN("sim/base/key_text");

TEST_CASE("no two values of the same types that differ have one key") {
  using Numbers = std::vector<int>;
  using Lists = std::vector<Numbers>;
  const std::optional<int> nothing, zero = 0;
  const double nan = std::numeric_limits<double>::quiet_NaN(), tenth = 0.1;
  const std::vector<std::string> keys = {
      // The same letters, digits and line ends, cut elsewhere.
      key("ab", "c"),
      key("a", "bc"),
      key("", "abc"),
      key("abc", ""),
      key("abc"),
      key("1\na"),
      // Texts with what comes between two of them in a key.
      key("a\n1\nb", "c"),
      key("a", "b\n1\nc"),
      key("a\n0\nb", "c"),
      key("a", "b\n0\nc"),
      key("1", "a"),
      key(std::string("a\0b", 3)),
      key("a"),
      key(12, 3),
      key(1, 23),
      key(Numbers{}),
      key(Numbers{7}),
      key(Numbers{1, 2}, Numbers{}),
      key(Numbers{1}, Numbers{2}),
      key(Lists{{1}, {2}}),
      key(Lists{{1, 2}}),
      // Nothing is no value.
      key(nothing, 1),
      key(zero, 1),
      key(zero),
      // Numbers differ to the last bit, and one that is none is like itself alone.
      key(tenth),
      key(std::nextafter(tenth, 1)),
      key(nan),
      key(Seconds(tenth * 3)),
      // Structs in structs.
      key(Whole{"a"}),
      key(Whole{"b"}),
      key(Whole{"a", Color::Green}),
      key(Whole{"a", {}, {1}}),
      key(Whole{"a", {}, {0, 0.0}}),
      key(Whole{"a", {}, {}, {{}}}),
      key(Whole{"a", {}, {}, {{}, {}}}),
  };
  CHECK(std::set<std::string>(keys.begin(), keys.end()).size() == keys.size());
}

TEST_CASE("equal values have one key") {
  CHECK(key(std::string("ab"), std::string_view("c"), "d") == key("ab", "c", "d"));
  CHECK(key(Whole{"a", Color::Green, {1, 0.5}}) == key(Whole{"a", Color::Green, {1, 0.5}}));
  CHECK(key(std::nan("1")) == key(std::nan("1")));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
