#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/plan/job_mix.hpp"

namespace tracecast::plan {

/// GPUs of one kind.
struct GpuType {
  std::string id;                      ///< as the fleet names it
  int gpus = 0;                        ///< in all machines
  std::optional<double> usd_per_hour;  ///< of one GPU with its share of the machine
  std::optional<Watts> busy_power;     ///< of one GPU that runs a job
  std::optional<Watts> idle_power;
};

struct FleetMachine {
  TypeId type;
  int gpus = 0;
};

/// How often machines and GPUs fail, as their owner states it. At least one of them does.
struct FleetFailures {
  std::optional<Seconds> machine_mtbf;  ///< mean time between failures of one machine
  Seconds checkpoint_interval{};        ///< work since the last checkpoint is lost
  Seconds restart{};                    ///< from failure to the first step after it
  std::optional<Seconds> gpu_mtbf{};    ///< of one GPU that fails alone
};

/// The GPUs that jobs are given. One that was made here is valid: every type has a GPU, every
/// machine a type.
struct Fleet {
  std::string id;
  std::vector<GpuType> types;
  std::vector<FleetMachine> machines;  ///< in the order of the file
  std::optional<FleetFailures> failures;

  [[nodiscard]] int total_gpus() const;
};

/// `gpus` of one type, `per_machine` in each. Throws InputError naming --gpus: not a multiple,
/// below 1.
[[nodiscard]] Fleet uniform_fleet(std::int64_t gpus, std::int64_t per_machine,
                                  std::string_view gpu);

/// Reads and checks a fleet in text format (sim/plan/proto/fleet.proto). `where` names it in
/// errors. Throws InputError with line: bad syntax, no group, counts below 1 or absurd, negative
/// prices or powers.
[[nodiscard]] Fleet load_fleet(std::string_view text, std::string_view where);

}  // namespace tracecast::plan
