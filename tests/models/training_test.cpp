#include "models/training.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "models/onnx/import.hpp"
#include "models/ops.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/support/data.hpp"

using namespace tracecast;

namespace {

std::vector<std::string> op_names(const NetworkGraph& graph) {
  std::vector<std::string> names;
  for (const Op& op : graph.ops()) names.push_back(op.name);
  return names;
}

const Op& find_op(const NetworkGraph& graph, std::string_view name) {
  const auto found = std::find_if(graph.ops().begin(), graph.ops().end(),
                                  [&](const Op& op) { return op.name == name; });
  REQUIRE(found != graph.ops().end());
  return *found;
}

std::vector<std::string> tensor_names(const NetworkGraph& graph, const std::vector<TensorId>& ids) {
  std::vector<std::string> names;
  for (const TensorId id : ids) names.push_back(graph.tensor(id).name);
  return names;
}

using Names = std::vector<std::string>;

double macs_of(const NetworkGraph& graph, Pass pass, OpKind kind) {
  double sum = 0;
  for (const Op& op : graph.ops()) {
    if (op.pass == pass && op.kind == kind) sum += macs(op);
  }
  return sum;
}

/// A network's input, or made of it without any weight (dropout of the input).
bool needs_no_gradient(const NetworkGraph& graph, TensorId id) {
  while (const auto producer = graph.producer(id)) {
    for (const TensorId input : graph.op(*producer).inputs) {
      if (graph.tensor(input).role == TensorRole::Weight) return false;
    }
    id = graph.op(*producer).inputs.front();
    for (const TensorId input : graph.op(*producer).inputs) {
      if (graph.producer(input)) id = input;  // what was computed, not a mask fed from outside
    }
  }
  const TensorRole role = graph.tensor(id).role;
  return role == TensorRole::Input || role == TensorRole::Buffer || role == TensorRole::Store;
}

/// Nothing reads a tensor after an op has been done in place on it.
void check_that_nothing_reads_what_was_overwritten(const NetworkGraph& graph) {
  std::set<TensorId> overwritten;
  for (const Op& op : graph.ops()) {
    for (const TensorId input : op.inputs) {
      CAPTURE(op.name);
      CHECK(overwritten.count(input) == 0);
    }
    if (op.kind != OpKind::Reshape && shares_memory_with_input(op))
      overwritten.insert(op.inputs[0]);
  }
}

/// The operands of a GEMM, as stored, are those its attributes speak of.
void check_gemm(const NetworkGraph& graph, const Op& op) {
  const auto& a = std::get<MatMulAttributes>(op.attributes);
  const auto stored = [&](TensorId id, std::int64_t rows, std::int64_t cols, bool transposed) {
    const Shape& shape = graph.tensor(id).shape;
    const std::int64_t count = element_count(shape);
    CHECK(count == a.batch * rows * cols);
    CHECK(shape.back() == (transposed ? rows : cols));
  };
  CAPTURE(op.name);
  stored(op.inputs[0], a.m, a.k, a.transpose_a);
  stored(op.inputs[1], a.k, a.n, a.transpose_b);
  stored(op.outputs[0], a.m, a.n, false);
}

}  // namespace

TEST_SUITE_BEGIN("models/training");

