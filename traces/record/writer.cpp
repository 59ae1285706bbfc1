#include "traces/record/writer.hpp"

#include <zlib.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"
#include "traces/record/columns.hpp"
#include "traces/record/file_form.hpp"

namespace tracecast::traces {
namespace {

using namespace record;

constexpr int kCompression = 4;
constexpr std::size_t kTextsOfBlock = std::size_t{1}
                                      << 20;  ///< bytes, from which on a block is full

/// First begin and last end of records.
struct Extent {
  std::int64_t begin = 0, end = 0;
  bool is_empty = true;
  void add(std::int64_t from, std::int64_t to) {
    begin = is_empty ? from : std::min(begin, from);
    end = is_empty ? to : std::max(end, to);
    is_empty = false;
  }
};

}  // namespace

struct RecordWriter::Parts {
  ByteSink sink;
  std::uint64_t at = 0;  ///< bytes written
  std::uint32_t traces = 0;
  Index index;
  // Of the current trace.
  NameTable texts;
  Texts new_texts;
  std::vector<std::uint32_t> text_of_name;  ///< by NameId; 0 = not asked for yet, or the empty text
  std::size_t streams = 0, threads = 0, geometries = 1;
  std::string bytes, packed;

  void put(std::string_view piece) {
    sink(piece);
    at += piece.size();
  }

  void put_number(std::uint64_t value) {
    std::string varint;
    for (; value >= 0x80; value >>= 7) varint += static_cast<char>((value & 0x7F) | 0x80);
    varint += static_cast<char>(value);
    put(varint);
  }

  template <class Message>
  void put_block(Kind kind, const Message& message, std::size_t records, const Extent& extent) {
    message.SerializeToString(&bytes);
    uLongf size = compressBound(static_cast<uLong>(bytes.size()));
    packed.resize(size);
    const int status = compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                                 reinterpret_cast<const Bytef*>(bytes.data()),
                                 static_cast<uLong>(bytes.size()), kCompression);
    TRACECAST_CHECK(status == Z_OK, "zlib packs a buffer of the size it asked for");
    packed.resize(size);
    Block block;
    block.set_kind(kind);
    block.set_records(static_cast<std::uint32_t>(records));
    block.set_begin_ns(extent.begin);
    block.set_end_ns(extent.end);
    block.set_unpacked_bytes(static_cast<std::uint32_t>(bytes.size()));
    block.set_packed(packed);
    if (kind != INDEX) {
      Index::Entry& entry = *index.add_blocks();
      entry.set_at(at);
      entry.set_trace(traces);
      entry.set_kind(kind);
      entry.set_records(block.records());
      entry.set_begin_ns(extent.begin);
      entry.set_end_ns(extent.end);
    }
    block.SerializeToString(&bytes);
    put_number(bytes.size());
    put(bytes);
  }

  // Texts.

  std::uint32_t number_of(std::string_view text) {
    const std::size_t known = texts.size();
    const NameId id = texts.intern(text);
    if (texts.size() > known) {
      new_texts.mutable_text()->append(text);
      new_texts.add_bytes(static_cast<std::uint32_t>(text.size()));
      if (new_texts.text().size() >= kTextsOfBlock) put_texts();
    }
    return id.index;
  }
  std::uint32_t number_of(const Trace& trace, NameId name) {
    if (text_of_name.size() < trace.names.size()) text_of_name.resize(trace.names.size());
    std::uint32_t& number = text_of_name[name.index];
    if (number == 0 && name.index != 0) number = number_of(trace[name]);
    return number;
  }
  void put_texts() {
    if (new_texts.bytes_size() == 0) return;
    put_block(TEXTS, new_texts, static_cast<std::size_t>(new_texts.bytes_size()), {});
    new_texts.Clear();
  }

  // Columns of the records from `first` to before `last`.

  template <class Number>
  void add_column(Records& records, Field field, std::size_t first, std::size_t last,
                  Number number) {
    Column& column = *records.add_columns();
    column.set_field(field);
    column.mutable_differences()->Reserve(static_cast<int>(last - first));
    std::uint64_t before = 0;
    for (std::size_t i = first; i < last; ++i) {
      const auto value = static_cast<std::uint64_t>(number(i));
      column.add_differences(static_cast<std::int64_t>(value - before));
      before = value;
    }
  }

