#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace tracecast {

/// What is taken of a recording or a table that a pipe gives.
inline constexpr std::uint64_t kMostPipedTrace = 4ULL << 30, kMostPipedTable = 1ULL << 30;

/// What "-" means where a command reads a file: standard input, as a file, since formats are
/// reported by their first bytes and some are read in no order. What a pipe gives is kept beside
/// the system's temporary files as long as this lives; a file that the shell opened is taken where
/// it stands.
class StandardInput {
 public:
  StandardInput() = default;
  ~StandardInput();
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

  /// Puts the path of a file in the place of "-"; other words stay. Throws InputError: asked a
  /// second time, or standard input cannot be read or kept, or holds more than `most_bytes`.
  void resolve(std::string& word, std::uint64_t most_bytes);

 private:
  bool is_taken_ = false;
  std::filesystem::path folder_;  ///< of the copy; empty: none
};

}  // namespace tracecast
