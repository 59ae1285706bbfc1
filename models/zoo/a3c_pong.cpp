#include <string>
#include <vector>

#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::int64_t kHidden = 512, kActions = 6;

/// A convolution whose weights every frame shares.
struct Convolution {
  TensorId weight, bias;
  Window window;
};

std::vector<Convolution> make_convolutions(GraphBuilder& b) {
  struct Row {
    std::int64_t channels, kernel, pad;
  };
  constexpr Row kRows[] = {{32, 5, 2}, {32, 5, 1}, {64, 4, 1}, {64, 3, 1}};
  std::vector<Convolution> all;
  std::int64_t in = 1;
  for (const Row& row : kRows) {
    const std::string name = "conv" + std::to_string(all.size() + 1);
    all.push_back({.weight = b.weight(name + ".weight", {row.channels, in, row.kernel, row.kernel}),
                   .bias = b.weight(name + ".bias", {row.channels}),
                   .window = Window::square(row.kernel, 1, row.pad)});
    in = row.channels;
  }
  return all;
}

// github.com/dgriff777/rl_a3c_pytorch (model.py), after Mnih et al., arXiv 1602.01783, with a cell
// that remembers. A sample is one rollout: `seq_len` frames one after the other, since each action
// decides the next frame; then one backward pass over all of them. Here the loss is a softmax over
// the actions of every frame and the values; the emulator, the other processes and the update
// shared on the host are not in the graph.
NetworkGraph a3c_pong(const BuildOptions& options) {
  GraphBuilder b("a3c_pong", options.batch);
  const std::vector<Convolution> convolutions = make_convolutions(b);
  std::vector<TensorId> cell, state, actor, critic;
  std::vector<TensorId> actions, values;
  for (std::int64_t frame = 0; frame < *options.seq_len; ++frame) {
    const std::string name = "frame" + std::to_string(frame) + ".";
    TensorId x = b.input(name + "image", {options.batch, 1, 80, 80});
    for (std::size_t i = 0; i < convolutions.size(); ++i) {
      const std::string layer = name + "conv" + std::to_string(i + 1);
      const Convolution& c = convolutions[i];
      x = b.conv(layer, x, c.weight, c.bias, c.window);
      x = b.max_pool(layer + ".pool", x, Window::square(2, 2));
      x = b.activation(layer + ".relu", x, "relu");
    }
    x = b.flatten(name + "flatten", x);
    const std::int64_t features = b.shape(x)[1];
    x = b.reshape(name + "step", x, {1, options.batch, features});
    if (cell.empty()) {
      cell = {b.weight("lstm.weight_ih", {4 * kHidden, features}),
              b.weight("lstm.weight_hh", {4 * kHidden, kHidden}),
              b.weight("lstm.bias_ih", {4 * kHidden}), b.weight("lstm.bias_hh", {4 * kHidden})};
      actor = {b.weight("actor.weight", {kActions, kHidden}), b.weight("actor.bias", {kActions})};
      critic = {b.weight("critic.weight", {1, kHidden}), b.weight("critic.bias", {1})};
    }
    const auto result = b.recurrent(name + "lstm", x, {.hidden = kHidden}, cell, state);
    state = {result.last_h, *result.last_c};
    const TensorId h = b.reshape(name + "h", result.last_h, {options.batch, kHidden});
    const TensorId value = b.linear(name + "critic", h, critic[0], critic[1]);
    const TensorId action = b.linear(name + "actor", h, actor[0], actor[1]);
    values.push_back(b.reshape(name + "value", value, {1, options.batch, 1}));
    actions.push_back(b.reshape(name + "action", action, {1, options.batch, kActions}));
  }
  const auto join = [&](const char* name, const std::vector<TensorId>& parts) {
    return parts.size() == 1 ? parts.front() : b.concat(name, parts, 0);
  };
  b.graph().outputs = {join("actions", actions), join("values", values)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> a3c_pong_networks() {
  return {{.name = "a3c_pong",
           .aliases = {"a3c"},
           .title = "A3C on Pong, 4 convolutions and an LSTM cell; lengths in frames",
           .source = "github.com/dgriff777/rl_a3c_pytorch, model.py",
           .seq_len = 20,
           .most_tokens = 1000,
           .classes = 1,
           .build = a3c_pong}};
}

}  // namespace tracecast::zoo_builders
