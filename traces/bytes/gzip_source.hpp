#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "traces/bytes/peeked_source.hpp"

namespace tracecast::traces {

/// Bytes that is_gzip looks at.
inline constexpr std::size_t kGzipHead = 3;
/// Whether `head`, the first bytes of a source, begin gzip data.
[[nodiscard]] bool is_gzip(std::string_view head);

/// What gzip data unpack to, one stream of them or several one after the other; what follows the
/// last is passed over, as gzip does. Tells the packed source what it unpacks
/// (ByteSource::count_unpacked).
class GzipSource final : public ByteSource {
 public:
  /// `name` stands in errors.
  GzipSource(ByteSource& packed, std::string name);
  ~GzipSource() override;
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  /// Throws InputError: damaged, or an end too early.
  std::size_t read(char* to, std::size_t size) override;
  void count_unpacked(std::uint64_t bytes) override { packed_.count_unpacked(bytes); }

 private:
  struct State;
  bool refill();
  bool begins_another();

  ByteSource& packed_;
  std::string name_;
  std::unique_ptr<State> state_;  ///< from the first read on
  bool at_end_ = false;
};

}  // namespace tracecast::traces
