#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

/// Constants of the file; record.proto says how it is laid out. Private to the folder.
namespace tracecast::traces::record {

/// The last two letters are the version.
inline constexpr std::string_view kMagic = "\x89TCTRC01";
inline constexpr std::size_t kMagicName = 6;  ///< letters before the version
inline constexpr std::string_view kTrailerEnd = "TCTREND\n";

/// Of one block. Texts of a trace are up to 16 MiB each.
inline constexpr std::uint32_t kMostTextBytes = std::uint32_t{32} << 20;
inline constexpr std::uint32_t kMostColumnBytes = std::uint32_t{16} << 20;
/// What stands once in a trace: its devices, and what was left out.
inline constexpr std::uint32_t kMostHeadBytes = std::uint32_t{1} << 20;
inline constexpr std::size_t kRecordsOfBlock = 16'384;

/// Until 2042 since 1970, as TraceBuilder has it: twice that is within int64.
inline constexpr std::int64_t kLargestNs = 2'300'000'000'000'000'000;

}  // namespace tracecast::traces::record
