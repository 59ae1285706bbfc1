#include "models/aten/walk.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "models/aten/exported_program.hpp"
#include "models/onnx/resize_shapes.hpp"
#include "models/shape_checks.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace tracecast::aten {
namespace {

constexpr std::size_t kMostWarnings = 12;
/// What a whole step keeps in memory stays below this, or sums of bytes would overflow.
constexpr double kMostActivationElements = 0x1p60;

const std::unordered_map<std::string_view, Row>& table() {
  static const auto rows = [] {
    std::unordered_map<std::string_view, Row> all;
    for (const auto rows_of : {elementwise_rows, gemm_rows, layer_rows, movement_rows, view_rows}) {
      for (const Row& row : rows_of()) all.emplace(row.target, row);
    }
    return all;
  }();
  return rows;
}

/// "aten.add_" works in place; "aten.__and__" does not.
std::string_view without_underscore(std::string_view target, bool& in_place) {
  in_place = target.ends_with('_') && !target.ends_with("__");
  if (in_place) target.remove_suffix(1);
  return target;
}

void collect_tensors(const Argument& argument, std::vector<TensorIndex>& found) {
  if (const auto* tensor = std::get_if<TensorReference>(&argument.value)) {
    if (std::find(found.begin(), found.end(), tensor->index) == found.end())
      found.push_back(tensor->index);
  }
  if (const auto* list = list_of(argument)) {
    for (const Argument& part : *list) collect_tensors(part, found);
  }
}

}  // namespace

std::size_t axis_of(std::int64_t axis, std::size_t rank, std::string_view where) {
  return shape_checks::checked_axis(where, axis, std::max<std::size_t>(rank, 1));
}

Walk::Walk(const Program& program, const AtenOptions& options)
    : program_(program), options_(options), builder_(program.name, 1) {
  values_.resize(program.tensors.size());
  names_.reserve(program.nodes.size());
  builder_.graph().reserve(program.tensors.size(), program.nodes.size());
  set_sizes();
}

void Walk::set_sizes() {
  double low = 0, all = 0;
  const TensorInfo* first = nullptr;
  for (const TensorInfo& tensor : program_.tensors) {
    if (tensor.source == Source::Input && !first && !tensor.shape.empty()) first = &tensor;
    if (tensor.source != Source::Parameter && tensor.source != Source::Frozen) continue;
    const auto elements = static_cast<double>(element_count(tensor.shape));
    all += elements;
    if (tensor.type.bytes <= 2) low += elements;
  }
  is_low_precision_ = low > all / 2;
  own_batch_ = first && first->shape[0] > 0 ? first->shape[0] : 1;
  batch_ = options_.batch.value_or(own_batch_);
  builder_.graph().batch = batch_;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const TensorInfo& tensor = program_.tensors[i];
    if (tensor.source == Source::Result) continue;
    Shape shape = tensor.shape;
    if (tensor.source == Source::Input && !shape.empty()) {
      if (shape[0] == own_batch_) shape[0] = batch_;
      if (shape.size() == 4 && options_.image_size && !tensor.type.is_integer) {
        shape[2] = shape[3] = *options_.image_size;
      }
      if ((shape.size() == 2 || shape.size() == 3) && options_.seq_len) {
        if (shape[1] != *options_.seq_len && !tokens_) tokens_ = {shape[1], *options_.seq_len};
        shape[1] = *options_.seq_len;
      }
      is_resized_ = is_resized_ || shape != tensor.shape;
      if (!checked_element_count(shape)) {
        throw InputError("input " + tensor.name, to_string(shape), "fewer than 2^62 elements");
      }
    }
    values_[i].shape = std::move(shape);
  }
}

Shape Walk::resized(const Shape& own) const {
  if (!is_resized_) return own;
  Shape shape = own;
  if (!shape.empty() && shape[0] == own_batch_ && own_batch_ > 1) shape[0] = batch_;
  if (tokens_) {
    for (std::int64_t& dim : shape) {
      if (dim == tokens_->first && dim > 1) dim = tokens_->second;
    }
  }
  return shape;
}