TEST_CASE("a small network's step is what one would write by hand") {
  GraphBuilder b("small", 2);
  TensorId x = b.input("images", {2, 3, 8, 8});
  x = b.conv_layer("conv1", x, 4, Window::square(3, 1, 1), false);
  x = b.batch_norm_layer("bn", x);
  x = b.activation("relu", x, "relu", true);
  x = b.max_pool("pool", x, Window::square(2, 2));
  x = b.conv_layer("conv2", x, 5, Window::square(3), true);
  x = b.flatten("flatten", x);
  x = b.linear_layer("fc", x, 10, true);
  b.graph().outputs = {x};
  const NetworkGraph step =
      make_training_graph(std::move(b).take(), {.optimizer = OptimizerKind::Sgd});

  CHECK(op_names(step) == Names{"conv1",
                                "bn",
                                "relu",
                                "pool",
                                "conv2",
                                "flatten",
                                "fc",
                                "loss",
                                "loss bwd",
                                "fc dgrad",
                                "fc wgrad",
                                "flatten bwd",
                                "conv2 dgrad",
                                "conv2 wgrad",
                                "pool bwd",
                                "relu bwd",
                                "bn bwd",
                                "conv1 wgrad",
                                "update conv1.weight",
                                "update bn.weight",
                                "update bn.bias",
                                "update conv2.weight",
                                "update conv2.bias",
                                "update fc.weight",
                                "update fc.bias"});
  const auto reads = [&](const char* op) { return tensor_names(step, find_op(step, op).inputs); };
  const auto writes = [&](const char* op) { return tensor_names(step, find_op(step, op).outputs); };
  CHECK(reads("conv2 dgrad") == Names{"d conv2", "conv2.weight"});
  CHECK(reads("conv2 wgrad") == Names{"pool", "d conv2"});
  CHECK(writes("conv2 wgrad") == Names{"d conv2.weight", "d conv2.bias"});
  CHECK(reads("bn bwd") == Names{"conv1", "d bn", "bn.weight"});
  CHECK(writes("bn bwd") == Names{"d conv1", "d bn.weight", "d bn.bias"});
  CHECK(reads("relu bwd") == Names{"relu", "d relu"});
  CHECK(reads("pool bwd") == Names{"relu", "pool", "d pool"});
  CHECK(reads("loss bwd") == Names{"loss.log_probabilities", "labels"});
  CHECK(reads("fc wgrad") == Names{"d fc", "flatten"});
  CHECK(reads("update fc.bias") == Names{"fc.bias", "d fc.bias"});
  CHECK(step.op(*find_op(step, "conv2 wgrad").forward).name == "conv2");
  CHECK(find_op(step, "update conv2.bias").outputs.empty());
  CHECK_FALSE(shares_memory_with_input(find_op(step, "relu bwd")));
}

TEST_CASE("every zoo network trains: one gradient and one update per weight, 3x the convolutions") {
  for (const ZooEntry& entry : zoo()) {
    CAPTURE(entry.name);
    const NetworkGraph forward = build_network(entry.name, {.batch = 2, .training = true});
    const NetworkGraph step = make_training_graph(forward, {.optimizer = OptimizerKind::Adam});

    std::map<TensorId, int> updates;
    for (const Op& op : step.ops()) {
      if (op.kind != OpKind::Optimizer) continue;
      ++updates[op.inputs[0]];
      CHECK(op.inputs.size() == 4);  // weight, gradient, two moments
      for (const TensorId input : op.inputs) {
        const bool is_sparse =
            input == op.inputs[1] && step.op(*step.producer(input)).kind == OpKind::EmbeddingBag;
        if (!is_sparse) CHECK(step.tensor(input).shape == step.tensor(op.inputs[0]).shape);
      }
      CHECK(step.tensor(op.inputs[1]).role == TensorRole::WeightGradient);
      CHECK(step.tensor(op.inputs[2]).role == TensorRole::OptimizerState);
      CHECK(op.forward.has_value());
    }
    std::size_t weights = 0;
    for (std::uint32_t i = 0; i < step.tensors().size(); ++i) {
      if (step.tensors()[i].role != TensorRole::Weight) continue;
      // What chooses keys for sparse attention has no gradient: a choice is no function that can be
      // derived.
      if (step.tensors()[i].name.find("indexer") != std::string::npos) continue;
      ++weights;
      CHECK(updates[TensorId{i}] == 1);
    }
    CHECK(updates.size() == weights);

    // Convolutions and GEMMs of the input itself need no data gradient, frozen ones no weight
    // gradient.
    double first_conv = 0, first_linear = 0, frozen_conv = 0;
    for (const Op& op : forward.ops()) {
      if (op.kind == OpKind::Conv && forward.tensor(op.inputs[1]).role == TensorRole::Buffer) {
        frozen_conv += macs(op);
      }
      const bool chooses = op.name.find("indexer") != std::string::npos;
      if (op.inputs.empty() || chooses || needs_no_gradient(forward, op.inputs[0])) {
        if (op.kind == OpKind::Conv) first_conv += macs(op);
        if (op.kind == OpKind::Linear) first_linear += macs(op);
      }
    }
    const double conv = macs_of(forward, Pass::Forward, OpKind::Conv);
    CHECK(macs_of(step, Pass::BackwardWeights, OpKind::Conv) == conv - frozen_conv);
    CHECK(macs_of(step, Pass::BackwardData, OpKind::Conv) == conv - first_conv);
    CHECK(macs_of(step, Pass::BackwardData, OpKind::Linear) ==
          macs_of(forward, Pass::Forward, OpKind::Linear) - first_linear);
    CHECK(step.forward_macs() == forward.forward_macs());
    for (const Op& op : step.ops()) {
      if (op.kind == OpKind::Linear) check_gemm(step, op);
    }
    check_that_nothing_reads_what_was_overwritten(step);
  }
}

