#include "models/onnx/input_sizes.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "models/onnx/value.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast::onnx {
namespace {

constexpr std::int64_t kMostSize = std::int64_t{1} << 30;
// Assumed where neither file nor options say. ImageNet's usual crop; BERT's usual training length.
constexpr std::int64_t kAssumedImage = 224;
constexpr std::int64_t kAssumedSequence = 128;
constexpr std::int64_t kAssumedChannels = 3;

enum class Axis { Batch, Image, Sequence, Channels, Other };

struct Dimension {
  std::optional<std::int64_t> size;  ///< nothing: left open
  std::string name;                  ///< lower case; may be empty
  Axis axis = Axis::Other;
  /// Of a sequence axis: "past_length + length" is one of each, "length + 1" one more.
  std::int64_t sequences = 1, pasts = 0, more = 0;
  bool is_total = false;  ///< earlier tokens count, too, where there are any
};
/// Tokens that are new to a network, and those whose keys it is given.
struct Tokens {
  std::int64_t now = 1, past = 0;
};

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// What the name of an open dimension says; Other when it says nothing.
Axis axis_by_name(std::string_view name) {
  if (contains(name, "batch") || name == "n" || name == "b" || name == "bs") return Axis::Batch;
  if (contains(name, "seq") || contains(name, "len") || contains(name, "past") ||
      contains(name, "token") || name == "t" || name == "s" || name == "l") {
    return Axis::Sequence;
  }
  if (contains(name, "height") || contains(name, "width") || name == "h" || name == "w") {
    return Axis::Image;
  }
  return Axis::Other;
}

/// "past_length + length", "past_length + 1", "total_sequence_length": names that exporters of
/// decoders give to sums.
void read_sum(Dimension& dimension) {
  dimension.sequences = 0;
  for (std::string_view rest = dimension.name; !rest.empty();) {
    const std::size_t plus = std::min(rest.find('+'), rest.size());
    std::string term(rest.substr(0, plus));
    std::erase(term, ' ');
    const std::optional<long long> number = parse_integer(term);
    if (number && *number >= 0 && *number <= kMostSize) {
      dimension.more += *number;
    } else {
      const bool is_past = contains(term, "past");
      dimension.sequences += is_past ? 0 : 1;
      dimension.pasts += is_past ? 1 : 0;
      dimension.is_total = dimension.is_total || contains(term, "total");
    }
    rest.remove_prefix(std::min(plus + 1, rest.size()));
  }
}

std::vector<Dimension> read_dimensions(const NamedValue& input, std::string_view where) {
  const std::string place = std::string(where) + ", input '" + input.name + "'";
  const TypeProto& type = input.info->type();
  if (!type.has_tensor_type()) {
    throw InputError(place, "a type that is not a tensor", "a tensor");
  }
  if (!type.tensor_type().has_shape())
    throw InputError(place, "no shape", "a tensor of known rank");
  if (static_cast<std::size_t>(type.tensor_type().shape().dim_size()) > kMostRank) {
    throw InputError(place, "rank " + std::to_string(type.tensor_type().shape().dim_size()),
                     "at most " + std::to_string(kMostRank) + " dimensions");
  }
  std::vector<Dimension> dimensions;
  for (const auto& dim : type.tensor_type().shape().dim()) {
    Dimension dimension;
    if (dim.has_dim_value()) {
      if (dim.dim_value() < 1) {
        throw InputError(place, "dimension " + std::to_string(dim.dim_value()), "at least 1");
      }
      dimension.size = dim.dim_value();
    } else {
      dimension.name = to_lower(dim.dim_param());
      dimension.axis = axis_by_name(dimension.name);
      if (dimension.axis == Axis::Sequence) read_sum(dimension);
    }
    dimensions.push_back(std::move(dimension));
  }
  return dimensions;
}

/// Colours, height, width: one image, as detection networks of torchvision take them. Sequences of
/// three samples look the same where steps and features are of like size; they are much rarer.
bool is_single_image(const std::vector<Dimension>& dimensions, bool is_integer) {
  constexpr std::int64_t kLeast = 64;
  if (dimensions.size() != 3 || is_integer || dimensions[0].size != 3) return false;
  const std::int64_t height = dimensions[1].size.value_or(kAssumedImage);
  const std::int64_t width = dimensions[2].size.value_or(kAssumedImage);
  return std::min(height, width) >= kLeast &&
         std::max(height, width) <= 2 * std::min(height, width);
}

/// Keys or values of earlier tokens, batch x heads x tokens x width.
bool holds_past(const std::vector<Dimension>& dimensions, std::string_view input) {
  return dimensions.size() == 4 && to_lower(input).starts_with("past");
}

/// By place, where names said nothing. Axis::Batch is decided later.
void place_axes(std::vector<Dimension>& dimensions, std::string_view input, bool is_integer) {
  const auto place = [&](std::size_t i, Axis axis) {
    if (dimensions[i].axis == Axis::Other) dimensions[i].axis = axis;
  };
  const bool has_sequence =
      std::any_of(dimensions.begin(), dimensions.end(),
                  [](const Dimension& dimension) { return dimension.axis == Axis::Sequence; });
  if (holds_past(dimensions, input) && !has_sequence) {
    dimensions[2].axis = Axis::Sequence;
    dimensions[2].sequences = 0;
    dimensions[2].pasts = 1;
  } else if (dimensions.size() == 4 && !is_integer && !has_sequence) {
    constexpr std::int64_t kMostColours = 4;
    const auto may_be_colours = [&](std::size_t i) {
      return dimensions[i].size && *dimensions[i].size <= kMostColours;
    };
    const bool is_channels_last = may_be_colours(3) && !may_be_colours(1);
    place(is_channels_last ? 1 : 2, Axis::Image);
    place(is_channels_last ? 2 : 3, Axis::Image);
    place(is_channels_last ? 3 : 1, Axis::Channels);
  } else if (is_single_image(dimensions, is_integer)) {
    place(0, Axis::Channels);
    place(1, Axis::Image);
    place(2, Axis::Image);
  } else if ((dimensions.size() == 2 && is_integer) || (dimensions.size() == 3 && !is_integer)) {
    place(1, Axis::Sequence);
  }
}

bool has_batch(const std::vector<Dimension>& dimensions) {
  for (const Dimension& dimension : dimensions) {
    if (dimension.axis == Axis::Batch) return true;
  }
  return false;
}

std::int64_t of_sequences(const Dimension& dimension, const Tokens& tokens) {
  return dimension.sequences * tokens.now + dimension.pasts * tokens.past + dimension.more;
}

/// Of a network that takes the keys of earlier tokens: a step of one token, or as many as the file
/// has fixed, behind as many as were asked for. Nothing: it takes none. Sizes that the file has
/// fixed without a name are taken apart: what is longer than the past holds it.
std::optional<Tokens> step_of(std::vector<std::vector<Dimension>>& inputs,
                              std::optional<std::int64_t> asked) {
  std::optional<Tokens> step;
  for (const auto& dimensions : inputs) {
    for (const Dimension& d : dimensions) {
      if (d.axis != Axis::Sequence || d.pasts == 0 || d.sequences > 0) continue;
      if (!step) step = Tokens{1, d.size.value_or(0)};
    }
  }
  if (!step) return step;
  for (auto& dimensions : inputs) {
    for (Dimension& d : dimensions) {
      if (d.axis != Axis::Sequence || d.pasts > 0) continue;
      if (contains(d.name, "encoder"))
        std::swap(d.sequences, d.pasts);  // a text of its own, as long as was asked for
      else if (d.is_total || (d.size && step->past > 0 && *d.size > step->past))
        d.pasts = 1;
      else if (d.size)
        step->now = *d.size;
    }
  }
  step->past = asked.value_or(step->past > 0 ? step->past : kAssumedSequence);
  return step;
}

void require_size(std::string_view option, std::int64_t size) {
  if (size >= 1 && size <= kMostSize) return;
  throw InputError(option, std::to_string(size), "a number from 1 to " + std::to_string(kMostSize));
}

}  // namespace

