// What picks, scatters, sorts or samples: indices say where. How long these take depends on the
// data; they count by the bytes they move.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "models/onnx/call.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast::onnx {
namespace {

/// One op that reads `inputs` and writes `shape`.
void set_moved(const Call& call, std::size_t i, OpKind kind, Shape shape, ElementType type,
               std::vector<TensorId> inputs) {
  const std::string what = to_lower(call.node.op_type());
  const std::string name = i == 0 ? call.name() : call.name() + "." + std::to_string(i);
  Op op{.name = name,
        .kind = kind,
        .attributes = ElementwiseAttributes{.name = what},
        .inputs = std::move(inputs)};
  check_shape(shape, "result");
  call.set(i, call.build().append(std::move(op), std::move(shape)), type);
}

/// The same of all inputs.
void set_moved(const Call& call, std::size_t i, OpKind kind, Shape shape, ElementType type) {
  set_moved(call, i, kind, std::move(shape), type, call.tensors());
}

/// The only element of an input whose contents are known.
std::optional<std::int64_t> number_in(const Call& call, std::size_t i) {
  if (!call.has_input(i)) return std::nullopt;
  const Integers* integers = call.input(i).integers();
  if (!integers || integers->size() != 1) return std::nullopt;
  return integers->front();
}

/// Elements of the first input replaced or added to: its shape stays. Indices that do not depend on
/// the data are how exporters write x[:, 2:5] = y, which frameworks do through a view: nobody
/// stores or reads them.
bool scatter(const Call& call) {
  std::vector<TensorId> inputs = {call.tensor(0)};
  if (!call.input(1).is_constant()) inputs.push_back(call.tensor(1));
  inputs.push_back(call.tensor(2));
  set_moved(call, 0, OpKind::Gather, call.shape(0), call.input(0).type, std::move(inputs));
  return true;
}

/// The k largest along an axis and where they stood: k is an attribute up to opset 9, then an
/// input. Sorting is left to the bound for operators without a cost model.
bool top_k(const Call& call) {
  const Shape& x = call.shape(0);
  const std::size_t axis = call.axis(call.node.integer("axis", -1), x.size());
  std::optional<std::int64_t> k;
  if (call.node.find_attribute("k")) {
    k = call.node.integer("k", 1);
  } else {
    k = number_in(call, 1);
  }
  Shape shape = x;
  if (!k) {
    call.assume("how many is known at run time only: all " + std::to_string(shape[axis]));
  } else {
    if (*k < 0) throw InputError("k", std::to_string(*k), "at least 0");
    shape[axis] = std::min(*k, shape[axis]);
  }
  const Shape shapes[] = {shape, shape};
  const ElementType types[] = {call.input(0).type, kInt64};
  call.set_bounded("TopK", std::span(shapes).first(call.node.outputs.size() < 2 ? 1 : 2), types);
  return true;
}

/// indices, depth, values: a new dimension of `depth` at `axis`.
bool one_hot(const Call& call) {
  const std::optional<std::int64_t> depth = number_in(call, 1);
  if (!depth || *depth < 0) return false;
  Shape shape = call.shape(0);
  const std::size_t axis = call.axis(call.node.integer("axis", -1), shape.size() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), *depth);
  set_moved(call, 0, OpKind::Gather, std::move(shape), call.input(2).type);
  return true;
}

/// Boxes, scores: at most `max_output_boxes_per_class` of each class and image survive, three
/// integers each.
bool non_max_suppression(const Call& call) {
  const Shape& scores = call.shape(1);  // images, classes, boxes
  if (scores.size() != 3) {
    throw InputError("scores", to_string(scores), "images, classes, boxes");
  }
  const std::optional<std::int64_t> most = number_in(call, 2);
  const std::int64_t per_class = most && *most > 0 ? std::min(*most, scores[2]) : scores[2];
  std::int64_t rows = 0;
  if (__builtin_mul_overflow(scores[0], scores[1], &rows) ||
      __builtin_mul_overflow(rows, per_class, &rows)) {
    return false;
  }
  call.assume("which boxes survive is decided by the data: all " + std::to_string(rows) +
              " that it allows");
  const Shape shape = {rows, 3};
  const ElementType type = kInt64;
  call.set_bounded("NonMaxSuppression", {&shape, 1}, {&type, 1});
  return true;
}

