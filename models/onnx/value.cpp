#include "models/onnx/value.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "models/onnx/reader.hpp"
#include "models/ops.hpp"
#include "sim/base/error.hpp"

namespace tracecast::onnx {
namespace {

// TensorProto.DataType of the public format.
enum DataType : std::int32_t {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64Type = 7,
  kBoolType = 9,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
};

/// Little-endian elements of type T widened to the elements of Out.
template <class T, class Out>
Out from_raw(const std::string& raw, std::size_t count) {
  Out out;
  if (raw.size() != count * sizeof(T)) return out;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, raw.data() + i * sizeof(T), sizeof(T));
    out.push_back(static_cast<typename Out::value_type>(element));
  }
  return out;
}

/// Contents when there are as many as the shape says, else nothing.
template <class Out>
Contents whole(Out out, std::size_t count) {
  if (out.size() != count) return {};
  return out;
}

template <class Out, class Field>
Contents from_field(const Field& field, std::size_t count) {
  return whole(Out(field.begin(), field.end()), count);
}

/// IEEE 754 binary16 and bfloat16, by their bits: sign, exponent, fraction.
double from_half(std::uint32_t bits, int fraction_bits) {
  const int exponent_bits = 15 - fraction_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const auto exponent = static_cast<int>((bits & 0x7fffU) >> fraction_bits);
  const auto fraction = static_cast<double>(bits & ((1U << fraction_bits) - 1));
  const double scaled = std::ldexp(fraction, -fraction_bits);
  if (exponent == (1 << exponent_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  return exponent == 0 ? sign * std::ldexp(scaled, 1 - bias)
                       : sign * std::ldexp(1 + scaled, exponent - bias);
}

/// Bits of 16-bit reals, from raw bytes or one in each int32.
Contents decode_halves(const TensorProto& tensor, std::size_t count, int fraction_bits) {
  const Integers bits = tensor.has_raw_data()
                            ? from_raw<std::uint16_t, Integers>(tensor.raw_data(), count)
                            : Integers(tensor.int32_data().begin(), tensor.int32_data().end());
  Reals reals;
  for (const std::int64_t one : bits) {
    reals.push_back(from_half(static_cast<std::uint32_t>(one), fraction_bits));
  }
  return whole(std::move(reals), count);
}

Contents decode_contents(const TensorProto& tensor, std::size_t count) {
  if (tensor.data_location() == 1) return {};  // in another file
  const std::string& raw = tensor.raw_data();
  const bool is_raw = tensor.has_raw_data();
  switch (tensor.data_type()) {
    case kInt64Type:
      return is_raw ? whole(from_raw<std::int64_t, Integers>(raw, count), count)
                    : from_field<Integers>(tensor.int64_data(), count);
    case kInt32:
      return is_raw ? whole(from_raw<std::int32_t, Integers>(raw, count), count)
                    : from_field<Integers>(tensor.int32_data(), count);
    case kUint8:
    case kBoolType:
      return is_raw ? whole(from_raw<std::uint8_t, Integers>(raw, count), count)
                    : from_field<Integers>(tensor.int32_data(), count);
    case kFloat:
      return is_raw ? whole(from_raw<float, Reals>(raw, count), count)
                    : from_field<Reals>(tensor.float_data(), count);
    case kDouble:
      return is_raw ? whole(from_raw<double, Reals>(raw, count), count)
                    : from_field<Reals>(tensor.double_data(), count);
    case kFloat16:
      return decode_halves(tensor, count, 10);
    case kBfloat16:
      return decode_halves(tensor, count, 7);
    default:
      return {};
  }
}

}  // namespace

ElementType element_type(std::int32_t data_type) {
  switch (data_type) {
    case kUint8:
    case kInt8:
    case kBoolType:
      return {.is_integer = true, .integer_bytes = 1};
    case kUint16:
    case kInt16:
      return {.is_integer = true, .integer_bytes = 2};
    case kInt32:
    case kUint32:
      return {.is_integer = true, .integer_bytes = 4};
    case kInt64Type:
    case kUint64:
      return kInt64;
    default:
      return kReal;
  }
}

void check_shape(const Shape& shape, std::string_view where) {
  if (shape.size() > kMostRank) {
    throw InputError(where, "rank " + std::to_string(shape.size()),
                     "at most " + std::to_string(kMostRank) + " dimensions");
  }
  if (!checked_element_count(shape)) {
    throw InputError(where, "shape " + to_string(shape),
                     "dimensions of at least 0 with fewer than 2^62 elements");
  }
}

Shape checked_shape(Shape shape, std::string_view where) {
  check_shape(shape, where);
  return shape;
}

Value decode_tensor(const TensorProto& tensor, std::string_view where) {
  Value value;
  value.shape = checked_shape({tensor.dims().begin(), tensor.dims().end()}, where);
  // The format had 23 types in 2025; room for those to come.
  constexpr std::int32_t kMostTypes = 40;
  if (tensor.data_type() < kFloat || tensor.data_type() > kMostTypes) {
    throw InputError(where, "element type " + std::to_string(tensor.data_type()),
                     "a number of TensorProto.DataType");
  }
  value.type = element_type(tensor.data_type());
  const std::int64_t count = element_count(value.shape);
  if (count <= kMostValues) {
    value.contents = decode_contents(tensor, static_cast<std::size_t>(count));
  }
  return value;
}

}  // namespace tracecast::onnx
