#include "calibrate/collect/journal.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/base/text.hpp"

namespace tracecast::calibrate {
namespace {

constexpr std::string_view kFirstField = "tracecast-journal=1";
constexpr std::uint64_t kMostBytes = 256u << 20;
constexpr std::size_t kSumDigits = 8;

std::string clean(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return result;
}

std::string with_sum(std::string_view line) {
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(line.data()), static_cast<uInt>(line.size()));
  return fmt::format("{}\t{:08x}\n", line, static_cast<std::uint32_t>(sum));
}

/// The line without its sum; nothing when the sum is not of this line.
std::optional<std::string_view> check_sum(std::string_view line) {
  if (line.size() < kSumDigits + 1) return std::nullopt;
  const std::string_view content = line.substr(0, line.size() - kSumDigits - 1);
  const std::string expected = with_sum(content);
  if (line != std::string_view(expected).substr(0, expected.size() - 1)) return std::nullopt;
  return content;
}

using Fields = std::map<std::string_view, std::string_view>;

Fields split(std::string_view line) {
  Fields fields;
  while (!line.empty()) {
    const std::size_t end = std::min(line.find('\t'), line.size());
    const std::string_view field = line.substr(0, end);
    const std::size_t equals = std::min(field.find('='), field.size());
    fields[field.substr(0, equals)] =
        equals < field.size() ? field.substr(equals + 1) : std::string_view();
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return fields;
}

/// Reads fields by name and remembers whether all were there.
class Reader {
 public:
  explicit Reader(std::string_view line) : fields_(split(line)) {}
  std::string text(std::string_view name) {
    const auto found = fields_.find(name);
    ok_ = ok_ && found != fields_.end();
    return found != fields_.end() ? std::string(found->second) : std::string();
  }
  double number(std::string_view name) {
    const auto value = parse_double(text(name));
    ok_ = ok_ && value;
    return value.value_or(0);
  }
  int integer(std::string_view name, int low, int high) {
    const auto value = parse_integer(text(name));
    ok_ = ok_ && value && *value >= low && *value <= high;
    return ok_ ? static_cast<int>(*value) : low;
  }
  /// Empty text: absent.
  std::optional<double> optional(std::string_view name) {
    const std::string field = text(name);
    if (field.empty()) return std::nullopt;
    const auto value = parse_double(field);
    ok_ = ok_ && value;
    return value;
  }
  [[nodiscard]] bool ok() const { return ok_; }

 private:
  Fields fields_;
  bool ok_ = true;
};

template <class Value, class Read>
std::string or_empty(const std::optional<Value>& value, Read read) {
  return value ? fmt::format("{}", read(*value)) : std::string();
}

std::string header_line(const JournalHeader& header) {
  return fmt::format("{}\tplan={}\tgpu={}\tdevice={}\tdate={}", kFirstField, clean(header.plan),
                     clean(header.gpu), clean(header.device), clean(header.date));
}

/// The kept header, when it is of the same plan and device.
JournalHeader check_header(const std::string& where, std::string_view line,
                           const JournalHeader& wanted) {
  Reader reader(line);
  JournalHeader found{.plan = reader.text("plan"),
                      .gpu = reader.text("gpu"),
                      .device = reader.text("device"),
                      .date = reader.text("date")};
  if (!reader.ok()) throw InputError(where, "a header without its fields", "a journal");
  const auto check = [&](const char* what, const std::string& is, const std::string& should) {
    if (is != should) {
      throw InputError(where, fmt::format("a journal of {} {}", what, is),
                       fmt::format("{}; remove it or choose another --out", should));
    }
  };
  check("GPU", found.gpu, clean(wanted.gpu));
  check("device", found.device, clean(wanted.device));
  check("plan", found.plan, clean(wanted.plan));
  return found;
}

}  // namespace

std::string to_line(const TimedExperiment& m) {
  const SensorSample& s = m.sensors;
  return fmt::format(
      "experiment={}\toutcome={}\treason={}\ttime_s={}\tburst_s={}\trelative_error={}\t"
      "repetitions={}\toutliers={}\tattempts={}\tmethod={}\tsm_hz={}\tmemory_hz={}\t"
      "temperature_c={}\tpower_w={}\tthrottle={}\tkernel={}\tkernels={}\tworkspace_bytes={}\t"
      "spent_s={}",
      clean(m.experiment), static_cast<int>(m.outcome), clean(m.reason), m.time.in_s(),
      m.burst.in_s(), m.relative_error, m.repetitions, m.outliers, m.attempts,
      static_cast<int>(m.method), or_empty(s.sm_clock, [](Hertz v) { return v.in_si(); }),
      or_empty(s.memory_clock, [](Hertz v) { return v.in_si(); }),
      or_empty(s.temperature_c, [](double v) { return v; }),
      or_empty(s.power, [](Watts v) { return v.in_w(); }),
      (s.throttle.power_cap ? 1 : 0) + (s.throttle.thermal ? 2 : 0) +
          (s.throttle.power_brake ? 4 : 0) + (s.throttle.other_slowdown ? 8 : 0),
      clean(m.kernel_name), m.kernels, m.workspace.in_bytes(), m.spent.in_s());
}

std::optional<TimedExperiment> parse_line(std::string_view line) {
  constexpr int kMany = 1'000'000'000;
  Reader reader(line);
  TimedExperiment m;
  m.experiment = reader.text("experiment");
  m.outcome = static_cast<TimedOutcome>(reader.integer("outcome", 0, 2));
  m.reason = reader.text("reason");
  m.time = Seconds(reader.number("time_s"));
  m.burst = Seconds(reader.number("burst_s"));
  m.relative_error = reader.number("relative_error");
  m.repetitions = reader.integer("repetitions", 0, kMany);
  m.outliers = reader.integer("outliers", 0, kMany);
  m.attempts = reader.integer("attempts", 1, kMany);
  m.method = static_cast<TimingMethod>(reader.integer("method", 0, 2));
  const auto quantity = [&](std::string_view name, auto& to) {
    using Unit = typename std::remove_reference_t<decltype(to)>::value_type;
    if (const auto value = reader.optional(name)) to = Unit(*value);
  };
  quantity("sm_hz", m.sensors.sm_clock);
  quantity("memory_hz", m.sensors.memory_clock);
  m.sensors.temperature_c = reader.optional("temperature_c");
  quantity("power_w", m.sensors.power);
  const int throttle = reader.integer("throttle", 0, 15);
  m.sensors.throttle = {.power_cap = (throttle & 1) != 0,
                        .thermal = (throttle & 2) != 0,
                        .power_brake = (throttle & 4) != 0,
                        .other_slowdown = (throttle & 8) != 0};
  m.kernel_name = reader.text("kernel");
  m.kernels = reader.integer("kernels", 0, kMany);
  m.workspace = Bytes(reader.number("workspace_bytes"));
  m.spent = Seconds(reader.number("spent_s"));
  if (!reader.ok() || m.experiment.empty()) return std::nullopt;
  return m;
}

Journal::Journal(const std::filesystem::path& path, const JournalHeader& header)
    : path_(path), header_(header) {
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file_ < 0) {
    throw InputError(path.string(),
                     fmt::format("a journal that cannot be opened: {}", std::strerror(errno)),
                     "a writable folder");
  }
  try {
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
      throw InputError(path.string(), "a journal in use", "one calibration at a time");
    }
    load();
  } catch (...) {
    ::close(file_);
    throw;
  }
}

