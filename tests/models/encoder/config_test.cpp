#include "models/encoder/config.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "models/language/config.hpp"
#include "models/training.hpp"
#include "sim/base/error.hpp"
#include "tests/support/configs.hpp"

using namespace tracecast;
using Json = nlohmann::json;

namespace {

NetworkGraph encoder_graph(const std::string& name, const BuildOptions& options = {}) {
  return read_encoder_config(encoder_config_text(name), name, options).graph;
}

/// The error's line; empty when none was thrown.
std::string encoder_error(const std::string& bytes, const BuildOptions& options = {}) {
  try {
    if (!encoder_family(bytes).empty()) (void)read_encoder_config(bytes, "config.json", options);
  } catch (const InputError& error) {
    return error.what();
  }
  return {};
}

std::int64_t ops_of_kind(const NetworkGraph& graph, OpKind kind) {
  return std::count_if(graph.ops().begin(), graph.ops().end(),
                       [&](const Op& op) { return op.kind == kind; });
}

}  // namespace

TEST_SUITE_BEGIN("models/encoder/config");

TEST_CASE("every file gives its published parameters") {
  struct Row {
    const char* file;
    double parameters;
    double tolerance;  ///< 0: to the last one
  };
  const Row rows[] = {
      // Checkpoints on Hugging Face by their safetensors index; torchvision's Swin and ConvNeXt.
      {"bert_base", 109'482'240, 0},
      {"bert_large_mlm", 335'174'458, 0},
      {"roberta_base", 124'645'632, 0},
      {"roberta_large_mlm", 355'412'057, 0},
      {"distilbert_base", 66'362'880, 0},
      {"electra_base", 108'891'648, 0},
      {"albert_base", 11'683'584, 0},
      {"albert_xxlarge", 222'595'584, 0},
      {"t5_small", 60'506'624, 0},
      {"vit_base", 86'389'248, 0},
      {"vit_large_classes", 304'326'632, 0},
      {"swin_tiny", 28'288'354, 0},
      {"convnext_tiny", 28'589'128, 0},
      {"sd_1.5_unet", 859'520'964, 0},
      {"sd_2.1_unet", 865'910'724, 0},
      // As papers and cards round them; of wav2vec 2 and HuBERT to the 128 lengths of a weight
      // norm.
      {"electra_small", 13.54906e6, 0.005},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    const auto parameters = static_cast<double>(encoder_graph(row.file).parameter_count());
    CHECK(std::abs(parameters - row.parameters) <= row.tolerance * row.parameters);
  }
}

TEST_CASE(
    "every file has a graph without unknown ops that trains, by either attention, and no size is "
    "unknown") {
  for (const std::string& name : encoder_config_names()) {
    CAPTURE(name);
    for (const AttentionKernels attention : {AttentionKernels::Steps, AttentionKernels::Fused}) {
      const EncoderNetwork network = read_encoder_config(
          encoder_config_text(name), name, {.training = true, .attention = attention});
      CHECK(network.warnings.empty());
      CHECK(ops_of_kind(network.graph, OpKind::Unknown) == 0);
      const auto tensors = network.graph.tensors();
      const auto weights = std::count_if(tensors.begin(), tensors.end(), [](const Tensor& t) {
        return t.role == TensorRole::Weight;
      });
      CHECK(ops_of_kind(make_training_graph(network.graph, {}), OpKind::Optimizer) == weights);
    }
  }
}

TEST_CASE("multiply-adds are what weights and scores take") {
  // BERT base, 128 tokens: 12 layers of 4 x 768^2 + 2 x 768 x 3072 a token, scores and contexts,
  // the pooled token.
  const double bert =
      128 * 12 * (4 * 768. * 768 + 2 * 768. * 3072) + 12 * 2 * 128. * 128 * 768 + 768. * 768;
  CHECK(encoder_graph("bert_base", {.seq_len = 128}).forward_macs() == bert);
  // ViT-L/16 prints 61.55 G (torchvision), ConvNeXt tiny 4.46, Swin tiny 4.49.
  CHECK(encoder_graph("vit_large_classes").forward_macs() ==
        doctest::Approx(61.55e9).epsilon(0.01));
  CHECK(encoder_graph("convnext_tiny").forward_macs() == doctest::Approx(4.46e9).epsilon(0.01));
  CHECK(encoder_graph("swin_tiny").forward_macs() == doctest::Approx(4.49e9).epsilon(0.02));
}

