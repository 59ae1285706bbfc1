#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"

namespace tracecast {

/// A row of a table of measurements: the field of a column, empty where there is no such column.
using RowField = std::function<std::string_view(std::string_view column)>;

/// What a column holds; of several, which tables call otherwise, the first that is not empty.
struct RowCondition {
  std::vector<std::string> columns;
  std::vector<std::string> is, is_not, has,
      begins;  ///< any of each that is not empty; none of is_not
  [[nodiscard]] bool holds(std::string_view text) const;
};

/// Some rows of some tables: all that is stated holds.
struct RowSelection {
  std::vector<std::string> tables;  ///< file names without ".gz"; empty: any
  std::vector<RowCondition> where;
  /// Whether a table of that name (without ".gz") with these columns can have such rows.
  [[nodiscard]] bool may_select(std::string_view table, std::span<const std::string> columns) const;
  [[nodiscard]] bool selects(const RowField& field) const;
};

/// A transformer's layers beside what rows give.
struct LayoutFacts {
  std::optional<int> heads, vocabulary;  ///< where the row has none
  /// Width of the feed-forward: width * thirds / 3, up to a multiple; nothing: 4 widths.
  std::optional<int> feed_forward_thirds, feed_forward_multiple;
  std::optional<bool> biases, dropout, causal, rms_norm, rotary, gated, tied;
};
/// How a transformer is divided among GPUs.
struct ParallelFacts {
  std::string software;  ///< id of a TrainingSoftware
  std::string precision, attention;
  std::string recompute;      ///< where the row says "none"
  std::optional<int> chunks;  ///< of layers that each rank of a pipeline has
  /// A pipeline cuts the row's micro-batch into one for each of its stages, ranks x chunks.
  std::optional<bool> batch_by_stages;
  std::optional<int> zero;         ///< where the row divides no states
  std::optional<int> always_zero;  ///< whatever the row says
  std::optional<bool> sequence_parallel;
  std::optional<bool> tensor_sequence_parallel;  ///< under tensor parallelism
};
/// Kernels and library calls measured alone.
struct CallFacts {
  std::string image_layout;  ///< "NHWC", whatever the row says
  std::optional<bool> ecc;   ///< on, where the board has it
  /// False: linear layers ran in another library than the framework's version has.
  std::optional<bool> cublas_lt;
  std::optional<bool> unrolled;  ///< recurrent layers are modules of their own for every step
  /// Channels, and the dimensions of GEMMs along which operands and results lie, are rounded up to
  /// multiples of it.
  std::optional<int> multiple;
  std::string algorithm;  ///< of convolutions, as cuDNN names it for forward, whatever is fastest
};
/// What a program does that its tables' columns do not say; empty: as the row says, or as usual.
struct PublishedProgram {
  std::string framework;  ///< whatever the row calls it
  std::string version;    ///< where the row states none
  std::string date;       ///< the same; as Software::date
  std::string data;       ///< as Job::data
  std::string optimizer;  ///< of training
  std::optional<bool> cudnn_benchmark;
  std::optional<bool> channels_last;  ///< images lie so in memory
  std::string attention;              ///< as Software::attention
  std::string pipeline;               ///< that loads real data
  std::string precision;              ///< whatever the row says
  std::optional<bool> mps;            ///< programs that share a GPU do so through MPS
  std::string gpu, machine, link;
  std::string box;       ///< the machine of several GPUs in one, where `machine` is that of one GPU
  std::string network;   ///< in the zoo, or a layout of models/transformer
  std::string strategy;  ///< of several GPUs, whatever the benchmark's is
  std::string phase;     ///< where the row states none; as Job::phase
  std::optional<std::int64_t> batch;    ///< of a GPU, the same
  std::optional<std::int64_t> seq_len;  ///< tokens of a sample, the same
  std::optional<bool> cuda_graphs;      ///< steps are captured and launched whole
  std::optional<double> power_limit_w;  ///< that the boards are held to
  std::string host;                     ///< training program: as `predict --program`
  std::string unpredicted;              ///< why such rows are not predicted
  LayoutFacts layout;
  ParallelFacts parallel_layout;
  CallFacts calls;
};

/// What a row was used for before it judges anything.
enum class RowUse {
  None,
  Choice,  ///< its error was in view when something was chosen
  Fit,     ///< a number was set by it
};
[[nodiscard]] std::string_view to_string(RowUse use);

struct PublishedUse {
  RowUse use = RowUse::None;
  bool of_interval = false;  ///< the interval's width alone, not the figure
  RowSelection rows;
  std::string what, record;  ///< in words; the commit or note that did
};

/// hwspecs/published/*.textproto. One that exists is valid.
struct PublishedSource {
  std::string id, name;
  RowSelection rows;
  std::vector<std::pair<RowSelection, PublishedProgram>> programs;
  std::vector<PublishedUse> uses;
  std::vector<SpecSource> sources;
};

/// Reads text format (hwspecs/proto/published_source.proto); `where` names it in errors. Throws
/// InputError: syntax, a condition without column or values, a program without its source, a use
/// without what or record.
[[nodiscard]] PublishedSource parse_published_source(std::string_view text, std::string_view where);

/// The records that a table's rows may have; refers to `all`.
class PublishedRecords {
 public:
  /// `table`: its file's name, packed or not, and its header.
  PublishedRecords(std::span<const PublishedSource> all, std::string_view table,
                   std::span<const std::string> columns);
  /// All that records say of a row's program; of two that say the same thing the later one, by id
  /// of the record.
  [[nodiscard]] PublishedProgram program_of(const RowField& field) const;
  struct Used {
    RowUse value = RowUse::None;     ///< the strongest
    RowUse interval = RowUse::None;  ///< of the interval's width
  };
  [[nodiscard]] Used used_for(const RowField& field) const;

 private:
  /// One record's statements that this table's rows can meet.
  struct Record {
    const PublishedSource* source;
    std::vector<const std::pair<RowSelection, PublishedProgram>*> programs;
    std::vector<const PublishedUse*> uses;
  };
  std::vector<Record> records_;
};

}  // namespace tracecast
