#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "sim/base/error.hpp"
#include "traces/bytes/output_file.hpp"
#include "traces/cupti/recorded_process.hpp"

namespace tracecast::traces::cupti {
namespace {

constexpr std::size_t kBlock = 512;

/// One file's header. Source: POSIX.1-2017, pax, "ustar Interchange Format".
std::array<char, kBlock> header(const std::string& name, std::uint64_t bytes) {
  std::array<char, kBlock> block{};
  const auto put = [&](std::size_t at, std::size_t width, const char* format, auto value) {
    std::snprintf(block.data() + at, width, format, value);
  };
  put(0, 100, "%s", name.c_str());
  put(100, 8, "%07o", 0644u);
  put(108, 8, "%07o", 0u);
  put(116, 8, "%07o", 0u);
  put(124, 12, "%011llo", static_cast<unsigned long long>(bytes));
  put(136, 12, "%011o", 0u);
  std::memset(block.data() + 148, ' ', 8);
  block[156] = '0';
  std::memcpy(block.data() + 257, "ustar\00000", 8);
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  put(148, 8, "%06o", sum);
  return block;
}

}  // namespace

void write_archive(const std::vector<std::filesystem::path>& files,
                   const std::filesystem::path& out) {
  OutputFile archive(out);
  std::vector<char> piece(1 << 20);
  const std::string zeros(2 * kBlock, '\0');
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::uint64_t bytes = std::filesystem::file_size(path);
    const auto head = header(path.filename().string(), bytes);
    archive.write({head.data(), head.size()});
    for (std::uint64_t left = bytes; left > 0;) {
      const std::uint64_t count = std::min<std::uint64_t>(left, piece.size());
      if (!file.read(piece.data(), static_cast<std::streamsize>(count)))
        throw InputError(path.string(), "cannot be read", "a trace to pack");
      archive.write({piece.data(), count});
      left -= count;
    }
    archive.write(std::string_view(zeros).substr(0, (kBlock - bytes % kBlock) % kBlock));
  }
  archive.write(zeros);
  archive.finish();
}

}  // namespace tracecast::traces::cupti
