#include "calibrate/cuda/cuda_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "calibrate/cuda/blas.hpp"
#include "calibrate/cuda/compiler.hpp"
#include "calibrate/cuda/dnn.hpp"
#include "calibrate/cuda/kernel_recorder.hpp"
#include "calibrate/cuda/kernel_source.hpp"
#include "calibrate/cuda/operation.hpp"
#include "calibrate/cuda/sensors.hpp"
#include "calibrate/cuda/several_gpus.hpp"

namespace tracecast::calibrate::cuda {
namespace {

using Clock = std::chrono::steady_clock;

Seconds seconds_since(Clock::time_point start) {
  return Seconds(std::chrono::duration<double>(Clock::now() - start).count());
}

/// A library or service that may be absent, and why.
template <class Part>
struct Optional {
  std::unique_ptr<Part> part;
  std::string why;
  /// Throws CannotRun when it is absent.
  Part& need() const {
    if (!part) throw CannotRun(why);
    return *part;
  }
};

/// Opens the first library of `names` that `make` can use: the newest one may be made for a newer
/// driver or other GPUs. What it says of the first one that was there, else of what was looked for,
/// stays as the reason.
template <class Part, class Make>
void open_first(Optional<Part>& to, const std::vector<std::string>& names, const CudaSearch& search,
                Make make) {
  std::string missing;
  for (const std::string& name : names) {
    auto library = Library::open(std::span(&name, 1), search.folders, missing);
    if (!library) continue;
    std::string why;
    to.part = make(std::move(*library), why);
    if (to.part) {
      to.why.clear();
      return;
    }
    if (to.why.empty()) to.why = fmt::format("{}: {}", name, why);
  }
  if (to.why.empty()) {
    static_cast<void>(Library::open(names, search.folders, to.why));
  }
}

class CudaDevice final : public Device {
 public:
  CudaDevice(const CudaSearch& search, Library library, std::unique_ptr<Driver> driver,
             Optional<KernelRecorder> recorder)
      : library_(std::move(library)), driver_(std::move(driver)), recorder_(std::move(recorder)) {
    open_libraries(search);
    describe_device();
  }

  const DeviceIdentity& identity() const override { return identity_; }

  OfferedAlgorithms offered(const ConvolutionShape& shape, Precision precision) override {
    return dnn_.part ? dnn_.part->offered(shape, precision) : OfferedAlgorithms{};
  }

  RunResult run(const Experiment& experiment, int warm_up, int repetitions) override {
    try {
      prepare_once(experiment);
      DeviceRun run;
      run.workspace = operation_.workspace;
      for (int i = 0; i < warm_up; ++i) operation_.launch();
      driver_->wait();
      run.before = sample();
      time_repetitions(run, repetitions);
      return run;
    } catch (const CannotRun& error) {
      operation_ = {};
      prepared_.clear();
      driver_->wait();  // throws DeviceLost when more is wrong than this experiment
      return Unsupported{error.what()};
    }
  }

  void rest(Seconds time) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(time.in_s()));
  }
  Seconds elapsed() const override { return seconds_since(opened_); }

 private:
  void open_libraries(const CudaSearch& search) {
    if (!recorder_.part) {
      identity_.remarks.push_back(recorder_.why + "; kernels are timed by events, launch included");
    }
    const int newest = driver_->cuda_major();
    open_first(sensors_, sonames("libnvidia-ml", 1, 1), search, [&](Library&& library, auto& why) {
      return Sensors::open(std::move(library), driver_->pci_bus(), why);
    });
    std::string ignored;  // cuBLAS needs its second half, which lies beside it, from CUDA 10.1 on
    for (int major = newest; major >= 10; --major) {
      const std::string name = fmt::format("libcublasLt.so.{}", major);
      static_cast<void>(Library::open(std::span(&name, 1), search.folders, ignored));
    }
    std::vector<std::string> blas = sonames("libcublas", newest, 10);
    for (const char* version : {"10.0", "9.2", "9.1", "9.0"}) {
      blas.push_back(fmt::format("libcublas.so.{}", version));
    }
    open_first(blas_, blas, search, [&](Library&& library, auto& why) {
      return Blas::open(std::move(library), *driver_, why);
    });
    open_first(dnn_, sonames("libcudnn", 9, 7), search, [&](Library&& library, auto& why) {
      return Dnn::open(std::move(library), *driver_, why);
    });
    open_first(kernels_, toolkit_sonames("libnvrtc", newest), search,
               [&](Library&& library, auto& why) { return compile(std::move(library), why); });
    if (driver_->num_devices() > 1) {
      open_first(collectives_, sonames("libnccl", 2, 2), search, [&](Library&& library, auto& why) {
        return Collectives::open(std::move(library), *driver_, why);
      });
    }
    for (const std::string* why :
         {&sensors_.why, &blas_.why, &dnn_.why, &kernels_.why, &collectives_.why}) {
      if (!why->empty()) identity_.remarks.push_back(*why);
    }
  }

