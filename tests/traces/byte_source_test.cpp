#include "traces/bytes/byte_source.hpp"

#include <doctest/doctest.h>

#include <array>
#include <fstream>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/archive_bytes.hpp"
#include "tests/support/temporary_folder.hpp"
#include "traces/open.hpp"

using namespace tracecast;
using namespace tracecast::traces;
using test::gzip, test::pax_record, test::tar_member, test::with_field;

namespace {

std::string all(ByteSource& source) {
  std::string text;
  std::array<char, 100> buffer;
  while (const std::size_t count = source.read(buffer.data(), buffer.size()))
    text.append(buffer.data(), count);
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
  const std::string archive = tar_member("d/", "", '5') + tar_member("d/rank0.json", kTrace) +
                              tar_member("././@LongLink", long_name + '\0', 'L') +
                              tar_member("cut", "[]") + std::string(1024, '\0');
  write_file(folder.path() / "ranks.tar.gz", gzip(archive));
  const Recording recording = read_recording(folder.path() / "ranks.tar.gz");
  REQUIRE(recording.traces.size() == 2);
  CHECK(recording.traces[0].kernels.size() == 1);
  CHECK(recording.traces[0].source == "ranks.tar.gz: rank0.json");
  CHECK(recording.traces[1].source == "ranks.tar.gz: rank1.json");
}

TEST_CASE("members that are gzip are ranks too, in folders, by any archiver's names") {
  const test::TemporaryFolder folder;
  const std::string packed = gzip(kTrace);
  const std::string end(1024, '\0');
  const std::string long_path = std::string(130, 'd') + "/rank0.json.gz";
  const std::string in_two =
      with_field(tar_member("rank0.json.gz", packed), 345, std::string(150, 'd'));
  struct Row {
    const char* what;
    std::string archive;
  };
  const Row rows[] = {
      {"as tar writes it", tar_member("./", "", '5') + tar_member("./rank0.json.gz", packed) + end},
      {"folders within folders", tar_member("run/7/gpu/rank0.json.gz", packed) + end},
      {"without an end", tar_member("rank0.json.gz", packed)},
      {"a GNU long name",
       tar_member("././@LongLink", long_path + '\0', 'L') + tar_member("cut", packed) + end},
      {"a pax long name", tar_member("PaxHeaders/cut", pax_record("path=" + long_path), 'x') +
                              tar_member("cut", packed) + end},
      {"a POSIX name in two fields", in_two + end},
      {"a pax size", tar_member("x", pax_record("size=" + std::to_string(packed.size())), 'x') +
                         with_field(tar_member("rank0.json.gz", packed), 124, "00000000000") + end},
      {"the archive packed too", gzip(tar_member("rank0.json.gz", packed) + end)},
      {"packed in two streams",
       tar_member("rank0.json.gz", gzip(kTrace.substr(0, 20)) + gzip(kTrace.substr(20))) + end},
      {"packed, with a rest behind", tar_member("rank0.json.gz", packed + "rest") + end},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    write_file(folder.path() / "ranks.tar", row.archive);
    const Recording recording = read_recording(folder.path() / "ranks.tar");
    REQUIRE(recording.traces.size() == 1);
    CHECK(recording.traces[0].kernels.size() == 1);
    CHECK(recording.traces[0].source == "ranks.tar: rank0.json.gz");
  }
}

TEST_CASE("what is no trace in an archive is counted by what it is") {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "ranks.tar",
             tar_member("LICENSE", "free") + tar_member("notes.gz", gzip("text")) +
                 tar_member("rank0.json.gz", gzip(kTrace)) + tar_member("empty", "") +
                 tar_member("inner.tar", tar_member("rank1.json", kTrace)) +
                 tar_member("inner.tgz", gzip(tar_member("rank1.json", kTrace))) +
                 tar_member("export.sqlite", std::string("SQLite format 3\0", 16)) +
                 tar_member("a", "", '2') + tar_member("b", "", '1') + tar_member("run/", "", '5'));
  const Recording recording = read_recording(folder.path() / "ranks.tar");
  REQUIRE(recording.traces.size() == 1);
  const auto& left_out = recording.traces[0].left_out;
  CHECK(left_out.at("member of the archive that is no trace").count == 3);
  CHECK(left_out.at("archive or SQLite export within the archive: unpack it to read it").count ==
        3);
  CHECK(left_out.at("link or device in the archive").count == 2);
}

TEST_CASE("damaged and strange files are refused in one line that says what is wrong") {
  const test::TemporaryFolder folder;
  const std::string packed = gzip(kTrace), archive = tar_member("a.json", kTrace);
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
      {"wrong.tar", tar_member("a.txt", "hello"), "found an archive without traces"},
      {"half.tar", archive.substr(0, 600), "found an archive that ends within"},
      {"sum.tar", std::string(archive).replace(0, 1, "b"), "found a header with another checksum"},
      {"negative.tar", with_field(archive, 124, std::string(12, '\xff')),
       "found a member's size that is no number"},
      {"huge.tar", with_field(archive, 124, "\x80" + std::string(4, '\x7f')),
       "found a member's size that is no number"},
      {"long.tar", with_field(archive, 124, "77777777777"), "found an archive that ends within"},
      {"octal.tar", with_field(archive, 124, "00000000009"),
       "found a member's size that is no number"},
      {"name.tar", with_field(tar_member("n", "name", 'L'), 124, "00001000000"),
       "found a member's name of 262144 bytes"},
      {"pax.tar", tar_member("x", "99 path=a\n", 'x') + archive,
       "found an extended header that cannot be read"},
      {"pax_size.tar", tar_member("x", pax_record("size=-1"), 'x') + archive,
       "found a member's size that is no number"},
      {"member.tar", tar_member("rank0.json.gz", packed.substr(0, packed.size() - 12)),
       "member.tar: rank0.json.gz: found gzip data that end too early"},
      {"database.gz", gzip(std::string("SQLite format 3\0", 16) + std::string(1000, 'x')),
       "found an SQLite database packed by gzip"},
      {"empty.tar", tar_member("d/", "", '5'), "found an archive without traces"},
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

TEST_CASE("what a file unpacks to is bounded by its size, all its packing together") {
  const test::TemporaryFolder folder;
  // A mebibyte of blanks packs to a kilobyte: 64 of them are free, then 100 times the file's size
  // is the most.
  const std::string blanks(std::size_t{1} << 20, ' ');
  const std::string piece = gzip(blanks), trace = gzip(kTrace);
  REQUIRE(piece.size() < blanks.size() / 200);
  const auto times = [](int count, const std::string& text) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  const std::string ranks = times(80, tar_member("rank.json.gz", trace + piece));
  struct Row {
    const char* name;
    std::string content;
    bool is_refused;
  };
  const Row rows[] = {{"few.json.gz", trace + times(60, piece), false},
                      {"many.json.gz", trace + times(80, piece), true},
                      {"ranks.tar", ranks, true},
                      {"ranks.tar.gz", gzip(ranks), true},
                      {"plain.json", kTrace + times(80, blanks), false}};
  for (const Row& row : rows) {
    CAPTURE(row.name);
    write_file(folder.path() / row.name, row.content);
    const std::string message = refusal(folder.path() / row.name);
    CAPTURE(message);
    const bool is_refused =
        message.find("found packed data of over 100 times their size") != message.npos;
    CHECK(is_refused == row.is_refused);
    CHECK((message == "taken") != row.is_refused);
  }
}