void Walk::run() {
  double elements = 0;
  for (const Node& node : program_.nodes) {
    try {
      const std::size_t before = builder_.graph().tensors().size();
      evaluate(node);
      for (std::size_t i = before; i < builder_.graph().tensors().size(); ++i) {
        elements += static_cast<double>(element_count(builder_.graph().tensors()[i].shape));
      }
      if (elements > kMostActivationElements) {
        throw InputError(node.target, "tensors of more than 2^60 elements in all", "fewer");
      }
    } catch (const InputError& error) {
      throw InputError(program_.place_prefix + std::to_string(node.place), error);
    }
  }
  set_outputs();
}

void Walk::evaluate(const Node& node) {
  bool in_place = false;
  const std::string_view target = without_underscore(node.target, in_place);
  const auto found = table().find(target);
  if (found != table().end()) {
    Call call(*this, node, found->second, in_place);
    // What is changed in place and no call made: a counter of steps, a mask that is filled. Small,
    // and no part of what is differentiated.
    if (in_place && !node.arguments.empty()) {
      const auto* self = std::get_if<TensorReference>(&node.arguments[0].second.value);
      if (self && program_.tensors[self->index].source == Source::Buffer) {
        call.pass_through();
        return;
      }
    }
    if (found->second.handler(call)) return;
  }
  apply_unknown(node, found != table().end());
}

void Walk::apply_unknown(const Node& node, bool is_known) {
  static const Row kUnknown{};
  const Call call(*this, node, kUnknown, false);
  std::string what = node.target;
  if (what.starts_with("aten.")) what = "aten::" + what.substr(5);
  if (is_known) assume(what + " in a form that is not followed: bounded by the bytes it moves");
  if (!is_known) count_unknown(what);
  std::vector<TensorId> inputs;
  for (const TensorIndex index : call.all_tensors()) inputs.push_back(whole(index));
  std::vector<Shape> shapes;
  std::vector<std::size_t> results;
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    if (!call.has_result(i)) continue;
    shapes.push_back(call.result_shape(i));
    results.push_back(i);
  }
  if (shapes.empty()) return;
  const std::vector<TensorId> made = builder_.unknown(call.name, what, inputs, shapes);
  for (std::size_t i = 0; i < made.size(); ++i) call.set(results[i], made[i]);
}

void Walk::set(TensorIndex index, Value value) { values_[index] = std::move(value); }

TensorId Walk::base(TensorIndex index) {
  Value& value = values_[index];
  if (value.id) return *value.id;
  const TensorInfo& info = program_.tensors[index];
  if (const auto loss = losses_.find(index); loss != losses_.end()) {
    const TensorIndex logits = loss->second;
    losses_.erase(loss);
    const TensorId probabilities = builder_.softmax(info.name + ".log_softmax", whole(logits), -1);
    value.id = builder_.reduce(info.name + ".loss", probabilities, {}, false, "mean");
    return *value.id;
  }
  // A result that its op does not compute here (statistics of a norm) is read like a constant.
  if (info.source == Source::Result) value.shape = resized(info.shape);
  if (info.source == Source::Constant) value.shape = resized(info.shape);
  const bool is_trained = info.source == Source::Parameter && !info.type.is_integer;
  const TensorRole role = info.source == Source::Input ? TensorRole::Input
                          : is_trained                 ? TensorRole::Weight
                                                       : TensorRole::Buffer;
  value.id = builder_.tensor({.name = info.name,
                              .shape = value.shape,
                              .role = role,
                              .is_integer = info.type.is_integer,
                              .integer_bytes = info.type.is_integer ? info.type.bytes : 8});
  if (info.source == Source::Frozen)
    builder_.graph().frozen_parameters += element_count(value.shape);
  return *value.id;
}

TensorId Walk::view(std::string name, TensorId x, Shape shape) {
  return builder_.append({.name = std::move(name), .kind = OpKind::Reshape, .inputs = {x}},
                         std::move(shape));
}