/// Places of the elements that are not 0: a column of indices for each, at most as many as there
/// are.
bool non_zero(const Call& call) {
  const Shape& x = call.shape(0);
  const std::int64_t most = element_count(x);
  call.assume("how many are not 0 is decided by the data: all " + std::to_string(most));
  set_moved(call, 0, OpKind::Gather, {static_cast<std::int64_t>(x.size()), most}, kInt64);
  return true;
}

/// Features, boxes, the image of each box: a grid of samples of each box, interpolated.
bool roi_align(const Call& call) {
  const Shape& x = call.shape(0);
  const Shape& boxes = call.shape(1);
  if (x.size() != 4 || boxes.size() != 2) {
    throw InputError("inputs", to_string(x) + " and " + to_string(boxes), "N,C,H,W and boxes x 4");
  }
  set_moved(
      call, 0, OpKind::Resize,
      {boxes[0], x[1], call.node.integer("output_height", 1), call.node.integer("output_width", 1)},
      kReal);
  return true;
}

/// Image N,C,H,W (or a volume), grid N,H',W',2: a sample for each cell of the grid.
bool grid_sample(const Call& call) {
  const Shape& x = call.shape(0);
  const Shape& grid = call.shape(1);
  if (x.size() < 3 || grid.size() != x.size()) {
    throw InputError("inputs", to_string(x) + " and " + to_string(grid),
                     "N,C and an image, N and a grid of places");
  }
  Shape shape = {x[0], x[1]};
  shape.insert(shape.end(), grid.begin() + 1, grid.end() - 1);
  set_moved(call, 0, OpKind::Resize, std::move(shape), kReal);
  return true;
}

/// Pooled values back to where they came from: the shape asked for, else what the window says.
bool max_unpool(const Call& call) {
  const Shape& x = call.shape(0);
  const std::vector<std::int64_t> kernel = call.node.integers("kernel_shape");
  std::vector<std::int64_t> strides = call.node.integers("strides");
  const std::vector<std::int64_t> pads = call.node.integers("pads");
  if (x.size() < 3 || kernel.size() != x.size() - 2) return false;
  if (strides.empty()) strides.assign(kernel.size(), 1);
  if (strides.size() != kernel.size() || (!pads.empty() && pads.size() != 2 * kernel.size())) {
    return false;
  }
  Shape shape = x;
  if (call.has_input(2)) {
    const Integers* target = call.input(2).integers();
    if (!target) return false;
    shape = *target;
  } else {
    for (std::size_t d = 0; d < kernel.size(); ++d) {
      constexpr std::int64_t kMost = std::int64_t{1} << 30;
      const std::int64_t before = pads.empty() ? 0 : pads[d];
      const std::int64_t after = pads.empty() ? 0 : pads[kernel.size() + d];
      const std::int64_t sizes[] = {x[2 + d], strides[d], kernel[d], before, after};
      if (std::any_of(std::begin(sizes), std::end(sizes),
                      [](std::int64_t size) { return size < 0 || size > kMost; })) {
        return false;
      }
      const std::int64_t pad = before + after;
      shape[2 + d] = (x[2 + d] - 1) * strides[d] + kernel[d] - pad;
    }
  }
  set_moved(call, 0, OpKind::Gather, std::move(shape), kReal);
  return true;
}

/// Sums so far, flips, random numbers of an input's shape: one pass over it.
bool same_shape(const Call& call) {
  const std::string function = to_lower(call.node.op_type());
  call.set(0, call.build().activation(call.name(), call.tensor(0), function));
  return true;
}

constexpr NamedHandler kSelectionHandlers[] = {
    {"ScatterND", scatter},
    {"ScatterElements", scatter},
    {"Scatter", scatter},
    {"TopK", top_k, true},
    {"OneHot", one_hot},
    {"NonMaxSuppression", non_max_suppression},
    {"NonZero", non_zero},
    {"RoiAlign", roi_align},
    {"GridSample", grid_sample},
    {"MaxUnpool", max_unpool},
    {"CumSum", same_shape},
    {"ReverseSequence", same_shape},
    {"EyeLike", same_shape},
    {"Bernoulli", same_shape},
    {"RandomNormalLike", same_shape},
    {"RandomUniformLike", same_shape},
};

}  // namespace

std::span<const NamedHandler> selection_handlers() { return kSelectionHandlers; }

}  // namespace tracecast::onnx
