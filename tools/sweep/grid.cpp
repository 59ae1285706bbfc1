#include "tools/sweep/grid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "hwspecs/loaders/textproto.hpp"
#include "sim/base/error.hpp"
#include "sim/job/job.hpp"
#include "sim/job/sha256.hpp"
#include "tools/sweep/sweep.pb.h"

namespace tracecast {
namespace {

using Field = google::protobuf::FieldDescriptor;
using Message = google::protobuf::Message;

const google::protobuf::Descriptor& schema_of(SweepSubcommand subcommand) {
  return subcommand == SweepSubcommand::Predict ? *proto::Sweep::Predict::descriptor()
                                                : *proto::Sweep::Serve::descriptor();
}
const char* name_of(SweepSubcommand subcommand) {
  return subcommand == SweepSubcommand::Predict ? "predict" : "serve";
}

/// "--power-limit" of power_limit.
std::string flag_of(const std::string& field) {
  std::string flag = "--" + field;
  std::replace(flag.begin(), flag.end(), '_', '-');
  return flag;
}

store::ColumnType type_of(const Field& field) {
  switch (field.cpp_type()) {
    case Field::CPPTYPE_DOUBLE:
      return store::ColumnType::Real;
    case Field::CPPTYPE_STRING:
      return store::ColumnType::Text;
    default:
      return store::ColumnType::Integer;
  }
}

store::Value value_of(const Message& block, const Field& field, int index) {
  const auto& reflection = *block.GetReflection();
  switch (field.cpp_type()) {
    case Field::CPPTYPE_DOUBLE:
      return reflection.GetRepeatedDouble(block, &field, index);
    case Field::CPPTYPE_BOOL:
      return std::int64_t{reflection.GetRepeatedBool(block, &field, index)};
    case Field::CPPTYPE_STRING:
      return reflection.GetRepeatedString(block, &field, index);
    default:
      return reflection.GetRepeatedInt64(block, &field, index);
  }
}

/// Words of the command line for one field; of flags that are there or not, one that is not has
/// none.
void add_words(const std::string& field, const std::string& text, bool is_switch,
               std::vector<std::string>& words) {
  if (!is_switch) {
    words.push_back(flag_of(field) + '=' + text);
  } else if (text == "1") {
    words.push_back(flag_of(field));
  } else if (field == "cudnn_benchmark" || field == "channels_last") {
    words.push_back("--no-" + flag_of(field).substr(2));  // differs from being left out
  }
}

bool is_switch(SweepSubcommand subcommand, std::size_t column) {
  return schema_of(subcommand).field(static_cast<int>(column))->cpp_type() == Field::CPPTYPE_BOOL;
}

}  // namespace

std::string value_text(const store::Value& value) {
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *whole);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  const auto* text = std::get_if<std::string>(&value);
  return text != nullptr ? *text : std::string();
}

std::vector<store::Column> asked_columns(SweepSubcommand subcommand) {
  std::vector<store::Column> columns;
  const auto& schema = schema_of(subcommand);
  for (int i = 0; i < schema.field_count(); ++i)
    columns.push_back({schema.field(i)->name(), type_of(*schema.field(i))});
  return columns;
}

SweepGrid::SweepGrid(std::string_view text, std::string_view where) {
  proto::Sweep file;
  TextprotoLines lines;
  parse_textproto(text, where, file, &lines);
  const auto add = [&](SweepSubcommand subcommand, const Message& message, int line) {
    const std::string place = line > 0 ? fmt::format("{}:{}", where, line) : std::string(where);
    Block block{subcommand, {}, 1, 0};
    const auto& schema = schema_of(subcommand);
    block.columns = static_cast<std::size_t>(schema.field_count());
    text_ += fmt::format("{} {{\n", name_of(subcommand));
    for (int i = 0; i < schema.field_count(); ++i) {
      const Field& field = *schema.field(i);
      const int count = message.GetReflection()->FieldSize(message, &field);
      if (count == 0) continue;
      Axis axis;
      axis.column = static_cast<std::size_t>(i);
      axis.field = field.name();
      axis.is_file =
          axis.field == "cluster" || axis.field == "trace" || axis.field.ends_with("network");
      text_ += "  " + axis.field + ':';
      std::set<std::string> seen;
      for (int v = 0; v < count; ++v) {
        axis.values.push_back(value_of(message, field, v));
        axis.texts.push_back(value_text(axis.values.back()));
        const std::string& word = axis.texts.back();
        text_ += ' ' + word;
        if (!seen.insert(word).second)
          throw InputError(place, fmt::format("{} {} twice", axis.field, word), "each value once");
        if (word == "-" && axis.is_file)
          throw InputError(place, axis.field + " -", "a file: standard input is read once");
      }
      text_ += '\n';
      block.size = std::min(block.size, kMostPoints + 1) * count;  // never overflows
      block.axes.push_back(std::move(axis));
    }
    text_ += "}\n";
    if (block.axes.empty() || block.axes.front().field != "network")
      throw InputError(place, fmt::format("{} without a network", name_of(subcommand)),
                       "network: [\"resnet50\", ...]");
    size_ += block.size;
    if (size_ > kMostPoints)
      throw InputError(place, "a grid of more points", fmt::format("at most {}", kMostPoints));
    blocks_.push_back(std::move(block));
  };
  const auto& schema = *proto::Sweep::descriptor();
  for (int i = 0; i < file.predict_size(); ++i)
    add(SweepSubcommand::Predict, file.predict(i),
        lines.find(schema.FindFieldByName("predict"), i));
  for (int i = 0; i < file.serve_size(); ++i)
    add(SweepSubcommand::Serve, file.serve(i), lines.find(schema.FindFieldByName("serve"), i));
  if (blocks_.empty())
    throw InputError(where, "nothing to ask", "predict { network: [...] gpu: [...] } or serve");
}

SweepPoint SweepGrid::at(std::int64_t index) const {
  auto block = blocks_.begin();
  while (index >= block->size) index -= (block++)->size;
  SweepPoint point{block->subcommand, {}, {}, {}, {}};
  point.asked.resize(block->columns);
  std::vector<std::size_t> chosen(block->axes.size());
  for (std::size_t a = block->axes.size(); a-- > 0;) {
    const auto count = static_cast<std::int64_t>(block->axes[a].values.size());
    chosen[a] = static_cast<std::size_t>(index % count);
    index /= count;
  }
  std::string question = name_of(block->subcommand);
  for (std::size_t a = 0; a < chosen.size(); ++a) {
    const Axis& axis = block->axes[a];
    const std::string& text = axis.texts[chosen[a]];
    point.asked[axis.column] = axis.values[chosen[a]];
    question += fmt::format("\n{}={}", axis.field, text);
    if (axis.is_file && (!axis.field.ends_with("network") || is_network_path(text)))
      point.files.push_back(text);
    if (axis.field != "network")
      add_words(axis.field, text, is_switch(block->subcommand, axis.column), point.words);
  }
  point.words.emplace_back("--");
  point.words.push_back(block->axes.front().texts[chosen.front()]);
  point.question = sha256(question);
  return point;
}

}  // namespace tracecast
