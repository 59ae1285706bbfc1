#include "traces/record/trace_filler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "traces/record/columns.hpp"
#include "traces/record/file_form.hpp"

namespace tracecast::traces::record {
namespace {

const Column* find(const Records& records, Field field) {
  for (const Column& column : records.columns()) {
    if (column.field() == field) return &column;
  }
  return nullptr;
}

/// Calls `take(value)` for each number of a column until it says no.
template <class Take>
std::string each_number(const Records& records, Field field, std::uint32_t count, Take take) {
  const Column* column = find(records, field);
  const std::string name = "column " + std::to_string(field);
  if (column == nullptr) return "no " + name;
  if (column->differences_size() != static_cast<int>(count))
    return name + " of " + std::to_string(column->differences_size()) + " values for " +
           std::to_string(count) + " records";
  std::uint64_t value = 0;
  for (const std::int64_t difference : column->differences()) {
    value += static_cast<std::uint64_t>(difference);
    if (!take(static_cast<std::int64_t>(value)))
      return std::to_string(static_cast<std::int64_t>(value)) + " in " + name;
  }
  return "";
}

template <class Enum>
constexpr std::int64_t kEnumerators = 0;
template <>
constexpr std::int64_t kEnumerators<CopyKind> = 6;
template <>
constexpr std::int64_t kEnumerators<HostMemory> = 4;
template <>
constexpr std::int64_t kEnumerators<SyncKind> = 5;
template <>
constexpr std::int64_t kEnumerators<NodeKind> = kNodeKindCount;

template <class To>
bool fits(std::int64_t value) {
  if constexpr (sizeof(To) == 8) return true;
  return value >= static_cast<std::int64_t>(std::numeric_limits<To>::min()) &&
         value <= static_cast<std::int64_t>(std::numeric_limits<To>::max());
}

bool is_time(std::int64_t ns) { return ns >= -kLargestNs && ns <= kLargestNs; }

/// Whether a number can stand in a field of this kind of record.
bool is_allowed(Kind kind, Field field, std::int64_t value) {
  switch (field) {
    case BEGIN:
      return is_time(value);
    case DURATION:
      return value <= kLargestNs && value >= (kind == NODES ? -1 : 0);
    case LEAST:
    case MOST:
      return value <= kLargestNs && value >= -1;
    default:
      return true;
  }
}

/// Appends a column's values to `to`; says what is wrong.
struct Appender {
  const Records& columns;
  Kind kind;
  std::uint32_t count;
  const std::vector<NameId>& texts;
  const std::vector<StreamId>& streams;
  const std::vector<ThreadId>& threads;
  const std::vector<GeometryId>& geometries;
  std::string wrong;

  template <class T>
  void operator()(Field field, std::vector<T>& to) {
    if (wrong.empty()) wrong = append(field, to);
  }

