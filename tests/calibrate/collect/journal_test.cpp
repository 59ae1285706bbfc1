#include "calibrate/collect/journal.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"

namespace tracecast::calibrate {
namespace {

const JournalHeader kHeader{
    .plan = "0123", .gpu = "v100", .device = "Tesla V100", .date = "2026-11-21"};

TimedExperiment timed(const std::string& name, double us = 12.345678901234567) {
  TimedExperiment t;
  t.experiment = name;
  t.time = Seconds(us * 1e-6);
  t.burst = Seconds(us * 0.9e-6);
  t.relative_error = 0.1 / 3;
  t.repetitions = 20;
  t.outliers = 1;
  t.attempts = 2;
  t.method = TimingMethod::Events;
  t.sensors = {.sm_clock = Hertz(1.53e9),
               .memory_clock = std::nullopt,
               .temperature_c = 61.5,
               .power = std::nullopt,
               .throttle = {.power_cap = true, .other_slowdown = true}};
  t.kernel_name = "void gemm<float, 128>";
  t.kernels = 3;
  t.workspace = Bytes(1e6);
  t.spent = Seconds(0.1);
  return t;
}

std::string bytes_of(const std::filesystem::path& path) { return read_file(path, 1 << 20); }

TEST_SUITE_BEGIN("calibrate/collect/journal");

TEST_CASE("writing and reading a line is the identity, to the last bit") {
  const TimedExperiment t = timed("gemm fp32 1x2x3x4 NT");
  const auto read = parse_line(to_line(t));
  REQUIRE(read);
  CHECK(to_line(*read) == to_line(t));
  CHECK(read->time == t.time);
  CHECK(read->sensors.sm_clock == t.sensors.sm_clock);
  CHECK_FALSE(read->sensors.memory_clock);
  CHECK(read->sensors.throttle.text() == "power_cap+slowdown");
  CHECK(read->kernel_name == t.kernel_name);
}

TEST_CASE("texts with tabs and line breaks stay on their line") {
  TimedExperiment t = timed("a");
  t.kernel_name = "one\ttwo\nthree=four";
  const auto read = parse_line(to_line(t));
  REQUIRE(read);
  CHECK(read->kernel_name == "one two three=four");
}

TEST_CASE("lines that are not ours are refused, not misread") {
  CHECK_FALSE(parse_line(""));
  CHECK_FALSE(parse_line("experiment=a"));
  std::string line = to_line(timed("a"));
  line.replace(line.find("outcome=0"), 9, "outcome=7");
  CHECK_FALSE(parse_line(line));
}

TEST_CASE("a journal opened again holds what was appended, and its first date") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "j";
  { Journal(path, kHeader).append(timed("a")); }
  JournalHeader later = kHeader;
  later.date = "2027-01-01";
  Journal journal(path, later);
  CHECK(journal.measurements().size() == 1);
  CHECK(journal.measurements().count("a") == 1);
  CHECK(journal.header().date == "2026-11-21");
  CHECK(journal.dropped() == 0);
}

TEST_CASE(
    "cut at any byte, the whole lines before the cut stay and the rest can be appended again") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "j";
  {
    Journal journal(path, kHeader);
    journal.append(timed("a"));
    journal.append(timed("b"));
  }
  const std::string whole = bytes_of(path);
  const std::size_t header_end = whole.find('\n') + 1, a_end = whole.find('\n', header_end) + 1;
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    CAPTURE(cut);
    write_file(path, whole.substr(0, cut));
    const std::size_t kept = cut >= whole.size() ? 2 : cut >= a_end ? 1 : 0;
    {
      Journal journal(path, kHeader);
      REQUIRE(journal.measurements().size() == kept);
      if (kept < 1) journal.append(timed("a"));
      if (kept < 2) journal.append(timed("b"));
    }
    REQUIRE(bytes_of(path) == whole);
  }
}

TEST_CASE("a line damaged in the middle is dropped, those round it stay") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "j";
  {
    Journal journal(path, kHeader);
    for (const char* name : {"a", "b", "c"}) journal.append(timed(name));
  }
  std::string damaged = bytes_of(path);
  damaged[damaged.find("experiment=b") + 20] ^= 1;
  write_file(path, damaged);
  Journal journal(path, kHeader);
  CHECK(journal.dropped() == 1);
  CHECK(journal.measurements().count("a") == 1);
  CHECK(journal.measurements().count("b") == 0);
  CHECK(journal.measurements().count("c") == 1);
}

TEST_CASE("a journal of another plan, GPU or device is refused and left as it is") {
  const test::TemporaryFolder folder;
  const auto path = folder.path() / "j";
  { Journal(path, kHeader).append(timed("a")); }
  const std::string before = bytes_of(path);
  for (std::string JournalHeader::*field :
       {&JournalHeader::plan, &JournalHeader::gpu, &JournalHeader::device}) {
    JournalHeader other = kHeader;
    other.*field = "other";
    CHECK_THROWS_AS(Journal(path, other), InputError);
  }
  CHECK(bytes_of(path) == before);
}

TEST_CASE("files that are no journal, and places that cannot be written, are refused") {
  const test::TemporaryFolder folder;
  write_file(folder.path() / "text", "hello\nworld\n");
  CHECK_THROWS_AS(Journal(folder.path() / "text", kHeader), InputError);
  CHECK(bytes_of(folder.path() / "text") == "hello\nworld\n");
  CHECK_THROWS_AS(Journal(folder.path(), kHeader), InputError);
  CHECK_THROWS_AS(Journal(folder.path() / "absent" / "j", kHeader), InputError);
}

TEST_CASE("two calibrations cannot share a journal") {
  const test::TemporaryFolder folder;
  const Journal first(folder.path() / "j", kHeader);
  CHECK_THROWS_AS(Journal(folder.path() / "j", kHeader), InputError);
}

TEST_CASE("a full disk is an error and not half a journal") {
  // Every write to /dev/full fails for lack of room.
  if (!std::filesystem::exists("/dev/full")) return;
  CHECK_THROWS_AS(Journal("/dev/full", kHeader), InputError);
}

}  // namespace
}  // namespace tracecast::calibrate
