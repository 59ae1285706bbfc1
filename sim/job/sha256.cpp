#include "sim/job/sha256.hpp"

#include <sys/types.h>

#include <sha2.h>

#include <array>
#include <cstdint>
#include <fstream>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"

namespace tracecast {

namespace {

std::string finish(SHA2_CTX& context) {
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

void update(SHA2_CTX& context, std::string_view bytes) {
  SHA256Update(&context, reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

std::string sha256(std::string_view bytes) {
  SHA2_CTX context;
  SHA256Init(&context);
  update(context, bytes);
  return finish(context);
}

std::string sha256_of_file(const std::filesystem::path& path) {
  check_regular_file(path);
  std::ifstream file(path, std::ios::binary);
  SHA2_CTX context;
  SHA256Init(&context);
  std::vector<char> buffer(std::size_t{1} << 16);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    update(context, {buffer.data(), static_cast<std::size_t>(file.gcount())});
  }
  if (!file.eof()) throw InputError(path.string(), "unreadable", "a file that can be read");
  return finish(context);
}

}  // namespace tracecast
