#pragma once
#include <filesystem>
#include <functional>
#include <memory>
#include <string_view>

#include "sim/base/new_file.hpp"

namespace tracecast::traces {

/// Takes bytes in order, in pieces.
using ByteSink = std::function<void(std::string_view)>;

/// A file made as NewFile makes it, gzip where the name ends in ".gz". All throw InputError when
/// the place cannot be written; unless `finish` was called, the destructor leaves nothing behind.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  void write(std::string_view bytes);
  void finish();
  /// Bytes written so far, packed ones.
  [[nodiscard]] std::uint64_t size() const { return file_.size(); }

 private:
  class Packer;
  NewFile file_;
  std::unique_ptr<Packer> packer_;  ///< of gzip
};

/// Writes an OutputFile as `fill` gives its bytes, and says how many went out. Throws what `fill`
/// throws, and InputError as above.
std::uint64_t write_output_file(const std::filesystem::path& path,
                                const std::function<void(const ByteSink&)>& fill);

}  // namespace tracecast::traces
