#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "calibrate/cuda/operation.hpp"
#include "sim/base/random.hpp"

namespace tracecast::calibrate::cuda {
namespace {

constexpr std::size_t kNoiseBytes = 1 << 20;
constexpr unsigned kRowThreads = 256, kGatherThreads = 128, kElementThreads = 128;
constexpr std::int64_t kElementsPerBlock = kElementThreads * 4;

const char* suffix(Precision precision) {
  switch (precision) {
    case Precision::Fp32:
      return "f32";
    case Precision::Fp16:
      return "f16";
    case Precision::Bf16:
      return "bf16";
    default:
      throw CannotRun(
          fmt::format("our kernels compute in fp32, fp16 and bf16, not {}", to_string(precision)));
  }
}

std::size_t bytes_of(std::int64_t elements, Precision precision) {
  return static_cast<std::size_t>(elements) *
         static_cast<std::size_t>(element_size(precision).in_bytes());
}

unsigned blocks_of(std::int64_t elements, std::int64_t per_block) {
  const std::int64_t blocks = (elements + per_block - 1) / per_block;
  if (blocks > 0x7fffffff) throw CannotRun("more blocks than a grid holds");
  return static_cast<unsigned>(blocks);
}

/// A kernel with its arguments: pointers first, then at most one number.
struct Call {
  const Driver& driver;
  CUfunction function;
  unsigned blocks, threads;
  std::vector<DeviceMemory> memory;  ///< whose addresses are the pointer arguments, in order
  long long number = 0;
  bool has_number = true;

