#include "sim/parallel/transformer/step.hpp"

#include <doctest/doctest.h>

#include <optional>

#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/random.hpp"
#include "sim/parallel/data_parallel.hpp"
#include "tests/support/specs.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("sim/parallel/transformer/step");

struct Hardware {
  const GpuCatalog& gpus = SpecLibrary::embedded().gpus();
  [[nodiscard]] Fabric nodes(int count, int each = 8) const {
    return build_fabric(uniform_cluster("dgx_a100", each, count, "a100_sxm4_80gb"),
                        SpecLibrary::embedded());
  }
};

const TransformerLayout kSmall{.layers = 8,
                               .width = 1024,
                               .heads = 16,
                               .kv_heads = 16,
                               .feed_forward = 4096,
                               .vocabulary = 32000,
                               .positions = 1024,
                               .dropout = true};

TransformerPrediction predict(const PlanOptions& options, const Fabric& fabric, bool fold = true,
                              const char* software = "megatron_2021",
                              const TransformerLayout& layout = kSmall) {
  const ParallelPlan plan = resolve_plan(options, layout, fabric.num_ranks());
  const TrainingSoftware& program = find_training_software(software);
  return predict_transformer({.layout = layout,
                              .plan = plan,
                              .software = program,
                              .framework = find_framework(program.framework),
                              .fabric = fabric,
                              .library = find_collective_library("nccl"),
                              .cost = default_cost_profile(),
                              .precision = PrecisionMode::Fp16,
                              .fold = fold});
}

TEST_CASE("ranks that do the same are reported by one") {
  const Hardware hardware;
  Random random(11);
  for (int trial = 0; trial < 8; ++trial) {
    const Fabric fabric = hardware.nodes(1 + static_cast<int>(random.below(2)));
    const std::int64_t gpus = fabric.num_ranks();
    const std::int64_t tensor = std::int64_t{1} << random.below(3);
    const std::int64_t stages = std::int64_t{1} << random.below(2);
    const std::int64_t data = gpus / (tensor * stages);
    const PlanOptions options{
        .tensor = tensor,
        .pipeline = stages,
        .micro_batch = 2,
        .global_batch = data * 2 * (1 + static_cast<std::int64_t>(random.below(6))),
        .tokens = 1024,
        .zero = static_cast<int>(random.below(2))};
    const TransformerPrediction folded = predict(options, fabric);
    const TransformerPrediction all = predict(options, fabric, false);
    CHECK(all.step_time_s.value == folded.step_time_s.value);
    CHECK(all.ranks_simulated >= folded.ranks_simulated);
  }
}

TEST_CASE("shares of a step sum to it") {
  const Hardware hardware;
  const Fabric fabric = hardware.nodes(2);
  for (const int zero : {0, 1, 3}) {
    CAPTURE(zero);
    const TransformerPrediction p = predict({.pipeline = zero == 3 ? 1 : 2,
                                             .micro_batch = 1,
                                             .global_batch = 64,
                                             .tokens = 1024,
                                             .zero = zero},
                                            fabric);
    const TransformerShares& s = p.shares;
    CHECK((s.compute + s.slowed + s.tensor + s.context + s.expert + s.host + s.bubble + s.data +
           s.update + s.stragglers)
              .in_s() == doctest::Approx(p.step_time_s.value));
  }
}

TEST_CASE("gradients hide behind a pass that waits for the host as behind one of kernels") {
  // Few tokens: the host paces both passes, and whatever the kernels take, the step takes as long.
  const Hardware hardware;
  const Fabric fabric = hardware.nodes(2);
  for (const int stages : {1, 2}) {
    CAPTURE(stages);
    double last = 0, data = 1e9;
    for (const std::int64_t tokens : {64, 128, 256, 512, 1024}) {
      CAPTURE(tokens);
      const TransformerPrediction p =
          predict({.pipeline = stages, .micro_batch = 1, .tokens = tokens, .zero = 1}, fabric, true,
                  "megatron");
      CHECK(p.step_time_s.value >= last);
      CHECK(p.shares.data.in_s() <= data * (1 + 1e-9));
      if (tokens == 64) CHECK(p.shares.host > Seconds(0));
      last = p.step_time_s.value;
      data = p.shares.data.in_s();
    }
  }
}

TEST_CASE("the slowest of the ranks makes all wait: more of them, more") {
  const Hardware hardware;
  double last = 0;
  for (const int nodes : {1, 2, 8}) {
    const Fabric fabric = hardware.nodes(nodes);
    const TransformerShares s =
        predict({.micro_batch = 8, .tokens = 1024, .zero = 1}, fabric).shares;
    const double share = s.stragglers / (s.compute + s.host);
    CHECK(share == doctest::Approx(straggling_of(fabric, 0, 1) - 1));
    CHECK(share > last);
    last = share;
  }
}

