#pragma once
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "hwspecs/loaders/spec_identity.hpp"
#include "sim/base/error.hpp"

namespace tracecast::test {

/// The line of the InputError that `action` throws, or "accepted".
template <typename Action>
std::string input_error(Action&& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

/// `text` with the first `from` replaced, which must be there.
inline std::string replace(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

/// Every spec of `catalog` parses, is found by all its names, and uses each of its sources.
template <typename Catalog>
void check_catalog(const Catalog& catalog) {
  for (const auto& spec : catalog.all()) {
    CAPTURE(spec.id);
    std::set<std::string> used;
    for (const SpecValue& value : spec.values) used.insert(value.source);
    for (const SpecSource& source : spec.sources) {
      CAPTURE(source.key);
      CHECK(used.contains(source.key));
    }
    CHECK(catalog.find(spec.id).id == spec.id);
    CHECK(catalog.find(spec.name).id == spec.id);
    for (const std::string& alias : spec.aliases) CHECK(catalog.find(alias).id == spec.id);
  }
}

}  // namespace tracecast::test
