#pragma once
#include <cstdint>
#include <optional>

#include "models/graph.hpp"

namespace tracecast::onnx {

/// The target of a Reshape whose constant was written for other sizes, at the sizes asked for.
/// Input and output dimensions are matched at the file's own sizes in the smallest groups of equal
/// GEMMs
/// ([1, 24, 28, 28] to [1, 3, 8, 28, 28]: 1|1, 24|3x8, 28|28, 28|28); what a group's input grows
/// by, its output grows by: a single dimension takes all; of several, a leading one that equals the
/// file's batch takes the batch, and of the others the open one, else one that equals the batch
/// where the group grows as the batch does (steps x samples), else the first that divides evenly
/// takes the rest. Where several dimensions that grow as the batch become the last one ([197, 12,
/// 64] to [197, 768]: heads to features), the dimension before takes the growth. Nothing when the
/// GEMMs cannot be kept.
///   own_in, own_out: shapes at the file's own sizes, the same number of elements, none 0
///   in:              the input at the sizes asked for, of own_in's rank
///   open:            the dimension that the target leaves open (-1)
[[nodiscard]] std::optional<Shape> follow_reshape(const Shape& own_in, const Shape& own_out,
                                                  const Shape& in, std::int64_t own_batch,
                                                  std::int64_t batch,
                                                  std::optional<std::size_t> open = {});

/// A shape known at the file's own sizes only, scaled to those asked for: a dimension that equals
/// the input's at the same place follows it, and so does a leading batch. For outputs of operators
/// nobody knows.
[[nodiscard]] Shape follow_input(const Shape& own_out, const Shape& own_in, const Shape& in,
                                 std::int64_t own_batch, std::int64_t batch);

}  // namespace tracecast::onnx