  template <class T>
  void add(const Trace& trace, Records& records, Field field, const std::vector<T>& values,
           std::size_t first, std::size_t last) {
    if constexpr (std::is_same_v<T, Span>) {
      add_column(records, BEGIN, first, last, [&](std::size_t i) { return values[i].begin_ns; });
      add_column(records, DURATION, first, last,
                 [&](std::size_t i) { return values[i].duration_ns; });
    } else if constexpr (std::is_same_v<T, NameId>) {
      add_column(records, field, first, last,
                 [&](std::size_t i) { return number_of(trace, values[i]); });
    } else if constexpr (requires { values[0].index; }) {
      add_column(records, field, first, last, [&](std::size_t i) { return values[i].index; });
    } else if constexpr (std::is_same_v<T, double>) {
      Column& column = *records.add_columns();
      column.set_field(field);
      for (std::size_t i = first; i < last; ++i) column.add_fractions(values[i]);
    } else {
      add_column(records, field, first, last,
                 [&](std::size_t i) { return static_cast<std::int64_t>(values[i]); });
    }
  }

  // What records refer to, as far as it is new.

  void put_references(const Trace& trace) {
    const auto put_new = [&](Kind kind, std::size_t& known, const auto& all, auto&& add_columns) {
      while (known < all.size()) {
        const std::size_t last = std::min(all.size(), known + kRecordsOfBlock);
        Records records;
        add_columns(records, known, last);
        put_texts();
        put_block(kind, records, last - known, {});
        known = last;
      }
    };
    put_new(STREAMS, streams, trace.streams, [&](Records& to, std::size_t from, std::size_t last) {
      add_column(to, DEVICE, from, last, [&](std::size_t i) { return trace.streams[i].device; });
      add_column(to, NUMBER, from, last, [&](std::size_t i) { return trace.streams[i].number; });
    });
    put_new(THREADS, threads, trace.threads, [&](Records& to, std::size_t from, std::size_t last) {
      add_column(to, PROCESS, from, last,
                 [&](std::size_t i) { return number_of(trace.threads[i].process); });
      add_column(to, THREAD, from, last,
                 [&](std::size_t i) { return number_of(trace.threads[i].thread); });
    });
    put_new(GEOMETRIES, geometries, trace.geometries,
            [&](Records& to, std::size_t from, std::size_t last) {
              const auto column = [&](Field field, auto of) {
                add_column(to, field, from, last,
                           [&](std::size_t i) { return of(trace.geometries[i]); });
              };
              column(GRID_X, [](const Geometry& g) { return g.grid[0]; });
              column(GRID_Y, [](const Geometry& g) { return g.grid[1]; });
              column(GRID_Z, [](const Geometry& g) { return g.grid[2]; });
              column(BLOCK_X, [](const Geometry& g) { return g.block[0]; });
              column(BLOCK_Y, [](const Geometry& g) { return g.block[1]; });
              column(BLOCK_Z, [](const Geometry& g) { return g.block[2]; });
              column(REGISTERS, [](const Geometry& g) { return g.registers_per_thread; });
              column(SHARED_BYTES, [](const Geometry& g) { return g.shared_bytes; });
            });
  }

  // Records.

  template <class R>
  void put_records(const Trace& trace, Kind kind, const R& r) {
    for (std::size_t first = 0; first < r.size();) {
      std::size_t last = std::min(r.size(), first + kRecordsOfBlock);
      if constexpr (std::is_same_v<R, Nodes>) last = end_of_nodes(r, first, last);
      Records records;
      for_each_column(r, [&](Field field, const auto& values) {
        add(trace, records, field, values, first, last);
      });
      if constexpr (std::is_same_v<R, Nodes>) add_dependencies(records, r, first, last);
      put_texts();
      put_block(kind, records, last - first, extent_of(r, first, last));
      first = last;
    }
  }

  template <class R>
  static Extent extent_of(const R& r, std::size_t first, std::size_t last) {
    Extent extent;
    for (std::size_t i = first; i < last; ++i) {
      if constexpr (requires { r.span; }) extent.add(r.span[i].begin_ns, r.span[i].end_ns());
      if constexpr (requires { r.at_ns; }) extent.add(r.at_ns[i], r.at_ns[i]);
    }
    return extent;
  }

