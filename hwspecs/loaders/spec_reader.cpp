#include "hwspecs/loaders/spec_reader.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cstdint>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {
namespace pb = google::protobuf;

bool is_id(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// A text field by name; the schema has it.
std::string text_of(const pb::Message& message, const char* field) {
  return message.GetReflection()->GetString(message,
                                            message.GetDescriptor()->FindFieldByName(field));
}

}  // namespace

SpecReader::SpecReader(std::string_view text, std::string_view where,
                       std::span<const std::string_view> optional, pb::Message& message,
                       SpecIdentity& identity, const std::function<void()>& complete)
    : where_(where), optional_(optional), message_(message), identity_(identity) {
  parse_textproto(text, where, message, &lines_);
  if (complete) complete();
  read_names();
  read_sources();
  read_facts();
}

void SpecReader::refuse(std::string_view field, std::string_view found, std::string_view expected,
                        int index) const {
  const int line =
      lines_.find(message_.GetDescriptor()->FindFieldByName(std::string(field)), index);
  throw InputError(line > 0 ? fmt::format("{}:{}", where_, line) : where_,
                   fmt::format("{}{}{}", field, found.empty() ? "" : " ", found), expected);
}

void SpecReader::read_names() {
  identity_.id = text_of(message_, "id");
  identity_.name = text_of(message_, "name");
  const pb::Descriptor* type = message_.GetDescriptor();
  const pb::Reflection& reflection = *message_.GetReflection();
  if (!reflection.HasField(message_, type->FindFieldByName("id"))) {
    throw InputError(where_, "no id", "id: \"...\"");
  }
  if (!is_id(identity_.id)) {
    refuse("id", fmt::format("\"{}\"", identity_.id),
           "1 to 64 lower-case letters, digits and underscores");
  }
  if (identity_.name.empty()) throw InputError(where_, "no name", "name: \"...\"");
  const pb::FieldDescriptor* field = type->FindFieldByName("alias");
  for (int i = 0; i < reflection.FieldSize(message_, field); ++i) {
    const std::string alias = reflection.GetRepeatedString(message_, field, i);
    if (alias.empty() || to_lower(alias) != alias) {
      refuse("alias", fmt::format("\"{}\"", alias), "a word without capital letters", i);
    }
    identity_.aliases.push_back(alias);
  }
}

void SpecReader::read_sources() {
  const pb::FieldDescriptor* field = message_.GetDescriptor()->FindFieldByName("sources");
  const pb::Reflection& reflection = *message_.GetReflection();
  for (int i = 0; i < reflection.FieldSize(message_, field); ++i) {
    const pb::Message& message = reflection.GetRepeatedMessage(message_, field, i);
    SpecSource source{text_of(message, "key"), text_of(message, "title"),
                      text_of(message, "where")};
    if (source.key.empty() || source.title.empty() || source.where.empty()) {
      refuse("sources", fmt::format("\"{}\" without key, title or where", source.key), "all three",
             i);
    }
    if (has_source(source.key)) {
      refuse("sources", fmt::format("key \"{}\" a second time", source.key), "each key once", i);
    }
    identity_.sources.push_back(std::move(source));
  }
}

bool SpecReader::has_source(std::string_view key) const {
  return std::any_of(identity_.sources.begin(), identity_.sources.end(),
                     [&](const SpecSource& s) { return s.key == key; });
}

void SpecReader::check_source(std::string_view field, const std::string& key, int index) const {
  if (has_source(key)) return;
  std::vector<std::string> keys;
  for (const SpecSource& source : identity_.sources) keys.push_back(source.key);
  refuse(field, key.empty() ? "without a source" : fmt::format("with source \"{}\"", key),
         keys.empty() ? "a key of the file's sources, of which there is none"
                      : describe_choices(key, keys),
         index);
}

void SpecReader::read_facts() {
  const pb::Descriptor* type = message_.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const pb::FieldDescriptor* field = type->field(i);
    if (field->message_type() == nullptr || field->is_repeated()) continue;
    const std::string& name = field->name();
    if (!message_.GetReflection()->HasField(message_, field)) {
      if (is_optional(name)) continue;
      throw InputError(where_, fmt::format("no {}", name),
                       fmt::format("{} {{ value: ... source: \"...\" }}", name));
    }
    const pb::Message& fact = message_.GetReflection()->GetMessage(message_, field);
    const pb::FieldDescriptor* value = fact.GetDescriptor()->FindFieldByName("value");
    if (!fact.GetReflection()->HasField(fact, value)) refuse(name, "without a value", "one");
    const std::string key = text_of(fact, "source");
    check_source(name, key);
    identity_.values.push_back({name, show(fact, value), key});
  }
}

std::string SpecReader::show(const pb::Message& fact, const pb::FieldDescriptor* value) const {
  const pb::Reflection& reflection = *fact.GetReflection();
  switch (value->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return fmt::format("{}", reflection.GetInt64(fact, value));
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return fmt::format("{}", reflection.GetDouble(fact, value));
    case pb::FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(fact, value) ? "true" : "false";
    case pb::FieldDescriptor::CPPTYPE_ENUM:
      return to_lower(reflection.GetEnum(fact, value)->name());
    default:
      return reflection.GetString(fact, value);
  }
}

bool SpecReader::is_optional(std::string_view field) const {
  return std::find(optional_.begin(), optional_.end(), field) != optional_.end();
}

}  // namespace tracecast
