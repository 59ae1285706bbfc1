#include "traces/bytes/line_reader.hpp"

#include <algorithm>
#include <cstring>

#include "sim/base/error.hpp"

namespace tracecast::traces {
namespace {

constexpr std::size_t kFirstBytes = std::size_t{1} << 12;
constexpr std::size_t kLongestLine = std::size_t{1} << 20;

}  // namespace

LineReader::LineReader(ByteSource& source, std::string name)
    : source_(source), name_(std::move(name)), buffer_(kFirstBytes) {}

bool LineReader::next(std::string_view& line) {
  ++number_;
  std::size_t searched = 0;
  for (;;) {
    const char* first = buffer_.data() + begin_;
    const auto* found =
        static_cast<const char*>(std::memchr(first + searched, '\n', end_ - begin_ - searched));
    if (found != nullptr || (at_end_ && begin_ < end_)) {
      const std::size_t size =
          found != nullptr ? static_cast<std::size_t>(found - first) : end_ - begin_;
      line = {first, size};
      const std::size_t whole = size + (found != nullptr ? 1 : 0);
      begin_ += whole;
      position_ += whole;
      if (line.ends_with('\r')) line.remove_suffix(1);
      return true;
    }
    if (at_end_) return false;
    searched = end_ - begin_;
    std::memmove(buffer_.data(), first, searched);
    begin_ = 0;
    end_ = searched;
    if (end_ == kLongestLine) throw InputError(where(), "a line over 1 MiB", "shorter lines");
    if (end_ == buffer_.size()) buffer_.resize(2 * end_);
    const std::size_t count = source_.read(buffer_.data() + end_, buffer_.size() - end_);
    end_ += count;
    at_end_ = count == 0;
  }
}

}  // namespace tracecast::traces