InputSizes resolve_input_sizes(const Program& program, const OnnxOptions& options,
                               std::string_view where) {
  require_size("--batch", options.batch);
  if (options.image_size) require_size("--image-size", *options.image_size);
  if (options.seq_len) require_size("--seq-len", *options.seq_len);

  std::vector<std::vector<Dimension>> inputs;
  for (const ValueIndex index : program.inputs) {
    const NamedValue& named = program.values[index];
    inputs.push_back(read_dimensions(named, where));
    place_axes(inputs.back(), named.name,
               element_type(named.info->type().tensor_type().elem_type()).is_integer);
  }

  InputSizes sizes;
  sizes.asked.batch = options.batch;
  if (!inputs.empty() && inputs[0].size() == 3 && inputs[0][0].axis == Axis::Channels &&
      options.batch != 1) {
    throw InputError(
        std::string(where) + ", input '" + program.values[program.inputs[0]].name + "'",
        "one image without a batch dimension, and --batch " + std::to_string(options.batch),
        "--batch 1, or a network exported with a batch");
  }
  // The file's batch is the first dimension of its first input of rank 2 or more.
  std::optional<std::int64_t> own_batch;
  for (const auto& dimensions : inputs) {
    if (dimensions.size() < 2 || has_batch(dimensions)) continue;
    if (dimensions[0].axis == Axis::Channels) continue;
    if (dimensions[0].size && !own_batch) own_batch = dimensions[0].size;
  }
  sizes.own.batch = own_batch.value_or(1);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    std::vector<Dimension>& dimensions = inputs[i];
    if (dimensions.empty() || has_batch(dimensions)) continue;
    Dimension& first = dimensions[0];
    if (first.axis != Axis::Other || (dimensions.size() < 2 && first.size)) continue;
    if (!first.size || *first.size == sizes.own.batch) {
      first.axis = Axis::Batch;
    } else {
      sizes.assumptions.push_back("input '" + program.values[program.inputs[i]].name +
                                  "': first dimension " + std::to_string(*first.size) +
                                  " is not the batch and stays");
    }
  }

  const std::optional<Tokens> step = step_of(inputs, options.seq_len);
  const auto length_of = [&](const Dimension& dimension, std::int64_t whole) {
    return of_sequences(dimension, step.value_or(Tokens{whole, whole}));
  };
  if (step) {
    sizes.assumptions.push_back("the network takes keys of earlier tokens: a step of " +
                                std::to_string(step->now) + " behind " +
                                std::to_string(step->past) + " of them (--seq-len)");
  }
  bool has_image = false, has_sequence = false;
  std::map<std::string, std::int64_t> named_sizes;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = program.values[program.inputs[i]].name;
    Shape own, asked;
    for (const Dimension& dimension : inputs[i]) {
      const auto assume = [&](std::int64_t size, std::string_view what) {
        const auto known = named_sizes.find(dimension.name);
        if (!dimension.name.empty() && known != named_sizes.end()) return known->second;
        if (!dimension.name.empty()) named_sizes.emplace(dimension.name, size);
        std::string text = "input '" + name + "': " + std::string(what);
        text += " left open by the file, " + std::to_string(size) + " assumed";
        sizes.assumptions.push_back(std::move(text));
        return size;
      };
      std::int64_t now = dimension.size.value_or(1);
      std::int64_t before = now;
      // What was asked for, else what the file says, else what is usual.
      const auto choose = [&](std::optional<std::int64_t> wanted, std::int64_t usual,
                              std::string_view what) {
        now = wanted ? *wanted : dimension.size ? *dimension.size : assume(usual, what);
        before = dimension.size.value_or(now);
      };
      switch (dimension.axis) {
        case Axis::Batch:
          now = options.batch;
          before = dimension.size.value_or(sizes.own.batch);
          break;
        case Axis::Image:
          has_image = true;
          choose(options.image_size, kAssumedImage, "image size");
          break;
        case Axis::Sequence:
          has_sequence = true;
          choose(options.seq_len || (step && !dimension.size)
                     ? std::optional(length_of(dimension, options.seq_len.value_or(0)))
                     : std::nullopt,
                 length_of(dimension, kAssumedSequence), "sequence length");
          break;
        case Axis::Channels:
          choose(std::nullopt, kAssumedChannels, "channels");
          break;
        case Axis::Other:
          choose(std::nullopt, 1, "a dimension");
          break;
      }
      own.push_back(before);
      asked.push_back(now);
    }
    const std::string place = std::string(where) + ", input '" + name + "'";
    sizes.own.inputs.push_back(checked_shape(std::move(own), place));
    sizes.asked.inputs.push_back(checked_shape(std::move(asked), place));
  }
  if (options.image_size && !has_image) {
    sizes.assumptions.push_back("the network has no image input: --image-size changes nothing");
  }
  if (options.seq_len && !has_sequence) {
    sizes.assumptions.push_back("the network has no sequence input: --seq-len changes nothing");
  }
  return sizes;
}

}  // namespace tracecast::onnx
