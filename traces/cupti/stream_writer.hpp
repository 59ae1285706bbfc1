#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>

#include "traces/cupti/stream_format.hpp"

namespace tracecast::traces::cupti {

/// Writes records to a file through one block of memory. Never throws on input
/// or output errors: a write that fails (a full disk) ends the writing, and
/// `has_failed` tells. One thread at a time.
class StreamWriter {
 public:
  /// Makes the file, which must not exist. `is_open` says whether that went
  /// well.
  explicit StreamWriter(const std::string& path);
  ~StreamWriter();
  StreamWriter(const StreamWriter&) = delete;
  StreamWriter& operator=(const StreamWriter&) = delete;

  [[nodiscard]] bool is_open() const { return file_ >= 0; }
  [[nodiscard]] bool has_failed() const { return has_failed_; }

  template <class Record>
  void add(const Record& record) {
    static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) % 8 == 0);
    std::byte* to = reserve(Record::kKind, sizeof record);
    std::memcpy(to, &record, sizeof record);
  }
  /// The id of a text, written at its first use; 0 for null. The memory for
  /// texts is bounded: when it is used up all are forgotten, and written again
  /// under new ids.
  std::uint32_t name(const char* text);
  /// Changes when names are forgotten: an id kept outside is good for one
  /// generation.
  [[nodiscard]] std::uint32_t generation() const { return generation_; }
  void flush();

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::byte* reserve(RecordKind kind, std::size_t payload_bytes);

  int file_;
  bool has_failed_ = false;
  std::unique_ptr<std::byte[]> block_;
  std::size_t used_ = 0;
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> names_;
  std::size_t name_bytes_ = 0;
  std::uint32_t last_name_ = 0, generation_ = 0;
};

}  // namespace tracecast::traces::cupti
