#include "calibrate/cuda/several_gpus.hpp"

#include <fmt/format.h>
#include <nccl.h>

#include <utility>
#include <vector>

namespace tracecast::calibrate::cuda {
namespace {

/// The primary context of another GPU with a buffer and a stream in it.
class Peer {
 public:
  Peer(const Driver& driver, int index, std::size_t bytes) : driver_(driver) {
    const DriverApi& api = driver.api();
    driver.check(api.device_get(&device_, index), "cuDeviceGet");
    driver.check(api.context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
    const Current current(*this);
    try {
      driver.check(api.stream_create(&stream_, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
      driver.check(api.allocate(&memory_, bytes), "allocating memory of another GPU");
      driver.check(api.set_bytes(memory_, 0, bytes), "clearing memory");
    } catch (...) {
      close();
      throw;
    }
  }
  ~Peer() {
    const Current current(*this);
    close();
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// While it lives, calls go to this GPU.
  class Current {
   public:
    explicit Current(const Peer& peer) : peer_(peer) {
      peer.driver_.api().context_set(peer.context_);
    }
    ~Current() { peer_.driver_.api().context_set(peer_.driver_.context()); }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Peer& peer_;
  };

  [[nodiscard]] CUdevice device() const { return device_; }
  [[nodiscard]] CUcontext context() const { return context_; }
  [[nodiscard]] CUstream stream() const { return stream_; }
  [[nodiscard]] CUdeviceptr at() const { return memory_; }

 private:
  void close() {
    const DriverApi& api = driver_.api();
    if (memory_ != 0) api.release(memory_);
    if (stream_ != nullptr) api.stream_destroy(stream_);
    if (context_ != nullptr) api.context_release(device_);
  }

  const Driver& driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUdeviceptr memory_ = 0;
};

/// Indices of `count` GPUs other than the driver's own, in order.
std::vector<int> others(const Driver& driver, std::int64_t count) {
  std::vector<int> found;
  for (int i = 0; i < driver.num_devices() && static_cast<std::int64_t>(found.size()) < count;
       ++i) {
    CUdevice device = 0;
    driver.check(driver.api().device_get(&device, i), "cuDeviceGet");
    if (device != driver.device()) found.push_back(i);
  }
  if (static_cast<std::int64_t>(found.size()) < count) {
    throw CannotRun(
        fmt::format("needs {} GPUs, the driver sees {}", count + 1, driver.num_devices()));
  }
  return found;
}

}  // namespace

Operation prepare_peer_copy(const Driver& driver, std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  auto peer = std::make_shared<Peer>(driver, others(driver, 1).front(), size);
  auto own = std::make_shared<DeviceMemory>(zeros(driver, size));
  int can_reach = 0;
  driver.check(driver.api().can_access_peer(&can_reach, driver.device(), peer->device()),
               "asking for peer access");
  if (can_reach != 0) {
    const CUresult result = driver.api().enable_peer(peer->context(), 0);
    if (result != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) driver.check(result, "peer access");
  }
  Operation operation;
  operation.method = TimingMethod::Events;
  operation.launch = [&driver, peer, own, size] {
    driver.check(driver.api().copy_peer_async(peer->at(), peer->context(), own->at(),
                                              driver.context(), size, driver.stream()),
                 "copying to another GPU");
  };
  return operation;
}

struct Collectives::State {
  Library library;
  const Driver& driver;
  decltype(&ncclCommInitAll) init_all = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclGetErrorString) error_text = nullptr;

  void check(ncclResult_t result, const char* what) const {
    if (result != ncclSuccess)
      throw CannotRun(fmt::format("NCCL, {}: {}", what, error_text(result)));
  }
};

std::unique_ptr<Collectives> Collectives::open(Library library, const Driver& driver,
                                               std::string& why) {
  auto state = std::make_shared<State>(State{.library = std::move(library), .driver = driver});
  Symbols symbols(state->library);
  symbols.need(state->init_all, {"ncclCommInitAll"});
  symbols.need(state->destroy, {"ncclCommDestroy"});
  symbols.need(state->all_reduce, {"ncclAllReduce"});
  symbols.need(state->group_start, {"ncclGroupStart"});
  symbols.need(state->group_end, {"ncclGroupEnd"});
  symbols.need(state->error_text, {"ncclGetErrorString"});
  if (!symbols.missing().empty()) {
    why = "NCCL lacks " + symbols.missing();
    return nullptr;
  }
  return std::unique_ptr<Collectives>(new Collectives(std::move(state)));
}

Collectives::Collectives(std::shared_ptr<State> state) : state_(std::move(state)) {}
Collectives::~Collectives() = default;

Operation Collectives::prepare(const AllReduceShape& s) {
  /// Ranks of one all-reduce; communicators go before the memory they may still touch.
  struct Ranks {
    explicit Ranks(std::shared_ptr<State> of) : state(std::move(of)) {}
    ~Ranks() {
      for (ncclComm_t communicator : communicators) state->destroy(communicator);
    }
    std::shared_ptr<State> state;
    DeviceMemory own;
    std::vector<std::unique_ptr<Peer>> peers;
    std::vector<ncclComm_t> communicators;
  };
  const Driver& driver = state_->driver;
  const auto bytes = static_cast<std::size_t>(s.bytes);
  auto ranks = std::make_shared<Ranks>(state_);
  ranks->own = zeros(driver, bytes);
  std::vector<int> devices = {static_cast<int>(driver.device())};
  for (const int index : others(driver, s.gpus - 1)) {
    ranks->peers.push_back(std::make_unique<Peer>(driver, index, bytes));
    devices.push_back(static_cast<int>(ranks->peers.back()->device()));
  }
  std::vector<ncclComm_t> communicators(devices.size());
  state_->check(
      state_->init_all(communicators.data(), static_cast<int>(devices.size()), devices.data()),
      "making communicators");
  ranks->communicators = std::move(communicators);
  driver.check(driver.api().context_set(driver.context()), "cuCtxSetCurrent");

  Operation operation;
  operation.method = TimingMethod::Events;
  operation.launch = [state = state_, ranks, count = bytes / sizeof(float)] {
    const Driver& of = state->driver;
    state->check(state->group_start(), "a group");
    for (std::size_t rank = 0; rank < ranks->communicators.size(); ++rank) {
      const bool is_own = rank == 0;
      void* at =
          is_own ? ranks->own.pointer() : reinterpret_cast<void*>(ranks->peers[rank - 1]->at());
      const CUstream stream = is_own ? of.stream() : ranks->peers[rank - 1]->stream();
      state->check(state->all_reduce(at, at, count, ncclFloat, ncclSum, ranks->communicators[rank],
                                     reinterpret_cast<cudaStream_t>(stream)),
                   "all-reduce");
    }
    state->check(state->group_end(), "a group");
    of.check(of.api().context_set(of.context()), "cuCtxSetCurrent");
  };
  return operation;
}

}  // namespace tracecast::calibrate::cuda
