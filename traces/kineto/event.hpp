#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "traces/bytes/json_scanner.hpp"
#include "traces/trace.hpp"

namespace tracecast::traces::kineto {

/// What an event is, from its category in any of the schema's ages.
enum class Category : std::uint8_t {
  None,
  Kernel,
  Memcpy,
  Memset,
  Call,
  Sync,
  Op,
  Annotation,
  GpuAnnotation,
  PythonFunction,
  Overhead,
  Instant,
  Summary,
  LaunchArrow,
  ForwardBackwardArrow,
  Unknown,
};

/// One event of `traceEvents` with the arguments that readers use. Texts are copies: the scanner
/// moves on.
struct Event {
  char phase = 0;
  Category category = Category::None;
  std::string category_text;  ///< of an unknown category
  std::string name, pid, tid;
  std::optional<std::int64_t> ts_ns, duration_ns;
  bool has_ts = false, has_duration = false;  ///< the member is there, whatever it holds
  std::int64_t id = -1;                       ///< of an arrow

  // Arguments.
  std::uint32_t external_id = 0, correlation = 0;
  std::optional<std::int64_t> device, stream;
  std::uint64_t bytes = 0;
  std::int64_t signed_bytes = 0, total_allocated = -1, total_reserved = -1;
  std::int64_t device_type = 0, device_id = -1;
  Geometry geometry;
  std::int64_t sequence = -1;
  std::uint32_t forward_thread = 0;
  std::string dims, types, values;
  std::string collective, data_type, group;
  std::int64_t in_elements = 0, out_elements = 0, group_size = 0;
  std::string sync_kind;
  std::int64_t awaited_stream = -1, awaited_record = -1, awaited_event = -1;
  bool lost_correlation = false;  ///< a correlation or External id beyond 32 bits
};

/// Why an event is of no use whatever else it holds, in words; empty when it is, or when too little
/// of it is known.
[[nodiscard]] std::string_view find_uselessness(const Event& event);

/// Reads the next value of the scanner, an object, into `event`; the rest of a useless one is
/// skipped. Throws InputError when it is no JSON object.
void read_event(JsonScanner& json, Event& event);

/// A whole number out of text; decimals are cut. Nothing when there is none, or it is beyond int64.
[[nodiscard]] std::optional<std::int64_t> parse_whole(std::string_view text);

}  // namespace tracecast::traces::kineto