TensorId Walk::plain(TensorIndex index) {
  const TensorId id = base(index);
  Value& value = values_[index];
  if (!value.is_swapped) return id;
  const TensorId turned = view(program_.tensors[index].name + ".transposed", id, value.shape);
  value.id = turned;
  value.is_swapped = false;
  return turned;
}

TensorId Walk::whole(TensorIndex index) {
  const TensorId id = plain(index);
  Value& value = values_[index];
  if (!value.is_expanded) return id;
  const TensorId all = builder_.append({.name = program_.tensors[index].name + ".expanded",
                                        .kind = OpKind::Gather,
                                        .attributes = ElementwiseAttributes{.name = "expand"},
                                        .inputs = {id}},
                                       value.shape);
  if (program_.tensors[index].type.is_integer)
    builder_.graph().set_integer(all, program_.tensors[index].type.bytes);
  value.id = all;
  value.is_expanded = false;
  return all;
}

std::string Walk::unused_name(const Node& node) {
  std::string_view op = node.target;
  if (const std::size_t dot = op.rfind('.'); dot != std::string_view::npos)
    op.remove_prefix(dot + 1);
  std::string name = node.scope.empty() ? std::string(op) : node.scope;
  if (names_[name]++ == 0) return name;
  if (!node.scope.empty()) {
    name += '.';
    name += op;
    if (names_[name]++ == 0) return name;
  }
  return name + ':' + std::to_string(names_[name]);
}

void Walk::set_loss(TensorIndex result, TensorIndex logits) {
  losses_[result] = logits;
  values_[result] = {};
}

void Walk::assume(std::string text) {
  if (assumptions_.size() < kMostWarnings &&
      std::find(assumptions_.begin(), assumptions_.end(), text) == assumptions_.end())
    assumptions_.push_back(std::move(text));
}

void Walk::count_unknown(std::string name) { ++unknown_[std::move(name)]; }

/// Losses that the pass computes itself are those of the training step: it gives their logits.
void Walk::set_outputs() {
  std::vector<TensorId> outputs;
  for (const TensorIndex index : program_.outputs) {
    const auto loss = losses_.find(index);
    const TensorId id = whole(loss == losses_.end() ? index : loss->second);
    if (builder_.graph().tensor(id).is_integer) continue;
    const bool is_new = std::find(outputs.begin(), outputs.end(), id) == outputs.end();
    if (is_new) outputs.push_back(id);
  }
  builder_.graph().outputs = std::move(outputs);
}

AtenNetwork Walk::take() && {
  AtenNetwork network{.graph = {}};
  for (const auto& [name, count] : unknown_) {
    if (network.warnings.size() == kMostWarnings) {
      network.warnings.push_back("and " + std::to_string(unknown_.size() - kMostWarnings) +
                                 " more operators without a cost model");
      break;
    }
    network.warnings.push_back("operator " + name + " (" + std::to_string(count) +
                               "x) has no cost model: bounded by the bytes it moves");
  }
  std::move(assumptions_.begin(), assumptions_.end(), std::back_inserter(network.warnings));
  std::int64_t unread = 0;
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (program_.tensors[i].source == Source::Parameter && !values_[i].id)
      unread += element_count(program_.tensors[i].shape);
  }
  if (unread > 0) {
    network.warnings.push_back(std::to_string(unread) +
                               " parameters that the traced pass does not read are left out");
  }
  network.graph = std::move(builder_).take();
  return network;
}

// Call.

const Argument* Call::find(std::string_view parameter) const {
  for (const auto& [known, argument] : node.arguments) {
    if (known != parameter) continue;
    return argument.is_none() ? nullptr : &argument;
  }
  return nullptr;
}

TensorIndex Call::find_tensor(std::string_view parameter) const {
  const Argument* found = find(parameter);
  const auto* tensor = found ? std::get_if<TensorReference>(&found->value) : nullptr;
  return tensor ? tensor->index : kNoTensor;
}

TensorIndex Call::tensor(std::string_view parameter) const {
  const TensorIndex index = find_tensor(parameter);
  if (index == kNoTensor) {
    throw InputError(node.target, "no tensor " + std::string(parameter),
                     "a call with " + std::string(parameter) + "=%NAME");
  }
  return index;
}

