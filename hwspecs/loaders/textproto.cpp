#include "hwspecs/loaders/textproto.hpp"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hwspecs/proto/range.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {
namespace pb = google::protobuf;

constexpr std::size_t kMostBytes = 1 << 20;
constexpr int kMostNesting = 32;

/// Keeps the first error: later ones are often its consequences.
class FirstError : public pb::io::ErrorCollector {
 public:
  void AddError(int line, pb::io::ColumnNumber column, const std::string& message) override {
    if (!found_) found_ = Found{line, column, message};
  }
  struct Found {
    int line, column;  // from 0; -1 for the whole text
    std::string message;
  };
  [[nodiscard]] const std::optional<Found>& found() const { return found_; }

 private:
  std::optional<Found> found_;
};

/// `root` and every message type that can occur inside it.
void collect_types(const pb::Descriptor* root, std::set<const pb::Descriptor*>& types) {
  if (!types.insert(root).second) return;
  for (int i = 0; i < root->field_count(); ++i) {
    if (const pb::Descriptor* inner = root->field(i)->message_type()) collect_types(inner, types);
  }
}

std::vector<std::string> field_names(const pb::Descriptor* root, std::string_view full_name) {
  std::set<const pb::Descriptor*> types;
  collect_types(root, types);
  std::vector<std::string> names;
  for (const pb::Descriptor* type : types) {
    if (type->full_name() != full_name) continue;
    for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
  }
  return names;
}

/// Name of the field whose braces enclose the given place (from 0) of a text that is not empty, or
/// "".
std::string_view enclosing_field(std::string_view text, int line, int column) {
  std::size_t at = 0;
  for (; line > 0; --line) at = std::min(text.find('\n', at), text.size() - 1) + 1;
  at = std::min(text.size(), at + static_cast<std::size_t>(column));
  for (int open = 0; at > 0; --at) {
    const char c = text[at - 1];
    if (c == '}') ++open;
    if (c == '{' && --open < 0) break;
  }
  const auto last = text.substr(0, at).find_last_not_of(" \t\r\n:{");
  if (at == 0 || last == text.npos) return {};
  const std::string_view before = text.substr(0, last + 1);
  const std::size_t end = before.find_last_of(" \t\r\n{};,");
  return end == before.npos ? before : before.substr(end + 1);
}

/// Enumerators of the field called `name` inside the field called `parent`, or of any field of that
/// name.
std::vector<std::string> enumerators(const pb::Descriptor* root, std::string_view parent,
                                     std::string_view name) {
  std::set<const pb::Descriptor*> types;
  collect_types(root, types);
  const pb::EnumDescriptor* found = nullptr;
  for (const pb::Descriptor* type : types) {
    for (int i = 0; i < type->field_count(); ++i) {
      const pb::FieldDescriptor* outer = type->field(i);
      if (outer->name() == name && outer->enum_type() && !found) found = outer->enum_type();
      if (outer->name() != parent || outer->message_type() == nullptr) continue;
      const auto* inner = outer->message_type()->FindFieldByName(std::string(name));
      if (inner != nullptr && inner->enum_type() != nullptr) found = inner->enum_type();
    }
  }
  std::vector<std::string> names;
  for (int i = 0; found != nullptr && i < found->value_count(); ++i) {
    names.push_back(found->value(i)->name());
  }
  return names;
}

/// The text between the quotation marks number 2 * `index` and 2 * `index` + 1, or "".
std::string_view quoted(std::string_view text, int index) {
  std::size_t begin = text.find('"');
  for (int i = 0; i < 2 * index && begin != text.npos; ++i) begin = text.find('"', begin + 1);
  if (begin == text.npos) return {};
  const std::size_t end = text.find('"', begin + 1);
  return end == text.npos ? std::string_view{} : text.substr(begin + 1, end - begin - 1);
}

