#include "traces/bytes/json_scanner.hpp"
#include "traces/chakra/node_table.hpp"
#include "traces/chakra/reader.hpp"
#include "traces/kineto/event.hpp"

namespace tracecast::traces {
namespace {

using chakra::NodeRecord;
using kineto::parse_whole;

constexpr std::size_t kLongestValues = 4096;

std::uint64_t id_of(std::string_view text) {
  const auto value = parse_whole(text);
  return value && *value > 0 ? static_cast<std::uint64_t>(*value) : 0;
}

class NodeReader {
 public:
  NodeReader(ByteSource& source, const std::string& name) : json_(source, name), builder_(trace_) {
    trace_.source = name;
  }

  /// Reads the document; `list` is the member that holds the nodes.
  Trace read(const char* list, NodeKind kind) {
    kind_ = kind;
    json_.enter_object();
    bool has_nodes = false;
    for (std::string_view key; json_.next_key(key);) {
      if (key == list) {
        has_nodes = true;
        read_nodes();
      } else if (key == "schema") {
        trace_.format += " " + std::string(scalar().substr(0, 32));
      } else {
        json_.skip();
      }
    }
    if (!has_nodes) json_.refuse("no \"" + std::string(list) + "\"", "an execution trace");
    if (!json_.at_end()) json_.refuse("more text behind the trace", "the end of the file");
    return std::move(trace_);
  }
  void set_format(std::string format) { trace_.format = std::move(format); }

 private:
  std::string_view scalar() {
    const JsonKind kind = json_.peek();
    if (kind != JsonKind::Object && kind != JsonKind::Array) return json_.text();
    json_.skip();
    return {};
  }

  void read_nodes() {
    json_.enter_array();
    while (json_.next_element()) {
      if (json_.peek() != JsonKind::Object) {
        json_.skip();
        trace_.leave_out("node that is no object", true);
        continue;
      }
      read_node();
      chakra::add_node(trace_, builder_, node_, json_.position());
    }
  }

  void read_node() {
    node_.clear();
    node_.kind = kind_;
    json_.enter_object();
    for (std::string_view key; json_.next_key(key);) {
      if (key == "id" || key == "Id") {
        node_.id = id_of(scalar());
      } else if (key == "name" || key == "Name") {
        node_.name = scalar();
      } else if (key == "NodeType") {
        node_.kind = chakra::node_kind(parse_whole(scalar()).value_or(0));
      } else if (key == "runtime") {
        const auto us = parse_whole(scalar());
        node_.duration_ns = us && *us >= 0 ? chakra::whole_us(static_cast<std::uint64_t>(*us)) : -1;
      } else if (key == "is_cpu_op") {
        node_.on_gpu = scalar() == "false";
      } else if (key == "comm_size") {
        node_.message_bytes = id_of(scalar());
      } else if (key == "data_deps" || key == "ctrlDeps" || key == "ctrl_deps" || key == "parent") {
        read_dependencies();
      } else if (key == "input_shapes") {
        node_.dims = json_.raw();
      } else if (key == "input_types") {
        node_.types = json_.raw();
      } else if (key == "inputs") {
        read_inputs();
      } else {
        json_.skip();
      }
    }
  }

  /// A list of ids, or one.
  void read_dependencies() {
    if (json_.peek() != JsonKind::Array) {
      node_.dependencies.push_back(id_of(scalar()));
      return;
    }
    json_.enter_array();
    while (json_.next_element()) node_.dependencies.push_back(id_of(scalar()));
  }

  void keep_values() {
    const std::string_view values = json_.raw();
    if (values.size() <= kLongestValues) {
      node_.values = values;
    } else {
      trace_.leave_out("values of an operator's inputs over 4 KiB");
    }
  }

  /// The values themselves (1.0.x), or values, shapes and types (1.1.x).
  void read_inputs() {
    if (json_.peek() != JsonKind::Object) return keep_values();
    json_.enter_object();
    for (std::string_view key; json_.next_key(key);) {
      if (key == "values") {
        keep_values();
      } else if (key == "shapes") {
        node_.dims = json_.raw();
      } else if (key == "types") {
        node_.types = json_.raw();
      } else {
        json_.skip();
      }
    }
  }

  JsonScanner json_;
  Trace trace_;
  TraceBuilder builder_;
  NodeRecord node_;
  NodeKind kind_ = NodeKind::Unknown;
};

}  // namespace

Trace read_chakra_json(ByteSource& source, const std::string& name) {
  NodeReader reader(source, name);
  reader.set_format("Chakra execution trace, JSON");
  return reader.read("workload_graph", NodeKind::Unknown);
}

Trace read_execution_trace(ByteSource& source, const std::string& name) {
  NodeReader reader(source, name);
  reader.set_format("PyTorch execution trace");
  return reader.read("nodes", NodeKind::Operator);
}

}  // namespace tracecast::traces
