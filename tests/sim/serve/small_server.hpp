#pragma once
#include <memory>
#include <string_view>
#include <utility>

#include "hwspecs/software/engine_profile.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/serve/simulation.hpp"
#include "tests/sim/hardware.hpp"

namespace tracecast::test {

/// A network of the zoo on GPUs of one machine, with prices kept.
struct SmallServer {
  explicit SmallServer(std::string_view engine = "vllm_v1", std::string_view network = "llama3_8b",
                       int gpus = 1, std::string_view gpu = "h100_sxm5_80gb",
                       std::string_view machine = "dgx_h100")
      : board(hardware.gpus.find(gpu)),
        fabric(hardware.build(machine, gpus, 1, gpu)),
        profile(hardware.specs.find_engine(engine)) {
    served = {find_network(network)->language(), {}, {}, profile.kernels, profile.fuses_sums};
    served.sharing.tensor = gpus;
    reprice();
  }
  /// After a change of `served`, `profile` or `board`.
  void reprice() {
    price =
        std::make_unique<serve::StepPrice>(served, profile, board, hardware.specs.cost(), fabric);
  }
  [[nodiscard]] serve::Pool pool(std::int64_t blocks = 10'000, std::int64_t tokens_per_step = 2048,
                                 std::int64_t sequences = 256) const {
    serve::Pool pool;
    pool.price = price.get();
    pool.limits.cache_blocks = blocks;
    pool.limits.tokens_per_step = tokens_per_step;
    pool.limits.sequences = sequences;
    return pool;
  }
  [[nodiscard]] static serve::LoadOptions load(double per_second, std::uint64_t requests,
                                               std::int64_t input = 500,
                                               std::int64_t output = 100) {
    serve::LoadOptions options;
    options.per_second = per_second;
    options.requests = requests;
    options.lengths = {input, output, 0.5, 0};
    return options;
  }

  Hardware hardware;
  GpuSpec board;
  Fabric fabric;
  EngineProfile profile;
  ServedNetwork served;
  std::unique_ptr<serve::StepPrice> price;
};

}  // namespace tracecast::test
