#pragma once
#include <cstddef>
#include <filesystem>
#include <string_view>

struct gzFile_s;

namespace tracecast::traces::cupti {

/// A file written beside its name and renamed once whole; gzip where the name
/// ends in ".gz". All throw InputError when the place cannot be written; unless
/// `finish` was called, the destructor leaves nothing behind.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(std::string_view bytes);
  void finish();

 private:
  [[noreturn]] void refuse(const char* found) const;
  std::filesystem::path path_, beside_;
  gzFile_s* file_;
};

}  // namespace tracecast::traces::cupti
