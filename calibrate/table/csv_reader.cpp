#include "calibrate/table/csv_reader.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>

#include "sim/base/error.hpp"

namespace tracecast {
namespace {
constexpr std::size_t kMostLineBytes = 1 << 20;
constexpr std::size_t kMostColumns = 256;
constexpr std::uint64_t kMostBytes = 1ULL << 30;
constexpr int kEnd = -1;
}  // namespace

struct CsvReader::Input {
  gzFile file = nullptr;
  std::array<char, 1 << 16> buffer;
  std::size_t at = 0, size = 0;
  std::uint64_t total = 0;
  ~Input() {
    if (file) gzclose(file);
  }
};

CsvReader::CsvReader(const std::filesystem::path& path, Repeated repeated)
    : input_(std::make_unique<Input>()), path_(path), name_(path.filename().string()) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    throw InputError(path.string(), "no such file", "a CSV table");
  if (!std::filesystem::is_regular_file(status)) {
    throw InputError(path.string(), "not a regular file", "a CSV table");
  }
  input_->file = gzopen(path.c_str(), "rb");
  if (!input_->file) throw InputError(path.string(), "cannot be opened", "a readable CSV table");
  if (!read_record()) throw InputError(name_, "an empty file", "a CSV table with a header line");
  header_.assign(fields_.begin(), fields_.begin() + static_cast<std::ptrdiff_t>(num_fields_));
  if (!header_.front().empty() && header_.front().starts_with("\xEF\xBB\xBF"))
    header_.front().erase(0, 3);
  std::map<std::string, int> seen;
  for (std::string& column : header_) {
    const int count = ++seen[column];
    if (count == 1) continue;
    repeated_ = column;
    column += " (" + std::to_string(count) + ")";
  }
  if (repeated == Repeated::Refuse) refuse_repeated();
}

void CsvReader::refuse_repeated() const {
  if (repeated_.empty()) return;
  throw InputError(name_ + ":1", "column \"" + repeated_ + "\" twice", "distinct column names");
}

CsvReader::~CsvReader() = default;
CsvReader::CsvReader(CsvReader&&) noexcept = default;

std::optional<std::size_t> CsvReader::find_column(std::string_view name) const {
  const auto at = std::find(header_.begin(), header_.end(), name);
  if (at == header_.end()) return std::nullopt;
  return static_cast<std::size_t>(at - header_.begin());
}

std::string CsvReader::where() const { return name_ + ":" + std::to_string(line_); }

bool CsvReader::next() {
  is_misfit_ = false;
  if (!read_record()) return false;
  if (num_fields_ != header_.size()) {
    is_misfit_ = true;
    throw InputError(where(), std::to_string(num_fields_) + " fields",
                     std::to_string(header_.size()) + " as in the header");
  }
  return true;
}

int CsvReader::get() {
  Input& in = *input_;
  if (in.at == in.size) {
    const int count = gzread(in.file, in.buffer.data(), static_cast<unsigned>(in.buffer.size()));
    int code = Z_OK;
    const char* message = gzerror(in.file, &code);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      throw InputError(name_ + ":" + std::to_string(next_line_),
                       std::string("damaged gzip data (") + message + ")", "a whole file");
    }
    if (count == 0) return kEnd;
    in.size = static_cast<std::size_t>(count);
    in.at = 0;
    in.total += in.size;
    if (in.total > kMostBytes) {
      throw InputError(name_, "over 1 GiB unpacked", "a table of at most 1 GiB");
    }
  }
  return static_cast<unsigned char>(in.buffer[in.at++]);
}

bool CsvReader::read_record() {
  int c = get();
  while (c == '\n' || c == '\r') {  // empty lines
    next_line_ += c == '\n';
    c = get();
  }
  line_ = next_line_;
  num_fields_ = 0;
  if (c == kEnd) return false;

  std::size_t bytes = 0;
  const auto begin_field = [&]() -> std::string& {
    if (num_fields_ == kMostColumns) {
      throw InputError(where(), "over " + std::to_string(kMostColumns) + " columns", "fewer");
    }
    if (fields_.size() == num_fields_) fields_.emplace_back();
    fields_[num_fields_].clear();
    return fields_[num_fields_++];
  };
  std::string* field = &begin_field();
  bool quoted = false;
  for (;; c = get()) {
    if (++bytes > kMostLineBytes) {
      throw InputError(where(), "a line over 1 MiB", "lines of at most 1 MiB (a quote left open?)");
    }
    if (c == 0) throw InputError(where(), "a zero byte", "text");
    if (quoted) {
      if (c == kEnd) throw InputError(where(), "end of file inside quotes", "a closing quote");
      next_line_ += c == '\n';
      if (c != '"') {
        *field += static_cast<char>(c);
        continue;
      }
      const int after = get();
      if (after == '"') {
        *field += '"';
        continue;
      }
      quoted = false;
      c = after;
    }
    if (c == '"' && field->empty()) {
      quoted = true;
    } else if (c == ',') {
      field = &begin_field();
    } else if (c == '\n' || c == kEnd) {
      next_line_ += c == '\n';
      if (!field->empty() && field->back() == '\r') field->pop_back();
      return true;
    } else {
      *field += static_cast<char>(c);
    }
  }
}

}  // namespace tracecast
