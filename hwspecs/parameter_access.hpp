#pragma once
#include <functional>
#include <span>
#include <string_view>

#include "hwspecs/cost_profile.hpp"

namespace tracecast {

/// One parameter of a cost profile, looked up once: for fits, which move hundreds of them thousands
/// of times.
class ParameterAccess {
 public:
  /// Throws InputError when there is no such parameter.
  explicit ParameterAccess(std::string_view name);

 private:
  friend struct ParameterFactor;
  const std::function<double&(CostProfile&)>* find_;
  double low_, high_;
};
/// What a parameter is multiplied by.
struct ParameterFactor {
  ParameterAccess parameter;
  double factor = 1;
  /// The profile with all of them, one after the other, each held to its bounds. Leaves
  /// `profile.parameters` alone.
  [[nodiscard]] static CostProfile apply(CostProfile profile,
                                         std::span<const ParameterFactor> factors);
};

/// The profile of hwspecs/cost/prior.textproto: every parameter as believed before any measurement
/// of a GPU. Where a fit of the shipped profile starts.
[[nodiscard]] const CostProfile& prior_cost_profile();

/// Key of the data set under which a profile that an older version saved says what it lacked, and
/// what of it is no more.
inline constexpr const char* kOlderFile = "older_file";

}  // namespace tracecast
