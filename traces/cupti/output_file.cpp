#include "traces/cupti/output_file.hpp"

#include <zlib.h>

#include <system_error>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::traces::cupti {

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path), beside_(path) {
  beside_ += ".partial";
  // "T": as it is. Level 3 is half the time of level 6 and a tenth larger.
  file_ = ::gzopen(beside_.c_str(), path.extension() == ".gz" ? "wb3" : "wbT");
  if (file_ == nullptr) refuse("cannot be opened for writing");
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  ::gzclose(file_);
  std::error_code error;
  std::filesystem::remove(beside_, error);
}

void OutputFile::refuse(const char* found) const {
  throw InputError(path_.string(), found, "a place to write a recording to");
}

void OutputFile::write(std::string_view bytes) {
  if (bytes.empty()) return;
  const auto count = static_cast<unsigned>(bytes.size());
  if (::gzwrite(file_, bytes.data(), count) != static_cast<int>(count)) refuse("cannot be written");
}

void OutputFile::finish() {
  std::error_code error;
  if (::gzclose(std::exchange(file_, nullptr)) != Z_OK) {
    std::filesystem::remove(beside_, error);
    refuse("cannot be written");
  }
  std::filesystem::rename(beside_, path_, error);
  if (!error) return;
  std::error_code ignored;
  std::filesystem::remove(beside_, ignored);
  refuse("cannot be replaced");
}

}  // namespace tracecast::traces::cupti
