#include "traces/cupti/stream_writer.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace tracecast::traces::cupti {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 18;
constexpr std::size_t kMostNames = 1 << 16;
constexpr std::size_t kMostTextBytes = std::size_t{16} << 20;

}  // namespace

StreamWriter::StreamWriter(const std::string& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)),
      block_(new std::byte[kBlockBytes]) {
  std::memcpy(block_.get(), kMagic, kMagicBytes);
  used_ = kMagicBytes;
}

StreamWriter::~StreamWriter() {
  flush();
  if (file_ >= 0) ::close(file_);
}

std::byte* StreamWriter::reserve(RecordKind kind, std::size_t payload_bytes) {
  const RecordHead head{kind, static_cast<std::uint32_t>(payload_bytes)};
  if (used_ + sizeof head + payload_bytes > kBlockBytes) flush();
  std::byte* at = block_.get() + used_;
  std::memcpy(at, &head, sizeof head);
  used_ += sizeof head + payload_bytes;
  return at + sizeof head;
}

std::uint32_t StreamWriter::name(const char* text) {
  if (text == nullptr) return 0;
  const std::string_view whole = std::string_view(text).substr(0, kMostNameBytes);
  if (const auto at = names_.find(whole); at != names_.end()) return at->second;
  if (names_.size() >= kMostNames || name_bytes_ + whole.size() > kMostTextBytes) {
    names_.clear();
    name_bytes_ = 0;
    ++generation_;
  }
  const NameRecord record{++last_name_, static_cast<std::uint32_t>(whole.size())};
  const std::size_t bytes = (sizeof record + whole.size() + 7) / 8 * 8;
  std::byte* to = reserve(NameRecord::kKind, bytes);
  std::memset(to, 0, bytes);
  std::memcpy(to, &record, sizeof record);
  std::memcpy(to + sizeof record, whole.data(), whole.size());
  names_.emplace(whole, record.id);
  name_bytes_ += whole.size();
  return record.id;
}

void StreamWriter::flush() {
  for (std::size_t done = 0; done < used_ && !has_failed_;) {
    const ssize_t count = ::write(file_, block_.get() + done, used_ - done);
    if (count >= 0) {
      done += static_cast<std::size_t>(count);
    } else if (errno != EINTR) {
      has_failed_ = true;
    }
  }
  used_ = 0;
}

}  // namespace tracecast::traces::cupti