TEST_CASE("torchtitan's selective recomputation repeats GEMMs, Megatron's attention alone") {
  const Hardware hardware;
  const Fabric fabric = hardware.nodes(1);
  const PlanOptions options{.micro_batch = 4, .tokens = 1024, .zero = 3, .recompute = "selective"};
  const auto backward = [&](const char* software, const char* recompute) {
    PlanOptions changed = options;
    changed.recompute = recompute;
    return predict(changed, fabric, true, software).pieces[1].backward;
  };
  const double attention = backward("fsdp", "selective") / backward("fsdp", "none");
  const double gemms = backward("torchtitan", "selective") / backward("torchtitan", "none");
  CHECK(attention > 1);
  CHECK(gemms > attention);
  CHECK(gemms < backward("torchtitan", "full") / backward("torchtitan", "none"));
}

TEST_CASE("Megatron Bridge repeats norms and what experts' GEMMs hold between them") {
  const Hardware hardware;
  const Fabric fabric = hardware.nodes(1);
  TransformerLayout layout = kSmall;
  layout.gated = true;
  layout.experts = ExpertLayout{
      .count = 8, .per_token = 2, .feed_forward = 2048, .biases = true, .clamped = true};
  const auto predicted = [&](const char* software, const char* recompute) {
    return predict({.micro_batch = 4, .tokens = 1024, .zero = 1, .recompute = recompute}, fabric,
                   true, software, layout);
  };
  const auto backward = [](const TransformerPrediction& p) { return p.pieces[1].backward; };
  const auto none = predicted("megatron_bridge", "none");
  const auto selective = predicted("megatron_bridge", "selective");
  const auto full = predicted("megatron_bridge", "full");
  CHECK(backward(selective) > backward(none));
  CHECK(backward(selective) < backward(full));
  CHECK(selective.memory.activations < none.memory.activations);
  CHECK(full.memory.activations < selective.memory.activations);
}

TEST_CASE("an update takes as long as its states are many, and a lower power limit longer steps") {
  const Hardware hardware;
  const Fabric fabric = hardware.nodes(1);
  const ParallelPlan plan = resolve_plan({.micro_batch = 8, .tokens = 1024}, kSmall, 8);
  const TrainingSoftware& program = find_training_software("megatron");
  const FrameworkProfile framework = find_framework(program.framework);
  const CollectiveLibrary library = find_collective_library("nccl");
  const CostProfile cost = default_cost_profile();
  const auto run = [&](OptimizerKind optimizer, std::optional<Watts> limit) {
    return predict_transformer({.layout = kSmall,
                                .plan = plan,
                                .software = program,
                                .framework = framework,
                                .fabric = fabric,
                                .library = library,
                                .cost = cost,
                                .optimizer = optimizer,
                                .power_limit = limit});
  };
  Seconds before{};
  for (const OptimizerKind optimizer :
       {OptimizerKind::None, OptimizerKind::Sgd, OptimizerKind::Momentum, OptimizerKind::Adam,
        OptimizerKind::Lamb}) {
    const Seconds update = run(optimizer, std::nullopt).shares.update;
    CHECK(update > before);
    before = update;
  }
  CHECK(run(OptimizerKind::AdamW, std::nullopt).shares.update ==
        run(OptimizerKind::Adam, std::nullopt).shares.update);
  const TransformerPrediction free = run(OptimizerKind::Adam, Watts(400));
  const TransformerPrediction held = run(OptimizerKind::Adam, Watts(150));
  REQUIRE(held.power);
  CHECK(held.power->throttles);
  CHECK(held.power->clock < free.power->clock);
  CHECK(held.shares.compute > free.shares.compute);
  CHECK(free.step_time_s.value == run(OptimizerKind::Adam, std::nullopt).step_time_s.value);
}

