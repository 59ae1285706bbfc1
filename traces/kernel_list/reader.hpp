#pragma once
#include <string>
#include <string_view>

#include "traces/bytes/byte_source.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Reads a list of kernels in launch order: CSV with a header that begins with `Name` and has a
/// column `Duration` (nanoseconds); other columns are passed over. When each kernel began is not
/// recorded: they are laid one after the other on one stream, so that span and busy time are the
/// sum. Throws InputError when the header is another.
[[nodiscard]] Trace read_kernel_list(ByteSource& source, const std::string& name);

/// Whether a text begins with such a header.
[[nodiscard]] bool is_kernel_list(std::string_view head);

}  // namespace tracecast::traces