  void operator()() {
    std::vector<CUdeviceptr> pointers;
    for (const DeviceMemory& part : memory) pointers.push_back(part.at());
    std::vector<void*> arguments;
    for (CUdeviceptr& pointer : pointers) arguments.push_back(&pointer);
    if (has_number) arguments.push_back(&number);
    driver.check(driver.api().launch(function, blocks, 1, 1, threads, 1, 1, 0, driver.stream(),
                                     arguments.data(), nullptr),
                 "launching our kernel");
  }
};

Operation operation_of(Call&& call) {
  auto shared = std::make_shared<Call>(std::move(call));
  Operation operation;
  operation.launch = [shared] { (*shared)(); };
  return operation;
}

std::uint16_t half_of(float value) {
  // Values here are 0 or of magnitude 2^-14 to 1: normal in fp16, truncation will do.
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000u, exponent = bits >> 23 & 0xffu;
  if (exponent < 113) return static_cast<std::uint16_t>(sign);
  return static_cast<std::uint16_t>(sign | (exponent - 112) << 10 | (bits >> 13 & 0x3ffu));
}

std::vector<unsigned char> noise_block(Precision precision) {
  std::vector<unsigned char> block(kNoiseBytes);
  Random random(1);
  const auto width = static_cast<std::size_t>(element_size(precision).in_bytes());
  for (std::size_t at = 0; at + width <= block.size(); at += width) {
    const float value = static_cast<float>(2 * random.uniform() - 1);
    if (precision == Precision::Int8) {
      block[at] = static_cast<unsigned char>(static_cast<signed char>(value * 8));
    } else if (precision == Precision::Fp16) {
      const std::uint16_t half = half_of(value);
      std::memcpy(&block[at], &half, sizeof half);
    } else if (precision == Precision::Bf16) {
      const auto brief = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
      std::memcpy(&block[at], &brief, sizeof brief);
    } else {
      std::memcpy(&block[at], &value, sizeof value);
    }
  }
  return block;
}

}  // namespace

DeviceMemory zeros(const Driver& driver, std::size_t bytes) {
  DeviceMemory memory(driver, bytes);
  driver.check(driver.api().set_bytes(memory.at(), 0, std::max<std::size_t>(bytes, 1)),
               "clearing memory");
  return memory;
}

DeviceMemory noise(const Driver& driver, std::size_t elements, Precision precision) {
  const std::size_t bytes = bytes_of(static_cast<std::int64_t>(elements), precision);
  DeviceMemory memory(driver, bytes);
  const std::vector<unsigned char> block = noise_block(precision);
  std::size_t filled = std::min(bytes, block.size());
  driver.check(driver.api().copy_in(memory.at(), block.data(), filled), "filling memory");
  while (filled < bytes) {  // doubled within the device
    const std::size_t more = std::min(filled, bytes - filled);
    driver.check(driver.api().copy_async(memory.at() + filled, memory.at(), more, driver.stream()),
                 "filling memory");
    filled += more;
  }
  driver.wait();
  return memory;
}

Operation prepare(const OwnKernels& kernels, const ElementwiseShape& s, Precision precision) {
  const Driver& driver = kernels.driver();
  Call call{.driver = driver,
            .function = kernels.find(fmt::format("{}_{}", s.function, suffix(precision))),
            .blocks = blocks_of(s.elements, kElementsPerBlock),
            .threads = kElementThreads,
            .memory = {},
            .number = s.elements};
  call.memory.push_back(zeros(driver, bytes_of(s.elements, precision)));
  for (int i = 0; i < s.inputs; ++i) {
    call.memory.push_back(noise(driver, static_cast<std::size_t>(s.elements), precision));
  }
  return operation_of(std::move(call));
}

Operation prepare(const OwnKernels& kernels, const RowsShape& s, Precision precision) {
  const Driver& driver = kernels.driver();
  const char* name = s.softmax ? "softmax" : "layer_norm";
  Call call{.driver = driver,
            .function = kernels.find(fmt::format("{}_{}", name, suffix(precision))),
            .blocks = blocks_of(s.rows, 1),
            .threads = kRowThreads,
            .memory = {},
            .number = s.cols};
  const auto elements = static_cast<std::size_t>(s.rows * s.cols);
  call.memory.push_back(zeros(driver, bytes_of(s.rows * s.cols, precision)));
  call.memory.push_back(noise(driver, elements, precision));
  for (int i = 0; !s.softmax && i < 2; ++i) {
    call.memory.push_back(noise(driver, static_cast<std::size_t>(s.cols), precision));
  }
  return operation_of(std::move(call));
}

Operation prepare(const OwnKernels& kernels, const ReductionShape& s, Precision precision) {
  const Driver& driver = kernels.driver();
  Call call{.driver = driver,
            .function = kernels.find(fmt::format("reduce_{}", suffix(precision))),
            .blocks = blocks_of(s.outer, 1),
            .threads = kRowThreads,
            .memory = {},
            .number = s.inner};
  call.memory.push_back(zeros(driver, bytes_of(s.outer, Precision::Fp32)));
  call.memory.push_back(noise(driver, static_cast<std::size_t>(s.outer * s.inner), precision));
  return operation_of(std::move(call));
}

Operation prepare(const OwnKernels& kernels, const EmbeddingShape& s, Precision precision) {
  const Driver& driver = kernels.driver();
  Call call{.driver = driver,
            .function = kernels.find(fmt::format("gather_{}", suffix(precision))),
            .blocks = blocks_of(s.tokens, 1),
            .threads = kGatherThreads,
            .memory = {},
            .number = s.width};
  std::vector<long long> ids(static_cast<std::size_t>(s.tokens));
  Random random(2);
  for (long long& id : ids) {
    id = static_cast<long long>(random.below(static_cast<std::uint64_t>(s.vocabulary)));
  }
  call.memory.push_back(zeros(driver, bytes_of(s.tokens * s.width, precision)));
  call.memory.push_back(noise(driver, static_cast<std::size_t>(s.vocabulary * s.width), precision));
  DeviceMemory index(driver, ids.size() * sizeof(long long));
  driver.check(driver.api().copy_in(index.at(), ids.data(), index.bytes()), "filling memory");
  call.memory.push_back(std::move(index));
  return operation_of(std::move(call));
}

Operation prepare(const OwnKernels& kernels, const OptimizerShape& s) {
  const Driver& driver = kernels.driver();
  Call call{.driver = driver,
            .function = kernels.find(s.adam ? "adam" : "momentum"),
            .blocks = blocks_of(s.parameters, kElementsPerBlock),
            .threads = kElementThreads,
            .memory = {},
            .number = s.parameters};
  const auto count = static_cast<std::size_t>(s.parameters);
  call.memory.push_back(noise(driver, count, Precision::Fp32));
  call.memory.push_back(noise(driver, count, Precision::Fp32));
  for (int i = 0; i < (s.adam ? 2 : 1); ++i) {
    call.memory.push_back(zeros(driver, bytes_of(s.parameters, Precision::Fp32)));
  }
  return operation_of(std::move(call));
}

Operation prepare(const OwnKernels& kernels, const LaunchShape& s) {
  const Driver& driver = kernels.driver();
  auto call = std::make_shared<Call>(Call{.driver = driver,
                                          .function = kernels.find("empty"),
                                          .blocks = 1,
                                          .threads = 32,
                                          .memory = {},
                                          .has_number = false});
  Operation operation;
  if (s.launches == 1) {
    operation.launch = [call] { (*call)(); };
    return operation;
  }
  operation.method = TimingMethod::Host;
  operation.per_launch = static_cast<int>(s.launches);
  operation.launch = [call, count = s.launches] {
    for (std::int64_t i = 0; i < count; ++i) (*call)();
  };
  return operation;
}

void enqueue_delay(const OwnKernels& kernels, Seconds time, Hertz clock) {
  const Hertz assumed = clock > Hertz(0) ? clock : Hertz(1e9);
  Call call{.driver = kernels.driver(),
            .function = kernels.find("spin"),
            .blocks = 1,
            .threads = 1,
            .memory = {},
            .number = static_cast<long long>(time.in_s() * assumed.in_si())};
  call();
}

Operation prepare(const Driver& driver, const CopyShape& s) {
  const auto bytes = static_cast<std::size_t>(s.bytes);
  const DriverApi& api = driver.api();
  Operation operation;
  operation.method = TimingMethod::Events;
  auto device = std::make_shared<DeviceMemory>(zeros(driver, bytes));
  const bool inward = s.direction == CopyDirection::HostToDevice;
  if (s.direction == CopyDirection::Peer) throw CannotRun("peer copies need a second GPU");
  if (s.direction == CopyDirection::DeviceToDevice) {
    auto other = std::make_shared<DeviceMemory>(zeros(driver, bytes));
    operation.launch = [&driver, &api, device, other, bytes] {
      driver.check(api.copy_async(device->at(), other->at(), bytes, driver.stream()), "copying");
    };
  } else if (s.pinned) {
    auto host = std::make_shared<PinnedMemory>(driver, bytes);
    std::memset(host->at(), 1, bytes);
    operation.launch = [&driver, &api, device, host, bytes, inward] {
      driver.check(inward ? api.copy_in_async(device->at(), host->at(), bytes, driver.stream())
                          : api.copy_out_async(host->at(), device->at(), bytes, driver.stream()),
                   "copying");
    };
  } else {
    auto host = std::make_shared<std::vector<unsigned char>>(bytes, static_cast<unsigned char>(1));
    operation.method = TimingMethod::Host;
    operation.launch = [&driver, &api, device, host, bytes, inward] {
      driver.check(inward ? api.copy_in(device->at(), host->data(), bytes)
                          : api.copy_out(host->data(), device->at(), bytes),
                   "copying");
    };
  }
  return operation;
}

}  // namespace tracecast::calibrate::cuda
