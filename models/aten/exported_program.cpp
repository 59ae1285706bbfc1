#include "models/aten/exported_program.hpp"

#include <minizip/unzip.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "models/ops.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace tracecast::aten {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostProgramBytes = 64ULL << 20;
constexpr std::size_t kMostValues = 4'000'000;
constexpr int kMostEntries = 1'000'000;

/// torch/_export/serde/schema.py, ScalarType.
std::optional<ElementType> element_type_of(std::int64_t scalar_type) {
  switch (scalar_type) {
    case 1:   // uint8
    case 2:   // int8
    case 12:  // bool
      return ElementType{true, 1};
    case 3:
    case 28:  // uint16
      return ElementType{true, 2};
    case 4:
      return ElementType{true, 4};
    case 5:
      return ElementType{true, 8};
    case 6:   // half
    case 13:  // bfloat16
      return ElementType{false, 2};
    case 7:
      return ElementType{false, 4};
    case 8:
    case 10:  // of two floats
      return ElementType{false, 8};
    case 9:
      return ElementType{false, 4};
    case 11:
      return ElementType{false, 16};
    case 29:
    case 30:
    case 31:
    case 32:
      return ElementType{false, 1};
    default:
      return std::nullopt;
  }
}

class ProgramReader {
 public:
  ProgramReader(const Json& document, std::string_view where)
      : document_(document), where_(where) {}

