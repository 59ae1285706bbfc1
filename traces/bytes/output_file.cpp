#include "traces/bytes/output_file.hpp"

#include <zlib.h>

#include <array>

#include "sim/base/error.hpp"

namespace tracecast::traces {

/// Packs bytes on their way into a file.
class OutputFile::Packer {
 public:
  explicit Packer(NewFile& to) : to_(to) {
    // 15 + 16: the largest window, framed as gzip. Level 3 is half the time of level 6 and a tenth
    // larger.
    const int code = ::deflateInit2(&stream_, 3, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    TRACECAST_CHECK(code == Z_OK, "zlib packs");
  }
  ~Packer() { ::deflateEnd(&stream_); }
  Packer(const Packer&) = delete;
  Packer& operator=(const Packer&) = delete;

  void write(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, std::size_t{1} << 30);
      // zlib does not change what it reads.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(piece.data()));
      stream_.avail_in = static_cast<uInt>(piece.size());
      drain(Z_NO_FLUSH);
      bytes.remove_prefix(piece.size());
    }
  }
  void finish() { drain(Z_FINISH); }

 private:
  void drain(int flush) {
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      ::deflate(&stream_, flush);
      to_.write({buffer_.data(), buffer_.size() - stream_.avail_out});
    } while (stream_.avail_out == 0);
  }

  NewFile& to_;
  z_stream stream_{};
  std::array<char, std::size_t{1} << 16> buffer_;
};

OutputFile::OutputFile(const std::filesystem::path& path) : file_(path) {
  if (path.extension() == ".gz") packer_ = std::make_unique<Packer>(file_);
}

OutputFile::~OutputFile() = default;

void OutputFile::write(std::string_view bytes) {
  packer_ ? packer_->write(bytes) : file_.write(bytes);
}

void OutputFile::finish() {
  if (packer_) packer_->finish();
  file_.put_in_place();
}

std::uint64_t write_output_file(const std::filesystem::path& path,
                                const std::function<void(const ByteSink&)>& fill) {
  OutputFile file(path);
  fill([&file](std::string_view bytes) { file.write(bytes); });
  file.finish();
  return file.size();
}

}  // namespace tracecast::traces