TEST_CASE("adapters leave their own gradients and states alone, and a third of the GEMMs") {
  const Hardware hardware;
  const Fabric fabric = hardware.nodes(1);
  TransformerLayout wide = kSmall;  // kernels outlast the host
  wide.width = 4096;
  wide.heads = wide.kv_heads = 32;
  wide.feed_forward = 16384;
  const ParallelPlan plan = resolve_plan({.tensor = 2, .micro_batch = 8, .tokens = 1024, .zero = 1},
                                         wide, fabric.num_ranks());
  const TrainingSoftware& program = find_training_software("megatron");
  const auto with = [&](const LowRankAdapters& adapters) {
    return predict_transformer({.layout = wide,
                                .plan = plan,
                                .software = program,
                                .framework = find_framework(program.framework),
                                .fabric = fabric,
                                .library = find_collective_library("nccl"),
                                .cost = default_cost_profile(),
                                .precision = PrecisionMode::Bf16,
                                .adapters = adapters});
  };
  const TransformerPrediction all = with({}), some = with({.rank = 8});
  const double adapters = 8.0 * 8 * (4096 + 3 * 4096 + 4096 + 4096);
  CHECK(all.trained_parameters == all.parameters);
  CHECK(some.trained_parameters == adapters);
  CHECK(some.parameters == all.parameters + adapters);
  CHECK(some.memory.gradients < all.memory.gradients * 0.02);
  CHECK(some.memory.optimizer < all.memory.optimizer * 0.02);
  CHECK(some.memory.weights > all.memory.weights);
  CHECK(some.memory.weights < all.memory.weights * 1.02);
  CHECK(some.memory.activations < all.memory.activations);
  CHECK(some.shares.update < all.shares.update * 0.1);
  CHECK(some.step_time_s.value < all.step_time_s.value * 0.9);
  CHECK(some.step_time_s.value > all.step_time_s.value * 0.5);
  CHECK(some.model_flops_per_token < all.model_flops_per_token);
  CHECK(some.model_flops_per_token > all.model_flops_per_token * 4 / 6);
}

TEST_CASE("the hardware's FLOP/s are the network's and what recomputation repeats") {
  const Hardware hardware;
  const Fabric fabric = hardware.nodes(1);
  const auto share = [&](const char* recompute, const char* attention) {
    const TransformerPrediction p = predict(
        {.micro_batch = 4, .tokens = 1024, .recompute = recompute, .attention = attention}, fabric);
    return p.hardware_tflops_per_gpu / p.tflops_per_gpu - 1;
  };
  for (const char* attention : {"unfused", "flash"}) {
    CAPTURE(attention);
    CHECK(share("none", attention) == 0);
    // Of six times all multiply-adds, those of the layers and of the head: scores and what they
    // weigh, forward once more, or whole layers. The head is not computed again.
    const double scores = 2.0 * 1024 * static_cast<double>(kSmall.width * kSmall.layers),
                 all = kSmall.forward_macs(1024) / 1024,
                 head = static_cast<double>(kSmall.width * kSmall.vocabulary);
    CHECK(share("selective", attention) == doctest::Approx(2 * scores / (6 * all)).epsilon(0.02));
    CHECK(share("full", attention) == doctest::Approx(2 * (all - head) / (6 * all)).epsilon(0.02));
    CHECK(head > 0.2 * all);
  }
}

TEST_CASE("more micro-batches shrink the bubble's share, more recomputation the memory") {
  const Hardware hardware;
  const Fabric fabric = hardware.nodes(1);
  const auto bubble = [&](std::int64_t batch) {
    const TransformerPrediction p =
        predict({.pipeline = 4, .micro_batch = 8, .global_batch = batch, .tokens = 1024}, fabric);
    return p.shares.bubble.in_s() / p.step_time_s.value;
  };
  CHECK(bubble(256) < bubble(64));
  const auto memory = [&](const char* recompute) {
    return predict(
               {.micro_batch = 4, .tokens = 1024, .recompute = recompute, .attention = "unfused"},
               fabric)
        .memory.activations.in_bytes();
  };
  CHECK(memory("selective") < memory("none"));
  CHECK(memory("full") < memory("selective"));
}

