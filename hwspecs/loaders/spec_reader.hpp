#pragma once
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/loaders/spec_identity.hpp"
#include "hwspecs/loaders/textproto.hpp"

namespace tracecast {

/// The part of reading a spec file that all kinds of hardware share. Works on any message with the
/// fields `id`, `name`, `alias`, `sources` and facts: sub-messages with `value` and `source`.
/// Private to this box.
class SpecReader {
 public:
  /// Reads `text` into `message`, and names, sources and facts into `identity`. `complete` may add
  /// to the message what the text leaves to others, before any is looked at; only what the text has
  /// is named with its line. Throws InputError: bad syntax; no id or name; an id or alias with
  /// other letters than allowed; a source without key, title or place, or twice; a fact that is
  /// absent, has no value or source, an unknown source, or a number out of its range
  /// (proto/range.proto). Facts named in `optional` may be absent.
  SpecReader(std::string_view text, std::string_view where,
             std::span<const std::string_view> optional, google::protobuf::Message& message,
             SpecIdentity& identity, const std::function<void()>& complete = {});

  /// Throws InputError with the line of the field's `index`-th value.
  [[noreturn]] void refuse(std::string_view field, std::string_view found,
                           std::string_view expected, int index = 0) const;
  void check(bool good, std::string_view field, std::string_view found, std::string_view expected,
             int index = 0) const {
    if (!good) refuse(field, found, expected, index);
  }
  /// Throws InputError unless `key` is one of the file's sources.
  void check_source(std::string_view field, const std::string& key, int index = 0) const;
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  void read_names();
  void read_sources();
  void read_facts();
  [[nodiscard]] std::string show(const google::protobuf::Message& fact,
                                 const TextprotoLines::Field* value) const;
  [[nodiscard]] bool has_source(std::string_view key) const;
  [[nodiscard]] bool is_optional(std::string_view field) const;

  std::string where_;
  std::span<const std::string_view> optional_;
  const google::protobuf::Message& message_;
  SpecIdentity& identity_;
  TextprotoLines lines_;
};

/// Enumerators here stand in the order of the schema's, which count from 1.
template <typename Enum, typename ProtoEnum>
Enum from_proto(ProtoEnum value) {
  return static_cast<Enum>(static_cast<int>(value) - 1);
}

}  // namespace tracecast