TEST_CASE("every ONNX file of the data set trains") {
  const auto folder = test::find_data("onnx");
  if (!folder) return;
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    if (entry.path().extension() != ".onnx") continue;
    ++files;
    CAPTURE(entry.path().filename().string());
    constexpr std::uint64_t kMostBytes = 1 << 28;
    const NetworkGraph forward = import_onnx(read_file(entry.path(), kMostBytes),
                                             entry.path().string(), {.batch = 2, .training = true})
                                     .graph;
    const NetworkGraph step = make_training_graph(forward, {.optimizer = OptimizerKind::Sgd});
    std::int64_t updated = 0;
    for (const Op& op : step.ops()) {
      if (op.kind == OpKind::Optimizer) updated += element_count(step.tensor(op.inputs[0]).shape);
    }
    CHECK(updated == forward.parameter_count());
    const double conv = macs_of(forward, Pass::Forward, OpKind::Conv);
    CHECK(macs_of(step, Pass::BackwardWeights, OpKind::Conv) == conv);
    CHECK(macs_of(step, Pass::BackwardData, OpKind::Conv) < conv);
    CHECK(macs_of(step, Pass::BackwardData, OpKind::Conv) > 0.8 * conv);
    check_that_nothing_reads_what_was_overwritten(step);
  }
  CHECK(files == 9);
}

TEST_CASE("gradients have the shape of what they belong to and only weights' count as weights'") {
  const NetworkGraph step =
      make_training_graph(build_network("inception_v3", {.training = true}), {});
  std::map<std::string, const Tensor*> by_name;
  for (const Tensor& tensor : step.tensors()) by_name[tensor.name] = &tensor;
  for (const Tensor& tensor : step.tensors()) {
    if (!tensor.name.starts_with("d ")) continue;
    CAPTURE(tensor.name);
    const Tensor* of = by_name.at(tensor.name.substr(2));
    CHECK(tensor.shape == of->shape);
    CHECK((tensor.role == TensorRole::WeightGradient) == (of->role == TensorRole::Weight));
  }
}

TEST_CASE("a tensor with several readers gets the sum of their gradients") {
  GraphBuilder b("residual", 1);
  TensorId x = b.input("images", {1, 3, 4, 4});
  const TensorId stem = b.conv_layer("stem", x, 3, Window::square(1), false);
  const TensorId branch = b.conv_layer("branch", stem, 3, Window::square(1), false);
  x = b.add("add", branch, stem, true);
  b.graph().outputs = {b.flatten("flatten", x)};
  const NetworkGraph step = make_training_graph(std::move(b).take(), {.with_optimizer = false});
  // The sum's own gradient goes to both operands without a kernel.
  CHECK(op_names(step) == Names{"stem", "branch", "add", "flatten", "loss", "loss bwd",
                                "flatten bwd", "branch dgrad", "accumulate d stem", "branch wgrad",
                                "stem wgrad"});
  CHECK(tensor_names(step, find_op(step, "accumulate d stem").inputs) == Names{"d add", "d stem"});
  CHECK(tensor_names(step, find_op(step, "stem wgrad").inputs) == Names{"images", "sum d stem"});
}

