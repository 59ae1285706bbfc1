#include "tools/sha256.hpp"

#include <sys/types.h>

#include <sha2.h>

#include <array>
#include <cstdint>

namespace tracecast {

std::string sha256(std::string_view bytes) {
  SHA2_CTX context;
  SHA256Init(&context);
  SHA256Update(&context, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  std::array<std::uint8_t, SHA256_DIGEST_LENGTH> digest;
  SHA256Final(digest.data(), &context);
  std::string text;
  for (const std::uint8_t byte : digest) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace tracecast
