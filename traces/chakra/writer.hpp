#pragma once
#include "traces/bytes/output_file.hpp"
#include "traces/kernel_names/kernel_names.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces {

/// What a Chakra execution trace says less exactly than the recording, or not at all.
struct ChakraLosses {
  /// Between the end of work and the begin of what waited for it: launch latencies, calls that
  /// return. Chakra's edges have no length.
  std::int64_t lag_ns = 0;
  std::uint64_t untold_collectives = 0;  ///< neither kind nor size known: written as computation
};

/// Writes one rank's recording as a binary Chakra execution trace (mlcommons/chakra,
/// schema/protobuf/et_def.proto, version 0.0.4): what waited for what (replay/program.hpp) as nodes
/// in an order in which each stands behind what it waits for.
/// - kernels: COMP, with the dims and types of the operator that launched them; collectives:
/// COMM_COLL with comm_type,
///   comm_size and pg_name; copies: MEM_LOAD from the host, MEM_STORE to it, with tensor_size,
///   others and memsets COMP,
/// - host work, calls: COMP with is_cpu_op; begins and ends of steps and waits: METADATA,
/// - streams, events and waits for the GPU: data dependencies; launches and the order of a thread:
/// control dependencies. The format knows whole microseconds; the attribute duration_ns, which our
/// reader takes, has the rest. A trace of graph nodes is written as it stands, all dependencies as
/// data dependencies.
ChakraLosses write_chakra(const Trace& trace, const KernelNames& names, const ByteSink& sink);

}  // namespace tracecast::traces
