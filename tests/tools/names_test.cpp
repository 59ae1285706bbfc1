#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "hwspecs/library.hpp"
#include "hwspecs/loaders/known_names.hpp"
#include "models/zoo/parts/network_word.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tests/support/data.hpp"
#include "tests/tools/program.hpp"

namespace tracecast::test {
namespace {

TEST_SUITE_BEGIN("tools/names");

std::string network_of(std::string_view word) {
  const auto found = read_network_word(word);
  return found ? std::string(found->entry->name) : std::string();
}

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("a network is found under the names that people and publishers give it") {
  const std::pair<const char*, const char*> names[] = {
      {"LLAMA3.1_405B", "llama3_405b"},
      {"llama3.1-8b", "llama3_8b"},
      {"Llama 3.1 70B", "llama3_70b"},
      {"LLAMA3_70B", "llama3_70b"},
      {"meta-llama/Llama-3.1-8B", "llama3_8b"},
      {"meta-llama/Meta-Llama-3-8B-Instruct", "llama3_8b"},
      {"meta-llama/Llama-2-7b-hf", "llama2_7b"},
      {"Qwen/Qwen3-235B-A22B-Thinking-2507-FP8", "qwen3_235b_a22b"},
      {"RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "llama4_scout"},
      {"mistralai/Mixtral-8x22B-Instruct-v0.1", "mixtral_8x22b"},
      {"gpt3_1_3b", "gpt3_1.3b"},
      {"GPT3-13B", "gpt3_13b"},
      {"ResNet-50_v1.5", "resnet50"},
      {"resnet50 v1-5", "resnet50"},
      {"RegNetX-8.0GF", "regnet_x_8gf"},
      {"regnety_032", "regnet_y_3.2gf"},
      {"tf_efficientnet_b3", "efficientnet_b3"},
      {"bert_large_seq384", "bert_large"},
      // A sign between two digits is a point.
      {"regnet_x_1_6gf", "regnet_x_1.6gf"},
      {"RegNetX-16GF", "regnet_x_16gf"},
      {"regnet_x_16gf", "regnet_x_16gf"},
      {"regnet_x_1.6gf", "regnet_x_1.6gf"},
  };
  for (const auto& [word, network] : names) {
    CAPTURE(word);
    CHECK(network_of(word) == network);
  }
  for (const char* word :
       {"", "-Instruct", "resnet", "meta-llama/", "nobody/resnet50", "folder/resnet50", "gpt313b",
        "bert_large_seq", "resnet50_seq384", "llama3_8b_seq-5", "a/b/resnet50"}) {
    CAPTURE(word);
    CHECK(network_of(word).empty());
  }
  CHECK(network_of(std::string(10'000, '-')).empty());
}

TEST_CASE("a size that stands in a name is the network's, unless another is asked for") {
  CHECK(read_network_word("vit_base_patch16_384")->image_size == 384);
  CHECK_FALSE(read_network_word("vit_b_16")->image_size);
  CHECK(read_network_word("bert_large_seq384")->seq_len == 384);
  const auto pixels = [](const char* name, const BuildOptions& options) {
    return build_network(name, options).tensors().front().shape.at(2);
  };
  CHECK(pixels("vit_base_patch16_384", {}) == 384);
  CHECK(pixels("vit_base_patch16_384", {.image_size = 224}) == 224);
  CHECK(pixels("vit_b_16", {}) == 224);
}

TEST_CASE("no spelling names two networks, and all name one of the zoo") {
  // Between digits a sign counts: 1.6 is not 16.
  const auto plain = [](std::string_view name) {
    std::string text = to_lower(name);
    for (char& c : text) c = c == '-' || c == '_' || c == ' ' ? '.' : c;
    for (std::size_t i = text.size(); i-- > 0;) {
      const bool is_between = i > 0 && i + 1 < text.size() && std::isdigit(text[i - 1]) != 0 &&
                              std::isdigit(text[i + 1]) != 0;
      if (text[i] == '.' && !is_between) text.erase(i, 1);
    }
    return text;
  };
  std::map<std::string, std::string> spellings;
  for (const ZooEntry& entry : zoo()) {
    spellings.emplace(plain(entry.name), entry.name);
    for (const std::string_view alias : entry.aliases) spellings.emplace(plain(alias), entry.name);
  }
  const std::size_t of_zoo = spellings.size();
  for (const NetworkSpelling& row : known_names().networks) {
    CAPTURE(row.called);
    CHECK(find_network(row.network) != nullptr);
    CHECK(spellings.emplace(plain(row.called), row.network).second);
    CHECK(network_of(row.called) == network_of(row.network));
  }
  CHECK(spellings.size() == of_zoo + known_names().networks.size());
}

/// Names of the tables for what the zoo does not have.
const std::set<std::string> kNotInTheZoo = {"megatron_bert_large",
                                            "qwen3_vl_235b_a22b",
                                            "ssd_mobilenet_v1_300",
                                            "ssd_resnet34_1200",
                                            "wan2.2_t2v_a14b",
                                            "yolo",
                                            "dlrm_v3"};

/// What a row calls its network, by column; a row may state the same one in both.
void check_spellings(const std::filesystem::path& file) {
  CsvReader table(file);
  const auto network = table.find_column("network"),
             published = table.find_column("network_as_published"),
             size = table.find_column("image_size");
  if (!network) return;
  std::set<std::string> seen;
  while (table.next()) {
    const std::string name(table.field(*network));
    if (name.empty() || kNotInTheZoo.contains(name)) continue;
    const std::string spelling(published ? table.field(*published) : table.field(*network));
    if (!seen.insert(name + '\n' + spelling).second) continue;
    CAPTURE(file.filename().string());
    CAPTURE(name);
    CAPTURE(spelling);
    CHECK_FALSE(network_of(name).empty());
    const auto word = read_network_word(spelling);
    REQUIRE(word);
    CHECK(std::string(word->entry->name) == network_of(name));
    if (word->image_size && size && !table.field(*size).empty())
      CHECK(std::to_string(*word->image_size) == std::string(table.field(*size)));
  }
}

TEST_CASE("every spelling of the tables of GPUs on sale is understood") {
  const auto folder = find_data("market");
  if (!folder) return;
  for (const auto& file : std::filesystem::directory_iterator(*folder)) {
    if (holds(file.path().filename().string(), ".csv")) check_spellings(file.path());
  }
}

TEST_CASE("every spelling of the tables of served networks is understood") {
  const auto folder = find_data("serving");
  if (!folder) return;
  CsvReader configs(*folder / "model_configs.csv");
  while (configs.next()) {
    const std::string model(configs.field(*configs.find_column("model")));
    CAPTURE(model);
    CHECK_FALSE(network_of(model).empty());
    std::string_view aliases = configs.field(*configs.find_column("aliases"));
    while (!aliases.empty()) {
      const std::string alias(aliases.substr(0, aliases.find('|')));
      CAPTURE(alias);
      CHECK(network_of(alias) == network_of(model));
      aliases.remove_prefix(std::min(aliases.size(), alias.size() + 1));
    }
  }
  for (const char* name : {"aic_silicon.csv", "pipeweave_e2e.csv", "splitwise.csv", "vllm_h100.csv",
                           "vllm_runs.csv"}) {
    CsvReader table(*folder / name);
    std::set<std::string> models;
    while (table.next()) models.emplace(table.field(*table.find_column("model")));
    for (const std::string& model : models) {
      CAPTURE(model);
      CHECK_FALSE(network_of(model).empty());
    }
  }
}

TEST_CASE("what a publisher calls a network is asked like its id, and is no path") {
  const auto served = [](Words network) {
    Words words = {"serve"};
    words.insert(words.end(), network.begin(), network.end());
    for (const char* word :
         {"--gpu", "h100", "--batch", "4", "--input", "100", "--output", "10", "--format", "csv"})
      words.emplace_back(word);
    return tracecast(words);
  };
  const ProcessResult by_id = served({"llama3_8b"});
  REQUIRE(by_id.exit_code == 0);
  const std::string published = "meta-llama/Llama-3.1-8B";
  std::string expected = by_id.out;  // which names the network as it was asked for
  for (std::size_t at = 0; (at = expected.find("llama3_8b,", at)) != expected.npos;)
    expected.replace(at, std::string("llama3_8b").size(), published);
  CHECK(served({published}).out == expected);
  // Its weights are stored in 8 bits: what is asked for decides, and the answer says so.
  const ProcessResult stored =
      tracecast({"serve", "nvidia/Llama-3.1-8B-Instruct-FP8", "--gpu", "h100", "--batch", "4",
                 "--input", "100", "--output", "10"});
  CHECK(holds(stored.out, "its name stores them as fp8: --precision fp8"));
  const ProcessResult trained = tracecast({"predict", "meta-llama/Llama-3.1-8B", "--gpu", "h100",
                                           "--gpus", "8", "--tp", "8", "--format", "csv"});
  CHECK(trained.exit_code == tracecast({"predict", "llama3_8b", "--gpu", "h100", "--gpus", "8",
                                        "--tp", "8", "--format", "csv"})
                                 .exit_code);
  const ProcessResult path = tracecast({"predict", "folder/resnet50", "--gpu", "v100"});
  CHECK(path.exit_code == 2);
  CHECK(holds(path.err, "folder/resnet50"));
}

TEST_CASE(
    "accelerators of other makers are reported of by their makers, and no NVIDIA GPU is taken for "
    "one") {
  const std::pair<const char*, const char*> words[] = {
      {"mi300x", "AMD"},     {"MI250", "AMD"},     {"AMD Instinct MI355X", "AMD"},
      {"rx7900xtx", "AMD"},  {"gaudi2", "Intel"},  {"Arc A770", "Intel"},
      {"tpu-v5e", "Google"}, {"v5p", "Google"},    {"M4", "Apple"},
      {"m2_max", "Apple"},   {"trn1", "Trainium"}, {"ascend_910b", "Huawei"}};
  for (const auto& [word, maker] : words) {
    CAPTURE(word);
    for (const Words& command : {Words{"predict", "resnet50", "--gpu", word}, Words{"gpus", word},
                                 Words{"serve", "llama3_8b", "--gpu", word, "--batch", "1",
                                       "--input", "10", "--output", "10"},
                                 Words{"compare", "resnet50", "--gpu", word}}) {
      CAPTURE(line_of(command));
      const ProcessResult result = tracecast(command);
      CAPTURE(result.err);
      CHECK(result.exit_code == 2);
      CHECK(count_lines(result.err) == 1);
      CHECK(holds(result.err, maker));
      CHECK(holds(result.err, "not known yet"));
      CHECK_FALSE(holds(result.err, "nearest"));
    }
  }
  for (const GpuSpec& gpu : SpecLibrary::embedded().gpus().all()) {
    CAPTURE(gpu.id);
    CHECK(find_unknown_accelerator(gpu.id).empty());
    CHECK(find_unknown_accelerator(gpu.name).empty());
    for (const std::string& alias : gpu.aliases) {
      CAPTURE(alias);
      CHECK(find_unknown_accelerator(alias).empty());
    }
  }
  // A typing error still has its nearest word.
  CHECK(holds(tracecast({"predict", "resnet50", "--gpu", "v10"}).err, "v100"));
}

TEST_CASE("a network in another form than ONNX is reported the way in, wherever it is named") {
  for (const KnownNames::Files& kind : known_names().files) {
    for (const std::string& ending : kind.endings) {
      for (const std::string& name : {"model" + ending, "folder/MODEL" + ending}) {
        for (const Words& command :
             {Words{"predict", name, "--gpu", "v100"},
              Words{"predict", name, "--gpu", "a100", "--gpus", "8", "--tp", "8"},
              Words{"serve", name, "--gpu", "h100", "--batch", "1", "--input", "10", "--output",
                    "10"},
              Words{"networks", name}, Words{"compare", name, "--gpu", "v100"}}) {
          CAPTURE(line_of(command));
          const ProcessResult result = tracecast(command);
          CAPTURE(result.err);
          CHECK(result.exit_code == 2);
          CHECK(count_lines(result.err) == 1);
          CHECK(holds(result.err, kind.what));
          CHECK(holds(result.err, kind.instead));
        }
      }
    }
  }
  CHECK(holds(tracecast({"predict", "model.pt", "--gpu", "v100"}).err,
              "tracecast.graph(module, inputs)"));
  CHECK(holds(tracecast({"predict", "model.safetensors", "--gpu", "v100"}).err, "config.json"));
}

TEST_CASE("a row of names without name, spelling or source is refused with its file") {
  const char* bad[] = {
      "network { called: \"x\" source: \"s\" }",
      "network { id: \"resnet50\" source: \"s\" }",
      "network { id: \"resnet50\" called: \"x\" }",
      "network { id: \"resnet50\" called: \"x\" image_size: 0 source: \"s\" }",
      "publishers { called: \"x\" }",
      "endings { source: \"s\" }",
      "accelerators { called: \"x\" source: \"s\" }",
      "files { ending: \".x\" what: \"w\" source: \"s\" }",
      "nets { }",
  };
  for (const char* text : bad) {
    CAPTURE(text);
    const NamesText file{text, "mine.textproto"};
    CHECK_THROWS_WITH_AS((void)parse_known_names({&file, 1}), doctest::Contains("mine.textproto"),
                         InputError);
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
