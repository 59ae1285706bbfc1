#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"

namespace tracecast {

/// One column of a list of hardware beside id and name.
struct ListColumn {
  std::string title;  ///< of the text table: short, in field terms
  std::string key;    ///< of JSON and CSV: ends in the unit
  std::size_t width;  ///< of the text table
};
/// One piece of hardware with the figures of its columns; text where a figure makes no sense.
struct ListRow {
  const SpecIdentity* spec;
  std::vector<std::string> cells;  ///< numbers in full; the text table shortens them
};
/// A list of one kind of hardware.
struct SpecList {
  std::string kind;  ///< "cpus"
  std::vector<ListColumn> columns;
  std::vector<ListRow> rows;
  std::string legend;  ///< below the text table
};

/// The list as text of 80 columns, JSON or CSV.
[[nodiscard]] std::string write_list(const SpecList& list, std::string_view format);
/// Everything known about one piece of hardware, each value with its source.
[[nodiscard]] std::string write_spec(const SpecIdentity& spec, std::string_view kind,
                                     std::string_view format);

}  // namespace tracecast