TensorIndex Call::x() const {
  const auto* first = node.arguments.empty()
                          ? nullptr
                          : std::get_if<TensorReference>(&node.arguments.front().second.value);
  if (!first) throw InputError(node.target, "no tensor as its first argument", "one");
  return first->index;
}

std::vector<TensorIndex> Call::tensors(std::string_view parameter) const {
  const Argument* found = find(parameter);
  std::vector<TensorIndex> result;
  if (found) collect_tensors(*found, result);
  // The same one twice is two parts of a concatenation.
  if (const auto* list = found ? list_of(*found) : nullptr) {
    result.clear();
    for (const Argument& part : *list) {
      if (const auto* tensor = std::get_if<TensorReference>(&part.value))
        result.push_back(tensor->index);
    }
  }
  return result;
}

std::vector<TensorIndex> Call::all_tensors() const {
  std::vector<TensorIndex> found;
  for (const auto& [known, argument] : node.arguments) collect_tensors(argument, found);
  return found;
}

std::int64_t Call::integer(std::string_view parameter, std::int64_t otherwise) const {
  const Argument* found = find(parameter);
  if (!found) return otherwise;
  if (const auto* value = std::get_if<std::int64_t>(&found->value)) return *value;
  if (const auto* value = std::get_if<bool>(&found->value)) return *value ? 1 : 0;
  throw InputError(node.target, "no whole number for " + std::string(parameter), "a whole number");
}

double Call::real(std::string_view parameter, double otherwise) const {
  const Argument* found = find(parameter);
  if (!found) return otherwise;
  if (const auto* value = std::get_if<double>(&found->value)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&found->value))
    return static_cast<double>(*value);
  return otherwise;
}

bool Call::flag(std::string_view parameter, bool otherwise) const {
  const Argument* found = find(parameter);
  if (!found) return otherwise;
  if (const auto* value = std::get_if<bool>(&found->value)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&found->value)) return *value != 0;
  throw InputError(node.target, "neither true nor false for " + std::string(parameter),
                   "true or false");
}

Integers Call::integers(std::string_view parameter) const {
  const Argument* found = find(parameter);
  if (!found) return {};
  if (const auto* value = std::get_if<std::int64_t>(&found->value)) return {*value};
  const auto* list = list_of(*found);
  Integers result;
  for (const Argument& part : list ? *list : Argument::List{}) {
    const auto* value = std::get_if<std::int64_t>(&part.value);
    if (!value) {
      throw InputError(node.target,
                       "a list for " + std::string(parameter) + " that holds no number",
                       "whole numbers");
    }
    result.push_back(*value);
  }
  return result;
}

std::string_view Call::text(std::string_view parameter) const {
  const Argument* found = find(parameter);
  if (!found) return {};
  if (const auto* value = std::get_if<std::string>(&found->value)) return *value;
  if (const auto* value = std::get_if<Word>(&found->value)) return value->text;
  return {};
}

const Shape& Call::own_result(std::size_t i) const {
  if (!has_result(i)) {
    throw InputError(node.target, "no result " + std::to_string(i), "a tensor that it makes");
  }
  return own(node.results[i]).shape;
}

Shape Call::result_shape(std::size_t i) const {
  const Shape& result = own_result(i);
  if (!run.is_resized()) return result;
  std::optional<TensorIndex> largest;
  for (const TensorIndex index : all_tensors()) {
    if (!largest || element_count(own(index).shape) > element_count(own(*largest).shape))
      largest = index;
  }
  if (!largest) return run.resized(result);
  // What follows from weights and constants is as large at any sizes, unless it is repeated so
  // often as the code says.
  const bool has_sizes = find("size") != nullptr || find("repeats") != nullptr;
  const std::vector<TensorIndex> read = all_tensors();
  if (!has_sizes && std::all_of(read.begin(), read.end(), [this](TensorIndex index) {
        return shape(index) == own(index).shape;
      })) {
    return result;
  }
  const Shape followed = onnx::follow_input(result, own(*largest).shape, shape(*largest),
                                            run.own_batch(), run.batch());
  if (!checked_element_count(followed)) {
    throw InputError(node.target, to_string(followed), "fewer than 2^62 elements");
  }
  return followed;
}

