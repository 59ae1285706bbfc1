#pragma once
#include <string>

#include "sim/job/mode/sharded_job.hpp"

namespace CLI {
class App;
}

namespace tracecast {

/// Flags of `predict` for transformers whose layers are divided among GPUs.
struct TransformerOptions : Sharded {
  bool was_asked = false;  ///< any of these flags was given
};

/// Declares `--tp`, `--pp`, `--dp`, `--micro-batch` and so on.
void add_transformer_options(CLI::App& subcommand, TransformerOptions& options);

/// With `explains` also the table by piece: embedding, layer, head. CSV has that table alone then.
[[nodiscard]] std::string report_sharded_text(const ShardedStep& job, bool explains);
[[nodiscard]] std::string report_sharded_json(const ShardedStep& job, bool explains);
[[nodiscard]] std::string report_sharded_csv(const ShardedStep& job, bool explains);

}  // namespace tracecast
