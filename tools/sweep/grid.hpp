#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/store/row.hpp"

namespace tracecast {

/// Which subcommand answers a point; an index into sweep_tables().
enum class SweepSubcommand : std::uint8_t { Predict, Serve };
inline constexpr SweepSubcommand kSweepSubcommands[] = {SweepSubcommand::Predict,
                                                        SweepSubcommand::Serve};

/// To the last digit; empty where there is nothing.
[[nodiscard]] std::string value_text(const store::Value& value);

/// One question of a grid.
struct SweepPoint {
  SweepSubcommand subcommand{};
  std::vector<std::string> words;   ///< what stands behind `tracecast SUBCOMMAND`
  std::string question;             ///< hash of the subcommand and the flags, in the schema's order
  std::vector<store::Value> asked;  ///< a value for each of asked_columns(subcommand)
  std::vector<std::string> files;   ///< whose bytes the answer depends on
};

/// The flags that a grid may hold, in the order of its schema (sweep.proto).
[[nodiscard]] std::vector<store::Column> asked_columns(SweepSubcommand subcommand);

/// Every combination of the values that a file lists.
class SweepGrid {
 public:
  /// `text` as sweep.proto has it. Throws InputError with the line: no such field, nothing to ask,
  /// a value twice, more than kMostPoints points.
  SweepGrid(std::string_view text, std::string_view where);

  static constexpr std::int64_t kMostPoints = 10'000'000;

  [[nodiscard]] std::int64_t size() const { return size_; }
  /// Number of its blocks: points of several may be the same question.
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  /// Precondition: 0 <= `index` < size().
  [[nodiscard]] SweepPoint at(std::int64_t index) const;
  /// The same grid has the same text, however its file is laid out.
  [[nodiscard]] const std::string& text() const { return text_; }

 private:
  struct Axis {
    std::size_t column = 0;  ///< into asked_columns
    std::string field;
    std::vector<store::Value> values;
    std::vector<std::string> texts;  ///< of the values, as flags have them
    bool is_file = false;
  };
  struct Block {
    SweepSubcommand subcommand{};
    std::vector<Axis> axes;
    std::int64_t size = 1;
    std::size_t columns = 0;
  };
  std::vector<Block> blocks_;
  std::int64_t size_ = 0;
  std::string text_;
};

}  // namespace tracecast