TEST_CASE("the input has a gradient where it is asked for, integers never") {
  GraphBuilder b("two", 2);
  TensorId x = b.input("images", {2, 3, 8, 8});
  x = b.conv_layer("first", x, 4, Window::square(3, 1, 1), false);
  b.graph().outputs = {b.conv_layer("second", x, 4, Window::square(3, 1, 1), false)};
  const NetworkGraph forward = std::move(b).take();
  const auto count = [&](bool differentiates_input) {
    const NetworkGraph step =
        make_training_graph(forward, {.with_loss = false,
                                      .with_optimizer = false,
                                      .differentiates_input = differentiates_input});
    return std::count_if(step.ops().begin(), step.ops().end(),
                         [](const Op& op) { return op.pass == Pass::BackwardData; });
  };
  CHECK(count(false) == 1);
  CHECK(count(true) == 2);
}

TEST_CASE("summed gradients may start from a copy of the first") {
  GraphBuilder b("residual", 2);
  TensorId x = b.input("images", {2, 4, 8, 8});
  x = b.conv_layer("stem", x, 4, Window::square(1), false);
  TensorId branch = b.conv_layer("branch", x, 4, Window::square(3, 1, 1), false);
  TensorId third = b.conv_layer("third", x, 4, Window::square(3, 1, 1), false);
  b.graph().outputs = {b.add("sum", b.add("first", x, branch), third)};
  const NetworkGraph step = make_training_graph(
      std::move(b).take(),
      {.with_loss = false, .with_optimizer = false, .copies_first_gradient = true});
  const auto count = [&](std::string_view prefix) {
    return std::count_if(step.ops().begin(), step.ops().end(),
                         [&](const Op& op) { return op.name.starts_with(prefix); });
  };
  CHECK(count("copy d") == 1);        // three readers: one copy
  CHECK(count("accumulate d") == 2);  // and two additions
}

TEST_CASE("the gradient of a choice reads its condition and no operand") {
  GraphBuilder b("masked", 1);
  const TensorId mask = b.tensor({.name = "mask",
                                  .shape = {1, 8},
                                  .role = TensorRole::Buffer,
                                  .is_integer = true,
                                  .integer_bytes = 1});
  const TensorId x = b.linear_layer("fc", b.input("x", {4, 8}), 8, false);
  const TensorId operands[] = {mask, x, b.buffer("lowest", {})};
  b.graph().outputs = {b.binary("choose", "where", operands)};
  const NetworkGraph step = make_training_graph(std::move(b).take(), {.with_optimizer = false});
  CHECK(tensor_names(step, find_op(step, "choose bwd").inputs) == Names{"d choose", "mask"});
  CHECK(tensor_names(step, find_op(step, "choose bwd").outputs) == Names{"d fc"});
}

TEST_CASE("a shared weight has one update of the summed gradient") {
  GraphBuilder b("tied", 1);
  const TensorId w = b.weight("w", {8, 8});
  TensorId x = b.input("x", {1, 8});
  x = b.linear("first", x, w, std::nullopt);
  x = b.linear("second", x, w, std::nullopt);
  b.graph().outputs = {x};
  const NetworkGraph step = make_training_graph(std::move(b).take(), {});
  CHECK(tensor_names(step, find_op(step, "update w").inputs) == Names{"w", "sum d w", "w.moment1"});
  CHECK(step.tensor(find_op(step, "update w").inputs[1]).role == TensorRole::WeightGradient);
}

TEST_CASE("the gradients of a GEMM are GEMMs of the right operands, however they are stored") {
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      CAPTURE(transpose_a);
      CAPTURE(transpose_b);
      GraphBuilder b("gemm", 2);
      // C[5,7] = A[5,3] B[3,7], each of a stack of 2.
      const Shape a_shape = transpose_a ? Shape{2, 3, 5} : Shape{2, 5, 3};
      const Shape b_shape = transpose_b ? Shape{2, 7, 3} : Shape{2, 3, 7};
      const TensorId a = b.weight("a", a_shape), w = b.weight("b", b_shape);
      b.graph().outputs = {b.matmul("c", a, w, transpose_a, transpose_b)};
      const NetworkGraph step = make_training_graph(std::move(b).take(), {.with_loss = false});
      int gemms = 0;
      for (const Op& op : step.ops()) {
        if (op.kind != OpKind::MatMul) continue;
        ++gemms;
        check_gemm(step, op);
        CHECK(macs(op) == 2 * 5 * 3 * 7);
      }
      CHECK(gemms == 3);
    }
  }
}

