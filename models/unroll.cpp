#include "models/unroll.hpp"

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/ops.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

/// An LSTM with its layer's share of splitting and joining; other cells have fewer.
constexpr double kOpsPerCell = 20, kMostOps = 1e6;

/// Parameters of one layer and direction.
struct Cell {
  TensorId matrix{};                       ///< rows x (input + state)
  std::optional<TensorId> bias;            ///< rows
  std::optional<TensorId> candidate;       ///< GRU: hidden x (input + state)
  std::optional<TensorId> candidate_bias;  ///< GRU
  std::optional<TensorId> projection;
};
struct State {
  TensorId h;
  std::optional<TensorId> c;
};
/// What a layer leaves: h of every step, and the last state of each direction.
struct LayerResult {
  std::vector<TensorId> outputs;
  std::vector<State> last;
};

/// The ops of one Recurrent op, in a graph under construction.
class Loop {
 public:
  /// `cells`: of every layer and direction; filled here unless an earlier op with the same weights
  /// has done so.
  Loop(GraphBuilder& builder, const Op& op, std::vector<Cell>& cells)
      : b_(builder),
        name_(op.name),
        a_(std::get<RecurrentAttributes>(op.attributes)),
        cells_(cells) {
    const double num_cells =
        static_cast<double>(a_.steps) * a_.layers * static_cast<double>(a_.directions());
    if (num_cells * kOpsPerCell > kMostOps) {
      throw InputError(name_, std::to_string(a_.steps) + " steps of unrolled layers",
                       "fewer than a million ops, or a framework with fused recurrent layers");
    }
    if (a_.skip_input) {
      throw InputError(name_, "an input without weights",
                       "a framework with fused recurrent layers");
    }
  }

  /// `initial`: h and, of an LSTM, c of all layers and directions; empty = zero.
  void run(TensorId x, std::span<const TensorId> initial) {
    std::vector<TensorId> inputs = entries_of(name_ + ".unstack", x);
    if (!initial.empty()) initial_h_ = entries_of(name_ + ".initial_h", initial[0]);
    if (initial.size() > 1) initial_c_ = entries_of(name_ + ".initial_c", initial[1]);
    for (int layer = 0; layer < a_.layers; ++layer) {
      LayerResult result = run_layer(layer, inputs);
      last_.insert(last_.end(), result.last.begin(), result.last.end());
      inputs = std::move(result.outputs);
    }
    outputs_ = std::move(inputs);
  }

  [[nodiscard]] TensorId joined_outputs() {
    return stack(name_ + ".stack", outputs_, a_.directions() * a_.output());
  }
  [[nodiscard]] TensorId last_h() {
    std::vector<TensorId> states;
    for (const State& state : last_) states.push_back(state.h);
    return stack(name_ + ".last_h", states, a_.output());
  }
  [[nodiscard]] TensorId last_c() {
    std::vector<TensorId> states;
    for (const State& state : last_) states.push_back(*state.c);
    return stack(name_ + ".last_c", states, a_.hidden);
  }

 private:
  [[nodiscard]] TensorId stack(const std::string& name, const std::vector<TensorId>& parts,
                               std::int64_t width) {
    std::vector<TensorId> rows;
    rows.reserve(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
      rows.push_back(b_.reshape(name + '.' + std::to_string(i), parts[i], {1, a_.batch, width}));
    }
    return rows.size() == 1 ? rows.front() : b_.concat(name, rows, 0);
  }