  std::unique_ptr<OwnKernels> compile(Library&& library, std::string& why) {
    const auto compiler = Compiler::open(std::move(library), why);
    if (!compiler) return nullptr;
    const std::string image = compiler->compile(kernel_source(), compute_capability(), why);
    if (image.empty()) return nullptr;
    try {
      auto kernels = std::make_unique<OwnKernels>(*driver_, image);
      identity_.cuda = compiler->version();
      return kernels;
    } catch (const CannotRun& error) {
      why = error.what();
      return nullptr;
    }
  }

  [[nodiscard]] int compute_capability() const {
    return driver_->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
           driver_->attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  }

  void describe_device() {
    DeviceIdentity& id = identity_;
    id.name = driver_->name();
    id.serial = driver_->uuid();
    id.compute_capability = compute_capability();
    id.sm_count = driver_->attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    id.sm_clock = Hertz(driver_->attribute(CU_DEVICE_ATTRIBUTE_CLOCK_RATE) * 1e3);
    id.memory_clock = Hertz(driver_->attribute(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE) * 1e3);
    id.memory = driver_->memory();
    id.l2 = Bytes(driver_->attribute(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE));
    id.gpus = driver_->num_devices();
    id.ecc = driver_->attribute(CU_DEVICE_ATTRIBUTE_ECC_ENABLED) != 0;
    if (id.cuda.empty()) id.cuda = driver_->cuda_version();
    if (blas_.part) id.cublas = blas_.part->version();
    if (dnn_.part) id.cudnn = dnn_.part->version();
    if (sensors_.part) {
      id.driver = sensors_.part->driver_version();
      id.power_limit = sensors_.part->power_limit();
      id.pinned_clock = sensors_.part->pinned_clock();
    }
    if (id.driver.empty()) id.driver = "of CUDA " + driver_->cuda_version();
  }

  [[nodiscard]] SensorSample sample() const {
    return sensors_.part ? sensors_.part->sample() : SensorSample{};
  }

  /// Keeps the last experiment's buffers: it is asked for several times in a row.
  void prepare_once(const Experiment& experiment) {
    const std::string name = describe(experiment);
    if (name == prepared_) return;
    operation_ = {};  // its memory goes before the next one's comes
    prepared_.clear();
    operation_ =
        std::visit([&](const auto& shape) { return prepare_shape(shape, experiment.precision); },
                   experiment.shape);
    prepared_ = name;
  }
  Operation prepare_shape(const GemmShape& s, Precision p) { return blas_.need().prepare(s, p); }
  Operation prepare_shape(const ConvolutionShape& s, Precision p) {
    return dnn_.need().prepare(s, p);
  }
  Operation prepare_shape(const PoolingShape& s, Precision p) { return dnn_.need().prepare(s, p); }
  Operation prepare_shape(const BatchNormShape& s, Precision p) {
    return dnn_.need().prepare(s, p);
  }
  Operation prepare_shape(const RecurrentShape& s, Precision p) {
    return dnn_.need().prepare(s, p);
  }
  Operation prepare_shape(const CopyShape& s, Precision) {
    return s.direction == CopyDirection::Peer ? prepare_peer_copy(*driver_, s.bytes)
                                              : prepare(*driver_, s);
  }
  Operation prepare_shape(const AllReduceShape& s, Precision) {
    return collectives_.need().prepare(s);
  }
  Operation prepare_shape(const OptimizerShape& s, Precision) {
    return prepare(kernels_.need(), s);
  }
  Operation prepare_shape(const LaunchShape& s, Precision) { return prepare(kernels_.need(), s); }
  template <class Shape>
  Operation prepare_shape(const Shape& s, Precision p) {
    return prepare(kernels_.need(), s, p);
  }

  void time_repetitions(DeviceRun& run, int repetitions) {
    if (operation_.method == TimingMethod::Host) return time_by_host(run, repetitions);
    if (operation_.method == TimingMethod::Kernels && time_by_records(run, repetitions)) return;
    time_by_events(run, repetitions);
  }

