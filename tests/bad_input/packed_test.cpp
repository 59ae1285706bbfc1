#include <doctest/doctest.h>

#include <filesystem>
#include <functional>
#include <string>

#include "sim/base/file.hpp"
#include "sim/base/random.hpp"
#include "tests/bad_input/program.hpp"
#include "tests/support/archive_bytes.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;

const std::string kTrace =
    R"({"traceEvents":[{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":1,)"
    R"("dur":1,"args":{"correlation":3}},{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":3,)"
    R"("dur":1,"args":{"device":0,"stream":7,"correlation":3}}]})";

/// "HEAD piece(0) piece(1) ... TAIL" of about `bytes`.
std::string filled(std::size_t bytes, const std::string& head,
                   const std::function<std::string(int)>& piece, const std::string& tail) {
  std::string text = head;
  text.reserve(bytes + 1024);
  for (int i = 0; text.size() < bytes; ++i) text += piece(i);
  return text + tail;
}

/// A trace of events that are `piece`s.
std::string events(std::size_t bytes, const std::function<std::string(int)>& piece) {
  return filled(
      bytes, R"({"traceEvents":[)", [&](int i) { return piece(i) + ","; }, "{}]}");
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("an archive of packed ranks is read by every command that reads traces") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "ranks.tar";
  const std::string packed = gzip(kTrace);
  write_file(path, tar_member("./run/", "", '5') + tar_member("./run/rank0.json.gz", packed) +
                       tar_member("./run/rank1.json.gz", packed) + tar_member("notes", "text") +
                       std::string(1024, '\0'));
  check_reports({"trace", "summary", path});
  check_reports({"trace", "replay", path, "--as-recorded"});
  check_reports({"trace", "diff", path, path});
  const fs::path out = folder.path() / "ranks.tctrace";
  const ProcessResult result =
      run_tracecast({"trace", "convert", path, "--to", "tracecast", "-o", out});
  CHECK(result.exit_code == 0);
  check_reports({"trace", "summary", out});
}

TEST_CASE("archives and packed files that are broken or made to harm end in one line") {
  const TemporaryFolder folder;
  const std::string packed = gzip(kTrace), whole = tar_member("rank0.json.gz", packed);
  const std::string link = tar_member("a.json", "", '2'), back = tar_member("b.json", "", '2');
  struct Row {
    const char* what;
    std::string content;
  };
  const Row rows[] = {
      {"gzip cut within a member",
       tar_member("rank0.json.gz", packed.substr(0, packed.size() / 2))},
      {"gzip with another checksum",
       tar_member("rank0.json.gz", packed.substr(0, packed.size() - 8) + "checksum")},
      {"the archive cut within a member", whole.substr(0, 700)},
      {"the archive cut within a header", whole + whole.substr(0, 300)},
      {"a header with another checksum", std::string(whole).replace(3, 1, "X")},
      {"a negative size", with_field(whole, 124, std::string(12, '\xff'))},
      {"a size of 2^62", with_field(whole, 124, std::string("\x80\0\0\0\x40", 5))},
      {"a size of 64 GiB", with_field(whole, 124, "777777777777")},
      {"a name of a gigabyte", with_field(tar_member("n", "", 'L'), 124, "07777777777")},
      {"an extended header of a gigabyte",
       with_field(tar_member("n", "", 'x'), 124, "07777777777")},
      {"an extended header that eats itself", tar_member("n", "0 path=a\n", 'x') + whole},
      {"an extended header of no number", tar_member("n", "x path=a\n", 'x') + whole},
      {"links that lead to each other", link + back + std::string(1024, '\0')},
      {"gzip in gzip in gzip", gzip(gzip(gzip(kTrace)))},
      {"an archive in an archive", tar_member("a.tar", tar_member("b.tar", whole))},
      {"4 GiB of brackets",
       repeated(gzip(R"({"traceEvents":[)"), 1) + repeated(gzip(std::string(1 << 24, '[')), 256)},
      {"a member that unpacks to 4 GiB",
       tar_member("rank0.json.gz", gzip(kTrace) + repeated(gzip(std::string(1 << 24, ' ')), 256))},
      {"100 members that unpack to 16 MiB each",
       repeated(tar_member("rank0.json.gz", gzip(kTrace + std::string(1 << 24, ' '))), 100)},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    write_file(folder.path() / "hostile", row.content);
    check_refuses({"trace", "summary", folder.path() / "hostile"});
    check_refuses({"trace", "diff", folder.path() / "hostile", folder.path() / "hostile"});
  }
}

TEST_CASE("archives damaged anywhere end in good order") {
  const TemporaryFolder folder;
  const std::string packed = gzip(kTrace);
  const std::string archive =
      tar_member("./run/", "", '5') +
      tar_member("PaxHeaders/r", pax_record("path=run/rank0.json.gz"), 'x') +
      tar_member("r", packed) + tar_member("rank1.json", kTrace) + std::string(1024, '\0');
  Random random(7);
  for (int copy = 0; copy < 40; ++copy) {
    std::string damaged =
        archive.substr(0, copy % 3 == 0 ? random.below(archive.size() + 1) : archive.size());
    for (int flips = 0; flips < 1 + copy % 4 && !damaged.empty(); ++flips) {
      char& byte = damaged[random.below(damaged.size())];
      byte = static_cast<char>(byte ^ (1 << random.below(8)));
    }
    CAPTURE(copy);
    write_file(folder.path() / "damaged", copy % 2 == 0 ? damaged : gzip(damaged));
    check_survives({"trace", "summary", folder.path() / "damaged"});
  }
}

