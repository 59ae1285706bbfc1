#include "models/canonical/canonical.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "models/ops.hpp"
#include "models/training.hpp"

namespace tracecast {
namespace {

std::size_t count(const NetworkGraph& graph, OpKind kind) {
  std::size_t found = 0;
  for (const Op& op : graph.ops()) found += op.kind == kind;
  return found;
}

struct Written {
  std::string_view rule;
  int count = 0, ops = 0;
};

NetworkGraph rewritten(GraphBuilder b, TensorId y, const CanonicalOptions& options,
                       std::vector<Rewrite>& rewrites) {
  b.graph().outputs = {y};
  return canonicalize(std::move(b).take(), options, rewrites);
}

/// Deviations from the mean over the last dimension, over their root mean square.
TensorId deviations(GraphBuilder& b, const std::string& name, TensorId x, std::int64_t axis,
                    bool by_pow = true) {
  const std::array<std::int64_t, 1> axes{axis};
  const TensorId d = b.binary(name + ".sub", "sub",
                              std::array{x, b.reduce(name + ".mean", x, axes, true, "mean")});
  TensorId v = by_pow ? b.activation(name + ".pow", d, "pow") : b.mul(name + ".square", d, d);
  v = b.reduce(name + ".variance", v, axes, true, "mean");
  v = b.activation(name + ".sqrt", b.activation(name + ".epsilon", v, "add"), "sqrt");
  return b.binary(name + ".div", "div", std::array{d, v});
}

TEST_SUITE_BEGIN("models/canonical");

TEST_CASE("a layer norm of nine operators is one op, with the weights it had") {
  for (const bool by_pow : {true, false}) {
    CAPTURE(by_pow);
    GraphBuilder b("norm", 2);
    TensorId x = deviations(b, "n", b.input("x", {2, 5, 8}), -1, by_pow);
    x = b.mul("scaled", x, b.weight("w", {8}));
    x = b.add("shifted", x, b.weight("b", {8}));
    std::vector<Rewrite> rewrites;
    const NetworkGraph graph = rewritten(std::move(b), x, {}, rewrites);
    REQUIRE(graph.ops().size() == 1);
    const Op& op = graph.ops()[0];
    CHECK(op.kind == OpKind::LayerNorm);
    CHECK(std::get<NormAttributes>(op.attributes).rows == 10);
    CHECK(std::get<NormAttributes>(op.attributes).cols == 8);
    CHECK(op.inputs.size() == 3);
    CHECK(graph.parameter_count() == 16);
    REQUIRE(rewrites.size() == 1);
    CHECK(rewrites[0].rule == "layer_norm");
    CHECK(rewrites[0].count == 1);
    CHECK(rewrites[0].ops == 9);
  }
}

TEST_CASE("what somebody else reads, and a norm over channels in the middle, stay as written") {
  {  // the deviations are read by another op
    GraphBuilder b("norm", 2);
    TensorId x = deviations(b, "n", b.input("x", {2, 5, 8}), -1);
    const TensorId sub = *[&]() -> std::optional<TensorId> {
      for (std::uint32_t i = 0; i < b.graph().tensors().size(); ++i) {
        if (b.graph().tensor(TensorId{i}).name == "n.sub") return TensorId{i};
      }
      return std::nullopt;
    }();
    x = b.add("both", x, sub);
    std::vector<Rewrite> rewrites;
    const NetworkGraph graph = rewritten(std::move(b), x, {}, rewrites);
    CHECK(count(graph, OpKind::LayerNorm) == 0);
    CHECK(graph.ops().size() == 8);
  }
  {  // ConvNeXt's own code: mean over dimension 1
    GraphBuilder b("norm", 2);
    const TensorId x = deviations(b, "n", b.input("x", {2, 8, 5, 5}), 1);
    std::vector<Rewrite> rewrites;
    CHECK(count(rewritten(std::move(b), x, {}, rewrites), OpKind::LayerNorm) == 0);
    CHECK(rewrites.empty());
  }
}

TEST_CASE("a group norm that was written as an instance norm of groups is one op") {
  GraphBuilder b("norm", 2);
  const TensorId x = b.input("x", {2, 8, 3, 3});
  const TensorId ones = b.buffer("ones", {4}), zeros = b.buffer("zeros", {4});
  TensorId y = b.instance_norm("n", b.reshape("groups", x, {2, 4, 18}), ones, zeros);
  y = b.reshape("back", y, {2, 8, 3, 3});
  y = b.add("add", b.mul("mul", y, b.weight("w", {8, 1, 1})), b.weight("b", {8, 1, 1}));
  std::vector<Rewrite> rewrites;
  const NetworkGraph graph = rewritten(std::move(b), y, {}, rewrites);
  REQUIRE(graph.ops().size() == 1);
  CHECK(graph.ops()[0].kind == OpKind::GroupNorm);
  CHECK(std::get<NormAttributes>(graph.ops()[0].attributes).rows == 8);
  CHECK(std::get<NormAttributes>(graph.ops()[0].attributes).cols == 18);
  CHECK(graph.parameter_count() == 16);
}

/// Attention as modules write it: one GEMM for queries, keys and values, 2 samples of 10 tokens, 4
/// heads of 8.
struct Attention {
  GraphBuilder b{"attention", 2};
  TensorId x, q, k, v;
  TensorId result{};

