#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/spec_identity.hpp"

namespace tracecast {

/// A row of a table of measurements: the field of a column, empty where there is no such column.
using RowField = std::function<std::string_view(std::string_view column)>;

/// What a column holds.
struct RowCondition {
  std::string column;
  std::vector<std::string> is, is_not, has, begins;
  [[nodiscard]] bool holds(std::string_view text) const;
};

/// Some rows of some tables: all that is stated holds.
struct RowSelection {
  std::vector<std::string> tables;  ///< file names without ".gz"; empty: any
  std::vector<RowCondition> where;
  [[nodiscard]] bool may_select(std::string_view table) const;
  [[nodiscard]] bool selects(const RowField& field) const;
};

/// What a program does that its tables' columns do not say; empty: as the row says, or as usual.
struct PublishedProgram {
  std::string version;    ///< where the row states none
  std::string data;       ///< as Job::data
  std::string optimizer;  ///< of training
  std::optional<bool> cudnn_benchmark;
  std::string gpu, machine, link;
  // Of divided transformers.
  std::string software, precision, attention;
  std::string recompute;           ///< where the row says "none"
  std::optional<int> zero;         ///< where the row divides no states
  std::optional<int> always_zero;  ///< whatever the row says
  std::optional<bool> sequence_parallel;
  std::optional<bool> tensor_sequence_parallel;  ///< under tensor parallelism
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

/// Reads text format (hwspecs/proto/published_source.proto); `where` names it in errors. Throws InputError: syntax, a
/// condition without column or values, a program without its source, a use without what or record.
[[nodiscard]] PublishedSource parse_published_source(std::string_view text, std::string_view where);

/// The records that a table's rows may have; refers to `all`.
class PublishedRecords {
 public:
  /// `table`: its file's name, packed or not.
  PublishedRecords(std::span<const PublishedSource> all, std::string_view table);
  /// All that records say of a row's program; of two that say the same thing the later one, by id of the record.
  [[nodiscard]] PublishedProgram program_of(const RowField& field) const;
  struct Used {
    RowUse value = RowUse::None;     ///< the strongest
    RowUse interval = RowUse::None;  ///< of the interval's width
  };
  [[nodiscard]] Used used_for(const RowField& field) const;

 private:
  std::string table_;
  std::vector<const PublishedSource*> records_;
};

}  // namespace tracecast
