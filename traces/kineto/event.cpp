#include "traces/kineto/event.hpp"

#include <cstring>
#include <limits>

#include "sim/base/text.hpp"
#include "traces/trace_builder.hpp"

namespace tracecast::traces::kineto {
namespace {

enum class Field : std::uint8_t {
  Unused,
  // members of the event
  Phase,
  Category,
  Name,
  Pid,
  Tid,
  Ts,
  Duration,
  Id,
  Args,
  // arguments
  ExternalId,
  Correlation,
  Device,
  Stream,
  Bytes,
  Grid,
  Block,
  Registers,
  SharedMemory,
  InputDims,
  InputTypes,
  InputValues,
  Sequence,
  ForwardThread,
  Collective,
  DataType,
  InElements,
  OutElements,
  GroupSize,
  GroupName,
  SyncKind,
  AwaitedStream,
  AwaitedRecord,
  AwaitedEvent,
  DeviceType,
  DeviceId,
  TotalAllocated,
  TotalReserved,
};

struct Spelling {
  std::string_view key;
  Field field;
};

constexpr Spelling kMembers[] = {
    {"ph", Field::Phase},     {"cat", Field::Category}, {"name", Field::Name},
    {"pid", Field::Pid},      {"tid", Field::Tid},      {"ts", Field::Ts},
    {"dur", Field::Duration}, {"args", Field::Args},    {"id", Field::Id},
};
/// Every age's spelling of every argument that is used.
constexpr Spelling kArguments[] = {
    {"External id", Field::ExternalId},
    {"external id", Field::ExternalId},
    {"correlation", Field::Correlation},
    {"device", Field::Device},
    {"stream", Field::Stream},
    {"bytes", Field::Bytes},
    {"Bytes", Field::Bytes},
    {"grid", Field::Grid},
    {"block", Field::Block},
    {"registers per thread", Field::Registers},
    {"shared memory", Field::SharedMemory},
    {"Input Dims", Field::InputDims},
    {"Input dims", Field::InputDims},
    {"Input type", Field::InputTypes},
    {"Concrete Inputs", Field::InputValues},
    {"Sequence number", Field::Sequence},
    {"Fwd thread id", Field::ForwardThread},
    {"Collective name", Field::Collective},
    {"dtype", Field::DataType},
    {"In msg nelems", Field::InElements},
    {"Out msg nelems", Field::OutElements},
    {"Group size", Field::GroupSize},
    {"Process Group Name", Field::GroupName},
    {"cuda_sync_kind", Field::SyncKind},
    {"wait_on_stream", Field::AwaitedStream},
    {"wait_on_cuda_event_record_corr_id", Field::AwaitedRecord},
    {"wait_on_cuda_event_id", Field::AwaitedEvent},
    {"Device Type", Field::DeviceType},
    {"Device Id", Field::DeviceId},
    {"Total Allocated", Field::TotalAllocated},
    {"Total Reserved", Field::TotalReserved},
};

constexpr std::size_t slot_of(std::string_view key) {
  if (key.empty()) return 0;
  const auto at = [key](std::size_t i) { return static_cast<unsigned char>(key[i]); };
  return (key.size() * 29 + at(0) * 5u + at(key.size() / 2) * 17u + at(key.size() - 1) * 3u) & 255;
}

template <class Word>
Word word_at(const char* at) {
  Word word = 0;
  std::memcpy(&word, at, sizeof word);
  return word;
}

/// a == b, for the length of keys without a call.
bool are_same(std::string_view a, std::string_view b) {
  const std::size_t size = a.size();
  if (size != b.size()) return false;
  const auto agree = [&]<class Word>(Word) {
    const std::size_t last = size - sizeof(Word);
    return word_at<Word>(a.data()) == word_at<Word>(b.data()) &&
           word_at<Word>(a.data() + last) == word_at<Word>(b.data() + last);
  };
  if (size > 16 || size < 2) return a == b;
  if (size >= 8) return agree(std::uint64_t{});
  return size >= 4 ? agree(std::uint32_t{}) : agree(std::uint16_t{});
}

/// Open addressing, made by the compiler.
struct FieldTable {
  std::array<Spelling, 256> slots{};
  template <std::size_t n>
  constexpr explicit FieldTable(const Spelling (&spellings)[n]) {
    for (const Spelling& spelling : spellings) {
      std::size_t slot = slot_of(spelling.key);
      while (!slots[slot].key.empty()) slot = (slot + 1) & 255;
      slots[slot] = spelling;
    }
  }
  [[nodiscard]] Field find(std::string_view key) const {
    for (std::size_t slot = slot_of(key);; slot = (slot + 1) & 255) {
      if (slots[slot].key.empty()) return Field::Unused;
      if (are_same(slots[slot].key, key)) return slots[slot].field;
    }
  }
};
constexpr FieldTable kMemberTable{kMembers};
constexpr FieldTable kArgumentTable{kArguments};

/// Categories of all ages, lower case.
constexpr std::pair<std::string_view, Category> kCategories[] = {
    {"kernel", Category::Kernel},
    {"cpu_op", Category::Op},
    {"operator", Category::Op},
    {"cuda_runtime", Category::Call},
    {"ac2g", Category::LaunchArrow},
    {"python_function", Category::PythonFunction},
    {"runtime", Category::Call},
    {"async", Category::LaunchArrow},
    {"async_cpu_to_gpu", Category::LaunchArrow},
    {"async_gpu", Category::LaunchArrow},
    {"cuda_driver", Category::Call},
    {"hip_runtime", Category::Call},
    {"hip_driver", Category::Call},
    {"gpu_memcpy", Category::Memcpy},
    {"memcpy", Category::Memcpy},
    {"gpu_memset", Category::Memset},
    {"memset", Category::Memset},
    {"cpu_instant_event", Category::Instant},
    {"fwdbwd", Category::ForwardBackwardArrow},
    {"forward_backward", Category::ForwardBackwardArrow},
    {"user_annotation", Category::Annotation},
    {"gpu_user_annotation", Category::GpuAnnotation},
    {"cuda_sync", Category::Sync},
    {"overhead", Category::Overhead},
    {"trace", Category::Summary},
};

bool equals_ignoring_case(std::string_view text, std::string_view lower) {
  if (text.size() != lower.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i] >= 'A' && text[i] <= 'Z' ? static_cast<char>(text[i] + 32) : text[i];
    if (c != lower[i]) return false;
  }
  return true;
}

Category category_of(std::string_view text) {
  for (const auto& [name, category] : kCategories) {
    if (equals_ignoring_case(text, name)) return category;
  }
  return Category::Unknown;
}

/// The single value that comes next as text; containers are skipped and give nothing.
std::string_view scalar(JsonScanner& json) {
  const JsonKind kind = json.peek();
  if (kind == JsonKind::Object || kind == JsonKind::Array) {
    json.skip();
    return {};
  }
  return json.text();
}

std::optional<std::int64_t> number(JsonScanner& json) {
  std::int64_t value = 0;
  return json.take_whole(value) ? value : parse_whole(scalar(json));
}

std::int64_t number_or(JsonScanner& json, std::int64_t otherwise) {
  std::int64_t value = 0;
  return json.take_whole(value) ? value : parse_whole(scalar(json)).value_or(otherwise);
}

/// Microseconds in ns.
std::optional<std::int64_t> time_ns(JsonScanner& json) {
  std::int64_t value = 0;
  return json.take_thousandths(value) ? value : nanoseconds_of_us(scalar(json));
}

std::uint32_t id32(JsonScanner& json, bool& lost) {
  const std::int64_t value = number_or(json, 0);
  if (value < 0) return 0;
  if (value > std::numeric_limits<std::uint32_t>::max()) {
    lost = true;
    return 0;
  }
  return static_cast<std::uint32_t>(value);
}

/// Up to three numbers, "[8, 1, 1]".
std::array<std::uint32_t, 3> extent(std::string_view text) {
  std::array<std::uint32_t, 3> sizes{};
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size() && count < 3;) {
    std::uint64_t value = 0;
    const std::size_t first = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      value = std::min<std::uint64_t>(value * 10 + static_cast<std::uint64_t>(text[at] - '0'),
                                      0xFFFFFFFF);
    }
    if (at == first) {
      ++at;
    } else {
      sizes[count++] = static_cast<std::uint32_t>(value);
    }
  }
  return sizes;
}

