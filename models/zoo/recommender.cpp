#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// Linear layers with ReLU, of the given widths.
TensorId perceptron(GraphBuilder& b, const std::string& name, TensorId x,
                    std::span<const std::int64_t> widths) {
  int index = 0;
  for (const std::int64_t width : widths) {
    const std::string layer = name + "." + std::to_string(index++);
    x = b.activation(layer + ".relu", b.linear_layer(layer, x, width, true), "relu");
  }
  return x;
}

// NeuMF of He et al., arXiv 1708.05031, as in MLPerf training v0.5 (recommendation/pytorch,
// neumf.py): MovieLens-20M, 138,493 users, 26,744 films, 64 factors, layers 256-256-128-64.
NetworkGraph ncf(const BuildOptions& options) {
  constexpr std::int64_t kUsers = 138'493, kItems = 26'744, kFactors = 64, kHalf = 128;
  GraphBuilder b("ncf", options.batch);
  const TensorId user = b.input("users", {options.batch}, true);
  const TensorId item = b.input("items", {options.batch}, true);
  const TensorId factors = b.mul("mf", b.embedding_layer("mf_user", user, kUsers, kFactors),
                                 b.embedding_layer("mf_item", item, kItems, kFactors));
  const TensorId halves[] = {b.embedding_layer("mlp_user", user, kUsers, kHalf),
                             b.embedding_layer("mlp_item", item, kItems, kHalf)};
  constexpr std::int64_t kWidths[] = {256, 128, 64};
  const TensorId deep = perceptron(b, "mlp", b.concat("mlp.cat", halves, 1), kWidths);
  const TensorId both[] = {factors, deep};
  b.graph().outputs = {b.linear_layer("final", b.concat("cat", both, 1), 1, true)};
  return std::move(b).take();
}

// Recoder (github.com/amoussawi/recoder), DynamicAutoencoder with one hidden layer of 200 and tanh,
// on MovieLens-20M as prepared by Liang et al., arXiv 1802.05814: 20,108 films. All films are
// scored; Recoder's choice of those in the batch is left out.
NetworkGraph autoencoder(const BuildOptions& options) {
  constexpr std::int64_t kItems = 20'108, kHidden = 200;
  GraphBuilder b("autoencoder", options.batch);
  TensorId x = b.input("interactions", {options.batch, kItems});
  if (options.training) x = b.dropout("noise", x);
  x = b.linear_layer("encoder", x, kHidden, true);
  x = b.activation("encoder.tanh", x, "tanh");
  b.graph().outputs = {b.linear_layer("decoder", x, kItems, true)};
  return std::move(b).take();
}

}  // namespace

std::vector<ZooEntry> recommender_networks() {
  return {
      {.name = "autoencoder",
       .aliases = {"autoencoder_ml20m"},
       .title = "Recoder's autoencoder, MovieLens-20M",
       .source = "github.com/amoussawi/recoder",
       .build = autoencoder},
      {.name = "ncf",
       .aliases = {"neumf"},
       .title = "NeuMF on MovieLens-20M",
       .source = "MLPerf training v0.5, recommendation/pytorch/neumf.py",
       .build = ncf},
  };
}

}  // namespace tracecast::zoo_builders
