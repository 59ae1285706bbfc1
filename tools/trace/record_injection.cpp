// Entry points of libtracecast_inject.so, which `trace record` has the CUDA driver and NVTX load
// into the program to record.
#include <cstdlib>
#include <string>

#include "tools/trace/record_environment.hpp"
#include "traces/cupti/recorder.hpp"

namespace {

using namespace tracecast;

const char* variable(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

double number(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtod(text, nullptr) : otherwise;
}

/// The first of the launchers' variables that is set: torchrun, Open MPI, MPICH, Slurm.
int first_number(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (const char* text = std::getenv(name)) return std::atoi(text);
  }
  return -1;
}

traces::cupti::RecorderSettings settings() {
  traces::cupti::RecorderSettings settings;
  settings.folder = variable(record_environment::kFolder);
  const std::string libraries = variable(record_environment::kCupti);
  for (std::size_t begin = 0; begin < libraries.size();) {
    const std::size_t end = std::min(libraries.find(':', begin), libraries.size());
    settings.libraries.push_back(libraries.substr(begin, end - begin));
    begin = end + 1;
  }
  settings.delay_s = number(record_environment::kDelay, settings.delay_s);
  settings.duration_s = number(record_environment::kDuration, settings.duration_s);
  settings.num_buffers =
      static_cast<int>(number(record_environment::kBuffers, settings.num_buffers));
  settings.rank = first_number({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"});
  settings.world_size =
      first_number({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"});
  return settings;
}

/// Recorded ranges need the CUPTI that records, not just any: NVTX asks us, and we ask that one.
int forward_nvtx(const char* entry_point, void* get_export_table) {
  void* function = traces::cupti::find_cupti_function(settings(), entry_point);
  return function != nullptr ? reinterpret_cast<int (*)(void*)>(function)(get_export_table) : 0;
}

}  // namespace

#define TRACECAST_EXPORT extern "C" __attribute__((visibility("default")))

/// Called by the driver within cuInit, where CUDA_INJECTION64_PATH names this library. Not 0 =
/// loaded.
TRACECAST_EXPORT int InitializeInjection() {
  traces::cupti::start_recording(settings());
  return 1;
}

/// Called by NVTX 2 and 3 at a program's first range, where NVTX_INJECTION64_PATH names this
/// library. Not 0 = loaded.
TRACECAST_EXPORT int InitializeInjectionNvtx(void* get_export_table) {
  return forward_nvtx("InitializeInjectionNvtx", get_export_table);
}
TRACECAST_EXPORT int InitializeInjectionNvtx2(void* get_export_table) {
  return forward_nvtx("InitializeInjectionNvtx2", get_export_table);
}
