#include <doctest/doctest.h>

#include <string>

#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"

using namespace tracecast;

namespace {

/// Multiply-adds of `layers` blocks of attention and a feed-forward of four widths: four GEMMs of
/// width x width and two of width x 4 width per token, scores and context per pair of tokens.
double block_macs(double layers, double width, double tokens) {
  return layers * tokens * (12 * width * width + 2 * tokens * width);
}

std::size_t count(const NetworkGraph& graph, OpKind kind) {
  std::size_t number = 0;
  for (const Op& op : graph.ops()) number += op.kind == kind;
  return number;
}

}  // namespace

TEST_SUITE_BEGIN("models/zoo/language");

TEST_CASE("parameters equal those of the published checkpoints") {
  struct Row {
    const char* name;
    std::int64_t parameters;
  };
  // Hugging Face checkpoints of the same names: bert-*-uncased with pooler (BertModel), gpt2*,
  // facebook/opt-*, meta-llama/Llama-2-* and Meta-Llama-3*; tied weights once.
  const Row rows[] = {
      {"bert_base", 109'482'240},
      {"bert_large", 335'141'888},
      {"gpt2", 124'439'808},
      {"gpt2_medium", 354'823'168},
      {"gpt2_large", 774'030'080},
      {"gpt2_xl", 1'557'611'200},
      {"opt_125m", 125'239'296},
      {"opt_350m", 331'196'416},
      {"opt_1.3b", 1'315'758'080},
      {"opt_6.7b", 6'658'473'984},
      {"llama2_7b", 6'738'415'616},
      {"llama2_13b", 13'015'864'320},
      {"llama2_70b", 68'976'648'192},
      {"llama3_1b", 1'235'814'400},
      {"llama3_8b", 8'030'261'248},
      {"llama3_70b", 70'553'706'496},
      {"llama3_405b", 405'853'388'800},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    CHECK(build_network(row.name, {}).parameter_count() == row.parameters);
  }
}

TEST_CASE("parameters agree with the papers' rounded tables") {
  struct Row {
    const char* name;
    double millions, tolerance;
  };
  const Row rows[] = {
      // Brown et al., arXiv 2005.14165, table 2.1.
      {"gpt3_125m", 125, 0.03},
      {"gpt3_350m", 350, 0.03},
      {"gpt3_760m", 760, 0.03},
      {"gpt3_1.3b", 1300, 0.03},
      {"gpt3_2.7b", 2700, 0.03},
      {"gpt3_6.7b", 6700, 0.03},
      {"gpt3_13b", 13000, 0.03},
      {"gpt3_175b", 175000, 0.03},
      // Zhang et al., arXiv 2205.01068, table 1.
      {"opt_30b", 30000, 0.01},
      {"opt_66b", 66000, 0.01},
      {"opt_175b", 175000, 0.01},
      // Vaswani et al., arXiv 1706.03762, table 3.
      {"transformer", 65, 0.04},
      {"transformer_big", 213, 0.01},
      // NVIDIA/DeepLearningExamples, Tacotron 2 and WaveGlow.
      {"waveglow", 268, 0.002},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto parameters = static_cast<double>(build_network(row.name, {}).parameter_count());
    CHECK(parameters * 1e-6 == doctest::Approx(row.millions).epsilon(row.tolerance));
  }
}

TEST_CASE("small networks have the parameters of their formulas") {
  // 1000 words, 512 units, 46 topics; 784 pixels, 10 digits; biases.
  CHECK(build_network("mlp", {}).parameter_count() == 1001 * 512 + 513 * 46);
  CHECK(build_network("softmax_regression", {}).parameter_count() == 785 * 10);
  // Tables of 64 and 128 per user and film, 256-256-128-64 with biases, 128 to 1.
  CHECK(build_network("ncf", {}).parameter_count() ==
        (138'493 + 26'744) * 192 + 257 * 256 + 257 * 128 + 129 * 64 + 129);
  CHECK(build_network("autoencoder", {}).parameter_count() == 2 * 20'108 * 200 + 200 + 20'108);
  // 32 + 128 numbers for 6,040 users and 3,706 films; layers 256-128-64-32; 64 -> 1.
  CHECK(build_network("ncf_ml1m", {}).parameter_count() ==
        9'746 * 160 + 257 * 128 + 129 * 64 + 65 * 32 + 65);
}

TEST_CASE("BERT's pretraining heads are there when training") {
  // BertForPreTraining of bert-base-uncased: 110,106,428. Over the pooled network: a GEMM of 768 x
  // 768 with bias, layer norm, a bias per word and two logits.
  CHECK(build_network("bert_base", {.training = true}).parameter_count() == 110'106'428);
  CHECK(110'106'428 - 109'482'240 == 769 * 768 + 2 * 768 + 30'522 + 769 * 2);
}

TEST_CASE("BERT that answers questions has two logits a token and no pooled token") {
  for (const bool training : {false, true}) {
    CHECK(build_network("bert_base_squad", {.training = training}).parameter_count() ==
          109'482'240 - 769 * 768 + 769 * 2);
  }
}

TEST_CASE("multiply-adds follow from width, layers and tokens, and grow with the sequences") {
  struct Row {
    const char* name;
    double tokens, macs;
  };
  const double llama_layer = 2 * 4096. * 4096 + 2 * 4096. * 1024 + 3 * 4096. * 14336;
  const Row rows[] = {
      {"bert_large", 384, block_macs(24, 1024, 384) + 1024. * 1024},
      {"bert_base", 128, block_macs(12, 768, 128) + 768. * 768},
      {"gpt2", 1024, block_macs(12, 768, 1024) + 1024 * 768. * 50257},
      {"gpt3_175b", 2048, block_macs(96, 12288, 2048) + 2048 * 12288. * 50257},
      {"opt_1.3b", 64, block_macs(24, 2048, 64) + 64 * 2048. * 50272},
      // Two of eight experts a token, and the router.
      {"mixtral_8x7b", 512,
       32 * 512 * (llama_layer + 3 * 4096. * 14336 + 8 * 4096. + 2 * 512. * 4096) +
           512 * 4096. * 32000},
      // GPT-J and GPT-NeoX have the layers of GPT and a head of their own.
      {"gptj_6b", 128, block_macs(28, 4096, 128) + 128 * 4096. * 50400},
      {"bloom_560m", 128, block_macs(24, 1024, 128) + 128 * 1024. * 250880},
      {"llama3_8b", 512, 32 * 512 * (llama_layer + 2 * 512. * 4096) + 512 * 4096. * 128256},
      // Decoder layers attend twice: four more GEMMs and another pair of scores and context.
      {"transformer", 30,
       block_macs(12, 512, 30) + 6 * 30 * (4 * 512. * 512 + 2 * 30. * 512) + 30 * 512. * 37000},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto tokens = static_cast<std::int64_t>(row.tokens);
    CHECK(build_network(row.name, {.seq_len = tokens}).forward_macs() == row.macs);
    CHECK(build_network(row.name, {.batch = 4, .seq_len = tokens}).forward_macs() == 4 * row.macs);
  }
}

TEST_CASE("GPT-2 attends in one kernel where the code of its version does") {
  for (const char* name : {"gpt2", "gpt3_1.3b", "opt_125m", "t5_small"}) {
    CAPTURE(name);
    REQUIRE_FALSE(find_network(name)->code.empty());
    for (const bool training : {false, true}) {
      const NetworkGraph steps = build_network(name, {.training = training});
      const NetworkGraph fused =
          build_network(name, {.training = training, .attention = AttentionKernels::Fused});
      const auto count = [](const NetworkGraph& graph, OpKind kind) {
        std::size_t found = 0;
        for (const Op& op : graph.ops()) found += op.kind == kind;
        return found;
      };
      CHECK(count(fused, OpKind::Attention) > 0);
      CHECK(count(steps, OpKind::Attention) == 0);
      CHECK(count(steps, OpKind::Softmax) ==
            count(fused, OpKind::Softmax) + count(fused, OpKind::Attention));
      CHECK(steps.parameter_count() == fused.parameter_count());
      if (!training) (void)make_training_graph(fused, {});  // has gradients
    }
  }
  NetworkCode code{.attention = AttentionKernels::Fused, .stepwise = {"gpt2"}};
  CHECK(code.attention_of("gpt2") == AttentionKernels::Steps);
  CHECK(code.attention_of("opt") == AttentionKernels::Fused);
}

TEST_CASE("a length behind the name sets the tokens, a flag goes before it") {
  const double at_384 = build_network("bert_large", {.seq_len = 384}).forward_macs();
  CHECK(build_network("bert_large_seq384", {}).forward_macs() == at_384);
  CHECK(build_network("BERT-large_seq128", {.seq_len = 384}).forward_macs() == at_384);
  CHECK(find_network("bert_base_seq128")->name == "bert_base");
  CHECK(find_network("resnet50_seq128") == nullptr);
  CHECK(find_network("bert_base_seq") == nullptr);
  CHECK(find_network("bert_base_seq12x") == nullptr);
  CHECK(find_network("_seq128") == nullptr);
}

TEST_CASE("lengths beyond the learned positions are refused") {
  CHECK_THROWS_WITH_AS((void)build_network("bert_base", {.seq_len = 513}),
                       "network bert_base: found 513 tokens; expected 1 to 512", InputError);
  CHECK_THROWS_AS((void)build_network("gpt2", {.seq_len = 0}), InputError);
  CHECK_THROWS_AS((void)build_network("bert_base_seq99999999999999999999", {}), InputError);
  CHECK_THROWS_AS((void)build_network("llama3_8b", {.seq_len = std::int64_t{1} << 40}), InputError);
  CHECK_NOTHROW((void)build_network("bert_base", {.seq_len = 1}));
}

TEST_CASE("grouped queries copy keys and values, tied tables appear once") {
  const auto repeats = [](const char* name) {
    return count(build_network(name, {.seq_len = 16}), OpKind::Gather);
  };
  CHECK(repeats("llama3_8b") == 2 * 32);
  CHECK(repeats("llama2_7b") == 0);
  // Embedding and last GEMM both reach the table: their gradients are summed, one update.
  const NetworkGraph step =
      make_training_graph(build_network("gpt2", {.seq_len = 16, .training = true}), {});
  std::size_t sums = 0, updates = 0;
  for (const Op& op : step.ops()) {
    sums += op.name == "accumulate d wte.weight";
    updates += op.name == "update wte.weight";
  }
  CHECK(sums == 1);
  CHECK(updates == 1);
}

TEST_CASE(
    "networks without images build and train with every op known but recurrences, alone and in a "
    "batch") {
  for (const ZooEntry& entry : zoo()) {
    if (entry.image_size > 0) continue;
    CAPTURE(entry.name);
    const NetworkGraph graph = build_network(entry.name, {.batch = 3, .training = true});
    CHECK(graph.batch == 3);
    for (const TensorId output : graph.outputs) {
      // Adaptive softmax: each cluster of rare words meets its own share of the rows.
      if (output != graph.outputs.front() && entry.name.starts_with("transformer_xl")) continue;
      const Shape& shape = graph.tensor(output).shape;  // recurrent networks have time first
      CHECK((shape.at(0) == 3 || shape.at(1) == 3));
    }
    const NetworkGraph step = make_training_graph(graph, {});
    CHECK(count(step, OpKind::Unknown) == 0);
    for (const Tensor& tensor : step.tensors()) CHECK(element_count(tensor.shape) > 0);
  }
}

TEST_CASE("Transformer-XL in a session of TensorFlow hands its memory over and takes it back") {
  const auto copied = [](bool trains) {
    const NetworkGraph graph = build_network("transformer_xl_base_session",
                                             {.batch = 2, .seq_len = 64, .training = trains});
    std::int64_t fed = 0, fetched = 0;
    for (const Op& op : graph.ops()) {
      if (op.kind != OpKind::Routine) continue;
      fed += std::get<RoutineAttributes>(op.attributes).fed_bytes;
      fetched += std::get<RoutineAttributes>(op.attributes).fetched_bytes;
    }
    CHECK(fed == fetched);
    return fed;
  };
  CHECK(copied(false) == 16LL * 640 * 2 * 512 * 4);  // layers, states, sequences, width, fp32
  CHECK(copied(true) == 0);
}

TEST_CASE("without adaptive softmax every word of Transformer-XL meets the whole vocabulary") {
  const NetworkGraph graph =
      build_network("transformer_xl_large_flat", {.batch = 2, .training = true});
  REQUIRE(graph.outputs.size() == 1);
  CHECK(graph.tensor(graph.outputs.front()).shape == Shape{256, 2, 267'735});
}

TEST_SUITE_END();