  /// The first dimension's entries, each without it.
  [[nodiscard]] std::vector<TensorId> entries_of(const std::string& name, TensorId x) {
    const Shape shape = b_.shape(x);
    std::vector<TensorId> parts = {x};
    if (shape[0] > 1) {
      const std::vector<std::int64_t> ones(static_cast<std::size_t>(shape[0]), 1);
      parts = b_.split(name, x, 0, ones);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i] = b_.reshape(name + ".view" + std::to_string(i), parts[i], {shape[1], shape[2]});
    }
    return parts;
  }

  LayerResult run_layer(int layer, const std::vector<TensorId>& inputs) {
    LayerResult result;
    std::vector<std::vector<TensorId>> directions;
    for (std::int64_t d = 0; d < a_.directions(); ++d) {
      const std::string name = name_ + ".l" + std::to_string(layer) + (d == 1 ? "_reverse" : "");
      const auto index = static_cast<std::size_t>(layer * a_.directions() + d);
      if (index == cells_.size()) cells_.push_back(make_cell(name, a_.input_of(layer)));
      const Cell cell = cells_[index];
      State state = first_state(name, index);
      std::vector<TensorId>& outputs = directions.emplace_back(inputs.size());
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::size_t t = d == 0 ? i : inputs.size() - 1 - i;
        state = step(name + ".t" + std::to_string(t), cell, inputs[t], state);
        outputs[t] = state.h;
      }
      result.last.push_back(state);
    }
    for (std::size_t t = 0; t < inputs.size(); ++t) {
      const std::string name = name_ + ".l" + std::to_string(layer) + ".t" + std::to_string(t);
      TensorId y = directions[0][t];
      if (a_.bidirectional) {
        const TensorId both[] = {y, directions[1][t]};
        y = b_.concat(name + ".concat", both, 1);
      }
      if (a_.dropout && layer + 1 < a_.layers) y = b_.dropout(name + ".dropout", y);
      result.outputs.push_back(y);
    }
    return result;
  }

  [[nodiscard]] Cell make_cell(const std::string& name, std::int64_t input) {
    const std::int64_t width = input + a_.output();
    const bool is_gru = a_.cell == CellKind::Gru;
    const std::int64_t rows = (is_gru ? 2 : a_.gates()) * a_.hidden;
    Cell cell;
    cell.matrix = b_.weight(name + ".kernel", {rows, width});
    if (a_.biases > 0) cell.bias = b_.weight(name + ".bias", {rows});
    if (is_gru) {
      cell.candidate = b_.weight(name + ".candidate_kernel", {a_.hidden, width});
      if (a_.biases > 0) cell.candidate_bias = b_.weight(name + ".candidate_bias", {a_.hidden});
    }
    if (a_.projection > 0) {
      cell.projection = b_.weight(name + ".projection", {a_.projection, a_.hidden});
    }
    return cell;
  }

  [[nodiscard]] State first_state(const std::string& name, std::size_t index) {
    const auto known_or_zero = [&](const std::vector<TensorId>& known, const char* what,
                                   std::int64_t width) {
      return index < known.size() ? known[index] : b_.buffer(name + what, {a_.batch, width});
    };
    State state{.h = known_or_zero(initial_h_, ".zero_h", a_.output()), .c = {}};
    if (a_.cell == CellKind::Lstm) state.c = known_or_zero(initial_c_, ".zero_c", a_.hidden);
    return state;
  }

  [[nodiscard]] TensorId joined_gemm(const std::string& name, TensorId x, TensorId h,
                                     TensorId matrix, std::optional<TensorId> bias) {
    const TensorId both[] = {x, h};
    return b_.linear(name + ".gemm", b_.concat(name + ".concat", both, 1), matrix, bias);
  }

  [[nodiscard]] State step(const std::string& name, const Cell& cell, TensorId x, State state) {
    const TensorId gates = joined_gemm(name, x, state.h, cell.matrix, cell.bias);
    switch (a_.cell) {
      case CellKind::Lstm:
        return lstm(name, cell, gates, *state.c);
      case CellKind::Gru:
        return gru(name, cell, x, state.h, gates);
      case CellKind::RnnRelu:
        return {b_.activation(name + ".relu", gates, "relu"), {}};
      case CellKind::RnnTanh:
        break;
    }
    return {b_.activation(name + ".tanh", gates, "tanh"), {}};
  }

  [[nodiscard]] State lstm(const std::string& name, const Cell& cell, TensorId gates, TensorId c) {
    const std::array<std::int64_t, 4> sizes{a_.hidden, a_.hidden, a_.hidden, a_.hidden};
    const std::vector<TensorId> parts = b_.split(name + ".split", gates, 1, sizes);
    const TensorId i = b_.activation(name + ".input_gate", parts[0], "sigmoid");
    const TensorId f = b_.activation(name + ".forget_gate", parts[1], "sigmoid");
    const TensorId g = b_.activation(name + ".candidate", parts[2], "tanh");
    const TensorId o = b_.activation(name + ".output_gate", parts[3], "sigmoid");
    const TensorId kept = b_.mul(name + ".keep", f, c);
    c = b_.add(name + ".c", kept, b_.mul(name + ".write", i, g));
    TensorId h = b_.mul(name + ".h", o, b_.activation(name + ".tanh", c, "tanh"));
    if (cell.projection) {
      h = b_.linear(name + ".projection", h, *cell.projection, std::nullopt);
    }
    return {h, c};
  }

  [[nodiscard]] State gru(const std::string& name, const Cell& cell, TensorId x, TensorId h,
                          TensorId gates) {
    const std::array<std::int64_t, 2> sizes{a_.hidden, a_.hidden};
    gates = b_.activation(name + ".gates", gates, "sigmoid");
    const std::vector<TensorId> parts = b_.split(name + ".split", gates, 1, sizes);
    const TensorId gated = b_.mul(name + ".reset", parts[0], h);
    TensorId candidate =
        joined_gemm(name + ".candidate", x, gated, *cell.candidate, cell.candidate_bias);
    candidate = b_.activation(name + ".tanh", candidate, "tanh");
    const TensorId kept = b_.mul(name + ".keep", parts[1], h);
    const TensorId share = b_.activation(name + ".one_minus", parts[1], "neg");
    const TensorId written = b_.mul(name + ".write", share, candidate);
    return {b_.add(name + ".h", kept, written), {}};
  }

  GraphBuilder& b_;
  std::string name_;
  RecurrentAttributes a_;
  std::vector<Cell>& cells_;
  std::vector<TensorId> initial_h_, initial_c_;  ///< by layer and direction; empty = zero
  std::vector<TensorId> outputs_;
  std::vector<State> last_;
};