TEST_CASE("both layouts of a linear weight give a gradient in the weight's own layout") {
  for (const auto layout : {GraphBuilder::WeightLayout::OutIn, GraphBuilder::WeightLayout::InOut}) {
    GraphBuilder b("linear", 4);
    const bool out_in = layout == GraphBuilder::WeightLayout::OutIn;
    TensorId x = b.linear_layer("before", b.input("x", {4, 9}), 3, false);
    const TensorId w = b.weight("w", out_in ? Shape{7, 3} : Shape{3, 7});
    b.graph().outputs = {b.linear("fc", x, w, std::nullopt, layout)};
    const NetworkGraph step = make_training_graph(std::move(b).take(), {});
    for (const char* name : {"fc", "fc dgrad", "fc wgrad", "before wgrad"}) {
      check_gemm(step, find_op(step, name));
    }
    const Op& wgrad = find_op(step, "fc wgrad");
    CHECK(step.tensor(wgrad.outputs[0]).shape == step.tensor(w).shape);
  }
}

TEST_CASE("a stretched operand's gradient is a sum over what it was stretched along") {
  GraphBuilder b("broadcast", 2);
  const TensorId x = b.linear_layer("fc", b.input("x", {2, 5, 8}), 8, false);
  const TensorId bias = b.weight("bias", {8}), scale = b.weight("scale", {8});
  b.graph().outputs = {b.mul("scaled", b.add("biased", x, bias), scale)};
  const NetworkGraph step = make_training_graph(std::move(b).take(), {.with_loss = false});
  const Op& sum = find_op(step, "update bias");
  CHECK(step.tensor(sum.inputs[1]).shape == Shape{8});
  const Op& reduce = step.op(*step.producer(sum.inputs[1]));
  CHECK(reduce.kind == OpKind::Reduce);
  CHECK(std::get<ReduceAttributes>(reduce.attributes).rows == 8);
  CHECK(std::get<ReduceAttributes>(reduce.attributes).cols == 2 * 5);
  // d scale = sum over rows of d y * biased: one GEMM, one reduction.
  const Op& scale_update = find_op(step, "update scale");
  CHECK(step.op(*step.producer(scale_update.inputs[1])).kind == OpKind::Reduce);
}

TEST_CASE("what was picked or repeated gets its gradient back") {
  GraphBuilder b("gather", 1);
  const TensorId x = b.linear_layer("fc", b.input("x", {1, 8}), 6, false);
  const TensorId picked = b.gather("picked", x, b.input("ids", {1, 3}, true), 1);
  const TensorId repeated = b.append({.name = "repeated",
                                      .kind = OpKind::Gather,
                                      .attributes = ElementwiseAttributes{.name = "expand"},
                                      .inputs = {picked}},
                                     {5, 1, 3});
  b.graph().outputs = {repeated};
  const NetworkGraph step = make_training_graph(std::move(b).take(), {.with_loss = false});
  const Op& sum = find_op(step, "repeated bwd");
  CHECK(sum.kind == OpKind::Reduce);
  CHECK(std::get<ReduceAttributes>(sum.attributes).cols == 5);
  CHECK(tensor_names(step, find_op(step, "picked bwd").inputs) == Names{"ids", "d picked"});
  CHECK(step.tensor(find_op(step, "picked bwd").outputs[0]).shape == Shape{1, 6});
}

