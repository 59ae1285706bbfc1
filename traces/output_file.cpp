#include "traces/output_file.hpp"

#include <zlib.h>

#include <system_error>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::traces {
namespace fs = std::filesystem;

OutputFile::OutputFile(const fs::path& path) : path_(path) {
  std::error_code error;
  in_place_ = fs::exists(path, error) && !fs::is_regular_file(path, error);
  target_ = fs::is_symlink(path, error) ? fs::canonical(path, error) : path;
  if (target_.empty()) target_ = path;
  beside_ = target_;
  if (!in_place_) beside_ += ".partial";
  // "T": as it is. Level 3 is half the time of level 6 and a tenth larger.
  file_ = ::gzopen(beside_.c_str(), path.extension() == ".gz" ? "wb3" : "wbT");
  if (file_ == nullptr) refuse("cannot be opened for writing");
  ::gzbuffer(file_, 1u << 17);
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;
  ::gzclose(file_);
  remove_beside();
}

void OutputFile::refuse(const char* found) const {
  throw InputError(path_.string(), found, "a place to write a trace to");
}

void OutputFile::remove_beside() const {
  std::error_code error;
  if (!in_place_) fs::remove(beside_, error);
}

void OutputFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, std::size_t{1} << 30);
    const int count = ::gzwrite(file_, piece.data(), static_cast<unsigned>(piece.size()));
    if (count != static_cast<int>(piece.size())) refuse("cannot be written");
    bytes.remove_prefix(piece.size());
  }
}

void OutputFile::finish() {
  if (::gzclose(std::exchange(file_, nullptr)) != Z_OK) {
    remove_beside();
    refuse("cannot be written");
  }
  if (in_place_) return;
  std::error_code error;
  fs::rename(beside_, target_, error);
  if (!error) return;
  remove_beside();
  refuse("cannot be replaced");
}

void write_output_file(const fs::path& path, const std::function<void(const ByteSink&)>& fill) {
  OutputFile file(path);
  fill([&file](std::string_view bytes) { file.write(bytes); });
  file.finish();
}

}  // namespace tracecast::traces
