#pragma once
#include <string>

#include "traces/bytes/byte_source.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Reads a trace of PyTorch's profiler (Kineto): Chrome-trace JSON, an object with `traceEvents` or
/// the bare array, of any of the schema's ages (categories `Kernel` or `kernel`, arguments
/// `External id` or `external id`, ...).
///
/// Times come from the text of `ts` and `dur` (microseconds with decimals) to integer nanoseconds,
/// relative to `baseTimeNanoseconds` where the file has one. Kernels without device and stream
/// arguments take them from pid and tid. Events without a usable time, with a negative duration or
/// of an unknown category are left out and counted; Python functions too; arrows from launch to
/// kernel are (the correlation says the same).
///
/// Streams: needs the memory of the records and of one window. Throws InputError when the text is
/// no JSON of that form or ends too early; `name` is what errors call the file.
[[nodiscard]] Trace read_kineto(ByteSource& source, const std::string& name);

}  // namespace tracecast::traces
