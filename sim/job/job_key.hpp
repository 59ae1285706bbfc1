#pragma once
#include "sim/base/key_text.hpp"
#include "sim/job/job.hpp"

namespace tracecast {

/// Every member decides about a result, so every member is part of the key (TRACECAST_ADD_MEMBERS).
/// Of files it holds the path, not what is in them.
inline void add_members(KeyText& key, const Software& software) {
  TRACECAST_ADD_MEMBERS(key, software, framework, version, date, xla, cuda_graphs, cudnn_benchmark,
                        channels_last, attention, program, host_us_per_launch, host_waits);
}

inline void add_members(KeyText& key, const Job& job) {
  TRACECAST_ADD_MEMBERS(key, job, network, batch, phase, precision, software, optimizer, recompute,
                        lora_rank, lora_targets, base_precision, accumulate, data, pipeline,
                        workers, epoch_samples, image_size, seq_len, classes, fan_out, as_written);
}

inline void add_members(KeyText& key, const BoardSettings& board) {
  TRACECAST_ADD_MEMBERS(key, board, power_limit_w, clock_mhz, memory_clock_mhz);
}

inline void add_members(KeyText& key, const Place& place) {
  TRACECAST_ADD_MEMBERS(key, place, gpu, machine, gpus, nodes, cluster, host_cpu, disk, cpu_threads,
                        cpu_quota, nic, no_p2p, board);
}

}  // namespace tracecast
