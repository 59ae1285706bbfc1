#pragma once
#include "hwspecs/software/framework_profile.hpp"

namespace tracecast {

/// Whether steps under both have the same kernels and the same tensors in memory: they differ at
/// most in what the host costs, in how sure they are, and in what is written about them.
[[nodiscard]] bool differ_in_host_alone(const FrameworkProfile& a, const FrameworkProfile& b);

}  // namespace tracecast
