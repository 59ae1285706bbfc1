#include <doctest/doctest.h>
#include <minizip/zip.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/aten/import.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::json;

Json meta(const std::vector<std::int64_t>& sizes, bool requires_grad = false, int dtype = 7) {
  Json dims = Json::array(), strides = Json::array();
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides.insert(strides.begin(), Json{{"as_int", step}});
    step *= sizes[i];
  }
  for (const std::int64_t size : sizes) dims.push_back({{"as_int", size}});
  return {{"dtype", dtype},
          {"sizes", dims},
          {"requires_grad", requires_grad},
          {"strides", strides},
          {"device", {{"type", "cpu"}}}};
}
Json tensor(const std::string& name) { return {{"as_tensor", {{"name", name}}}}; }
Json input(const std::string& name, const Json& value) {
  return {{"name", name}, {"arg", value}, {"kind", 1}};
}

/// A convolution, batch norm, a count of its steps, an activation and a linear layer, as
/// torch.export writes them for training.
Json program() {
  Json graph;
  graph["inputs"] = {tensor("p_w"), tensor("p_g"), tensor("p_h"), tensor("b_m"),
                     tensor("b_s"), tensor("b_n"), tensor("p_l"), tensor("x")};
  graph["outputs"] = {tensor("add"), tensor("linear")};
  graph["tensor_values"] = {{"p_w", meta({8, 3, 3, 3}, true)},
                            {"p_g", meta({8}, true)},
                            {"p_h", meta({8}, true)},
                            {"b_m", meta({8})},
                            {"b_s", meta({8})},
                            {"b_n", meta({}, false, 5)},
                            {"p_l", meta({10, 512}, true)},
                            {"x", meta({2, 3, 8, 8})},
                            {"conv2d", meta({2, 8, 8, 8})},
                            {"add", meta({}, false, 5)},
                            {"batch_norm", meta({2, 8, 8, 8})},
                            {"relu", meta({2, 8, 8, 8})},
                            {"view", meta({2, 512})},
                            {"linear", meta({2, 10})}};
  const Json ints = {{"as_ints", {1, 1}}};
  const std::string stack = "L__self__,,Net;L__self___conv,conv,torch.nn.modules.conv.Conv2d";
  graph["nodes"] = Json::array(
      {{{"target", "torch.ops.aten.conv2d.default"},
        {"inputs",
         {input("input", tensor("x")), input("weight", tensor("p_w")),
          input("bias", {{"as_none", true}}), input("stride", ints), input("padding", ints)}},
        {"outputs", {tensor("conv2d")}},
        {"metadata", {{"nn_module_stack", stack}, {"stack_trace", "File a.py"}}}},
       {{"target", "torch.ops.aten.add.Tensor"},
        {"inputs", {input("self", tensor("b_n")), input("other", {{"as_int", 1}})}},
        {"outputs", {tensor("add")}},
        {"metadata", Json::object()}},
       {{"target", "torch.ops.aten.batch_norm.default"},
        {"inputs",
         {input("input", tensor("conv2d")), input("weight", tensor("p_g")),
          input("bias", tensor("p_h")), input("running_mean", tensor("b_m")),
          input("running_var", tensor("b_s")), input("training", {{"as_bool", true}})}},
        {"outputs", {tensor("batch_norm")}},
        {"metadata", Json::object()}},
       {{"target", "torch.ops.aten.relu.default"},
        {"inputs", {input("self", tensor("batch_norm"))}},
        {"outputs", {tensor("relu")}},
        {"metadata", Json::object()}},
       {{"target", "torch.ops.aten.sym_size.int"},
        {"inputs", {input("self", tensor("x")), input("dim", {{"as_int", 0}})}},
        {"outputs", {{{"as_sym_int", {{"as_name", "sym_size_int"}}}}}},
        {"metadata", Json::object()}},
       {{"target", "torch.ops.aten.view.default"},
        {"inputs",
         {input("self", tensor("relu")),
          input("size", {{"as_sym_ints", {{{"as_name", "sym_size_int"}}, {{"as_int", 512}}}}})}},
        {"outputs", {tensor("view")}},
        {"metadata", Json::object()}},
       {{"target", "torch.ops.aten.linear.default"},
        {"inputs", {input("input", tensor("view")), input("weight", tensor("p_l"))}},
        {"outputs", {tensor("linear")}},
        {"metadata", Json::object()}}});
  graph["sym_int_values"] = {
      {"sym_size_int", {{"as_expr", {{"expr_str", "s0"}, {"hint", {{"as_int", 2}}}}}}}};
  // A size that the program leaves open.
  graph["tensor_values"]["x"]["sizes"][0] = graph["sym_int_values"]["sym_size_int"];
  const auto spec = [](const char* kind, const char* key, const char* name, const char* shown) {
    return Json{{kind, {{"arg", {{"name", name}}}, {key, shown}}}};
  };
  const Json signature = {
      {"input_specs",
       {spec("parameter", "parameter_name", "p_w", "conv.weight"),
        spec("parameter", "parameter_name", "p_g", "bn.weight"),
        spec("parameter", "parameter_name", "p_h", "bn.bias"),
        spec("buffer", "buffer_name", "b_m", "bn.running_mean"),
        spec("buffer", "buffer_name", "b_s", "bn.running_var"),
        spec("buffer", "buffer_name", "b_n", "bn.num_batches_tracked"),
        spec("parameter", "parameter_name", "p_l", "fc.weight"),
        {{"user_input", {{"arg", tensor("x")}}}}}},
      {"output_specs",
       {{{"buffer_mutation",
          {{"arg", {{"name", "add"}}}, {"buffer_name", "bn.num_batches_tracked"}}}},
        {{"user_output", {{"arg", tensor("linear")}}}}}}};
  return {{"graph_module",
           {{"graph", graph}, {"signature", signature}, {"module_call_graph", Json::array()}}},
          {"schema_version", {{"major", 8}, {"minor", 8}}}};
}

