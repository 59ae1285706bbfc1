#pragma once
#include <string>
#include <string_view>

#include "traces/bytes/byte_source.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// Reads a binary Chakra execution trace: (length, message) pairs, first the metadata, then nodes
/// with their dependencies. Both dialects of attributes are taken (`comm_size` signed or unsigned),
/// and `duration_ns`, which our writer adds where whole microseconds are not exact. Bytes of
/// messages are `comm_size`, of loads and stores `tensor_size`. Throws InputError when the stream
/// is damaged.
[[nodiscard]] Trace read_chakra(ByteSource& source, const std::string& name);

/// Reads Chakra nodes as JSON (`workload_graph`). Throws InputError.
[[nodiscard]] Trace read_chakra_json(ByteSource& source, const std::string& name);

/// Reads PyTorch's execution trace, JSON of schema 1.0.x (flat `input_shapes`) or 1.1.x (`inputs:
/// {values, shapes, types}`): operators with the shapes and types of their inputs, and no times.
/// Throws InputError.
[[nodiscard]] Trace read_execution_trace(ByteSource& source, const std::string& name);

/// Whether the beginning of a file can be a binary Chakra trace's.
[[nodiscard]] bool is_chakra(std::string_view head);

}  // namespace tracecast::traces
