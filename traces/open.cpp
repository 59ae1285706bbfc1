#include "traces/open.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "sim/base/error.hpp"
#include "traces/byte_source.hpp"
#include "traces/chakra/reader.hpp"
#include "traces/json_scanner.hpp"
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
constexpr int kMostMembers = 100'000;

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

/// A source whose first bytes can be looked at before they are read.
class PeekedSource final : public ByteSource {
 public:
  explicit PeekedSource(ByteSource& source) : source_(source) {}

  /// The first `size` bytes, fewer where the source ends.
  std::string_view peek(std::size_t size) {
    std::size_t have = head_.size();
    head_.resize(std::max(size, have));
    while (have < size) {
      const std::size_t count = source_.read(head_.data() + have, size - have);
      if (count == 0) break;
      have += count;
    }
    head_.resize(have);
    return {head_.data(), have};
  }
  std::size_t read(char* to, std::size_t size) override {
    if (given_ == head_.size()) return source_.read(to, size);
    const std::size_t count = std::min(size, head_.size() - given_);
    std::memcpy(to, head_.data() + given_, count);
    given_ += count;
    return count;
  }

 private:
  ByteSource& source_;
  std::vector<char> head_;
  std::size_t given_ = 0;
};

class MemberSource final : public ByteSource {
 public:
  explicit MemberSource(TarReader& archive) : archive_(archive) {}
  std::size_t read(char* to, std::size_t size) override { return archive_.read(to, size); }

 private:
  TarReader& archive_;
};

constexpr std::string_view kKnown =
    "a trace: PyTorch Kineto or execution trace, Chakra, nvprof, Nsight Systems (SQLite) or "
    ".tctrace, "
    "plain, gzip or in a tar archive";
constexpr std::string_view kSqlite = "SQLite format 3";

enum class Format {
  Kineto,
  ExecutionTrace,
  ChakraJson,
  Chakra,
  Nvprof,
  KernelList,
  Record,
  Unknown
};

/// Which key of the outermost object says what the document is; Kineto when the head is too short to tell.
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

/// Reads what the source holds; no traces when it is of no known format.
Recording read_one(ByteSource& source, const std::string& name) {
  PeekedSource peeked(source);
  switch (format_of(peeked, name)) {
    case Format::Kineto:
      return of_one(read_kineto(peeked, name));
    case Format::ExecutionTrace:
      return of_one(read_execution_trace(peeked, name));
    case Format::ChakraJson:
      return of_one(read_chakra_json(peeked, name));
    case Format::Chakra:
      return of_one(read_chakra(peeked, name));
    case Format::Nvprof:
      return of_one(read_nvprof(peeked, name));
    case Format::KernelList:
      return of_one(read_kernel_list(peeked, name));
    case Format::Record:
      return read_records(peeked, name);
    case Format::Unknown:
      return {};
  }
  return {};
}

/// Members that are no traces (licences, settings) are counted.
Recording read_archive(ByteSource& source, const std::string& name) {
  TarReader archive(source, name);
  Recording recording;
  std::uint64_t others = 0;
  while (archive.next()) {
    if (recording.traces.size() >= kMostMembers)
      throw InputError(name, "more than 100000 members", "a recording");
    MemberSource member(archive);
    Recording one =
        read_one(member, name + ": " + std::filesystem::path(archive.member()).filename().string());
    if (one.traces.empty()) ++others;
    std::move(one.traces.begin(), one.traces.end(), std::back_inserter(recording.traces));
  }
  if (recording.traces.empty()) throw InputError(name, "an archive without traces", kKnown);
  for (; others > 0; --others)
    recording.traces.front().leave_out("member of the archive that is no trace");
  return recording;
}

}  // namespace

Recording read_recording(const std::filesystem::path& path) {
  const auto file = open_file(path);
  const std::string name = path.filename().string();
  PeekedSource source(*file);
  const std::string_view head = source.peek(512);
  if (is_tar(head.data(), head.size())) return read_archive(source, name);
  if (head.starts_with(kSqlite)) return of_one(read_nsys(path));
  Recording recording = read_one(source, name);
  if (recording.traces.empty())
    throw InputError(name, head.empty() ? "an empty file" : "no trace format that is known",
                     kKnown);
  return recording;
}

}  // namespace tracecast::traces
