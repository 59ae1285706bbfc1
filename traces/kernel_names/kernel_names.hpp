#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/kernel.hpp"
#include "traces/kernel_names/word_finder.hpp"

namespace tracecast::traces {

/// What a kernel's name alone says.
struct KernelNameInfo {
  KernelClass kernel_class = KernelClass::Other;
  Algorithm algorithm = Algorithm::None;
  Pass pass = Pass::Forward;
  bool has_pass = false;  ///< the name tells the pass
  std::optional<Precision> precision;
  MathUnit unit = MathUnit::CudaCore;
  int tile_m = 0,
      tile_n = 0;  ///< output of one thread block of a GEMM; 0 = the name does not say
};

/// The rules by which kernel names are understood, from a text file (kernel_names/rules.txt says
/// how it is written).
class KernelNames {
 public:
  /// Throws InputError, which names the line, when the text is no such table.
  static KernelNames parse(std::string_view text, const std::string& where);
  /// The table that the build put into the program.
  static KernelNames builtin();

  [[nodiscard]] KernelNameInfo find(std::string_view name) const;

 private:
  struct Rule {
    std::vector<std::size_t> words, absent;  ///< into the finder's words
    std::string first;  ///< what the name begins with, lower case; empty = anything
    KernelClass kernel_class{};
    Algorithm algorithm{};
    Pass pass{};
    bool has_pass = false;
    Precision precision{};
    MathUnit unit{};
    [[nodiscard]] bool holds(std::string_view name, const std::vector<bool>& occurs) const;
  };
  using Rules = std::vector<Rule>;
  [[nodiscard]] static const Rule* first_of(const Rules& rules, std::string_view name,
                                            const std::vector<bool>& occurs);

  Rules classes_, precisions_, units_;
  WordFinder finder_;  ///< of all words of the rules, lower case
};

/// A kernel's name as people write it: without "void", PyTorch's own namespace, template arguments
/// and parameters.
[[nodiscard]] std::string short_kernel_name(std::string_view name);

}  // namespace tracecast::traces
