#include <string>
#include <vector>

#include "models/ops.hpp"
#include "models/zoo/parts/family.hpp"

namespace tracecast::zoo_builders {
namespace {

/// NeuMF: tables of `users` and `items`, `factors` wide for the GEMM and `half` for the perceptron,
/// whose layers are of `widths`, each after a dropout if asked for.
struct NcfLayout {
  std::int64_t users, items, factors, half;
  std::int64_t widths[3];
  bool dropout = false;
};

/// Linear layers with ReLU.
TensorId perceptron(GraphBuilder& b, const std::string& name, TensorId x, const NcfLayout& layout,
                    bool with_dropout) {
  int index = 0;
  for (const std::int64_t width : layout.widths) {
    const std::string layer = name + "." + std::to_string(index++);
    if (with_dropout) x = b.dropout(layer + ".dropout", x);
    x = b.activation(layer + ".relu", b.linear_layer(layer, x, width, true), "relu");
  }
  return x;
}

// NeuMF of He et al., arXiv 1708.05031.
NetworkGraph ncf(const BuildOptions& options, const NcfLayout& layout) {
  GraphBuilder b("ncf", options.batch);
  const TensorId user = b.input("users", {options.batch}, true);
  const TensorId item = b.input("items", {options.batch}, true);
  const TensorId factors =
      b.mul("mf", b.embedding_layer("mf_user", user, layout.users, layout.factors),
            b.embedding_layer("mf_item", item, layout.items, layout.factors));
  const TensorId halves[] = {b.embedding_layer("mlp_user", user, layout.users, layout.half),
                             b.embedding_layer("mlp_item", item, layout.items, layout.half)};
  const TensorId deep = perceptron(b, "mlp", b.concat("mlp.cat", halves, 1), layout,
                                   layout.dropout && options.training);
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
       .data_set = "movielens",
       .build = build<ncf, NcfLayout{138'493, 26'744, 64, 128, {256, 128, 64}}>},
      {.name = "ncf_ml1m",
       .aliases = {"neumf_ncf_ml_1m"},
       .title = "NeuMF on MovieLens-1M",
       .source = "github.com/guoyang9/NCF, defaults: 32 factors, three layers",
       .data_set = "movielens",
       .build = build<ncf, NcfLayout{6'040, 3'706, 32, 128, {128, 64, 32}, true}>},
  };
}

}  // namespace tracecast::zoo_builders