AtenNetwork read(const Json& json, const AtenOptions& options = {}) {
  return import_aten(json.dump(), "mine.pt2", options);
}

std::string error_of(const auto& act) {
  try {
    act();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

void write_zip(const std::filesystem::path& path,
               const std::vector<std::pair<std::string, std::string>>& entries) {
  zipFile zip = zipOpen64(path.c_str(), 0);
  REQUIRE(zip != nullptr);
  for (const auto& [name, content] : entries) {
    REQUIRE(zipOpenNewFileInZip(zip, name.c_str(), nullptr, nullptr, 0, nullptr, 0, nullptr,
                                Z_DEFLATED, 6) == ZIP_OK);
    REQUIRE(zipWriteInFileInZip(zip, content.data(), static_cast<unsigned>(content.size())) ==
            ZIP_OK);
    REQUIRE(zipCloseFileInZip(zip) == ZIP_OK);
  }
  REQUIRE(zipClose(zip, nullptr) == ZIP_OK);
}

TEST_SUITE_BEGIN("models/aten/exported_program");

TEST_CASE("an exported program becomes a network; what no output needs is left out") {
  const AtenNetwork network = read(program());
  CHECK(network.graph.name == "mine");
  CHECK(network.graph.batch == 2);
  CHECK(network.graph.parameter_count() == 8 * 27 + 16 + 5120);
  CHECK(network.graph.forward_macs() == 2 * (8 * 64 * 27 + 5120));
  CHECK(network.warnings.empty());
  REQUIRE(network.graph.ops().size() == 5);
  CHECK(network.graph.ops()[0].name == "conv");
  CHECK(network.graph.tensor(network.graph.ops()[0].inputs[1]).name == "conv.weight");
  CHECK(read(program(), {.batch = 16}).graph.forward_macs() == 16 * (8 * 64 * 27 + 5120));
}

TEST_CASE("the archives of PyTorch 2.1 to 2.6 and of later ones are read, without their weights") {
  const test::TemporaryFolder folder;
  const std::string text = program().dump();
  for (const std::string name : {"serialized_exported_program.json", "mine/models/model.json"}) {
    CAPTURE(name);
    const std::filesystem::path path = folder.path() / "mine.pt2";
    write_zip(path,
              {{"version", "7.1"}, {"data/weights/0", std::string(1000, '\0')}, {name, text}});
    CHECK(read_aten_file(path, 1 << 20) == text);
    // Cut anywhere: one line.
    const std::string bytes = read_file(path, 1 << 20);
    for (std::size_t size = 0; size < bytes.size(); size += 97) {
      write_file(path, bytes.substr(0, size));
      const std::string error = error_of([&] { (void)read_aten_file(path, 1 << 20); });
      CHECK(error.find("expected") != std::string::npos);
    }
  }
  write_zip(folder.path() / "other.pt2", {{"data.pkl", "x"}});
  CHECK(error_of([&] {
          (void)read_aten_file(folder.path() / "other.pt2", 1 << 20);
        }).find("without a program") != std::string::npos);
  // Half a kilobyte that unpacks to 100 MB.
  write_zip(folder.path() / "bomb.pt2",
            {{"serialized_exported_program.json", std::string(100'000'000, '[')}});
  CHECK(error_of([&] {
          (void)read_aten_file(folder.path() / "bomb.pt2", 1 << 20);
        }).find("at most 64 MiB") != std::string::npos);
}

TEST_CASE("a program of schema 1 says in lists what is given and kept") {
  Json json = program();
  Json& signature = json["graph_module"]["signature"];
  signature = {
      {"user_inputs", {"x"}},
      {"user_outputs", {"linear"}},
      {"inputs_to_parameters",
       {{"p_w", "conv.weight"}, {"p_g", "bn.weight"}, {"p_h", "bn.bias"}, {"p_l", "fc.weight"}}},
      {"inputs_to_buffers", {{"b_m", "m"}, {"b_s", "s"}, {"b_n", "n"}}}};
  CHECK(read(json).graph.parameter_count() == 8 * 27 + 16 + 5120);
}

TEST_CASE("what is missing or of another kind is named with its node") {
  struct Row {
    std::string pointer;
    Json value;
    std::string part;
  };
  const Row rows[] = {
      {"/graph_module", 1, "no object graph_module"},
      {"/graph_module/graph/nodes", 1, "no list graph.nodes"},
      {"/graph_module/graph/tensor_values/relu", nullptr, "node 3"},
      {"/graph_module/graph/tensor_values/relu/dtype", 99, "element type"},
      {"/graph_module/graph/tensor_values/relu/sizes/0/as_int", -1, "sizes of at least 0"},
      {"/graph_module/graph/tensor_values/x/sizes/0",
       {{"as_expr", {{"expr_str", "u0"}}}},
       "only the data decide"},
      {"/graph_module/graph/nodes/3/inputs/0/arg/as_tensor/name", "nobody",
       "no earlier node makes"},
      {"/graph_module/graph/nodes/3/outputs/0/as_tensor/name", "conv2d", "a second tensor"},
      {"/graph_module/graph/nodes/5/inputs/1/arg/as_sym_ints/0/as_name", "s9", "sym_int_values"},
      {"/graph_module/signature/output_specs", Json::array(), "gives back"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.pointer);
    Json json = program();
    json[Json::json_pointer(row.pointer)] = row.value;
    const std::string error = error_of([&] { (void)read(json); });
    CAPTURE(error);
    CHECK(error.find(row.part) != std::string::npos);
    CHECK(error.find('\n') == std::string::npos);
  }
  CHECK(error_of([] { (void)import_aten("{\"graph_module\": ", "mine.pt2", {}); }).find("byte") !=
        std::string::npos);
  std::string many = "[";
  for (int i = 0; i < 4'100'000; ++i) many += "1,";
  CHECK(error_of([&] {
          (void)import_aten(many + "1]", "mine.pt2", {});
        }).find("more than 4 million values") != std::string::npos);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