  static std::size_t dependencies_until(const Nodes& nodes, std::size_t node) {
    return node < nodes.size() ? nodes.first_dependency[node] : nodes.dependency.size();
  }
  /// Fewer nodes where they have many dependencies.
  static std::size_t end_of_nodes(const Nodes& nodes, std::size_t first, std::size_t last) {
    constexpr std::size_t kMost = 8 * kRecordsOfBlock;
    const std::size_t begin = nodes.first_dependency[first];
    while (last > first + 1 && dependencies_until(nodes, last) - begin > kMost)
      last = first + (last - first) / 2;
    return last;
  }
  void add_dependencies(Records& records, const Nodes& nodes, std::size_t first, std::size_t last) {
    add_column(records, DEPENDENCIES, first, last, [&](std::size_t i) {
      return dependencies_until(nodes, i + 1) - nodes.first_dependency[i];
    });
    add_column(records, DEPENDENCY, nodes.first_dependency[first], dependencies_until(nodes, last),
               [&](std::size_t i) { return nodes.dependency[i]; });
  }

  void list_steps(const Trace& trace) {
    for (std::size_t i = 0; i < trace.marks.size(); ++i) {
      const std::string_view name = trace[trace.marks.name[i]];
      if (trace.marks.on_gpu[i] || !name.starts_with("ProfilerStep")) continue;
      Index::Step& step = *index.add_steps();
      step.set_trace(traces);
      step.set_name(std::string(name));
      step.set_begin_ns(trace.marks.span[i].begin_ns);
      step.set_duration_ns(trace.marks.span[i].duration_ns);
    }
  }
};

RecordWriter::RecordWriter(ByteSink sink) : parts_(std::make_unique<Parts>()) {
  parts_->sink = std::move(sink);
  parts_->put(kMagic);
}
RecordWriter::~RecordWriter() = default;

void RecordWriter::begin(const Trace& trace) {
  Parts& p = *parts_;
  p.texts = NameTable();
  p.text_of_name.clear();
  p.streams = p.threads = 0;
  p.geometries = 1;
  Head head;
  head.set_source(trace.source);
  head.set_format(trace.format);
  head.set_epoch_ns(trace.epoch_ns);
  if (trace.rank) head.set_rank(*trace.rank);
  if (trace.world_size) head.set_world_size(*trace.world_size);
  for (const traces::Device& device : trace.devices) {
    record::Device& to = *head.add_devices();
    to.set_id(device.id);
    to.set_name(device.name);
    to.set_memory_bytes(device.memory_bytes);
    to.set_compute_major(device.compute_major);
    to.set_compute_minor(device.compute_minor);
    to.set_sm_count(device.sm_count);
    to.set_warp_size(device.warp_size);
    to.set_max_threads_per_sm(device.max_threads_per_sm);
    to.set_registers_per_sm(device.registers_per_sm);
    to.set_shared_bytes_per_sm(device.shared_bytes_per_sm);
  }
  p.put_block(HEAD, head, 0, {});
}

void RecordWriter::append(const Trace& trace) {
  parts_->put_references(trace);
  for_each_kind(trace,
                [&](Kind kind, const auto& records) { parts_->put_records(trace, kind, records); });
  parts_->list_steps(trace);
}

void RecordWriter::end(const Trace& trace) {
  Tail tail;
  for (const auto& [kind, left_out] : trace.left_out) {
    record::LeftOut& to = *tail.add_left_out();
    to.set_kind(kind);
    to.set_count(left_out.count);
    to.set_is_damage(left_out.is_damage);
  }
  parts_->put_block(TAIL, tail, 0, {});
  ++parts_->traces;
}

void RecordWriter::finish() {
  Parts& p = *parts_;
  const std::uint64_t at = p.at;
  p.put_block(INDEX, p.index, 0, {});
  std::string trailer;
  for (int i = 0; i < 8; ++i) trailer += static_cast<char>((at >> (8 * i)) & 0xFF);
  p.put(trailer);
  p.put(kTrailerEnd);
}

void write_records(const Recording& recording, const ByteSink& sink) {
  RecordWriter writer(sink);
  for (const Trace& trace : recording.traces) {
    writer.begin(trace);
    writer.append(trace);
    writer.end(trace);
  }
  writer.finish();
}

}  // namespace tracecast::traces