  void time_by_host(DeviceRun& run, int repetitions) {
    run.method = TimingMethod::Host;
    for (int i = 0; i < repetitions; ++i) {
      const Clock::time_point start = Clock::now();
      operation_.launch();
      run.durations.push_back(seconds_since(start) / static_cast<double>(operation_.per_launch));
      if (i + 1 == repetitions) run.after = sample();
      driver_->wait();
    }
  }

  /// Enqueues all, and reads the sensors when three quarters have run and the rest keeps the GPU
  /// busy.
  template <class Enqueue>
  void enqueue(DeviceRun& run, int repetitions, Enqueue one) {
    const int mark_at = repetitions * 3 / 4;
    Event mark(*driver_);
    for (int i = 0; i < repetitions; ++i) {
      if (i == mark_at) mark.record();
      one(i);
    }
    mark.wait();
    run.after = sample();
    driver_->wait();
  }

  /// False: no records, or they do not divide among the repetitions; nothing is timed then.
  bool time_by_records(DeviceRun& run, int repetitions) {
    if (!recorder_.part) return false;
    std::string why;
    if (!recorder_.part->start(why)) {
      identity_.remarks.push_back(why + "; kernels are timed by events, launch included");
      recorder_.part.reset();
      return false;
    }
    KernelRecording recording;
    try {
      enqueue(run, repetitions, [&](int) { operation_.launch(); });
    } catch (...) {
      static_cast<void>(recorder_.part->stop());
      throw;
    }
    recording = recorder_.part->stop();
    auto times = divide(recording, repetitions);
    if (!times) return false;
    run.method = TimingMethod::Kernels;
    run.durations = std::move(times->durations);
    run.kernels = times->kernels;
    run.kernel_name = std::move(times->longest);
    return true;
  }

  void time_by_events(DeviceRun& run, int repetitions) {
    run.method = TimingMethod::Events;
    const auto count = static_cast<std::size_t>(repetitions);
    while (starts_.size() < count) {
      starts_.emplace_back(*driver_);
      ends_.emplace_back(*driver_);
    }
    if (kernels_.part) {
      const Seconds ahead(std::min(20e-6 * repetitions, 20e-3));
      enqueue_delay(*kernels_.part, ahead, identity_.sm_clock);
    }
    enqueue(run, repetitions, [&](int i) {
      const auto at = static_cast<std::size_t>(i);
      starts_[at].record();
      operation_.launch();
      ends_[at].record();
    });
    for (std::size_t i = 0; i < count; ++i) run.durations.push_back(ends_[i].since(starts_[i]));
  }

  // In this order: what is opened later uses what stands before, and goes first.
  Library library_;
  std::unique_ptr<Driver> driver_;
  Optional<KernelRecorder> recorder_;
  Optional<Sensors> sensors_;
  Optional<OwnKernels> kernels_;
  Optional<Blas> blas_;
  Optional<Dnn> dnn_;
  Optional<Collectives> collectives_;
  DeviceIdentity identity_;
  std::vector<Event> starts_, ends_;
  Operation operation_;
  std::string prepared_;  ///< what `operation_` is
  Clock::time_point opened_ = Clock::now();
};

}  // namespace
}  // namespace tracecast::calibrate::cuda

namespace tracecast::calibrate {

std::variant<std::unique_ptr<Device>, NoDevice> open_cuda_device(const CudaSearch& search,
                                                                 int index) {
  using namespace cuda;
  std::string why;
  // Only the driver's own library: a toolkit's stub of the bare name is none.
  const std::vector<std::string> names = {"libcuda.so.1"};
  auto library = Library::open(names, search.folders, why);
  if (!library) return NoDevice{"no NVIDIA driver: " + why};

  // CUPTI wants to be there before the context is.
  Optional<KernelRecorder> recorder;
  open_first(recorder, toolkit_sonames("libcupti", Driver::cuda_major(*library)), search,
             [](Library&& cupti, std::string& reason) {
               return KernelRecorder::open(std::move(cupti), reason);
             });
  auto driver = Driver::open(*library, index, why);
  if (!driver) return NoDevice{why};
  try {
    return std::unique_ptr<Device>(std::make_unique<CudaDevice>(
        search, std::move(*library), std::move(driver), std::move(recorder)));
  } catch (const std::runtime_error& error) {  // CannotRun, DeviceLost
    return NoDevice{fmt::format("GPU {} cannot be used: {}", index, error.what())};
  }
}

}  // namespace tracecast::calibrate
