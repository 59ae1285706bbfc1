// What moves, picks, pads and resizes data.
#include <algorithm>
#include <utility>

#include "models/aten/walk.hpp"
#include "sim/base/error.hpp"

namespace tracecast::aten {
namespace {

std::vector<TensorId> whole(const Call& call, const std::vector<TensorIndex>& indices) {
  std::vector<TensorId> ids;
  ids.reserve(indices.size());
  for (const TensorIndex index : indices) ids.push_back(call.whole(index));
  return ids;
}

bool concat(Call& call) {
  std::vector<TensorIndex> parts = call.tensors("tensors");
  // An empty vector joins anything.
  std::erase_if(parts, [&](TensorIndex part) { return call.shape(part) == Shape{0}; });
  if (parts.empty()) return false;
  call.set(0, call.build().concat(call.name, whole(call, parts), call.integer("dim", 0)));
  return true;
}

bool stack(Call& call) {
  const std::vector<TensorIndex> parts = call.tensors("tensors");
  if (parts.empty()) return false;
  Shape shape = call.shape(parts.front());
  const std::size_t axis = axis_of(call.integer("dim", 0), shape.size() + 1, call.node.target);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  std::vector<TensorId> ids;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    ids.push_back(call.build().reshape(call.name + ".part_" + std::to_string(i),
                                       call.whole(parts[i]), shape));
  }
  call.set(0, call.build().concat(call.name, ids, static_cast<std::int64_t>(axis)));
  return true;
}

/// Cells before and after, from the last dimension on; a copy even where there are none.
bool pad(Call& call) {
  const TensorIndex x = call.x();
  Integers cells = call.integers("pad");
  if (cells.empty()) cells = call.integers("padding");
  const std::size_t rank = call.shape(x).size();
  if (cells.size() % 2 != 0 || cells.size() > 2 * rank) {
    throw InputError(call.node.target, std::to_string(cells.size()) + " pads",
                     "one at either end of each dimension of " + to_string(call.shape(x)));
  }
  Integers before(rank, 0), after(rank, 0);
  for (std::size_t i = 0; i < cells.size() / 2; ++i) {
    before[rank - 1 - i] = cells[2 * i];
    after[rank - 1 - i] = cells[2 * i + 1];
  }
  call.set(0, call.build().pad(call.name, call.whole(x), before, after));
  return true;
}

/// A copy of the whole for each dimension.
bool roll(Call& call) {
  const TensorIndex x = call.x();
  TensorId id = call.whole(x);
  const std::size_t dims = std::max<std::size_t>(call.integers("dims").size(), 1);
  for (std::size_t i = 0; i < std::min<std::size_t>(dims, 8); ++i) {
    const std::string part = i + 1 == dims ? "" : "." + std::to_string(i);
    id = call.build().slice(call.name + part, id, call.build().shape(id));
  }
  call.set(0, id);
  return true;
}

bool repeat(Call& call) {
  call.append(0, OpKind::Gather, "tile", {call.whole(call.x())});
  return true;
}

bool index_select(Call& call) {
  const TensorIndex x = call.x(), index = call.tensor("index");
  if (call.shape(index).size() > 1) return false;
  if (call.shape(x).empty()) return false;
  call.set(
      0, call.build().gather(call.name, call.whole(x), call.whole(index), call.integer("dim", 0)));
  return true;
}

/// x[ids, ...]: the shape is the trace's.
bool index(Call& call) {
  std::vector<TensorId> inputs{call.whole(call.x())};
  for (const TensorIndex i : call.all_tensors()) {
    if (i != call.x()) inputs.push_back(call.whole(i));
  }
  const TensorIndex x = call.x();
  const std::vector<TensorIndex> ids = call.tensors("indices");
  // x[ids] of the outermost dimension is what index_select does, at any sizes.
  if (ids.size() == 1 && call.node.target == "aten.index" && !call.shape(x).empty() &&
      call.own(ids[0]).type.bytes > 1) {
    const Argument* list = call.find("indices");
    const auto* entries = list ? list_of(*list) : nullptr;
    if (entries && !entries->empty() &&
        std::holds_alternative<TensorReference>(entries->front().value)) {
      call.set(0, call.build().gather(call.name, inputs[0], call.whole(ids[0]), 0));
      return true;
    }
  }
  call.append(0, OpKind::Gather, "index", std::move(inputs));
  return true;
}

/// Elements replaced or added to: the first argument's shape stays.
bool scatter(Call& call) {
  std::vector<TensorId> inputs = whole(call, call.all_tensors());
  Op op{.name = call.name,
        .kind = OpKind::Gather,
        .attributes = ElementwiseAttributes{.name = "scatter"},
        .inputs = std::move(inputs)};
  Shape shape = call.shape(call.x());
  call.set(0, call.build().append(std::move(op), std::move(shape)));
  return true;
}

Shape scaled_image(const Call& call, TensorIndex x) {
  Shape shape = call.own_result(0);
  const Shape& own = call.own(x).shape;
  const Shape& now = call.shape(x);
  if (own.size() != shape.size() || own.size() < 3) {
    throw InputError(call.node.target, to_string(own) + " to " + to_string(shape),
                     "N,C and an image");
  }
  for (std::size_t i = 0; i < shape.size() && call.run.is_resized(); ++i) {
    const double factor =
        i < 2 || own[i] == 0 ? 1.0 : static_cast<double>(shape[i]) / static_cast<double>(own[i]);
    const double scaled = static_cast<double>(now[i]) * factor;
    if (!(scaled < 0x1p40))
      throw InputError(call.node.target, "a size beyond 2^40", "a smaller one");
    shape[i] = i < 2 ? now[i] : static_cast<std::int64_t>(scaled);
  }
  return shape;
}
bool upsample(Call& call) {
  const TensorIndex x = call.x();
  call.set(0,
           call.build().resize(call.name, call.whole(x), scaled_image(call, x), call.row.function));
  return true;
}
/// Samples at places that another tensor says.
bool sample(Call& call) {
  call.append(0, OpKind::Resize, "linear", whole(call, call.all_tensors()));
  return true;
}

/// Blocks of channels to pixels and back, groups of channels exchanged: one copy.
bool shuffle(Call& call) {
  const TensorIndex x = call.x();
  if (element_count(call.shape(x)) != element_count(call.result_shape(0))) return false;
  call.append(0, OpKind::Transpose, "", {call.whole(x)});
  return true;
}

/// Windows of an image, each a column: a kernel that writes all of them (ATen/native/im2col.h).
bool windows(Call& call) {
  if (call.find_tensor("self") == kNoTensor) return false;
  call.append(0, OpKind::Gather, "im2col", {call.whole(call.x())});
  return true;
}

/// Memory for a tensor: nothing is done.
bool allocated(Call& call) {
  if (!call.has_result(0)) return false;
  call.run.set(call.node.results[0], {.shape = call.run.resized(call.own_result(0))});
  return true;
}
/// Made anew each time it is run, and read like a constant: filled in place.
bool made(Call& call) {
  if (!allocated(call)) return false;
  const TensorId memory = call.whole(call.node.results[0]);
  call.set(0, call.build().activation(call.name, memory, "fill", true));
  return true;
}

/// What is written over another tensor takes its place.
bool copy(Call& call) {
  const TensorIndex x = call.x(), source = call.tensor("src");
  const TensorId id = call.plain(source);
  const Shape shape = call.shape(x);
  if (call.build().shape(id) == shape) {
    call.set(0, call.build().slice(call.name, id, shape));
    return true;
  }
  (void)broadcast_shape(call.node.target, shape, call.build().shape(id));
  call.set(0, call.build().append({.name = call.name,
                                   .kind = OpKind::Gather,
                                   .attributes = ElementwiseAttributes{.name = "expand"},
                                   .inputs = {id}},
                                  shape));
  return true;
}

constexpr Row kMovementRows[] = {
    {"aten.im2col", windows},
    {"aten.cat", concat},
    {"aten.concat", concat},
    {"aten.stack", stack},
    {"aten.pad", pad},
    {"aten.constant_pad_nd", pad},
    {"aten.reflection_pad1d", pad},
    {"aten.reflection_pad2d", pad},
    {"aten.reflection_pad3d", pad},
    {"aten.replication_pad1d", pad},
    {"aten.replication_pad2d", pad},
    {"aten.replication_pad3d", pad},
    {"aten.roll", roll},
    {"aten.flip", roll},
    {"aten.repeat", repeat},
    {"aten.tile", repeat},
    {"aten.repeat_interleave", repeat},
    {"aten.index_select", index_select},
    {"aten.index", index},
    {"aten.gather", index},
    {"aten.take_along_dim", index},
    {"aten.index_put", scatter},
    {"aten.index_add", scatter},
    {"aten.index_copy", scatter},
    {"aten.scatter", scatter},
    {"aten.scatter_add", scatter},
    {"aten.scatter_reduce", scatter},
    {"aten.slice_scatter", scatter},
    {"aten.select_scatter", scatter},
    {"aten.masked_scatter", scatter},
    {"aten.upsample_nearest1d", upsample, "nearest"},
    {"aten.upsample_nearest2d", upsample, "nearest"},
    {"aten.upsample_nearest3d", upsample, "nearest"},
    {"aten._upsample_nearest_exact2d", upsample, "nearest"},
    {"aten.upsample_linear1d", upsample, "linear"},
    {"aten.upsample_bilinear2d", upsample, "linear"},
    {"aten._upsample_bilinear2d_aa", upsample, "linear"},
    {"aten.upsample_trilinear3d", upsample, "linear"},
    {"aten.upsample_bicubic2d", upsample, "cubic"},
    {"aten._upsample_bicubic2d_aa", upsample, "cubic"},
    {"aten.grid_sampler_2d", sample},
    {"aten.grid_sampler", sample},
    {"torchvision.roi_align", sample},
    {"aten.pixel_shuffle", shuffle},
    {"aten.pixel_unshuffle", shuffle},
    {"aten.channel_shuffle", shuffle},
    {"aten.copy", copy},
    {"aten.arange", made},
    {"aten.linspace", made},
    {"aten.zeros", made},
    {"aten.ones", made},
    {"aten.full", made},
    {"aten.empty", allocated},
    {"aten.empty_strided", allocated},
    {"aten.eye", made},
    {"aten.rand", made},
    {"aten.randn", made},
    {"aten.randint", made},
    {"aten.randperm", made},
    {"aten.scalar_tensor", made},
    {"aten.tril_indices", made},
    {"aten.triu_indices", made},
    {"aten.zeros_like", made},
    {"aten.ones_like", made},
    {"aten.full_like", made},
    {"aten.empty_like", allocated},
    {"aten.rand_like", made},
    {"aten.randn_like", made},
    {"aten.new_zeros", made},
    {"aten.new_ones", made},
    {"aten.new_full", made},
    {"aten.new_empty", allocated},
    {"aten.new_empty_strided", allocated},
};

}  // namespace

std::span<const Row> movement_rows() { return kMovementRows; }

}  // namespace tracecast::aten
