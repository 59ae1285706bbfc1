#pragma once
#include <map>
#include <string_view>
#include <utility>

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace tracecast {

/// Lines (from 1) at which the fields of the outermost message begin.
class TextprotoLines {
 public:
  using Field = google::protobuf::FieldDescriptor;
  /// Line of the field's `index`-th value (0 for a singular field); 0 when the text does not have
  /// it.
  [[nodiscard]] int find(const Field* field, int index = 0) const {
    const auto it = lines_.find({field, index});
    return it == lines_.end() ? 0 : it->second;
  }
  void set(const Field* field, int index, int line) { lines_[{field, index}] = line; }

 private:
  std::map<std::pair<const Field*, int>, int> lines_;
};

/// Reads Protobuf text format into `into`, whose earlier content is lost. Required fields are the
/// caller's to check. Private to this box: specs and profiles are read through their own loaders.
/// Throws InputError with "WHERE:line:column": bad syntax, an unknown field or enumerator (with the
/// nearest word), a singular field written twice, a number out of its type's range or its field's
/// (proto/range.proto), messages nested deeper than 32, strings with control characters or invalid
/// UTF-8; with WHERE alone: more than 1 MiB of text.
void parse_textproto(std::string_view text, std::string_view where, google::protobuf::Message& into,
                     TextprotoLines* lines = nullptr);

}  // namespace tracecast