  Attention() {
    constexpr std::array<std::int64_t, 5> kParts{2, 0, 3, 1, 4};
    constexpr std::array<std::int64_t, 3> kOne{1, 1, 1};
    x = b.linear_layer("qkv", b.input("x", {2, 10, 32}), 96, true);
    x = b.transpose("parts", b.reshape("view", x, {2, 10, 3, 4, 8}), kParts);
    const std::vector<TensorId> parts = b.split("split", x, 0, kOne);
    q = b.reshape("q", parts[0], {2, 4, 10, 8});
    k = b.reshape("k", parts[1], {2, 4, 10, 8});
    v = b.reshape("v", parts[2], {2, 4, 10, 8});
  }
  TensorId scores() {
    constexpr std::array<std::int64_t, 4> kTurned{0, 1, 3, 2};
    return b.matmul("scores", b.activation("scale", q, "mul"), b.transpose("kt", k, kTurned));
  }
  void finish(TensorId s) {
    constexpr std::array<std::int64_t, 4> kHeads{0, 2, 1, 3};
    const TensorId y = b.matmul("context", b.softmax("softmax", s), v);
    const TensorId tokens = b.reshape("merge", b.transpose("heads", y, kHeads), {2, 10, 32});
    result = b.linear_layer("proj", tokens, 32, true);
  }
};

TEST_CASE("attention is one op where the framework has a kernel, whatever is added to the scores") {
  struct Row {
    const char* what;
    std::function<TensorId(Attention&)> scores;
    bool fuses;
    std::size_t inputs;  ///< of the op
  };
  const Row rows[] = {
      {"plain", [](Attention& a) { return a.scores(); }, true, 3},
      {"with a bias of positions",
       [](Attention& a) {
         return a.b.add("bias", a.scores(), a.b.weight("p", {1, 4, 10, 10}));
       },
       true, 4},
      {"with a bias and a mask of windows, each in its own view",
       [](Attention& a) {
         TensorId s = a.b.add("bias", a.scores(), a.b.weight("p", {1, 4, 10, 10}));
         s = a.b.reshape("images", s, {1, 2, 4, 10, 10});
         s = a.b.add("mask", s, a.b.buffer("m", {1, 2, 1, 10, 10}));
         return a.b.reshape("windows", s, {2, 4, 10, 10});
       },
       true, 4},
      {"with scores that a mask fills",
       [](Attention& a) {
         const std::array<TensorId, 2> filled{a.b.buffer("m", {10, 10}), a.scores()};
         return a.b.binary("fill", "where", filled);
       },
       true, 4},
      {"with scores chosen between two tensors: no kernel has that",
       [](Attention& a) {
         const std::array<TensorId, 3> chosen{a.b.buffer("m", {10, 10}), a.scores(),
                                              a.b.weight("p", {1, 4, 10, 10})};
         return a.b.binary("choose", "where", chosen);
       },
       false, 0},
      {"with a trained temperature: no kernel has that",
       [](Attention& a) {
         return a.b.mul("t", a.scores(), a.b.weight("t", {4, 1, 1}));
       },
       false, 0},
      {"with a sum that the queries decide",
       [](Attention& a) {
         return a.b.add("bias", a.scores(), a.b.matmul("relative", a.q, a.b.weight("r", {8, 10})));
       },
       false, 0},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    for (const AttentionKernels kernels : {AttentionKernels::Fused, AttentionKernels::Steps}) {
      Attention a;
      a.finish(row.scores(a));
      const double macs = [&] {
        a.b.graph().outputs = {a.result};
        return a.b.graph().forward_macs();
      }();
      const std::int64_t parameters = a.b.graph().parameter_count();
      std::vector<Rewrite> rewrites;
      const NetworkGraph graph =
          rewritten(std::move(a.b), a.result, {.attention = kernels}, rewrites);
      const bool fuses = row.fuses && kernels == AttentionKernels::Fused;
      CHECK(count(graph, OpKind::Attention) == (fuses ? 1 : 0));
      CHECK(count(graph, OpKind::Softmax) == (fuses ? 0 : 1));
      CHECK(graph.forward_macs() == macs);
      CHECK(graph.parameter_count() == parameters);
      for (const Op& op : graph.ops()) {
        if (op.kind != OpKind::Attention) continue;
        CHECK(op.inputs.size() == row.inputs);
        const auto& attention = std::get<AttentionAttributes>(op.attributes);
        CHECK(attention.batch == 2);
        CHECK(attention.heads == 4);
        CHECK(attention.queries == 10);
        CHECK(attention.keys == 10);
        CHECK(attention.width == 8);
      }
      // The step trains: gradients find their way through what was rewritten.
      CHECK_NOTHROW((void)make_training_graph(graph, {}));
    }
  }
}

TEST_CASE("moves are views; a kernel that wants elements side by side has them copied") {
  // One kernel reads heads where they lie: nothing moves between the GEMMs.
  {
    Attention a;
    a.finish(a.scores());
    std::vector<Rewrite> rewrites;
    const NetworkGraph graph =
        rewritten(std::move(a.b), a.result, {.attention = AttentionKernels::Fused}, rewrites);
    CHECK(count(graph, OpKind::Transpose) == 0);
    for (const Op& op : graph.ops()) {
      if (op.kind == OpKind::Slice || op.kind == OpKind::Split) CHECK(op.note == kViewNote);
    }
  }
  // Step by step each of the four operands of the two GEMMs but the probabilities is copied, and
  // the heads are brought together again.
  {
    Attention a;
    a.finish(a.scores());
    std::vector<Rewrite> rewrites;
    const NetworkGraph graph = rewritten(std::move(a.b), a.result, {}, rewrites);
    std::size_t copies = count(graph, OpKind::Transpose);
    for (const Op& op : graph.ops()) copies += op.kind == OpKind::Slice && op.note != kViewNote;
    CHECK(copies == 4);
  }
}

TEST_CASE("slices that take a tensor into parts are one split, and a roll where they are joined") {
  struct Row {
    const char* what;
    std::vector<std::int64_t> starts, sizes;  ///< along dimension 1, which has 12
    bool joined;
    OpKind kind;  ///< of the one op that there is
  };
  const Row rows[] = {
      {"chunk", {0, 4, 8}, {4, 4, 4}, false, OpKind::Split},
      {"in another order", {8, 0, 4}, {4, 4, 4}, false, OpKind::Split},
      {"roll", {5, 0}, {7, 5}, true, OpKind::Concat},
      {"a gap", {0, 8}, {4, 4}, false, OpKind::Slice},
      {"an overlap", {0, 4}, {6, 8}, false, OpKind::Slice},
      {"one part", {0}, {12}, false, OpKind::Slice},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    GraphBuilder b("parts", 2);
    const TensorId x = b.activation("made", b.input("x", {2, 12, 3}), "relu");
    std::vector<TensorId> parts;
    for (std::size_t i = 0; i < row.starts.size(); ++i) {
      parts.push_back(b.append({.name = "part" + std::to_string(i),
                                .kind = OpKind::Slice,
                                .inputs = {x},
                                .note = part_note(1, row.starts[i])},
                               {2, row.sizes[i], 3}));
    }
    if (row.joined) parts = {b.concat("joined", parts, 1)};
    for (TensorId& part : parts) part = b.activation("read", part, "relu");
    b.graph().outputs = parts;
    std::vector<Rewrite> rewrites;
    const NetworkGraph graph = canonicalize(std::move(b).take(), {}, rewrites);
    const bool is_alike = row.kind == OpKind::Slice;
    CHECK(count(graph, row.kind) == (is_alike ? row.starts.size() : 1));
    CHECK(count(graph, OpKind::Slice) == (is_alike ? row.starts.size() : 0));
    REQUIRE(graph.outputs.size() == parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      CHECK(graph.tensor(graph.outputs[i]).shape[1] == (row.joined ? 12 : row.sizes[i]));
    }
    CHECK_NOTHROW((void)make_training_graph(graph, {}));
  }
}

TEST_CASE("of a trace attention alone is restored, and the copies that its GEMMs needed go") {
  for (const bool fuses : {true, false}) {
    CAPTURE(fuses);
    GraphBuilder b("traced", 2);
    const auto view = [&b](const char* name, TensorId x, Shape shape) {
      return b.append({.name = name, .kind = OpKind::Reshape, .inputs = {x}}, std::move(shape));
    };
    TensorId x = deviations(b, "n", b.input("x", {2, 10, 32}), -1);  // a norm that code writes out
    x = b.linear_layer("qkv", x, 96, true);
    constexpr std::array<std::int64_t, 3> kParts{32, 32, 32};
    const std::vector<TensorId> parts = b.split("split", x, 2, kParts);
    const Shape heads{2, 4, 10, 8}, turned{2, 4, 8, 10};
    const auto heads_of = [&](const char* name, TensorId part) {
      return view(name, b.reshape("view", part, {2, 10, 4, 8}), heads);
    };
    const TensorId q = b.slice("q.copy", heads_of("q", parts[0]), heads);
    const TensorId k = b.slice("k.copy", view("kt", heads_of("k", parts[1]), turned), turned);
    const TensorId v = b.slice("v.copy", heads_of("v", parts[2]), heads);
    TensorId s = b.activation("scale", b.matmul("scores", q, k), "mul");
    s = b.slice("fill.copy", s, b.shape(s));
    s = b.binary("fill", "where", std::array{b.buffer("m", {10, 10}), s});
    TensorId y = b.matmul("context", b.softmax("softmax", s), v);
    y = b.slice("heads.copy", view("heads", y, {2, 10, 4, 8}), {2, 10, 4, 8});
    y = b.linear_layer("proj", view("merge", y, {2, 10, 32}), 32, true);
    const std::size_t num_ops = b.graph().ops().size();
    std::vector<Rewrite> rewrites;
    const NetworkGraph graph = rewritten(
        std::move(b), y,
        {.attention = fuses ? AttentionKernels::Fused : AttentionKernels::Steps, .is_traced = true},
        rewrites);
    CHECK(count(graph, OpKind::Attention) == (fuses ? 1 : 0));
    CHECK(count(graph, OpKind::Slice) == (fuses ? 0 : 5));
    CHECK(count(graph, OpKind::Transpose) == 0);
    CHECK(count(graph, OpKind::LayerNorm) == 0);
    CHECK(rewrites.size() == (fuses ? 1 : 0));
    if (!fuses) CHECK(graph.ops().size() == num_ops);
    CHECK_NOTHROW((void)make_training_graph(graph, {}));
  }
}

TEST_CASE("a convolution behind a norm over channels has its image channels last") {
  constexpr std::array<std::int64_t, 4> kLast{0, 2, 3, 1}, kFirst{0, 3, 1, 2};
  for (const bool channels_last : {false, true}) {
    CAPTURE(channels_last);
    GraphBuilder b("stem", 2);
    TensorId x = b.conv_layer("stem", b.input("x", {2, 3, 16, 16}), 8, Window::square(2, 2), true);
    x = b.layer_norm_layer("norm", b.transpose("last", x, kLast));
    x = b.conv_layer("conv", b.transpose("first", x, kFirst), 8, Window::square(3, 1, 1), true, 8);
    std::vector<Rewrite> rewrites;
    const NetworkGraph graph =
        rewritten(std::move(b), x, {.channels_last = channels_last}, rewrites);
    // One copy for the norm; none where the job lays images channels last, but for the input.
    CHECK(count(graph, OpKind::Transpose) == (channels_last ? 0 : 1));
    std::vector<bool> marked;
    for (const Op& op : graph.ops()) {
      if (op.kind == OpKind::Conv)
        marked.push_back(std::get<ConvAttributes>(op.attributes).channels_last);
    }
    CHECK(marked == std::vector<bool>{false, !channels_last});
  }
}

TEST_CASE("a tensor is not repeated for arithmetic, which broadcasts") {
  GraphBuilder b("broadcast", 2);
  const TensorId x = b.input("x", {2, 8, 4});
  constexpr std::array<std::int64_t, 1> kLast{-1};
  const TensorId norm = b.reduce("norm", x, kLast, true, "l2");
  const TensorId wide = b.append({.name = "expand",
                                  .kind = OpKind::Gather,
                                  .attributes = ElementwiseAttributes{.name = "expand"},
                                  .inputs = {norm}},
                                 {2, 8, 4});
  const TensorId y = b.binary("div", "div", std::array{x, wide});
  std::vector<Rewrite> rewrites;
  const NetworkGraph graph = rewritten(std::move(b), y, {}, rewrites);
  CHECK(graph.ops().size() == 2);
  REQUIRE(rewrites.size() == 1);
  CHECK(rewrites[0].rule == "broadcast");
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