 private:
  std::string append(Field, std::vector<Span>& to) {
    const std::size_t first = to.size();
    to.resize(first + count);
    std::size_t at = first;
    std::string found = each_number(columns, BEGIN, count, [&](std::int64_t ns) {
      to[at++].begin_ns = ns;
      return is_time(ns);
    });
    if (!found.empty()) return found;
    at = first;
    return each_number(columns, DURATION, count, [&](std::int64_t ns) {
      to[at++].duration_ns = ns;
      return ns >= 0 && ns <= kLargestNs;
    });
  }
  template <class IdType>
  std::string append_ids(Field field, const std::vector<IdType>& known, std::vector<IdType>& to) {
    return each_number(columns, field, count, [&](std::int64_t number) {
      if (number < 0 || static_cast<std::uint64_t>(number) >= known.size()) return false;
      to.push_back(known[static_cast<std::size_t>(number)]);
      return true;
    });
  }
  std::string append(Field field, std::vector<NameId>& to) { return append_ids(field, texts, to); }
  std::string append(Field field, std::vector<StreamId>& to) {
    return append_ids(field, streams, to);
  }
  std::string append(Field field, std::vector<ThreadId>& to) {
    return append_ids(field, threads, to);
  }
  std::string append(Field field, std::vector<GeometryId>& to) {
    return append_ids(field, geometries, to);
  }
  std::string append(Field field, std::vector<double>& to) {
    const Column* column = find(columns, field);
    const std::string name = "column " + std::to_string(field);
    if (column == nullptr || column->fractions_size() != static_cast<int>(count))
      return name + " without a fraction for each record";
    for (const double value : column->fractions()) {
      if (!std::isfinite(value)) return "no number in " + name;
      to.push_back(value);
    }
    return "";
  }
  template <class T>
  std::string append(Field field, std::vector<T>& to) {
    return each_number(columns, field, count, [&](std::int64_t value) {
      if constexpr (std::is_enum_v<T>) {
        if (value < 0 || value >= kEnumerators<T>) return false;
      } else if constexpr (std::is_same_v<T, bool>) {
        if (value != 0 && value != 1) return false;
      } else {
        if (!fits<T>(value)) return false;
      }
      to.push_back(static_cast<T>(value));
      return is_allowed(kind, field, value);
    });
  }
};

std::uint32_t extent(std::int64_t value) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(value, 0, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

std::string TraceFiller::take(Kind kind, std::uint32_t records, std::string_view unpacked) {
  bytes_ += unpacked.size();
  switch (kind) {
    case HEAD:
      return take_head(unpacked);
    case TEXTS:
      return take_texts(unpacked, records);
    case TAIL:
      return take_tail(unpacked);
    default:
      break;
  }
  Records columns;
  if (!columns.ParseFromArray(unpacked.data(), static_cast<int>(unpacked.size())))
    return "columns that cannot be read";
  if (kind == STREAMS || kind == THREADS || kind == GEOMETRIES)
    return take_references(kind, records, columns);
  return take_records(kind, records, columns);
}

std::string TraceFiller::take_head(std::string_view bytes) {
  Head head;
  if (!head.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return "a head that cannot be read";
  trace_.source = head.source();
  trace_.format = head.format();
  if (head.devices_size() > 1024) return "more than 1024 devices";
  if (!is_time(head.epoch_ns())) return "an epoch beyond 2042";
  trace_.epoch_ns = head.epoch_ns();
  if (head.has_rank()) trace_.rank = head.rank();
  if (head.has_world_size()) trace_.world_size = head.world_size();
  for (const record::Device& from : head.devices()) {
    trace_.devices.push_back({.id = from.id(),
                              .name = from.name(),
                              .memory_bytes = from.memory_bytes(),
                              .compute_major = from.compute_major(),
                              .compute_minor = from.compute_minor(),
                              .sm_count = from.sm_count(),
                              .warp_size = from.warp_size(),
                              .max_threads_per_sm = from.max_threads_per_sm(),
                              .registers_per_sm = from.registers_per_sm(),
                              .shared_bytes_per_sm = from.shared_bytes_per_sm()});
  }
  return "";
}

std::string TraceFiller::take_texts(std::string_view bytes, std::uint32_t records) {
  Texts texts;
  if (!texts.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return "texts that cannot be read";
  if (texts.bytes_size() != static_cast<int>(records)) return "another number of texts than told";
  count_records(records);
  std::string_view rest = texts.text();
  for (const std::uint32_t size : texts.bytes()) {
    if (size > rest.size()) return "a text that ends behind the block";
    texts_.push_back(trace_.names.intern(rest.substr(0, size)));
    rest.remove_prefix(size);
  }
  return "";
}

std::string TraceFiller::take_tail(std::string_view bytes) {
  Tail tail;
  if (!tail.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return "a tail that cannot be read";
  if (tail.left_out_size() > 1000) return "a tail of more than 1000 kinds";
  for (const record::LeftOut& from : tail.left_out()) {
    traces::LeftOut& to = trace_.left_out[from.kind()];
    to.count = from.count();
    to.is_damage = from.is_damage();
  }
  return "";
}

std::string TraceFiller::take_references(Kind kind, std::uint32_t records, const Records& columns) {
  count_records(records);
  std::string wrong;
  const auto numbers = [&](Field field) {
    std::vector<std::int64_t> values;
    if (wrong.empty()) {
      wrong = each_number(columns, field, records, [&values](std::int64_t value) {
        values.push_back(value);
        return true;
      });
    }
    values.resize(records);
    return values;
  };
  if (kind == STREAMS) {
    const auto devices = numbers(DEVICE), streams = numbers(NUMBER);
    for (std::size_t i = 0; i < records && wrong.empty(); ++i)
      streams_.push_back(builder_.stream(devices[i], streams[i]));
  } else if (kind == THREADS) {
    const auto processes = numbers(PROCESS), threads = numbers(THREAD);
    const auto is_text = [this](std::int64_t number) {
      return number >= 0 && static_cast<std::uint64_t>(number) < texts_.size();
    };
    for (std::size_t i = 0; i < records && wrong.empty(); ++i) {
      if (!is_text(processes[i]) || !is_text(threads[i])) return "a thread without a name";
      threads_.push_back(builder_.thread(trace_[texts_[static_cast<std::size_t>(processes[i])]],
                                         trace_[texts_[static_cast<std::size_t>(threads[i])]]));
    }
  } else {
    const auto x = numbers(GRID_X), y = numbers(GRID_Y), z = numbers(GRID_Z);
    const auto u = numbers(BLOCK_X), v = numbers(BLOCK_Y), w = numbers(BLOCK_Z);
    const auto registers = numbers(REGISTERS), shared = numbers(SHARED_BYTES);
    for (std::size_t i = 0; i < records && wrong.empty(); ++i) {
      geometries_.push_back(builder_.geometry({{extent(x[i]), extent(y[i]), extent(z[i])},
                                               {extent(u[i]), extent(v[i]), extent(w[i])},
                                               extent(registers[i]),
                                               extent(shared[i])}));
    }
  }
  return wrong;
}

std::string TraceFiller::take_records(Kind kind, std::uint32_t records, const Records& columns) {
  count_records(records);
  if (kind == KERNELS) {
    kernel_runs_.push_back({kernels_seen_, trace_.kernels.size(), records});
    kernels_seen_ += records;
  }
  Appender append{columns, kind, records, texts_, streams_, threads_, geometries_, ""};
  bool is_known = false;
  for_each_kind(trace_, [&](Kind one, auto& list) {
    if (one != kind) return;
    is_known = true;
    for_each_column(list, append);
  });
  if (!is_known) return "records of kind " + std::to_string(kind);
  if (!append.wrong.empty() || kind != NODES) return append.wrong;
  return take_dependencies(columns, records);
}

std::string TraceFiller::take_dependencies(const Records& columns, std::uint32_t records) {
  Nodes& nodes = trace_.nodes;
  std::uint64_t total = 0;
  std::string wrong = each_number(columns, DEPENDENCIES, records, [&](std::int64_t count) {
    if (count < 0 || count > kMostColumnBytes) return false;
    nodes.first_dependency.push_back(static_cast<std::uint32_t>(nodes.dependency.size() + total));
    total += static_cast<std::uint64_t>(count);
    return total <= kMostColumnBytes;
  });
  if (!wrong.empty()) return wrong;
  count_records(static_cast<std::uint32_t>(total));
  return each_number(columns, DEPENDENCY, static_cast<std::uint32_t>(total), [&](std::int64_t id) {
    nodes.dependency.push_back(static_cast<std::uint64_t>(id));
    return true;
  });
}

void TraceFiller::count_records(std::uint32_t records) {
  // A column takes a byte of each record at least.
  constexpr std::uint64_t kFewestColumns = 1;
  for (std::uint32_t i = 0; i < records; ++i) builder_.count_record(bytes_, kFewestColumns);
}

std::string TraceFiller::finish() {
  Collectives& collectives = trace_.collectives;
  for (std::uint32_t& kernel : collectives.kernel) {
    if (kernel == Collectives::kNone) continue;
    if (kernel >= kernels_seen_) return "a collective of a kernel that does not exist";
    const auto after =
        std::upper_bound(kernel_runs_.begin(), kernel_runs_.end(), kernel,
                         [](std::uint32_t at, const Run& run) { return at < run.first_in_file; });
    if (after == kernel_runs_.begin()) {
      kernel = Collectives::kNone;
      continue;
    }
    const Run& run = *(after - 1);
    const std::uint64_t offset = kernel - run.first_in_file;
    kernel =
        offset < run.count ? static_cast<std::uint32_t>(run.first + offset) : Collectives::kNone;
  }
  return "";
}

}  // namespace tracecast::traces::record
