#pragma once
#include <filesystem>
#include <optional>
#include <string_view>

namespace tracecast::test {

/// The measured data that tests read but the project does not contain: `$TRACECAST_DATA`, else
/// ../shared/data beside the source root (the working directory of tests). Absent: prints
/// "[skipped] ..." (which ctest reports as skipped) and returns nothing, except in CI (environment
/// variable CI set), where the test fails.
[[nodiscard]] std::optional<std::filesystem::path> find_data(std::string_view relative_path);

}  // namespace tracecast::test