TEST_CASE("random networks train: gradients fit, and exactly the weights behind the output move") {
  Random random(20);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    GraphBuilder b("random", 2);
    // Tensors of one shape, so that any op may follow any other.
    std::vector<TensorId> pool = {b.input("x", {2, 4, 6, 6})};
    const auto pick = [&] { return pool[random.below(pool.size())]; };
    for (int i = 0; i < 25; ++i) {
      const std::string name = "op" + std::to_string(i);
      TensorId y = pick();
      switch (random.below(12)) {
        case 0:
          y = b.conv_layer(name, y, 4, Window::square(3, 1, 1), true);
          break;
        case 1:
          y = b.batch_norm_layer(name, y);
          break;
        case 2:
          y = b.activation(name, y, random.below(2) ? "relu" : "gelu");
          break;
        case 3:
          y = b.add(name, y, pick());
          break;
        case 4:
          y = b.mul(name, y, b.weight(name + ".scale", {4, 1, 1}));
          break;
        case 5:
          y = b.max_pool(name, y, Window::square(3, 1, 1));
          break;
        case 6: {
          const TensorId both[] = {y, pick()};
          const std::int64_t halves[] = {4, 4};
          y = b.split(name, b.concat(name + ".cat", both, 1), 1, halves)[random.below(2)];
          break;
        }
        case 7:
          y = b.reshape(name, b.linear_layer(name + ".fc", b.flatten(name + ".flat", y), 144, true),
                        {2, 4, 6, 6});
          break;
        case 8:
          y = b.matmul(name, y, pick(), random.below(2) != 0, random.below(2) != 0);
          break;
        case 9:
          y = b.softmax(name, y, 1);
          break;
        case 10:
          y = b.mul(name, y, y);
          break;
        default:
          y = b.dropout(name, y);
      }
      pool.push_back(y);
    }
    const TensorId logits = b.linear_layer("head", b.flatten("flat", pool.back()), 10, true);
    b.graph().outputs = {logits};
    const NetworkGraph forward = std::move(b).take();
    const NetworkGraph step = make_training_graph(forward, {.optimizer = OptimizerKind::Sgd});

    std::set<TensorId> behind = {logits};
    for (std::size_t i = forward.ops().size(); i-- > 0;) {
      const Op& op = forward.ops()[i];
      const bool counts = std::any_of(op.outputs.begin(), op.outputs.end(),
                                      [&](TensorId id) { return behind.count(id) != 0; });
      if (counts) behind.insert(op.inputs.begin(), op.inputs.end());
    }
    std::set<TensorId> updated;
    for (const Op& op : step.ops()) {
      if (op.kind == OpKind::Linear || op.kind == OpKind::MatMul) check_gemm(step, op);
      if (op.kind != OpKind::Optimizer) continue;
      CHECK(updated.insert(op.inputs[0]).second);
      CHECK(step.tensor(op.inputs[1]).shape == step.tensor(op.inputs[0]).shape);
    }
    for (std::uint32_t i = 0; i < forward.tensors().size(); ++i) {
      if (forward.tensors()[i].role != TensorRole::Weight) continue;
      CHECK(updated.count(TensorId{i}) == behind.count(TensorId{i}));
    }
  }
}

TEST_CASE("branches that lead to no output and parts without weights cost nothing backwards") {
  GraphBuilder b("dead", 1);
  const TensorId x = b.input("x", {1, 8});
  const TensorId scaled = b.activation("scaled", x, "tanh");
  b.linear_layer("dead", scaled, 4, false);
  b.graph().outputs = {b.linear_layer("alive", scaled, 4, false)};
  const NetworkGraph step = make_training_graph(std::move(b).take(), {});
  CHECK(op_names(step) ==
        Names{"scaled", "dead", "alive", "loss", "loss bwd", "alive wgrad", "update alive.weight"});
}

TEST_CASE("a network that ends in softmax gets its loss on the logits") {
  GraphBuilder b("softmax", 3);
  const TensorId logits = b.linear_layer("fc", b.input("x", {3, 8}), 10, false);
  b.graph().outputs = {b.softmax("prob", logits)};
  const NetworkGraph step = make_training_graph(std::move(b).take(), {});
  CHECK(tensor_names(step, find_op(step, "loss").inputs) == Names{"fc", "labels"});
  CHECK(step.tensor(find_op(step, "loss").inputs[1]).shape == Shape{3});
  const auto& loss = std::get<NormAttributes>(find_op(step, "loss").attributes);
  CHECK(loss.rows == 3);
  CHECK(loss.cols == 10);
}