/// JSON as written, without blanks.
void copy_compact(std::string_view text, std::string& to) {
  to.resize(text.size());
  char* end = to.data();
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      *end++ = c;
      *end++ = text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (quoted || !json::is_blank(c)) *end++ = c;
  }
  to.resize(static_cast<std::size_t>(end - to.data()));
  if (to == "[]") to.clear();
}

std::uint64_t unsigned_or_zero(std::int64_t value) {
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

std::uint32_t small_or_zero(std::int64_t value) {
  return value > 0 && value <= 0xFFFFFFFF ? static_cast<std::uint32_t>(value) : 0;
}

void read_argument(JsonScanner& json, Field field, Event& e) {
  switch (field) {
    case Field::ExternalId:
      e.external_id = id32(json, e.lost_correlation);
      break;
    case Field::Correlation:
      e.correlation = id32(json, e.lost_correlation);
      break;
    case Field::Device:
      e.device = number(json);
      break;
    case Field::Stream:
      e.stream = number(json);
      break;
    case Field::Bytes:
      e.signed_bytes = number_or(json, 0);
      e.bytes = unsigned_or_zero(e.signed_bytes);
      break;
    case Field::Grid:
      e.geometry.grid = extent(json.raw());
      break;
    case Field::Block:
      e.geometry.block = extent(json.raw());
      break;
    case Field::Registers:
      e.geometry.registers_per_thread = small_or_zero(number_or(json, 0));
      break;
    case Field::SharedMemory:
      e.geometry.shared_bytes = small_or_zero(number_or(json, 0));
      break;
    case Field::InputDims:
      copy_compact(json.raw(), e.dims);
      break;
    case Field::InputTypes:
      copy_compact(json.raw(), e.types);
      break;
    case Field::InputValues:
      copy_compact(json.raw(), e.values);
      break;
    case Field::Sequence:
      e.sequence = number_or(json, -1);
      break;
    case Field::ForwardThread:
      e.forward_thread = small_or_zero(number_or(json, 0));
      break;
    case Field::Collective:
      e.collective = scalar(json);
      break;
    case Field::DataType:
      e.data_type = scalar(json);
      break;
    case Field::InElements:
      e.in_elements = number_or(json, 0);
      break;
    case Field::OutElements:
      e.out_elements = number_or(json, 0);
      break;
    case Field::GroupSize:
      e.group_size = number_or(json, 0);
      break;
    case Field::GroupName:
      e.group = scalar(json);
      break;
    case Field::SyncKind:
      e.sync_kind = scalar(json);
      break;
    case Field::AwaitedStream:
      e.awaited_stream = number_or(json, -1);
      break;
    case Field::AwaitedRecord:
      e.awaited_record = number_or(json, -1);
      break;
    case Field::AwaitedEvent:
      e.awaited_event = number_or(json, -1);
      break;
    case Field::DeviceType:
      e.device_type = number_or(json, 0);
      break;
    case Field::DeviceId:
      e.device_id = number_or(json, -1);
      break;
    case Field::TotalAllocated:
      e.total_allocated = number_or(json, -1);
      break;
    case Field::TotalReserved:
      e.total_reserved = number_or(json, -1);
      break;
    default:
      json.skip();
  }
}

void read_arguments(JsonScanner& json, Event& event) {
  if (json.peek() != JsonKind::Object) return json.skip();
  json.enter_object();
  for (std::string_view key; json.next_key(key);)
    read_argument(json, kArgumentTable.find(key), event);
}

/// Sets what an event may lack back, keeping the memory of texts.
void clear(Event& e) {
  e.phase = 0;
  e.category = Category::None;
  e.name.clear();
  e.pid.clear();
  e.tid.clear();
  e.ts_ns = e.duration_ns = std::nullopt;
  e.has_ts = e.has_duration = e.lost_correlation = false;
  e.id = e.sequence = e.total_allocated = e.total_reserved = e.device_id = -1;
  e.external_id = e.correlation = e.forward_thread = 0;
  e.device = e.stream = std::nullopt;
  e.bytes = 0;
  e.signed_bytes = e.device_type = e.in_elements = e.out_elements = e.group_size = 0;
  e.geometry = {};
  e.dims.clear();
  e.types.clear();
  e.values.clear();
  e.collective.clear();
  e.data_type.clear();
  e.group.clear();
  e.sync_kind.clear();
  e.awaited_stream = e.awaited_record = e.awaited_event = -1;
}

}  // namespace

