#include "traces/name_table.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tracecast::traces;

TEST_CASE("each text gets one number, and the number gives it back") {
  NameTable names;
  CHECK(names[NameId{}].empty());
  CHECK(names.intern("") == NameId{});
  CHECK(names.intern(std::string_view()) == NameId{});
  std::vector<NameId> ids;
  for (int i = 0; i < 20'000; ++i) ids.push_back(names.intern("name " + std::to_string(i)));
  CHECK(names.size() == 20'001);
  for (int i = 0; i < 20'000; i += 997) {
    CAPTURE(i);
    CHECK(names.intern("name " + std::to_string(i)) == ids[static_cast<std::size_t>(i)]);
    CHECK(names[ids[static_cast<std::size_t>(i)]] == "name " + std::to_string(i));
  }
}

TEST_CASE("views stay valid while the table grows, also of texts larger than a block") {
  NameTable names;
  const std::string long_text(1'000'000, 'x');
  const std::string_view first = names[names.intern("first")],
                         longest = names[names.intern(long_text)];
  for (int i = 0; i < 10'000; ++i) names.intern(std::to_string(i));
  CHECK(first == "first");
  CHECK(longest == long_text);
}