TEST_CASE("contradictions are one line that names the flag") {
  struct Row {
    const char* what;
    PlanOptions options;
    const char* flag;
  };
  const Row rows[] = {
      {"degrees beyond the GPUs", {.tensor = 16}, "--tp"},
      {"degrees that do not make them up", {.tensor = 2, .data = 3}, "--dp"},
      {"GPUs that do not divide", {.tensor = 3}, "--gpus"},
      {"a batch that does not divide", {.micro_batch = 3, .global_batch = 32}, "--global-batch"},
      {"more stages than layers", {.pipeline = 8, .schedule = "interleaved:2"}, "--pp"},
      {"experts that there are not", {.expert = 2}, "--ep"},
      {"two words for the micro-batches", {.global_batch = 32, .micro_batches = 2}, "--accumulate"},
      {"interleaving of nothing", {.schedule = "interleaved:2"}, "--schedule"},
      {"chunks that are no number", {.pipeline = 2, .schedule = "interleaved:x"}, "--schedule"},
      {"half a round",
       {.pipeline = 4, .global_batch = 12, .schedule = "interleaved:2"},
       "--schedule"},
      {"gradients shared under stages", {.pipeline = 2, .zero = 2}, "--zero"},
      {"no such stage of ZeRO", {.zero = 4}, "--zero"},
      {"tokens divided among one", {.sequence_parallel = true}, "--sequence-parallel"},
      {"no such recomputation", {.recompute = "some"}, "--recompute"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    try {
      (void)resolve_plan(row.options, kSmall, 8);
      FAIL("accepted");
    } catch (const InputError& error) {
      const std::string text = error.what();
      CHECK(text.find(row.flag) != std::string::npos);
      CHECK(text.find('\n') == std::string::npos);
    }
  }
}

const TransformerLayout kMoe = [] {
  TransformerLayout layout = kSmall;
  layout.experts = ExpertLayout{.count = 16, .per_token = 2, .feed_forward = 4096};
  return layout;
}();

TransformerShares shares_of_moe(const Fabric& fabric, std::int64_t expert,
                                const TrainingSoftware& program) {
  const ParallelPlan plan = resolve_plan({.expert = expert,
                                          .micro_batch = 1,
                                          .global_batch = 4 * fabric.num_ranks(),
                                          .tokens = 1024,
                                          .zero = 0},
                                         kMoe, fabric.num_ranks());
  return predict_transformer({.layout = kMoe,
                              .plan = plan,
                              .software = program,
                              .framework = find_framework(program.framework),
                              .fabric = fabric,
                              .library = find_collective_library("nccl"),
                              .cost = default_cost_profile()})
      .shares;
}

TEST_CASE("gradients of experts travel among the ranks that hold the same ones") {
  const Fabric fabric = Hardware().nodes(2);
  TrainingSoftware program = find_training_software("megatron_2021");
  program.overlaps_gradients = false;
  const auto data = [&](std::int64_t expert) {
    return shares_of_moe(fabric, expert, program).data;
  };
  // Among 16 ranks nobody holds the same. Among 8, two experts of a rank and layer are on the other
  // node as well; each of its numbers passes the rank's adapter of 25 GB/s once each way.
  const double numbers = 8 * 2 * 2 * 1024.0 * 4096.0;
  const double bytes = numbers * (program.wide_gradients ? 4 : 2);
  CHECK((data(8) - data(16)).in_s() > 0.8 * bytes / 25e9);
}

TEST_CASE("what a program does for MoE networks is in the host's share or in that of collectives") {
  const Fabric fabric = Hardware().nodes(1);
  const TrainingSoftware& plain = find_training_software("megatron");
  const TransformerShares before = shares_of_moe(fabric, 8, plain);
  const auto with = [&](const MoeProgram& moe, LayerGraphs graphs = LayerGraphs::None) {
    TrainingSoftware program = plain;
    program.moe = moe;
    program.graphs = graphs;
    return shares_of_moe(fabric, 8, program);
  };
  CHECK(with({.router_ops = 50, .communication_ops = 50}).host > before.host);
  CHECK(with({.launches_per_expert = 100}).host > before.host);
  CHECK(with({.reads_counts = true}).host > before.host);
  CHECK(with({}, LayerGraphs::AllButExperts).host < before.host);
  CHECK(with({}, LayerGraphs::Step).host < Seconds(1e-9));  // the simulation counts picoseconds
  CHECK(with({.sends_once = true}).expert < before.expert);
  CHECK(with({.hidden_communication_sms = 1}).expert < before.expert * 0.5);
  CHECK(with({.sorts_twice = true}).compute > before.compute);
  CHECK(with({.fuses_activation = true}).compute < before.compute);
}

TEST_CASE(
    "a token that goes once crosses to each other node once, and to its ranks there beside that") {
  const Fabric fabric = Hardware().nodes(2);
  const TrainingSoftware& plain = find_training_software("megatron");
  TrainingSoftware program = plain;
  program.moe.sends_once = true;
  // Of two copies of a token one crosses on average; once, it does unless both stay: three
  // quarters.
  const Seconds each = shares_of_moe(fabric, 16, plain).expert;
  const Seconds once = shares_of_moe(fabric, 16, program).expert;
  CHECK(once / each == doctest::Approx(0.75).epsilon(0.05));
}

TEST_CASE("experts are shared by all ranks with tokens of their own, tensor-parallel ones too") {
  PlanOptions options{.tensor = 2,
                      .expert = 16,
                      .micro_batch = 1,
                      .global_batch = 32,
                      .tokens = 1024,
                      .sequence_parallel = true};
  CHECK(resolve_plan(options, kMoe, 16).expert_copies() == 1);
  CHECK(resolve_plan(options, kMoe, 64).expert_copies() == 4);
  options.sequence_parallel = false;  // both of a pair have the same tokens
  CHECK_THROWS_AS((void)resolve_plan(options, kMoe, 16), InputError);
}

TEST_CASE("layers are spread evenly, ends last") {
  CHECK(balance_layers(8, 4, 1) == std::vector<int>{2, 2, 2, 2});
  CHECK(balance_layers(10, 4, 1) == std::vector<int>{2, 3, 3, 2});
  // Parts 0 to 3 are (stage 0, chunk 0), (1, 0), (0, 1), (1, 1): the middle ones get what is left.
  CHECK(balance_layers(6, 2, 2) == std::vector<int>{1, 2, 2, 1});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
