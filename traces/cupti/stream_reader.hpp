#pragma once
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "traces/cupti/stream_format.hpp"

namespace tracecast::traces::cupti {

/// Reads the records of a stream file one after the other.
class StreamReader {
 public:
  /// Throws InputError when the file cannot be read or is no stream.
  explicit StreamReader(const std::filesystem::path& path);

  /// Goes to the next record; false at the end, which may stand within a
  /// record: the program was killed. Throws InputError with the offset when the
  /// record is none that we write.
  bool next();
  [[nodiscard]] RecordKind kind() const { return head_.kind; }
  template <class Record>
  [[nodiscard]] Record as() const {
    Record record;
    std::memcpy(&record, payload_.data(), sizeof record);
    return record;
  }
  /// Of a NameRecord.
  [[nodiscard]] std::string_view text() const {
    return {payload_.data() + sizeof(NameRecord), as<NameRecord>().bytes};
  }

 private:
  [[noreturn]] void refuse(const std::string& found) const;

  std::filesystem::path path_;
  std::ifstream file_;
  std::uint64_t offset_ = kMagicBytes;  ///< of the current record
  RecordHead head_{};
  std::vector<char> payload_;
};

}  // namespace tracecast::traces::cupti
