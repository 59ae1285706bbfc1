#pragma once
#include <memory>

#include "hwspecs/cpu_spec.hpp"
#include "hwspecs/gpu_spec.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "sim/cost/cpu.hpp"
#include "sim/step/step_program.hpp"

namespace tracecast {

/// The cores of a machine as the device that a step runs on: what lowering and memory planning ask
/// of one. Its memory is the host's, its peaks are the cores' (FP32, and BF16 and INT8 where there
/// are instructions), it has no streaming multiprocessors, and nothing of CUDA's.
[[nodiscard]] GpuSpec device_of(const CpuNode& node);

/// `framework` where it runs without a GPU: no launches, no cuDNN calls, filters as they are
/// stored, memory by need and without a CUDA context. Dispatch costs stay: the executor is the
/// same.
[[nodiscard]] FrameworkProfile on_cpu(FrameworkProfile framework);

/// Choice and price of every op on the cores.
[[nodiscard]] PricedStep price_on_cpu(std::shared_ptr<const LoweredStep> lowered,
                                      const cost::CpuTarget& target, const CostProfile& profile);

/// Share of the cores' time in which they work: sum of threads * duration over the step, and one
/// dispatch thread.
[[nodiscard]] double cores_busy(const PricedStep& priced, const StepTimeline& timeline,
                                const cost::CpuTarget& target, const CostProfile& profile);

/// `framework` with its host costs as another CPU has them: all are inversely proportional to the
/// speed of one thread (CpuSpec::single_thread_speed).
[[nodiscard]] FrameworkProfile on_host(FrameworkProfile framework, const CpuSpec& reference,
                                       const CpuSpec& host);

}  // namespace tracecast
