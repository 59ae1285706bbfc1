#include "traces/bytes/byte_source.hpp"

#include <cstdio>
#include <string>

#include "sim/base/error.hpp"
#include "traces/bytes/gzip_source.hpp"

namespace tracecast::traces {
namespace {

/// A file as it stands, and what came out of it.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::filesystem::path& path)
      : name_(path.filename().string()), file_(std::fopen(path.c_str(), "rb")) {
    if (file_ == nullptr) throw InputError(path.string(), "unreadable", "a file that can be read");
    // Whoever reads does so in large pieces.
    (void)std::setvbuf(file_.get(), nullptr, _IONBF, 0);
  }
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = std::fread(to, 1, size, file_.get());
    if (count < size && std::ferror(file_.get()) != 0)
      throw InputError(name_, "a file that cannot be read to its end", "a file that can be read");
    bytes_ += count;
    return count;
  }
  void count_unpacked(std::uint64_t bytes) override {
    unpacked_ += bytes;
    if (unpacked_ > kFreeUnpackedBytes && unpacked_ / kMostUnpackedPerByte > bytes_) {
      throw InputError(name_,
                       "packed data of over " + std::to_string(kMostUnpackedPerByte) +
                           " times their size (" + std::to_string(unpacked_ >> 20) + " MiB so far)",
                       "a recording; unpack it first if it is one");
    }
  }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string name_;
  std::unique_ptr<std::FILE, Close> file_;
  std::uint64_t bytes_ = 0, unpacked_ = 0;
};

/// A file or what is packed in it.
class OpenFile final : public ByteSource {
 public:
  explicit OpenFile(const std::filesystem::path& path)
      : file_(path), peeked_(file_), gzip_(peeked_, path.filename().string()) {
    is_packed_ = is_gzip(peeked_.peek(kGzipHead));
  }
  std::size_t read(char* to, std::size_t size) override {
    return is_packed_ ? gzip_.read(to, size) : peeked_.read(to, size);
  }
  void count_unpacked(std::uint64_t bytes) override { file_.count_unpacked(bytes); }

 private:
  FileSource file_;
  PeekedSource peeked_;
  GzipSource gzip_;
  bool is_packed_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> open_file(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    throw InputError(path.string(), "no such file", "a recorded trace");
  if (std::filesystem::is_directory(status))
    throw InputError(path.string(), "a folder", "a recorded trace");
  // What may never begin or never end; a pipe's bytes are gone for whoever reads after the first.
  if (!std::filesystem::is_regular_file(status))
    throw InputError(path.string(), "not a regular file", "a recorded trace, or - for a pipe");
  return std::make_unique<OpenFile>(path);
}

}  // namespace tracecast::traces
