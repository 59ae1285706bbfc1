#pragma once
#include <filesystem>
#include <functional>
#include <string_view>

struct gzFile_s;

namespace tracecast::traces {

/// Takes bytes in order, in pieces.
using ByteSink = std::function<void(std::string_view)>;

/// A file written beside its name and renamed over it once whole, so that nobody sees half of it; what is no regular file
/// is written to as it stands. gzip where the name ends in ".gz". All throw InputError when the place cannot be written;
/// unless `finish` was called, the destructor leaves nothing behind.
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
  void remove_beside() const;

  std::filesystem::path path_, target_, beside_;
  bool in_place_;
  gzFile_s* file_;
};

/// Writes an OutputFile as `fill` gives its bytes. Throws what `fill` throws, and InputError as above.
void write_output_file(const std::filesystem::path& path,
                       const std::function<void(const ByteSink&)>& fill);

}  // namespace tracecast::traces
