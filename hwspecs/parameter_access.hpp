#pragma once
#include <functional>
#include <string_view>

#include "hwspecs/cost_profile.hpp"

namespace tracecast {

/// One parameter of a cost profile, looked up once: for fits, which move hundreds of them thousands of times.
class ParameterAccess {
 public:
  /// Throws InputError when there is no such parameter.
  explicit ParameterAccess(std::string_view name);
  /// Multiplies the value, held to its bounds. Leaves `profile.parameters` alone.
  void scale(CostProfile& profile, double factor) const;

 private:
  const std::function<double&(CostProfile&)>* find_;
  double low_, high_;
};

/// The profile of hwspecs/cost/prior.textproto: every parameter as believed before any measurement of a GPU. Where a fit of the
/// shipped profile starts.
[[nodiscard]] const CostProfile& prior_cost_profile();

/// Key of the data set under which a profile that an older version saved says what it lacked, and what of it is no more.
inline constexpr const char* kOlderFile = "older_file";

}  // namespace tracecast
