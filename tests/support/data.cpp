#include "tests/support/data.hpp"

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace tracecast::test {

std::optional<std::filesystem::path> find_data(std::string_view relative_path) {
  const char* root = std::getenv("TRACECAST_DATA");
  const std::filesystem::path path =
      std::filesystem::path(root ? root : "../shared/data") / relative_path;
  if (std::filesystem::exists(path)) return path;
  if (std::getenv("CI")) {
    FAIL_CHECK("measured data are missing in CI: " << path.string());
  } else {
    std::printf("[skipped] no measured data at %s\n", path.c_str());
  }
  return std::nullopt;
}

}  // namespace tracecast::test