  Program read() {
    const Json& graph_module = object(document_, "graph_module", "");
    const Json& graph = object(graph_module, "graph", "graph_module.");
    tensors_ = &object(graph, "tensor_values", "graph.");
    if (const Json* sizes = find(graph, "sym_int_values"); sizes && sizes->is_object())
      sizes_ = sizes;
    declare_inputs(graph, object(graph_module, "signature", "graph_module."));
    const Json& nodes = list(graph, "nodes", "graph.");
    program_.place_prefix = where_ + ": node ";
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      place_ = program_.place_prefix + std::to_string(i);
      node_number_ = i;
      read_node(nodes[i]);
    }
    place_ = where_;
    set_outputs(graph, object(graph_module, "signature", "graph_module."));
    drop_dead_nodes();
    return std::move(program_);
  }

 private:
  [[noreturn]] void fail(std::string_view found, std::string_view expected) const {
    throw InputError(place_, found, expected);
  }
  static const Json* find(const Json& from, const char* key) {
    if (!from.is_object()) return nullptr;
    const auto at = from.find(key);
    return at == from.end() || at->is_null() ? nullptr : &*at;
  }
  const Json& object(const Json& from, const char* key, std::string_view path) const {
    const Json* found = find(from, key);
    if (!found || !found->is_object())
      fail("no object " + std::string(path) + key, "a program that torch.export.save wrote");
    return *found;
  }
  const Json& list(const Json& from, const char* key, std::string_view path) const {
    const Json* found = find(from, key);
    if (!found || !found->is_array())
      fail("no list " + std::string(path) + key, "a program that torch.export.save wrote");
    return *found;
  }
  std::string text(const Json& from, const char* key) const {
    const Json* found = find(from, key);
    if (!found || !found->is_string()) fail("no text " + std::string(key), "a name");
    return found->get<std::string>();
  }
  /// The tensor's name in {"as_tensor": {"name": ...}} or {"name": ...}.
  static std::optional<std::string> tensor_name(const Json& argument) {
    const Json* tensor = find(argument, "as_tensor");
    const Json* name = find(tensor ? *tensor : argument, "name");
    if (!name || !name->is_string()) return std::nullopt;
    return name->get<std::string>();
  }

  /// A size: a number, or an expression with the number that it had.
  std::int64_t size(const Json& value) const {
    if (value.is_number_integer()) return value.get<std::int64_t>();
    if (const Json* number = find(value, "as_int"); number && number->is_number_integer())
      return number->get<std::int64_t>();
    const Json* expression = find(value, "as_expr");
    const Json* hint = expression ? find(*expression, "hint") : nullptr;
    if (hint) {
      const Json* number = find(*hint, "as_int");
      if (number && number->is_number_integer()) return number->get<std::int64_t>();
      if (hint->is_number_integer()) return hint->get<std::int64_t>();
    }
    fail("a size that only the data decide", "sizes that follow from those of the inputs");
  }

  TensorIndex declare(const std::string& name, Source source, std::string shown) {
    const Json* meta = find(*tensors_, name.c_str());
    if (!meta) fail('"' + name + "\" without a row in tensor_values", "its sizes");
    TensorInfo tensor{.name = std::move(shown), .source = source};
    const Json* type = find(*meta, "dtype");
    const std::optional<ElementType> known = type && type->is_number_integer()
                                                 ? element_type_of(type->get<std::int64_t>())
                                                 : std::nullopt;
    if (!known) fail("no element type that is known for " + name, "a ScalarType of PyTorch");
    tensor.type = *known;
    for (const Json& dim : list(*meta, "sizes", name + '.')) {
      tensor.shape.push_back(size(dim));
      if (tensor.shape.size() > 64) break;
    }
    if (const Json* strides = find(*meta, "strides");
        strides && strides->is_array() && strides->size() == tensor.shape.size()) {
      for (const Json& step : *strides) tensor.strides.push_back(size(step));
    }
    if (source == Source::Parameter) {
      const Json* trained = find(*meta, "requires_grad");
      if (trained && trained->is_boolean() && !trained->get<bool>()) tensor.source = Source::Frozen;
    }
    check_tensor(tensor, place_);
    const auto index = static_cast<TensorIndex>(program_.tensors.size());
    if (!by_name_.emplace(name, index).second)
      fail("a second tensor \"" + name + '"', "another name");
    program_.tensors.push_back(std::move(tensor));
    return index;
  }

  /// What the program reads: the signature says which tensors are parameters, which are given.
  void declare_inputs(const Json& graph, const Json& signature) {
    std::unordered_map<std::string, std::pair<Source, std::string>> known;
    const Json* specs = find(signature, "input_specs");
    if (specs && specs->is_array()) {
      for (const Json& spec : *specs) {
        add_input(spec, "parameter", "parameter_name", Source::Parameter, known);
        add_input(spec, "buffer", "buffer_name", Source::Buffer, known);
        add_input(spec, "tensor_constant", "tensor_constant_name", Source::Constant, known);
      }
    }
    // Schema 1.
    for (const auto& [key, source] : {std::pair{"inputs_to_parameters", Source::Parameter},
                                      std::pair{"inputs_to_buffers", Source::Buffer}}) {
      const Json* names = find(signature, key);
      if (!names || !names->is_object()) continue;
      for (const auto& [name, shown] : names->items()) {
        if (shown.is_string()) known[name] = {source, shown.get<std::string>()};
      }
    }
    for (const Json& input : list(graph, "inputs", "graph.")) {
      const std::optional<std::string> name = tensor_name(input);
      if (!name) continue;  // a number, or nothing
      const auto at = known.find(*name);
      if (at == known.end()) {
        declare(*name, Source::Input, *name);
      } else {
        declare(*name, at->second.first, at->second.second);
      }
    }
  }
  void add_input(const Json& spec, const char* kind, const char* name_key, Source source,
                 std::unordered_map<std::string, std::pair<Source, std::string>>& known) const {
    const Json* found = find(spec, kind);
    if (!found) return;
    const Json* argument = find(*found, "arg");
    const std::optional<std::string> name = argument ? tensor_name(*argument) : std::nullopt;
    if (name) known[*name] = {source, text(*found, name_key)};
  }

  TensorReference reference(const std::string& name) const {
    const auto known = by_name_.find(name);
    if (known == by_name_.end())
      fail("tensor \"" + name + "\", which no earlier node makes", "one that is there");
    return {known->second};
  }

  /// {"as_int": 3}: a union of one member.
  Argument argument(const Json& value) const {
    if (!value.is_object() || value.empty()) return {};
    const std::string kind = value.begin().key();
    const Json& held = value.begin().value();
    if (kind == "as_tensor") {
      const std::optional<std::string> name = tensor_name(value);
      return name ? Argument{reference(*name)} : Argument{};
    }
    if (kind == "as_tensors" || kind == "as_optional_tensors") {
      Argument::List list;
      if (!held.is_array()) return {};
      for (const Json& part : held) {
        const std::optional<std::string> name = tensor_name(part);
        list.push_back(name ? Argument{reference(*name)} : Argument{});
      }
      return list_argument(std::move(list));
    }
    if (kind == "as_optional_tensor") {
      const std::optional<std::string> name = tensor_name(held);
      return name ? Argument{reference(*name)} : Argument{};
    }
    if (kind == "as_sym_int") return {symbolic(held)};
    if (kind == "as_sym_ints") {
      Argument::List list;
      if (!held.is_array()) return {};
      for (const Json& part : held) list.push_back({symbolic(part)});
      return list_argument(std::move(list));
    }
    if (kind == "as_scalar_type" || kind == "as_memory_format") return {Word{held.dump()}};
    return plain(held);
  }
  static Argument plain(const Json& value) {
    if (value.is_boolean()) return {value.get<bool>()};
    if (value.is_number_integer()) return {value.get<std::int64_t>()};
    if (value.is_number()) return {value.get<double>()};
    if (value.is_string()) return {value.get<std::string>()};
    if (value.is_array()) {
      Argument::List list;
      for (const Json& part : value) {
        if (!part.is_array()) list.push_back(plain(part));
      }
      return list_argument(std::move(list));
    }
    return {};
  }
  /// A number that another node computes from sizes, by the value that it had.
  std::int64_t symbolic(const Json& value) const {
    const Json* name = find(value, "as_name");
    if (!name) return size(value);
    const Json* known = name->is_string() && sizes_
                            ? find(*sizes_, name->get_ref<const std::string&>().c_str())
                            : nullptr;
    if (!known) fail("a size without a row in sym_int_values", "its value");
    return size(*known);
  }

  void read_node(const Json& json) {
    Node node{.target = text(json, "target"), .overload = "default", .place = node_number_};
    constexpr std::string_view kPrefix = "torch.ops.";
    if (node.target.starts_with(kPrefix)) node.target.erase(0, kPrefix.size());
    const std::size_t dot = node.target.rfind('.');
    if (dot != std::string::npos && node.target.find('.') != dot) {
      node.overload = node.target.substr(dot + 1);
      node.target.resize(dot);
    }
    std::vector<std::string> results;
    for (const Json& output : list(json, "outputs", "")) {
      if (const Json* many = find(output, "as_tensors"); many && many->is_array()) {
        for (const Json& part : *many) results.push_back(tensor_name(part).value_or(""));
      } else {
        const bool is_tensor = find(output, "as_tensor") != nullptr;
        results.push_back(is_tensor ? tensor_name(output).value_or("") : "");
      }
    }
    // Arithmetic on sizes: its results stand where they are read.
    if (std::all_of(results.begin(), results.end(), [](const auto& name) { return name.empty(); }))
      return;
    for (const Json& input : list(json, "inputs", "")) {
      const Json* given = find(input, "arg");
      if (given) node.arguments.emplace_back(text(input, "name"), argument(*given));
    }
    node.scope = scope_of(json);
    for (const std::string& name : results) {
      node.results.push_back(name.empty() ? kNoTensor : declare(name, Source::Result, name));
    }
    note_mode(node);
    program_.nodes.push_back(std::move(node));
  }

  /// The innermost module of "KEY,PATH,TYPE;KEY,PATH,TYPE".
  static std::string scope_of(const Json& json) {
    const Json* metadata = find(json, "metadata");
    const Json* stack = metadata ? find(*metadata, "nn_module_stack") : nullptr;
    if (!stack || !stack->is_string()) return {};
    const auto& all = stack->get_ref<const std::string&>();
    const std::size_t last = all.rfind(';');
    const std::string entry = last == std::string::npos ? all : all.substr(last + 1);
    const std::size_t first = entry.find(','), second = entry.find(',', first + 1);
    if (first == std::string::npos || second == std::string::npos) return {};
    std::string scope = entry.substr(first + 1, second - first - 1);
    for (const std::string_view root : {"L['self'].", "L__self___", "L['self']"}) {
      if (scope.starts_with(root)) scope.erase(0, root.size());
    }
    constexpr std::size_t kLongest = 200;
    if (scope.size() > kLongest) scope.resize(kLongest);
    return scope;
  }

  /// Batch norms and dropout say whether the module trained when it was exported.
  void note_mode(const Node& node) {
    const bool is_norm = node.target.find("batch_norm") != std::string::npos;
    const bool is_dropout = node.target == "aten.dropout";
    if (!is_norm && !is_dropout) return;
    if (node.target.ends_with("_no_training")) program_.is_training_mode = false;
    for (const auto& [name, value] : node.arguments) {
      const auto* flag = std::get_if<bool>(&value.value);
      if (flag && !*flag && (name == "training" || name == "train"))
        program_.is_training_mode = false;
    }
  }

  void set_outputs(const Json& graph, const Json& signature) {
    const Json* specs = find(signature, "output_specs");
    if (specs && specs->is_array()) {
      for (const Json& spec : *specs) {
        for (const char* kind : {"user_output", "loss_output"}) {
          const Json* found = find(spec, kind);
          const Json* given = found ? find(*found, "arg") : nullptr;
          const std::optional<std::string> name = given ? tensor_name(*given) : std::nullopt;
          if (name) program_.outputs.push_back(reference(*name).index);
        }
      }
    } else if (const Json* names = find(signature, "user_outputs"); names && names->is_array()) {
      for (const Json& name : *names) {
        if (name.is_string()) program_.outputs.push_back(reference(name.get<std::string>()).index);
      }
    } else {
      for (const Json& output : list(graph, "outputs", "graph.")) {
        if (const auto name = tensor_name(output))
          program_.outputs.push_back(reference(*name).index);
      }
    }
    if (program_.outputs.empty()) fail("no tensor that the program gives back", "at least one");
  }

  /// An exported program has no side effects: what no output needs, such as counters of batch
  /// norms, is another module's affair.
  void drop_dead_nodes() {
    std::vector<bool> is_needed(program_.tensors.size(), false);
    for (const TensorIndex output : program_.outputs) is_needed[output] = true;
    std::vector<Node> kept;
    for (std::size_t i = program_.nodes.size(); i-- > 0;) {
      Node& node = program_.nodes[i];
      const bool is_live =
          std::any_of(node.results.begin(), node.results.end(),
                      [&](TensorIndex result) { return result != kNoTensor && is_needed[result]; });
      if (!is_live) continue;
      for (const auto& [name, value] : node.arguments) mark(value, is_needed);
      kept.push_back(std::move(node));
    }
    std::reverse(kept.begin(), kept.end());
    program_.nodes = std::move(kept);
  }
  static void mark(const Argument& argument, std::vector<bool>& is_needed) {
    if (const auto* tensor = std::get_if<TensorReference>(&argument.value))
      is_needed[tensor->index] = true;
    if (const auto* list = list_of(argument)) {
      for (const Argument& part : *list) mark(part, is_needed);
    }
  }

  const Json& document_;
  std::string where_;
  std::string place_ = where_;
  std::size_t node_number_ = 0;
  const Json* tensors_ = nullptr;
  const Json* sizes_ = nullptr;
  Program program_;
  std::unordered_map<std::string, TensorIndex> by_name_;
};