/// Copies a graph into a builder, tensors and ops in order.
class Copy {
 public:
  explicit Copy(const NetworkGraph& from)
      : from_(from), builder_(from.name, from.batch), ids_(from.tensors().size()) {
    is_read_.resize(ids_.size());
    for (const Op& op : from.ops()) {
      for (std::size_t i = 0; i < op.inputs.size(); ++i) {
        const bool merges = op.kind == OpKind::Recurrent && i > 0 && is_weight(op.inputs[i]);
        if (!merges) is_read_[op.inputs[i].index] = true;
      }
    }
    for (const TensorId output : from.outputs) is_read_[output.index] = true;
  }

  NetworkGraph run() {
    for (std::uint32_t i = 0; i < ids_.size(); ++i) {
      const bool is_made = from_.producer(TensorId{i}).has_value();
      if (!is_made && (is_read_[i] || !is_weight(TensorId{i}))) copy(TensorId{i});
    }
    for (const Op& op : from_.ops()) {
      if (op.kind == OpKind::Recurrent) {
        unroll(op);
      } else {
        copy(op);
      }
    }
    for (const TensorId output : from_.outputs) {
      builder_.graph().outputs.push_back(*ids_[output.index]);
    }
    return std::move(builder_).take();
  }

 private:
  [[nodiscard]] bool is_weight(TensorId id) const {
    return from_.tensor(id).role == TensorRole::Weight;
  }
  void copy(TensorId id) { ids_[id.index] = builder_.tensor(from_.tensor(id)); }

  void copy(Op op) {
    for (TensorId& input : op.inputs) input = *ids_[input.index];
    for (TensorId& output : op.outputs) {
      copy(output);
      output = *ids_[output.index];
    }
    builder_.graph().add_op(std::move(op));
  }

  void unroll(const Op& op) {
    std::vector<TensorId> initial;
    std::vector<std::uint32_t> weights;
    for (std::size_t i = 1; i < op.inputs.size(); ++i) {
      if (is_weight(op.inputs[i])) {
        weights.push_back(op.inputs[i].index);
      } else {
        initial.push_back(*ids_[op.inputs[i].index]);
      }
    }
    Loop loop(builder_, op, cells_[weights]);
    loop.run(*ids_[op.inputs.front().index], initial);
    const auto wanted = [&](std::size_t i) {
      return i < op.outputs.size() && is_read_[op.outputs[i].index];
    };
    if (wanted(0)) ids_[op.outputs[0].index] = loop.joined_outputs();
    if (wanted(2)) ids_[op.outputs[2].index] = loop.last_h();
    if (wanted(3)) ids_[op.outputs[3].index] = loop.last_c();
  }

  const NetworkGraph& from_;
  GraphBuilder builder_;
  std::vector<std::optional<TensorId>> ids_;  ///< in the copy, by tensor; nothing: not in it
  std::vector<char> is_read_;                 ///< by anything but a layer whose weight it is
  std::map<std::vector<std::uint32_t>, std::vector<Cell>> cells_;  ///< by the weights they replace
};

}  // namespace

NetworkGraph unroll_recurrent(const NetworkGraph& graph) {
  for (const Op& op : graph.ops()) {
    TRACECAST_CHECK(op.pass == Pass::Forward, "a graph is unrolled before it is differentiated");
  }
  return Copy(graph).run();
}

}  // namespace tracecast