std::optional<TensorId> Call::optional(std::string_view parameter) const {
  const TensorIndex index = find_tensor(parameter);
  if (index == kNoTensor) return std::nullopt;
  return whole(index);
}

TensorId Call::contiguous(TensorIndex index) const {
  const TensorId id = whole(index);
  if (own(index).is_contiguous()) return id;
  return build().slice(name + ".contiguous", id, build().shape(id));
}

void Call::set(std::size_t i, TensorId id) const {
  if (!has_result(i)) return;
  Shape made = build().shape(id);
  if (!run.is_resized() && made != own_result(i)) {
    throw InputError(node.target, "a result of shape " + to_string(own_result(i)),
                     to_string(made) + ", which follows from what it reads");
  }
  const ElementType& type = own(node.results[i]).type;
  if (type.is_integer && !build().graph().tensor(id).is_integer)
    build().graph().set_integer(id, type.bytes);
  run.set(node.results[i], {.id = id, .shape = std::move(made)});
}

void Call::set_value(std::size_t i, Value value) const {
  if (!has_result(i)) return;
  if (!run.is_resized() && value.shape != own_result(i)) {
    throw InputError(node.target, "a result of shape " + to_string(own_result(i)),
                     to_string(value.shape) + ", which follows from what it reads");
  }
  run.set(node.results[i], std::move(value));
}

void Call::append(std::size_t i, OpKind kind, std::string_view function,
                  std::vector<TensorId> inputs, std::string_view note) const {
  Op op{.name = i == 0 ? name : name + ":" + std::to_string(i),
        .kind = kind,
        .inputs = std::move(inputs),
        .note = std::string(note)};
  if (!function.empty()) op.attributes = ElementwiseAttributes{.name = std::string(function)};
  set(i, build().append(std::move(op), result_shape(i)));
}

}  // namespace tracecast::aten

namespace tracecast {

bool is_aten_path(std::string_view path) {
  return path.ends_with(".graph") || path.ends_with(".pt2");
}

namespace {

/// The network's name follows from the file's, as that of an ONNX file does.
aten::Program read_program(std::string_view bytes, std::string_view where,
                           bool inputs_only = false) {
  aten::Program program = where.ends_with(".pt2")
                              ? aten::read_exported_program(bytes, where)
                              : aten::read_graph_file(bytes, where, inputs_only);
  const std::string stem = std::filesystem::path(where).stem().string();
  if (!stem.empty()) program.name = stem;
  return program;
}

}  // namespace

std::string read_aten_file(const std::filesystem::path& path, std::uint64_t most_bytes) {
  constexpr std::uint64_t kMostGraphBytes = 128ULL << 20;
  return path.extension() == ".pt2" ? aten::read_program_text(path)
                                    : read_file(path, std::min(most_bytes, kMostGraphBytes));
}

std::int64_t aten_batch(std::string_view bytes, std::string_view where) {
  const aten::Program program = read_program(bytes, where, true);
  for (const aten::TensorInfo& tensor : program.tensors) {
    if (tensor.source == aten::Source::Input && !tensor.shape.empty())
      return std::max<std::int64_t>(tensor.shape[0], 1);
  }
  return 1;
}

AtenNetwork import_aten(std::string_view bytes, std::string_view where,
                        const AtenOptions& options) {
  const aten::Program program = read_program(bytes, where);
  aten::Walk walk(program, options);
  walk.run();
  AtenNetwork network = std::move(walk).take();
  if (program.writes_attention_out && !options.as_written) {
    network.graph = canonicalize(network.graph, {.attention = options.attention, .is_traced = true},
                                 network.rewrites);
  }
  if (options.training && !program.is_training_mode) {
    network.warnings.insert(network.warnings.begin(),
                            "traced as it infers: dropout and auxiliary heads are left out");
  }
  return network;
}

}  // namespace tracecast