std::optional<std::int64_t> parse_whole(std::string_view text) {
  std::size_t at = !text.empty() && text[0] == '-' ? 1 : 0;
  const std::size_t first = at;
  std::int64_t value = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
    if (value > (std::numeric_limits<std::int64_t>::max() - 9) / 10) return std::nullopt;
    value = value * 10 + (text[at] - '0');
  }
  if (at == first) return std::nullopt;
  if (at < text.size() && text[at] != '.') {
    const auto number = parse_double(text);
    if (!number || !(*number > -9e18 && *number < 9e18)) return std::nullopt;
    return static_cast<std::int64_t>(*number);
  }
  return first == 1 ? -value : value;
}

std::string_view find_uselessness(const Event& e) {
  if (e.phase == 'M') return "metadata event (names of processes and threads)";
  const bool is_arrow = e.phase == 's' || e.phase == 'f' || e.phase == 't';
  if (is_arrow && e.category == Category::LaunchArrow)
    return "arrow from launch to GPU (told by the correlation)";
  if (e.phase == 'X' && e.category == Category::PythonFunction) return "Python function";
  return {};
}

void read_event(JsonScanner& json, Event& e) {
  clear(e);
  json.enter_object();
  for (std::string_view key; json.next_key(key);) {
    const Field field = kMemberTable.find(key);
    switch (field) {
      case Field::Phase: {
        const std::string_view text = scalar(json);
        e.phase = text.size() == 1 ? text[0] : '?';
        break;
      }
      case Field::Category: {
        const std::string_view text = scalar(json);
        e.category = text.empty() ? Category::None : category_of(text);
        if (e.category == Category::Unknown) e.category_text = text.substr(0, 64);
        break;
      }
      case Field::Name:
        e.name = scalar(json);
        break;
      case Field::Pid:
        e.pid = scalar(json);
        break;
      case Field::Tid:
        e.tid = scalar(json);
        break;
      case Field::Ts:
        e.has_ts = true;
        e.ts_ns = time_ns(json);
        break;
      case Field::Duration:
        e.has_duration = true;
        e.duration_ns = time_ns(json);
        break;
      case Field::Id:
        e.id = number_or(json, -1);
        break;
      case Field::Args:
        read_arguments(json, e);
        break;
      default:
        json.skip();
    }
    if ((field == Field::Phase || field == Field::Category) && !find_uselessness(e).empty())
      return json.leave_object();
  }
}

}  // namespace tracecast::traces::kineto
