#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace tracecast {

/// What is taken of a recording or a table that a pipe gives.
inline constexpr std::uint64_t kMostPipedTrace = 4ULL << 30, kMostPipedTable = 1ULL << 30;

/// What a pipe has to begin with.
struct Opening {
  bool (*is_one)(std::string_view first_bytes) = nullptr;  ///< null: anything
  const char* expected = "";
};
/// An ONNX file, plain or gzip: the first field is one of a ModelProto. Source: onnx/onnx.proto.
extern const Opening kOnnxOpening;

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
  /// A pipe is refused by its first bytes where they are no such `opening`: it may never end.
  void resolve(std::string& word, std::uint64_t most_bytes, Opening opening = {});

 private:
  bool is_taken_ = false;
  std::filesystem::path folder_;  ///< of the copy; empty: none
};

}  // namespace tracecast