TEST_CASE("concatenation, split, slice and pad have each other as gradients") {
  GraphBuilder b("data", 1);
  const TensorId x = b.conv_layer("stem", b.input("x", {1, 3, 6, 6}), 6, Window::square(1), false);
  const std::int64_t sizes[] = {2, 4}, zero[] = {0, 0, 0, 0}, one[] = {0, 0, 1, 1};
  const std::vector<TensorId> parts = b.split("split", x, 1, sizes);
  const TensorId both[] = {parts[1], parts[0]};
  TensorId y = b.concat("cat", both, 1);
  y = b.pad("pad", y, zero, one);
  y = b.slice("slice", y, {1, 6, 5, 5});
  b.graph().outputs = {b.flatten("flatten", y)};
  const NetworkGraph step = make_training_graph(std::move(b).take(), {});
  CHECK(find_op(step, "slice bwd").kind == OpKind::Pad);
  CHECK(find_op(step, "pad bwd").kind == OpKind::Slice);
  CHECK(find_op(step, "cat bwd").kind == OpKind::Slice);
  CHECK(find_op(step, "split bwd").kind == OpKind::Concat);
  CHECK(step.tensor(find_op(step, "split bwd").outputs[0]).shape == Shape{1, 6, 6, 6});
}

TEST_CASE("what an activation keeps is its result or its input, as the derivative needs") {
  struct Row {
    const char* function;
    bool in_place;
    const char* kept;
  };
  const Row rows[] = {{"relu", false, "f"},
                      {"sigmoid", false, "f"},
                      {"gelu", false, "stem"},
                      {"silu", false, "stem"},
                      {"relu6", true, "f"}};
  for (const Row& row : rows) {
    CAPTURE(row.function);
    GraphBuilder b("activation", 1);
    const TensorId x = b.linear_layer("stem", b.input("x", {1, 4}), 4, false);
    b.graph().outputs = {b.activation("f", x, row.function, row.in_place)};
    const NetworkGraph step = make_training_graph(std::move(b).take(), {.with_loss = false});
    CHECK(tensor_names(step, find_op(step, "f bwd").inputs) == Names{row.kept, "d f"});
  }
}

TEST_CASE("dropout keeps its mask, one byte an element") {
  const NetworkGraph step = make_training_graph(build_network("alexnet", {.training = true}), {});
  const Op& backward = find_op(step, "classifier.0 bwd");
  const Tensor& mask = step.tensor(backward.inputs[1]);
  CHECK(mask.is_integer);
  CHECK(mask.integer_bytes == 1);
}

TEST_CASE("optimizers differ in their states") {
  struct Row {
    const char* name;
    std::int64_t states;
  };
  for (const Row& row :
       {Row{"sgd", 0}, Row{"momentum", 1}, Row{"adam", 2}, Row{"adamw", 2}, Row{"lamb", 2},
        Row{"adagrad", 1}, Row{"rmsprop", 2}, Row{"adadelta", 2}}) {
    CAPTURE(row.name);
    const NetworkGraph step = make_training_graph(build_network("resnet18", {}),
                                                  {.optimizer = *find_optimizer(row.name)});
    std::int64_t elements = 0;
    for (const Tensor& tensor : step.tensors()) {
      if (tensor.role == TensorRole::OptimizerState) elements += element_count(tensor.shape);
    }
    CHECK(elements == row.states * 11'689'512);
  }
  CHECK_FALSE(find_optimizer("adamax").has_value());
}

TEST_CASE("an update reads gradient, weight and states and writes weight and states at least") {
  CHECK(update_accesses(OptimizerKind::Sgd) == 3);
  CHECK(update_accesses(OptimizerKind::Adam) == 7);
  CHECK(update_accesses(OptimizerKind::AdamW) == 7);  // decay takes a factor, no pass
  // Two norms, and the direction written and read on the way: 1 + (4 + 3) + 1 + (2 + 1).
  CHECK(update_accesses(OptimizerKind::Lamb) == 12);
  CHECK(update_accesses(OptimizerKind::None) == 0);
}

TEST_SUITE_END();