/// The bound that traces/README.md states.
TEST_CASE("memory stays within 64 MiB and 24 times what the file unpacks to, whatever fills it") {
  if (kSanitizesAddresses) return;
  constexpr std::size_t kBytes = std::size_t{4} << 20;
  const auto number = [](int i) { return std::to_string(i); };
  const auto members = [&](const std::string& content) {
    return filled(
        kBytes, "",
        [&](int i) { return tar_member("rank" + std::to_string(i) + ".json", content); },
        std::string(1024, '\0'));
  };
  struct Row {
    const char* what;
    std::string content;
  };
  const std::string event = R"({"ph":"X","ts":1,"dur":1,"cat":")";
  const Row rows[] = {
      {"kernels", events(kBytes, [&](int) { return event + "kernel\"}"; })},
      {"operators", events(kBytes, [&](int) { return event + "cpu_op\"}"; })},
      {"calls", events(kBytes, [&](int) { return event + "runtime\"}"; })},
      {"waits", events(kBytes, [&](int) { return event + "cuda_sync\"}"; })},
      {"allocations", events(kBytes, [](int) { return R"({"ph":"i","name":"[memory]","ts":1})"; })},
      {"arrows", events(kBytes, [](int) { return R"({"ph":"s","cat":"fwdbwd","ts":1,"id":1})"; })},
      {"names",
       events(kBytes, [&](int i) { return event + R"(kernel","name":")" + number(i) + "\"}"; })},
      {"threads",
       events(kBytes, [&](int i) { return event + R"(runtime","tid":)" + number(i) + "}"; })},
      {"threads of operators",
       events(kBytes, [&](int i) { return event + R"(cpu_op","tid":)" + number(i) + "}"; })},
      {"streams",
       events(kBytes, [&](int i) { return event + R"(kernel","tid":)" + number(i) + "}"; })},
      {"geometries",
       events(kBytes,
              [&](int i) { return event + R"(kernel","args":{"grid":[)" + number(i) + "]}}"; })},
      {"kinds", events(kBytes, [&](int i) { return R"({"ph":"X","cat":"x)" + number(i) + "\"}"; })},
      {"devices",
       filled(
           kBytes, R"({"traceEvents":[],"deviceProperties":[)", [](int) { return "{},"; }, "{}]}")},
      {"nodes", filled(
                    kBytes, R"({"nodes":[)", [](int) { return R"({"id":1},)"; }, "{}]}")},
      {"dependencies",
       filled(
           kBytes, R"({"nodes":[{"id":1,"data_deps":[)", [](int) { return "1,"; }, "1]}]}")},
      {"a list of kernels",
       filled(
           kBytes, "Name,Duration\n", [](int) { return "aaaaaaa,12345678\n"; }, "")},
      {"empty traces", members(R"({"traceEvents":[]})")},
      {"small traces", members(kTrace)},
  };
  const TemporaryFolder folder;
  for (const Row& row : rows) {
    CAPTURE(row.what);
    const fs::path path = folder.path() / "input";
    write_file(path, row.content);
    const ProcessResult result = run_tracecast_anew({"trace", "summary", path});
    CAPTURE(result.err);
    CHECK((result.exit_code == 0 || result.exit_code == 2));
    const double multiple = (static_cast<double>(result.peak_bytes) - (64 << 20)) /
                            static_cast<double>(row.content.size());
    CHECK(multiple < 24);
  }
}

TEST_CASE("many threads, streams and ranks cost time in proportion") {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "input";
  const auto call = [](int i, const char* name, int thread, int at, int correlation) {
    return (i > 0 ? "," : "") + std::string(R"({"ph":"X","cat":"cuda_runtime","name":")") + name +
           R"(","pid":1,"tid":)" + std::to_string(thread) + R"(,"ts":)" + std::to_string(at) +
           R"(,"dur":3,"args":{"correlation":)" + std::to_string(correlation) + "}}";
  };
  const auto kernel = [](int stream, int at, int correlation) {
    return R"(,{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":)" + std::to_string(at) +
           R"(,"dur":1,"args":{"device":0,"stream":)" + std::to_string(stream) +
           R"(,"correlation":)" + std::to_string(correlation) + "}}";
  };
  const auto trace = [](int count, const std::function<std::string(int)>& piece) {
    std::string text = R"({"traceEvents":[)";
    for (int i = 0; i < count; ++i) text += piece(i);
    return text + "]}";
  };
  constexpr int kCount = 200'000;
  write_file(path, trace(kCount, [&](int i) {
               return call(i, "cudaLaunchKernel", i, 10 * i, i + 1) + kernel(7, 10 * i + 5, i + 1);
             }));
  check_reports({"trace", "summary", path});
  write_file(path, trace(kCount / 2, [&](int i) {
               return call(i, "cudaLaunchKernel", 1, 10 * i, 2 * i + 1) +
                      kernel(i, 10 * i + 2, 2 * i + 1) +
                      call(1, "cudaDeviceSynchronize", 1, 10 * i + 4, 2 * i + 2);
             }));
  check_reports({"trace", "summary", path});
  check_refuses({"trace", "replay", path, "--as-recorded"});
  std::string ranks;
  for (int i = 0; i < 30'000; ++i)
    ranks += tar_member("rank" + std::to_string(i) + ".json", kTrace);
  write_file(path, ranks);
  check_reports({"trace", "summary", path});
}

}  // namespace tracecast::test