struct ArchiveCloser {
  void operator()(void* archive) const { unzClose(archive); }
};
using Archive = std::unique_ptr<void, ArchiveCloser>;

/// Of PyTorch 2.1 to 2.6, and of later ones, whose names begin with the archive's.
bool holds_program(std::string_view name) {
  if (name == "serialized_exported_program.json") return true;
  const bool is_in_models = name.starts_with("models/") || name.find("/models/") != name.npos;
  return is_in_models && name.ends_with(".json");
}

}  // namespace

std::string read_program_text(const std::filesystem::path& path) {
  const std::string where = path.string();
  check_regular_file(path);
  const Archive archive(unzOpen64(where.c_str()));
  if (!archive) {
    throw InputError(where, "no zip archive", "a program that torch.export.save wrote");
  }
  int code = unzGoToFirstFile(archive.get());
  for (int entry = 0; code == UNZ_OK && entry < kMostEntries; ++entry) {
    unz_file_info64 info{};
    std::array<char, 512> name{};
    if (unzGetCurrentFileInfo64(archive.get(), &info, name.data(), name.size() - 1, nullptr, 0,
                                nullptr, 0) != UNZ_OK) {
      throw InputError(where, "a damaged directory of the archive", "a whole file");
    }
    if (!holds_program(name.data())) {
      code = unzGoToNextFile(archive.get());
      continue;
    }
    const std::string inside = where + ": " + name.data();
    if (info.uncompressed_size > kMostProgramBytes) {
      throw InputError(inside, std::to_string(info.uncompressed_size) + " bytes", "at most 64 MiB");
    }
    if (unzOpenCurrentFile(archive.get()) != UNZ_OK) {
      throw InputError(inside, "an entry that cannot be opened", "a whole file");
    }
    std::string program(static_cast<std::size_t>(info.uncompressed_size), '\0');
    std::size_t filled = 0;
    while (filled < program.size()) {
      const int read = unzReadCurrentFile(archive.get(), program.data() + filled,
                                          static_cast<unsigned>(program.size() - filled));
      if (read <= 0) throw InputError(inside, "data that end early or are damaged", "a whole file");
      filled += static_cast<std::size_t>(read);
    }
    if (unzCloseCurrentFile(archive.get()) != UNZ_OK) {
      throw InputError(inside, "a checksum that does not agree", "a whole file");
    }
    return program;
  }
  throw InputError(
      where, "an archive without a program (serialized_exported_program.json or models/NAME.json)",
      "a program that torch.export.save wrote");
}

Program read_exported_program(std::string_view json, std::string_view where) {
  std::size_t values = 0;
  // What only other readers need is not kept.
  static const std::unordered_set<std::string_view> kSkipped{
      "module_call_graph", "stack_trace", "source_fn_stack",
      "torch_fn",          "guards_code", "treespec_namedtuple_fields",
      "range_constraints"};
  const auto keep = [&](int, Json::parse_event_t event, Json& parsed) {
    if (++values > kMostValues) {
      throw InputError(where, "more than 4 million values", "a smaller program");
    }
    return event != Json::parse_event_t::key ||
           !kSkipped.contains(parsed.get_ref<const std::string&>());
  };
  Json document;
  try {
    document = Json::parse(json.begin(), json.end(), keep);
  } catch (const Json::exception& error) {
    const auto* parse = dynamic_cast<const Json::parse_error*>(&error);
    throw InputError(std::string(where) + (parse ? ", byte " + std::to_string(parse->byte) : ""),
                     "no JSON", "a program that torch.export.save wrote");
  }
  return ProgramReader(document, where).read();
}

}  // namespace tracecast::aten
