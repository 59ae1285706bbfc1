#include "traces/open.hpp"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "sim/base/error.hpp"
#include "traces/bytes/byte_source.hpp"
#include "traces/bytes/gzip_source.hpp"
#include "traces/bytes/json_scanner.hpp"
#include "traces/bytes/peeked_source.hpp"
#include "traces/bytes/tar_reader.hpp"
#include "traces/chakra/reader.hpp"
#include "traces/kernel_list/reader.hpp"
#include "traces/kineto/reader.hpp"
#include "traces/nsys/reader.hpp"
#include "traces/nvprof/reader.hpp"
#include "traces/record/reader.hpp"

namespace tracecast::traces {
namespace {

/// How far into a file its format is looked for.
constexpr std::size_t kHeadBytes = std::size_t{1} << 20;
constexpr std::size_t kTextHeadBytes = std::size_t{1} << 16;
constexpr std::size_t kMostMembers = 100'000;

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  std::size_t read(char* to, std::size_t size) override {
    const std::size_t count = std::min(size, bytes_.size());
    std::memcpy(to, bytes_.data(), count);
    bytes_.remove_prefix(count);
    return count;
  }

 private:
  std::string_view bytes_;
};

constexpr std::string_view kKnown =
    "a trace: PyTorch Kineto or execution trace, Chakra, nvprof, Nsight Systems (SQLite) or "
    ".tctrace, plain, gzip or in a tar archive";
constexpr std::string_view kSqlite = "SQLite format 3";

enum class Format {
  Kineto,
  ExecutionTrace,
  ChakraJson,
  Chakra,
  Nvprof,
  KernelList,
  Record,
  Sqlite,
  Archive,
  Unknown
};

/// Which key of the outermost object says what the document is; Kineto when the head is too short
/// to tell.
Format json_format(std::string_view head, bool is_whole, const std::string& name) {
  MemorySource source(head);
  JsonScanner json(source, name);
  if (json.peek() == JsonKind::Array) return Format::Kineto;
  try {
    json.enter_object();
    for (std::string_view key; json.next_key(key);) {
      if (key == "traceEvents") return Format::Kineto;
      if (key == "nodes") return Format::ExecutionTrace;
      if (key == "workload_graph") return Format::ChakraJson;
      json.skip();
    }
  } catch (const InputError&) {
    // The head ends within the document, or its reader will say what is wrong.
    return Format::Kineto;
  }
  return is_whole ? Format::Unknown : Format::Kineto;
}

Format format_of(PeekedSource& source, const std::string& name) {
  std::string_view head = source.peek(512);
  const std::size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return Format::Unknown;
  if (is_record_file(head)) return Format::Record;
  if (head.starts_with(kSqlite)) return Format::Sqlite;
  if (is_tar(head)) return Format::Archive;
  if (head[first] == '{' || head[first] == '[') {
    head = source.peek(kHeadBytes);
    return json_format(head, head.size() < kHeadBytes, name);
  }
  if (is_chakra(head)) return Format::Chakra;
  if (is_kernel_list(head)) return Format::KernelList;
  return is_nvprof(source.peek(kTextHeadBytes)) ? Format::Nvprof : Format::Unknown;
}

Recording of_one(Trace trace) {
  Recording recording;
  recording.traces.push_back(std::move(trace));
  return recording;
}

/// Reads what the source holds; no traces when it is of no format that can be read one byte after
/// the other.
Recording read_as(Format format, ByteSource& source, const std::string& name) {
  switch (format) {
    case Format::Kineto:
      return of_one(read_kineto(source, name));
    case Format::ExecutionTrace:
      return of_one(read_execution_trace(source, name));
    case Format::ChakraJson:
      return of_one(read_chakra_json(source, name));
    case Format::Chakra:
      return of_one(read_chakra(source, name));
    case Format::Nvprof:
      return of_one(read_nvprof(source, name));
    case Format::KernelList:
      return of_one(read_kernel_list(source, name));
    case Format::Record:
      return read_records(source, name);
    case Format::Sqlite:
    case Format::Archive:
    case Format::Unknown:
      return {};
  }
  return {};
}

/// The traces of an archive's members, packed or not, in folders or not. What is none (licences,
/// settings) is counted.
class ArchiveReader {
 public:
  ArchiveReader(ByteSource& source, std::string name)
      : archive_(source, name), name_(std::move(name)) {}

  Recording read() {
    while (archive_.next()) {
      const std::string name =
          name_ + ": " + std::filesystem::path(archive_.member()).filename().string();
      PeekedSource member(archive_);
      if (is_gzip(member.peek(kGzipHead))) {
        GzipSource unpacked(member, name);
        take(unpacked, name);
      } else {
        take(member, name);
      }
    }
    if (recording_.traces.empty()) throw InputError(name_, "an archive without traces", kKnown);
    leave_out(others_, "member of the archive that is no trace");
    leave_out(closed_, "archive or SQLite export within the archive: unpack it to read it");
    leave_out(archive_.passed_over(), "link or device in the archive");
    return std::move(recording_);
  }

 private:
  void take(ByteSource& content, const std::string& name) {
    PeekedSource source(content);
    const Format format = format_of(source, name);
    Recording one = read_as(format, source, name);
    if (one.traces.empty())
      ++(format == Format::Sqlite || format == Format::Archive ? closed_ : others_);
    if (recording_.traces.size() + one.traces.size() > kMostMembers)
      throw InputError(name_, "more than 100000 traces", "a recording");
    std::move(one.traces.begin(), one.traces.end(), std::back_inserter(recording_.traces));
  }
  void leave_out(std::uint64_t count, std::string_view what) {
    for (; count > 0; --count) recording_.traces.front().leave_out(what);
  }

  TarReader archive_;
  std::string name_;
  Recording recording_;
  std::uint64_t others_ = 0, closed_ = 0;
};

/// A database is read where it stands.
Recording read_database(const std::filesystem::path& path, const std::string& name) {
  char head[kGzipHead] = {};
  std::ifstream(path, std::ios::binary).read(head, sizeof head);
  if (is_gzip({head, sizeof head}))
    throw InputError(name, "an SQLite database packed by gzip", "the same unpacked (gzip -d)");
  return of_one(read_nsys(path));
}

}  // namespace

Recording read_recording(const std::filesystem::path& path) {
  const auto file = open_file(path);
  const std::string name = path.filename().string();
  PeekedSource source(*file);
  const Format format = format_of(source, name);
  if (format == Format::Archive) return ArchiveReader(source, name).read();
  if (format == Format::Sqlite) return read_database(path, name);
  const bool is_empty = source.peek(1).empty();
  Recording recording = read_as(format, source, name);
  if (recording.traces.empty())
    throw InputError(name, is_empty ? "an empty file" : "no trace format that is known", kKnown);
  return recording;
}

}  // namespace tracecast::traces
