#include "traces/byte_source.hpp"

#include <doctest/doctest.h>
#include <zlib.h>

#include <array>
#include <fstream>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "traces/open.hpp"

using namespace tracecast;
using namespace tracecast::traces;

namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string all(ByteSource& source) {
  std::string text;
  std::array<char, 100> buffer;
  while (const std::size_t count = source.read(buffer.data(), buffer.size()))
    text.append(buffer.data(), count);
  return text;
}

/// One member of a tar archive in the ustar format.
std::string member(const std::string& name, const std::string& content, char type = '0') {
  std::string header(512, '\0');
  header.replace(0, name.size(), name);
  std::array<char, 13> size{};
  std::snprintf(size.data(), size.size(), "%011o", static_cast<unsigned>(content.size()));
  header.replace(124, 11, size.data());
  header[156] = type;
  header.replace(257, 5, "ustar");
  std::string text = header + content;
  text.resize((text.size() + 511) / 512 * 512);
  return text;
}

std::string refusal(const std::filesystem::path& path) {
  try {
    (void)read_recording(path);
    return "taken";
  } catch (const InputError& error) {
    return error.what();
  }
}

const std::string kTrace =
    R"({"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}]})";

}  // namespace

TEST_CASE("a file is read as it stands, or unpacked when it is gzip, whatever its name") {
  const test::TemporaryFolder folder;
  const std::string text(10'000, 'x');
  write_file(folder.path() / "plain.gz", text);
  write_file(folder.path() / "packed.json", gzip(text));
  CHECK(all(*open_file(folder.path() / "plain.gz")) == text);
  CHECK(all(*open_file(folder.path() / "packed.json")) == text);
}

TEST_CASE("an archive gives one trace per file, in its order, and passes over what is no file") {
  const test::TemporaryFolder folder;
  const std::string long_name = std::string(120, 'd') + "/rank1.json";
  const std::string archive = member("d/", "", '5') + member("d/rank0.json", kTrace) +
                              member("././@LongLink", long_name + '\0', 'L') + member("cut", "[]") +
                              std::string(1024, '\0');
  write_file(folder.path() / "ranks.tar.gz", gzip(archive));
  const Recording recording = read_recording(folder.path() / "ranks.tar.gz");
  REQUIRE(recording.traces.size() == 2);
  CHECK(recording.traces[0].kernels.size() == 1);
  CHECK(recording.traces[0].source == "ranks.tar.gz: rank0.json");
  CHECK(recording.traces[1].source == "ranks.tar.gz: rank1.json");
}

TEST_CASE("damaged and strange files are refused in one line that says what is wrong") {
  const test::TemporaryFolder folder;
  const std::string packed = gzip(kTrace), archive = member("a.json", kTrace);
  struct Row {
    const char* name;
    std::string content;
    const char* message;
  };
  const Row rows[] = {
      {"truncated.json.gz", packed.substr(0, packed.size() - 12),
       "found gzip data that end too early"},
      {"flipped.json.gz", packed.substr(0, packed.size() - 8) + "checksum",
       "found damaged gzip data"},
      {"empty.json", "", "found an empty file"},
      {"text.json", "hello", "found no trace format that is known"},
      {"other.json", R"({"a": 1})", "found no trace format that is known"},
      {"half.json", R"({"traceEvents": [)", "found the end of the file"},
      {"wrong.tar", member("a.txt", "hello"), "found an archive without traces"},
      {"half.tar", archive.substr(0, 600), "found an archive that ends within"},
      {"empty.tar", member("d/", "", '5'), "found an archive without traces"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    std::ofstream(folder.path() / row.name, std::ios::binary) << row.content;
    const std::string message = refusal(folder.path() / row.name);
    CAPTURE(message);
    CHECK(message.find(row.message) != std::string::npos);
    CHECK(message.find(row.name) != std::string::npos);
    CHECK(message.find('\n') == std::string::npos);
  }
  CHECK(refusal(folder.path() / "absent").find("found no such file") != std::string::npos);
  CHECK(refusal(folder.path()).find("found a folder") != std::string::npos);
}
