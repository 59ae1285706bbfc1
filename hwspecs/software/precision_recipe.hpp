#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/loaders/spec_text.hpp"

namespace tracecast {

/// How an operand of 16 bits gets into the format of a recipe.
struct OperandRecipe {
  double greatest_passes = 0;  ///< reads of the whole operand for its greatest value
  double cast_passes = 1;      ///< kernels that read it and write the copies, straight and turned
  friend bool operator==(const OperandRecipe&, const OperandRecipe&) = default;
};

/// What a recipe makes of the GEMMs of a training step whose tensors are of 16 bits.
struct GemmRecipe {
  Precision math = Precision::Fp8;
  OperandRecipe input, weight, gradient;
  double scale_bytes = 0;       ///< per element of a copy
  bool sums_by_blocks = false;  ///< sums are scaled block by block off the tensor cores
  bool low_precision_attention = false;
  bool keeps_frozen_weights = false;  ///< in the format of the GEMMs
  friend bool operator==(const GemmRecipe&, const GemmRecipe&) = default;
};

/// How a training program runs its GEMMs in fewer than 16 bits. One that exists is valid.
struct PrecisionRecipe {
  std::string id;
  std::string name;
  std::vector<std::string> words;  ///< of published runs, in small letters
  GemmRecipe gemms;
  int first_wide_layers = 0, last_wide_layers = 0;  ///< that stay in bf16
  std::vector<SpecSource> sources;
  std::vector<SpecValue> values;
};

/// Reads text format (hwspecs/proto/precision_recipe.proto); `where` names it in errors. A recipe
/// `based_on` another, which `find` has, takes from it what it does not state. Throws InputError:
/// syntax, a missing or absurd value, a value without a source, no such base.
[[nodiscard]] PrecisionRecipe parse_precision_recipe(std::string_view text, std::string_view where,
                                                     const FindSpecText& find);

}  // namespace tracecast
