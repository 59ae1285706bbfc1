// The program that the tests record: it finds the driver at run time as real ones do.
// fake_program steps N | threads N LAUNCHES |
// killed N | exits CODE | interrupted | resnet50 --steps N | transformer --steps N (as
// tools/record_program.py)
#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tests/traces/cupti/fake_cuda.hpp"

namespace {

using tracecast::test::FakeCuda;

FakeCuda load_driver() {
  void* driver = ::dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    std::fprintf(stderr, "%s\n", ::dlerror());
    std::exit(90);
  }
  FakeCuda cuda{};
  const auto find = [driver](auto& to, const char* name) {
    to = reinterpret_cast<std::remove_reference_t<decltype(to)>>(::dlsym(driver, name));
  };
  find(cuda.init, "cuInit");
  find(cuda.launch, "fake_launch");
  find(cuda.copy_to_device, "fake_copy_to_device");
  find(cuda.clear, "fake_clear");
  find(cuda.record_event, "fake_record_event");
  find(cuda.wait_for_event, "fake_wait_for_event");
  find(cuda.wait_for_stream, "fake_wait_for_stream");
  find(cuda.push_range, "fake_push_range");
  find(cuda.pop_range, "fake_pop_range");
  find(cuda.work_on_host, "fake_work_on_host");
  return cuda;
}

/// One step of 562 us on the host's clock and 38 us until the next: see
/// tests/tools/trace_record_test.cpp.
void train_step(const FakeCuda& cuda, const std::string& range) {
  cuda.push_range(range.c_str());
  cuda.copy_to_device(7, 1'000'000);
  cuda.clear(7, 1'000'000);
  cuda.launch("volta_sgemm_128x64_nn", 7, 100'000);
  cuda.launch("_Z9normalizePfi", 7, 300'000);
  cuda.record_event(1, 7);
  cuda.wait_for_event(13, 1);
  cuda.launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 13, 50'000);
  cuda.wait_for_stream(13);
  cuda.pop_range();
  cuda.work_on_host(38'000);
}

/// As tools/record_program.py does and says.
void train_as_script(const FakeCuda& cuda, int steps) {
  std::string list;
  for (int step = 0; step < steps; ++step) {
    train_step(cuda, "step " + std::to_string(step));
    list += step > 0 ? ",562e-6" : "562e-6";
  }
  std::printf("{\"step_s\":[%s]}\n", list.c_str());
}

void launch_on_threads(const FakeCuda& cuda, int num_threads, int launches) {
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) {
    threads.emplace_back([&cuda, i, launches] {
      for (int k = 0; k < launches; ++k)
        cuda.launch("volta_sgemm_128x64_nn", static_cast<unsigned>(20 + i), 5000);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  const int count = argc > 2 ? std::atoi(argv[2]) : 0;
  if (mode == "exits") return count;
  const FakeCuda cuda = load_driver();
  if (cuda.init(0) != 0) return 91;
  if (mode == "steps") {
    for (int step = 0; step < count; ++step) train_step(cuda, "iteration " + std::to_string(step));
    std::puts("trained");
  } else if (mode == "resnet50" || mode == "transformer") {
    train_as_script(cuda, argc > 3 ? std::atoi(argv[3]) : 1);
  } else if (mode == "threads") {
    launch_on_threads(cuda, count, argc > 3 ? std::atoi(argv[3]) : 1);
  } else if (mode == "killed") {
    for (int step = 0; step < count; ++step) train_step(cuda, "iteration " + std::to_string(step));
    ::usleep(2'500'000);  // two ticks of the recorder
    ::raise(SIGKILL);
  } else if (mode == "interrupted") {
    train_step(cuda, "iteration 0");
    ::signal(SIGTERM, [](int) { std::exit(42); });
    ::kill(::getppid(), SIGTERM);  // to the recording tracecast alone
    ::sleep(20);
  }
  return 0;
}
