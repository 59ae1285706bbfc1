#pragma once
#include <string>
#include <vector>

namespace tracecast {

/// Where a value of a spec comes from.
struct SpecSource {
  std::string key;    ///< the short name by which values refer to it
  std::string title;  ///< document
  std::string where;  ///< section, table or page
};

/// One value of a spec as shown to people: field name (with unit), value, source key.
struct SpecValue {
  std::string field;
  std::string value;
  std::string source;
};

/// What every hardware spec has beside its own facts.
struct SpecIdentity {
  std::string id;                    ///< canonical: "v100_sxm2_16gb"
  std::string name;                  ///< as sold: "Tesla V100-SXM2-16GB"
  std::vector<std::string> aliases;  ///< other accepted spellings, lower case
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;  ///< every value of the file with its source, in schema order
};

}  // namespace tracecast
