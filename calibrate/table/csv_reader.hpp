#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// Reads a CSV file with a header row by row, plain or gzip, in constant memory. Fields may be quoted
/// (RFC 4180: commas, line breaks and doubled quotes inside); lines end in LF or CRLF; empty lines are
/// skipped. Refused: lines over 1 MiB, over 256 columns, a file over 1 GiB unpacked, rows whose number
/// of fields is not the header's, a quote that never closes, damaged gzip, zero bytes.
class CsvReader {
 public:
  /// Opens the file and reads the header. Throws InputError.
  explicit CsvReader(const std::filesystem::path& path);
  ~CsvReader();
  CsvReader(CsvReader&&) noexcept;

  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }
  [[nodiscard]] std::optional<std::size_t> find_column(std::string_view name) const;

  /// Goes to the next row; false at the end. Throws InputError naming file and line.
  bool next();
  /// Of the current row; valid until the next call of `next`.
  [[nodiscard]] std::string_view field(std::size_t column) const { return fields_[column]; }
  /// Where the current row begins, counted from 1.
  [[nodiscard]] std::size_t line() const { return line_; }
  /// "file:line" of the current row, for errors.
  [[nodiscard]] std::string where() const;

 private:
  struct Input;
  bool read_record();
  [[nodiscard]] int get();

  std::unique_ptr<Input> input_;
  std::string name_;
  std::vector<std::string> header_;
  std::vector<std::string> fields_;
  std::size_t num_fields_ = 0;
  std::size_t line_ = 0, next_line_ = 1;
};

}  // namespace tracecast
