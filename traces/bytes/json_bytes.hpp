#pragma once
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

/// Looking for bytes of JSON, 16 at a time where the processor can. All functions may look at
/// `kSlack` bytes from the end of what was read on; the first of them has to be zero.
namespace tracecast::traces::json {

inline constexpr std::size_t kSlack = 32;

constexpr bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

inline constexpr std::array<bool, 256> kEndsPlain = [] {
  std::array<bool, 256> ends{};
  for (const char c : {',', '}', ']', ':', '"', '{', '[', ' ', '\n', '\t', '\r', '\0'})
    ends[static_cast<unsigned char>(c)] = true;
  return ends;
}();
/// Whether `c` cannot stand in a number or literal.
inline bool ends_plain(char c) { return kEndsPlain[static_cast<unsigned char>(c)]; }

/// First of `wanted` at or after `at`; `end` or later when there is none before it.
template <char... wanted>
const char* find_any(const char* at, const char* end) {
#ifdef __SSE2__
  for (; at < end; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    __m128i hits = _mm_setzero_si128();
    ((hits = _mm_or_si128(hits, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(wanted)))), ...);
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
    if (mask != 0) return at + std::countr_zero(mask);
  }
  return end;
#else
  while (at < end && ((*at != wanted) && ...)) ++at;
  return at;
#endif
}

/// First byte at or after `at` that is no blank: the zero behind the last one at the latest.
inline const char* skip_blanks(const char* at) {
#ifdef __SSE2__
  for (;; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    const auto is = [&bytes](char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); };
    const __m128i blanks =
        _mm_or_si128(_mm_or_si128(is(' '), is('\n')), _mm_or_si128(is('\t'), is('\r')));
    const auto others = ~static_cast<unsigned>(_mm_movemask_epi8(blanks)) & 0xFFFFu;
    if (others != 0) return at + std::countr_zero(others);
  }
#else
  while (is_blank(*at)) ++at;
  return at;
#endif
}

/// Appends the decimal digits from `at` on, which goes behind them, to `value`: modulo 2^64.
inline std::uint64_t take_digits(const char*& at, std::uint64_t value = 0) {
  for (unsigned digit = 0; (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) <= 9; ++at)
    value = value * 10 + digit;
  return value;
}

}  // namespace tracecast::traces::json