TEST_CASE("a text's length, an image's side and the class of the head are heard") {
  CHECK(encoder_graph("bert_base", {.seq_len = 64}).forward_macs() <
        encoder_graph("bert_base", {.seq_len = 128}).forward_macs());
  CHECK(encoder_graph("dinov2_base", {.image_size = 224}).forward_macs() <
        0.25 * encoder_graph("dinov2_base").forward_macs());
  Json config = Json::parse(encoder_config_text("bert_base"));
  config["architectures"] = {"BertForSequenceClassification"};
  config["id2label"] = {{"0", "a"}, {"1", "b"}, {"2", "c"}};
  const NetworkGraph judged = read_encoder_config(config.dump(), "", {}).graph;
  CHECK(judged.parameter_count() - encoder_graph("bert_base").parameter_count() == 3 * 768 + 3);
  config["architectures"] = {"BertForTokenClassification"};
  CHECK(read_encoder_config(config.dump(), "", {}).graph.parameter_count() ==
        encoder_graph("bert_base").parameter_count() - (768 * 768 + 768) + 3 * 768 + 3);
}

TEST_CASE("keys of published files that change no shape bring no warning, others do") {
  struct Row {
    const char* file;
    Json more;
    bool warns;
  };
  const Row rows[] = {
      {"bert_base", {{"pooler_fc_size", 768}, {"pooler_num_attention_heads", 12}}, false},
      {"bart_base",
       {{"num_hidden_layers", 6}, {"no_repeat_ngram_size", 3}, {"num_beams", 4}},
       false},
      {"whisper_base", {{"num_hidden_layers", 6}, {"median_filter_width", 7}}, false},
      {"wav2vec2_base", {{"tdnn_dim", {512, 512}}, {"num_feat_extract_layers", 7}}, false},
      {"swin_tiny", {{"num_layers", 4}, {"hidden_size", 768}}, false},
      {"sdxl_unet", {{"conv_in_kernel", 3}, {"addition_embed_type_num_heads", 64}}, false},
      {"deberta_v3_base", {{"conv_kernel_size", 3}}, true},  // a convolution that is not known
      {"vit_base", {{"bottleneck_dim", 64}}, true},
  };
  for (const Row& row : rows) {
    CAPTURE(row.file);
    Json config = Json::parse(encoder_config_text(row.file));
    config.update(row.more);
    CHECK(read_encoder_config(config.dump(), "", {}).warnings.empty() != row.warns);
  }
}

TEST_CASE("what cannot be is one line with its place") {
  const std::string bert = encoder_config_text("bert_base"), vit = encoder_config_text("vit_base");
  CHECK(encoder_error(bert, {.seq_len = 513}).find("--seq-len") != std::string::npos);
  CHECK(encoder_error(bert, {.image_size = 224}).find("--image-size") != std::string::npos);
  CHECK(encoder_error(vit, {.image_size = 8}).find("--image-size") != std::string::npos);
  const auto changed = [&](const std::string& text, const char* key, const Json& value) {
    Json config = Json::parse(text);
    config[key] = value;
    return encoder_error(config.dump());
  };
  CHECK(changed(bert, "num_attention_heads", 7).find("hidden_size") != std::string::npos);
  CHECK(changed(bert, "num_hidden_layers", 0).find("num_hidden_layers") != std::string::npos);
  CHECK(changed(bert, "vocab_size", nullptr).find("vocab_size") != std::string::npos);
  CHECK(changed(encoder_config_text("swin_tiny"), "num_heads", {3, 6}).find("num_heads") !=
        std::string::npos);
  // A network that reads at once does not serve; a pipeline names its parts.
  try {
    (void)read_config_json(bert, "config.json");
    FAIL("it was taken");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("token by token") != std::string::npos);
  }
  try {
    (void)read_config_json(R"({"_class_name": "StableDiffusionPipeline"})", "model_index.json");
    FAIL("it was taken");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("unet/config.json") != std::string::npos);
  }
}

TEST_CASE("files with one key gone or changed are read or refused, never more") {
  for (const std::string& name : encoder_config_names()) {
    CAPTURE(name);
    const Json whole = Json::parse(encoder_config_text(name));
    for (const auto& [key, value] : whole.items()) {
      for (const Json& other :
           {Json(nullptr), Json(-1), Json(1), Json("x"), Json::array({1}), Json::object()}) {
        Json changed = whole;
        changed[key] = other;
        (void)encoder_error(changed.dump());  // anything but InputError ends the test
      }
    }
  }
}

TEST_SUITE_END();
