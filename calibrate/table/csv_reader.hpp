#pragma once
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// Reads a CSV file with a header row by row, plain or gzip, in constant memory. Fields may be
/// quoted (RFC 4180: commas, line breaks and doubled quotes inside); lines end in LF or CRLF; empty
/// lines are skipped. Refused: lines over 1 MiB, over 256 columns, a file over 1 GiB unpacked, rows
/// whose number of fields is not the header's, a quote that never closes, damaged gzip, zero bytes.
class CsvReader {
 public:
  /// What to do with a column name that stands twice in the header.
  enum class Repeated {
    Refuse,
    Number,  ///< the second becomes "NAME (2)" and so on
  };
  /// Opens the file and reads the header. Throws InputError.
  explicit CsvReader(const std::filesystem::path& path, Repeated repeated = Repeated::Refuse);
  ~CsvReader();
  CsvReader(CsvReader&&) noexcept;

  [[nodiscard]] const std::vector<std::string>& header() const { return header_; }
  [[nodiscard]] std::optional<std::size_t> find_column(std::string_view name) const;

  /// Goes to the next row; false at the end. Throws InputError naming file and line.
  bool next();
  /// `next` threw because the row has another number of fields than the header: the rows after it
  /// can still be read.
  [[nodiscard]] bool is_misfit() const { return is_misfit_; }
  /// Of the current row; valid until the next call of `next`.
  [[nodiscard]] std::string_view field(std::size_t column) const { return fields_[column]; }
  /// Where the current row begins, counted from 1.
  [[nodiscard]] std::size_t line() const { return line_; }
  /// "file:line" of the current row, for errors.
  [[nodiscard]] std::string where() const;
  [[nodiscard]] const std::string& file_name() const { return name_; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  /// Throws InputError if a column name stood twice: for tables that never have that.
  void refuse_repeated() const;

 private:
  struct Input;
  bool read_record();
  [[nodiscard]] int get();

  std::unique_ptr<Input> input_;
  std::filesystem::path path_;
  std::string name_;
  std::vector<std::string> header_;
  std::string repeated_;  ///< a name that stood twice; empty: none
  std::vector<std::string> fields_;
  std::size_t num_fields_ = 0;
  bool is_misfit_ = false;
  std::size_t line_ = 0, next_line_ = 1;
};

}  // namespace tracecast
