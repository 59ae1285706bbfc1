#include "traces/bytes/peeked_source.hpp"

#include <algorithm>
#include <cstring>

namespace tracecast::traces {

std::string_view PeekedSource::peek(std::size_t size) {
  std::size_t have = head_.size();
  for (std::size_t count = 1; have < size && count > 0; have += count) {
    head_.resize(std::min(size, std::max<std::size_t>(2 * have, 1024)));
    count = source_.read(head_.data() + have, head_.size() - have);
  }
  head_.resize(have);
  return {head_.data(), std::min(have, size)};
}

std::size_t PeekedSource::read(char* to, std::size_t size) {
  if (given_ == head_.size()) return source_.read(to, size);
  const std::size_t count = std::min(size, head_.size() - given_);
  std::memcpy(to, head_.data() + given_, count);
  given_ += count;
  if (given_ == head_.size()) {
    given_ = 0;
    std::vector<char>().swap(head_);
  }
  return count;
}

}  // namespace tracecast::traces