/// Puts Protobuf's words into "found" and "expected".
[[noreturn]] void throw_syntax_error(const FirstError::Found& error, std::string_view text,
                                     std::string_view where, const pb::Descriptor* root) {
  const std::string place = error.line < 0
                                ? std::string(where)
                                : fmt::format("{}:{}:{}", where, error.line + 1, error.column + 1);
  std::string_view message = error.message;
  if (message.ends_with('.')) message.remove_suffix(1);

  if (message.find("has no field named") != message.npos) {
    const std::string_view type = quoted(message, 0), field = quoted(message, 1);
    throw InputError(place, fmt::format("field \"{}\"", field),
                     describe_choices(field, field_names(root, type)));
  }
  if (message.starts_with("Unknown enumeration value of")) {
    const std::string_view word = quoted(message, 0);
    const std::string_view parent = enclosing_field(text, error.line, error.column);
    const std::vector<std::string> names = enumerators(root, parent, quoted(message, 1));
    throw InputError(place, fmt::format("\"{}\"", word),
                     names.empty() ? fmt::format("a value of {}", quoted(message, 1))
                                   : describe_choices(word, names));
  }
  if (message.find("is specified multiple times") != message.npos) {
    throw InputError(place, fmt::format("field \"{}\" a second time", quoted(message, 0)),
                     "each field once");
  }
  for (const std::string_view separator : {", got: ", ", found "}) {
    const std::size_t at = message.find(separator);
    if (!message.starts_with("Expected ") || at == message.npos) continue;
    std::string_view found = message.substr(at + separator.size());
    throw InputError(place, found.empty() ? "the end of the text" : found,
                     message.substr(9, at - 9));
  }
  throw InputError(place, to_lower(message.substr(0, 1)) + std::string(message.substr(1)),
                   "Protobuf text format");
}

/// Whether `text` is UTF-8 without control characters. Well-formedness as in the Unicode Standard,
/// table 3-7.
bool is_plain_text(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t at) {
      return at < text.size() ? static_cast<std::uint8_t>(text[at]) : std::uint8_t{0};
    };
    const std::uint8_t lead = byte(i);
    const std::size_t length = lead < 0x80                    ? 1
                               : lead >= 0xC2 && lead <= 0xDF ? 2
                               : lead >= 0xE0 && lead <= 0xEF ? 3
                               : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                              : 0;
    if (length == 0 || (length == 1 && (lead < 0x20 || lead == 0x7F))) return false;
    for (std::size_t k = 1; k < length; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    const std::uint8_t second = byte(i + 1);
    if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
      return false;
    }
    i += length;
  }
  return true;
}

/// Whether `text` is ASCII without escapes or control characters but ends of lines: no string in it
/// can be anything else.
bool is_plain_source(std::string_view text) {
  bool is_other = false;
  for (const char c : text) {  // no branch: sixteen at a time
    const auto byte = static_cast<std::uint8_t>(c);
    is_other |= (byte < 0x20 && c != '\n') | (byte >= 0x7F) | (c == '\\');
  }
  return !is_other;
}

bool has_plain_strings(const pb::Message& message) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  std::string scratch;
  for (const pb::FieldDescriptor* field : fields) {
    const bool is_message = field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE;
    if (!is_message && field->cpp_type() != pb::FieldDescriptor::CPPTYPE_STRING) continue;
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const bool plain =
          is_message ? has_plain_strings(field->is_repeated()
                                             ? reflection.GetRepeatedMessage(message, field, i)
                                             : reflection.GetMessage(message, field))
                     : is_plain_text(
                           field->is_repeated()
                               ? reflection.GetRepeatedStringReference(message, field, i, &scratch)
                               : reflection.GetStringReference(message, field, &scratch));
      if (!plain) return false;
    }
  }
  return true;
}

/// Throws for the first string that is not plain text; does nothing where there is none.
void refuse_strings(const pb::Message& message, const pb::TextFormat::ParseInfoTree& tree,
                    std::string_view where) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    const int count = field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = field->is_repeated() ? i : -1;
      if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
        const pb::Message& inner = field->is_repeated()
                                       ? reflection.GetRepeatedMessage(message, field, i)
                                       : reflection.GetMessage(message, field);
        if (const auto* inner_tree = tree.GetTreeForNested(field, index)) {
          refuse_strings(inner, *inner_tree, where);
        }
      } else if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_STRING) {
        const std::string text = field->is_repeated()
                                     ? reflection.GetRepeatedString(message, field, i)
                                     : reflection.GetString(message, field);
        if (is_plain_text(text)) continue;
        throw InputError(
            fmt::format("{}:{}", where, tree.GetLocation(field, index).line + 1),
            fmt::format("control characters or bytes that are no UTF-8 in {}", field->name()),
            "plain text");
      }
    }
  }
}

/// A number that its field's range does not hold.
struct OutOfRange {
  std::string field, found, expected;
  int line = 0;  ///< from 1; 0: not asked for
};

