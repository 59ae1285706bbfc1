#pragma once

/// What `trace record` tells the library that it loads into the program. Names end in their unit.
namespace tracecast::record_environment {

inline constexpr char kFolder[] = "TRACECAST_RECORD_FOLDER";  ///< of the stream files
inline constexpr char kCupti[] = "TRACECAST_RECORD_CUPTI";    ///< libraries, divided by ':'
inline constexpr char kDelay[] = "TRACECAST_RECORD_DELAY_S";
inline constexpr char kDuration[] = "TRACECAST_RECORD_DURATION_S";
inline constexpr char kBuffers[] = "TRACECAST_RECORD_BUFFERS_MIB";

}  // namespace tracecast::record_environment
