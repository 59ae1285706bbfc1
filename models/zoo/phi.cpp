#include <string_view>
#include <vector>

#include "models/zoo/parts/language.hpp"

namespace tracecast::zoo_builders {
namespace {

constexpr std::string_view kPhi = "Microsoft, Phi-2, 2023; transformers 4.40";

/// Phi-2: attention and feed-forward side by side behind one norm; biases everywhere.
LanguageNetwork phi(int layers) {
  LanguageNetwork network{.family = "phi",
                          .width = 2560,
                          .vocabulary = 51200,
                          .head_bias = true,
                          .norm = LanguageNorm::Layer,
                          .norm_biases = true,
                          .activation = LanguageActivation::GeluTanhInSteps};
  for (int i = 0; i < layers; ++i) {
    add_layer(network,
              {.mixer = GroupedQueryAttention{.heads = 32,
                                              .kv_heads = 32,
                                              .head_width = 80,
                                              .rotary_width = 32,
                                              .input_biases = true,
                                              .output_bias = true},
               .feed_forward = DenseFeedForward{.width = 10240, .gated = false, .biases = true},
               .parallel = true,
               .shared_norm = true});
  }
  return network;
}

}  // namespace

std::vector<ZooEntry> phi_networks() {
  return {
      shardable_entry<phi, 32, 2048>({"phi_2", "Phi-2", kPhi}, exact(2'779'683'840, kCheckpoint),
                                     2048),
  };
}

}  // namespace tracecast::zoo_builders
