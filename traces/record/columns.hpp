#pragma once
#include <concepts>
#include <type_traits>

#include "traces/record/record.pb.h"
#include "traces/trace.hpp"

/// Which column of the file each array of a record is: the one place where memory and file meet.
/// Private to the library.
namespace tracecast::traces::record {

template <class R, class Wanted>
concept Is = std::same_as<std::remove_const_t<R>, Wanted>;

/// Calls `f(field, array)` for every array of `r` but a node's dependencies, which are two columns
/// of their own lengths. A `Span` is two columns, BEGIN and DURATION.
template <Is<Kernels> R, class F>
void for_each_column(R& r, F&& f) {
  f(BEGIN, r.span), f(NAME, r.name), f(STREAM, r.stream), f(GEOMETRY, r.geometry);
  f(CORRELATION, r.correlation), f(OP, r.op);
}
template <Is<Copies> R, class F>
void for_each_column(R& r, F&& f) {
  f(BEGIN, r.span), f(STREAM, r.stream), f(KIND, r.kind), f(MEMORY, r.memory);
  f(BYTES, r.bytes), f(CORRELATION, r.correlation), f(OP, r.op);
}
template <Is<Memsets> R, class F>
void for_each_column(R& r, F&& f) {
  f(BEGIN, r.span), f(STREAM, r.stream), f(BYTES, r.bytes);
  f(CORRELATION, r.correlation), f(OP, r.op);
}
template <Is<Calls> R, class F>
void for_each_column(R& r, F&& f) {
  f(BEGIN, r.span), f(NAME, r.name), f(THREAD, r.thread);
  f(CORRELATION, r.correlation), f(OP, r.op);
}
template <Is<Syncs> R, class F>
void for_each_column(R& r, F&& f) {
  f(BEGIN, r.span), f(KIND, r.kind), f(STREAM_NUMBER, r.stream);
  f(AWAITED_STREAM, r.awaited_stream), f(AWAITED_EVENT, r.awaited_event);
  f(AWAITED_RECORD, r.awaited_record), f(CORRELATION, r.correlation);
}
template <Is<Ops> R, class F>
void for_each_column(R& r, F&& f) {
  f(BEGIN, r.span), f(NAME, r.name), f(THREAD, r.thread), f(ID, r.id);
  f(DIMS, r.dims), f(TYPES, r.types), f(VALUES, r.values);
  f(SEQUENCE, r.sequence), f(FORWARD_THREAD, r.forward_thread);
}
template <Is<Marks> R, class F>
void for_each_column(R& r, F&& f) {
  f(BEGIN, r.span), f(NAME, r.name), f(THREAD, r.thread), f(IS_ON_GPU, r.on_gpu);
}
template <Is<Collectives> R, class F>
void for_each_column(R& r, F&& f) {
  f(NAME, r.name), f(KERNEL, r.kernel), f(OP, r.op), f(DATA_TYPE, r.data_type);
  f(IN_ELEMENTS, r.in_elements), f(OUT_ELEMENTS, r.out_elements);
  f(GROUP_SIZE, r.group_size), f(GROUP, r.group);
}
template <Is<ForwardBackward> R, class F>
void for_each_column(R& r, F&& f) {
  f(BEGIN, r.at_ns), f(ID, r.id), f(THREAD, r.thread), f(IS_BACKWARD, r.is_backward);
}
template <Is<Allocations> R, class F>
void for_each_column(R& r, F&& f) {
  f(BEGIN, r.at_ns), f(BYTES, r.bytes), f(TOTAL_ALLOCATED, r.total_allocated);
  f(TOTAL_RESERVED, r.total_reserved), f(DEVICE, r.device);
}
template <Is<Totals> R, class F>
void for_each_column(R& r, F&& f) {
  f(NAME, r.name), f(IS_CALL, r.is_call), f(COUNT, r.count);
  f(DURATION, r.ns), f(LEAST, r.least_ns), f(MOST, r.most_ns);
}
template <Is<Metrics> R, class F>
void for_each_column(R& r, F&& f) {
  f(DEVICE, r.device), f(KERNEL, r.kernel), f(METRIC, r.metric), f(COUNT, r.invocations);
  f(LEAST, r.least), f(MOST, r.most), f(AVERAGE, r.average);
}
template <Is<Nodes> R, class F>
void for_each_column(R& r, F&& f) {
  f(ID, r.id), f(NAME, r.name), f(KIND, r.kind), f(IS_ON_GPU, r.on_gpu);
  f(DURATION, r.duration_ns), f(DIMS, r.dims), f(TYPES, r.types), f(VALUES, r.values);
  f(BYTES, r.message_bytes);
}

/// Calls `f(kind, records)` for every kind of record that a trace holds.
template <class T, class F>
requires Is<T, Trace>
void for_each_kind(T& t, F&& f) {
  f(KERNELS, t.kernels), f(COPIES, t.copies), f(MEMSETS, t.memsets), f(CALLS, t.calls);
  f(SYNCS, t.syncs), f(OPS, t.ops), f(MARKS, t.marks), f(COLLECTIVES, t.collectives);
  f(FORWARD_BACKWARD, t.forward_backward), f(ALLOCATIONS, t.allocations), f(TOTALS, t.totals);
  f(METRICS, t.metrics), f(NODES, t.nodes);
}

}  // namespace tracecast::traces::record