Journal::~Journal() {
  if (file_ >= 0) ::close(file_);
}

void Journal::load() {
  const std::string content = read_file(path_, kMostBytes);
  const std::size_t last_break = content.rfind('\n');
  // Without a line break there is nothing whole: a first call that died within its first write.
  const std::string_view whole =
      last_break == std::string::npos ? "" : std::string_view(content).substr(0, last_break + 1);
  if (whole.size() < content.size()) {
    if (!whole.empty()) ++dropped_;
    if (::ftruncate(file_, static_cast<off_t>(whole.size())) != 0) {
      throw InputError(path_.string(), std::strerror(errno), "a journal that can be written");
    }
  }
  size_ = static_cast<std::int64_t>(whole.size());
  if (whole.empty()) {
    write(with_sum(header_line(header_)));
    return;
  }
  std::string_view rest = whole;
  for (bool is_first = true; !rest.empty(); is_first = false) {
    const std::size_t end = rest.find('\n');
    const auto line = check_sum(rest.substr(0, end));
    rest.remove_prefix(end + 1);
    if (is_first) {
      if (!line || !line->starts_with(kFirstField)) {
        throw InputError(path_.string(), "a file that is no journal of ours",
                         "a journal, or no file");
      }
      header_ = check_header(path_.string(), *line, header_);
      continue;
    }
    auto measurement = line ? parse_line(*line) : std::nullopt;
    if (measurement) {
      measurements_[measurement->experiment] = std::move(*measurement);
    } else {
      ++dropped_;
    }
  }
}

void Journal::append(const TimedExperiment& measurement) {
  write(with_sum(to_line(measurement)));
  measurements_[measurement.experiment] = measurement;
}

void Journal::write(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(file_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const std::string why = std::strerror(errno);
      // What is left is a torn line at worst; the next call drops it.
      if (::ftruncate(file_, size_) != 0) dropped_ += 1;
      throw InputError(path_.string(), "a journal that cannot be written: " + why,
                       "room on the disk; the same command then goes on");
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  ::fdatasync(file_);
  size_ += static_cast<std::int64_t>(text.size());
}

}  // namespace tracecast::calibrate
