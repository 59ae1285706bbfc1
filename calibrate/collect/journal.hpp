#pragma once
#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "calibrate/collect/measure.hpp"

namespace tracecast::calibrate {

/// What a journal is of. Resuming needs the same plan on the same device with the same software.
struct JournalHeader {
  std::string plan{};    ///< hash of the plan
  std::string gpu{};     ///< id of the spec
  std::string device{};  ///< DeviceIdentity::fingerprint
  std::string date{};    ///< of the first call: "2026-11-21"
};

/// One measurement as one line without line break, fields `name=value` between tabs, and the other
/// way round (nothing when a field is missing or malformed). Numbers keep every bit; tabs, line
/// breaks and control characters in texts become blanks. Writing what was read gives the same line.
[[nodiscard]] std::string to_line(const TimedExperiment& measurement);
[[nodiscard]] std::optional<TimedExperiment> parse_line(std::string_view line);

/// The measurements of one calibration on disk: a line each, appended and flushed when its
/// measurement is done, ended by the CRC-32 of what stands before. A line that does not match its
/// sum (torn by a crash) is dropped when the journal is opened again, so that its measurement is
/// made again.
class Journal {
 public:
  /// Opens the journal at `path`, or makes one. Throws InputError: a place that cannot be written,
  /// not a journal, of another plan or device, in use by another process, over 256 MiB.
  Journal(const std::filesystem::path& path, const JournalHeader& header);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// As it stands in the file; the date is that of the first call.
  [[nodiscard]] const JournalHeader& header() const { return header_; }
  [[nodiscard]] const std::map<std::string, TimedExperiment, std::less<>>& measurements() const {
    return measurements_;
  }
  /// Lines that were dropped when it was opened.
  [[nodiscard]] std::size_t dropped() const { return dropped_; }
  /// Throws InputError when the line does not fit on the disk; the file is then as before.
  void append(const TimedExperiment& measurement);

 private:
  void load();
  void write(std::string_view line);

  std::filesystem::path path_;
  JournalHeader header_;
  std::map<std::string, TimedExperiment, std::less<>> measurements_;
  std::size_t dropped_ = 0;
  std::int64_t size_ = 0;  ///< of the lines that are whole
  int file_ = -1;
};

}  // namespace tracecast::calibrate
