#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tools/serve/serve_report.hpp"

namespace tracecast {

/// What a load meets where, as `serve` has it.
struct ServedPlace {
  ServeQuestion question;
  Place place;
};

/// What `serve` would do with these words, again and again. One thread's.
class ServeFlags {
 public:
  ServeFlags();
  ~ServeFlags();
  ServeFlags(ServeFlags&&) noexcept;

  /// `words`: the network and flags, without "serve". Throws InputError with the command's line.
  [[nodiscard]] ServedPlace read(const std::vector<std::string>& words);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace tracecast