std::optional<double> number_of(const pb::Message& message, const pb::FieldDescriptor* field,
                                int index) {
  const pb::Reflection& r = *message.GetReflection();
  const bool many = field->is_repeated();
  switch (field->cpp_type()) {
    case pb::FieldDescriptor::CPPTYPE_DOUBLE:
      return many ? r.GetRepeatedDouble(message, field, index) : r.GetDouble(message, field);
    case pb::FieldDescriptor::CPPTYPE_INT64:
      return static_cast<double>(many ? r.GetRepeatedInt64(message, field, index)
                                      : r.GetInt64(message, field));
    case pb::FieldDescriptor::CPPTYPE_INT32:
      return many ? r.GetRepeatedInt32(message, field, index) : r.GetInt32(message, field);
    default:
      return std::nullopt;
  }
}

/// The first number out of its range. `outer`: the range and name of the field that holds
/// `message`, which are those of its value.
std::optional<OutOfRange> find_out_of_range(const pb::Message& message,
                                            const pb::TextFormat::ParseInfoTree* tree,
                                            const pb::FieldDescriptor* outer) {
  const pb::Reflection& reflection = *message.GetReflection();
  std::vector<const pb::FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    const bool many = field->is_repeated();
    const int count = many ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      const int index = many ? i : -1;
      if (field->cpp_type() == pb::FieldDescriptor::CPPTYPE_MESSAGE) {
        const pb::Message& inner = many ? reflection.GetRepeatedMessage(message, field, i)
                                        : reflection.GetMessage(message, field);
        if (auto fault = find_out_of_range(
                inner, tree == nullptr ? nullptr : tree->GetTreeForNested(field, index), field))
          return fault;
        continue;
      }
      const std::optional<double> number = number_of(message, field, i);
      if (!number) continue;
      const bool is_value = outer != nullptr && outer->options().HasExtension(proto::range);
      const pb::FieldDescriptor* owner = is_value ? outer : field;
      const proto::Range& range = owner->options().GetExtension(proto::range);
      const double low = range.has_min() ? range.min() : -std::numeric_limits<double>::max();
      const double high = range.has_max() ? range.max() : std::numeric_limits<double>::max();
      if (*number >= low && *number <= high) continue;  // NaN fails
      OutOfRange fault{owner->name(), fmt::format("{}", *number),
                       fmt::format("a number from {} to {}", low, high)};
      if (tree != nullptr) fault.line = tree->GetLocation(field, index).line + 1;
      return fault;
    }
  }
  return std::nullopt;
}

void parse(std::string_view text, std::string_view where, pb::Message& into,
           pb::TextFormat::ParseInfoTree* tree) {
  FirstError error;
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (tree != nullptr) parser.WriteLocationsTo(tree);
  parser.SetRecursionLimit(kMostNesting);
  parser.AllowPartialMessage(true);
  pb::io::ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  const bool parsed = parser.Parse(&stream, &into);
  if (error.found()) throw_syntax_error(*error.found(), text, where, into.GetDescriptor());
  if (!parsed) throw InputError(where, "text that does not parse", "Protobuf text format");
}

}  // namespace

void parse_textproto(std::string_view text, std::string_view where, google::protobuf::Message& into,
                     TextprotoLines* lines) {
  if (text.size() > kMostBytes) {
    throw InputError(where, fmt::format("{} bytes", text.size()),
                     fmt::format("at most {} bytes", kMostBytes));
  }
  if (lines == nullptr) {  // Lines cost a third of the time: only when one is to be named.
    parse(text, where, into, nullptr);
    const bool is_plain = is_plain_source(text) || has_plain_strings(into);
    if (is_plain && !find_out_of_range(into, nullptr, nullptr)) return;
    into.Clear();
  }
  pb::TextFormat::ParseInfoTree tree;
  parse(text, where, into, &tree);
  refuse_strings(into, tree, where);
  if (const auto fault = find_out_of_range(into, &tree, nullptr))
    throw InputError(fmt::format("{}:{}", where, fault->line),
                     fmt::format("{} {}", fault->field, fault->found), fault->expected);

  if (lines == nullptr) return;
  std::vector<const pb::FieldDescriptor*> fields;
  into.GetReflection()->ListFields(into, &fields);
  for (const pb::FieldDescriptor* field : fields) {
    const bool repeated = field->is_repeated();
    const int count = repeated ? into.GetReflection()->FieldSize(into, field) : 1;
    for (int i = 0; i < count; ++i) {
      lines->set(field, i, tree.GetLocation(field, repeated ? i : -1).line + 1);
    }
  }
}

}  // namespace tracecast
