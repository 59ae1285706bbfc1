#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tracecast {

/// A spelling of a network beside its id and aliases in models/zoo.
struct NetworkSpelling {
  std::string network;                       ///< id in the zoo
  std::string called;                        ///< "vit_base_patch16_384"
  std::optional<std::int64_t> image_size{};  ///< that the spelling says
};

/// What people and tables call things beside the ids here: hwspecs/name, in the binary. Names
/// alone; nothing is keyed by them.
struct KnownNames {
  struct Accelerators {
    std::string name;                 ///< "AMD GPUs"
    std::vector<std::string> called;  ///< patterns: '#' a digit, '*' at the end anything
  };
  struct Files {
    std::vector<std::string> endings;  ///< ".pt"
    std::string what, instead;
  };
  struct Ending {
    std::string text;    ///< lower case: "-instruct"
    std::string stored;  ///< as what weights are, a word of --precision; empty: it does not say
  };
  std::vector<NetworkSpelling> networks;
  std::vector<std::string> publishers;  ///< lower case: "meta-llama"
  std::vector<Ending> endings;
  std::vector<Accelerators> accelerators;
  std::vector<Files> files;
};

/// Read when it is first asked for.
[[nodiscard]] const KnownNames& known_names();

/// The makers' accelerators that a word names, of which there are no specs ("MI300X": "AMD GPUs");
/// empty: none.
[[nodiscard]] std::string find_unknown_accelerator(std::string_view word);

/// Throws InputError with what to give instead where `network` is a file that holds one in a form
/// that is not read ("model.pt").
void refuse_other_file(std::string_view network);

/// Names are the program's own. Throws InputError: a file of a folder of specs says other ones than
/// the file of that name here.
void refuse_other_names(std::string_view file_name, std::string_view content,
                        std::string_view where);

/// Reads files of hwspecs/name into one. Throws InputError: syntax, a row without name, spellings
/// or source.
struct NamesText {
  std::string_view content, where;
};
[[nodiscard]] KnownNames parse_known_names(std::span<const NamesText> files);

}  // namespace tracecast
