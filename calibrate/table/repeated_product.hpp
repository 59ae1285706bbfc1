#pragma once
#include <string>

#include "sim/base/units.hpp"
#include "sim/cost/product.hpp"

namespace tracecast {

/// Tells the product what a loop over it finds in L2: the same activations and results each time, the same weights after
/// `weight_copies` products.
void repeat_product(cost::TensorProduct& product, double weight_copies);

/// Cell of a product's time: what a fit weighs alike.
[[nodiscard]] std::string product_size_class(Seconds time);

}  // namespace tracecast
