#include "hwspecs/software/precision_recipe.hpp"

#include <fmt/format.h>

#include <array>

#include "hwspecs/loaders/based_on.hpp"
#include "hwspecs/loaders/sourced_reader.hpp"
#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/precision_recipe.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

OperandRecipe read_operand(const proto::PrecisionRecipe::Operand& message, std::string_view name,
                           SourcedReader& read) {
  return {
      .greatest_passes =
          read.number(fmt::format("{}.greatest_passes", name), message.greatest_passes(), 0, 4),
      .cast_passes = read.number(fmt::format("{}.cast_passes", name), message.cast_passes(), 1, 4)};
}

}  // namespace

#define TRACECAST_FIELD(name) #name, message.name()

PrecisionRecipe parse_precision_recipe(std::string_view text, std::string_view where,
                                       const FindSpecText& find) {
  proto::PrecisionRecipe message;
  parse_textproto(text, where, message);
  PrecisionRecipe recipe;
  for (const std::string& word : message.word()) recipe.words.push_back(to_lower(word));
  complete_from_bases(message, where, find,
                      [](proto::PrecisionRecipe&, const proto::PrecisionRecipe&) {});
  recipe.id = message.id();
  recipe.name = message.name();
  if (recipe.id.empty()) throw InputError(where, "no id", "an id such as \"mxfp8\"");
  SourcedReader read(message.sources(), where, recipe.sources, recipe.values);
  constexpr std::array kMath{Precision::Fp8, Precision::Fp4};
  const std::array<std::string, 2> words{"fp8", "fp4"};
  GemmRecipe& gemms = recipe.gemms;
  gemms.math = kMath[read.choice(TRACECAST_FIELD(math), words)];
  gemms.input = read_operand(message.input(), "input", read);
  gemms.weight = read_operand(message.weight(), "weight", read);
  gemms.gradient = read_operand(message.gradient(), "gradient", read);
  gemms.scale_bytes = read.number(TRACECAST_FIELD(scale_bytes), 0, 1);
  gemms.sums_by_blocks = read.flag(TRACECAST_FIELD(sums_by_blocks));
  gemms.low_precision_attention = read.flag(TRACECAST_FIELD(low_precision_attention));
  gemms.keeps_frozen_weights = read.flag(TRACECAST_FIELD(keeps_frozen_weights));
  recipe.first_wide_layers = read.count(TRACECAST_FIELD(first_wide_layers), 0, 1000);
  recipe.last_wide_layers = read.count(TRACECAST_FIELD(last_wide_layers), 0, 1000);
  return recipe;
}

#undef TRACECAST_FIELD

}  // namespace tracecast
