#include "sim/replay/replay_transfer.hpp"

#include <doctest/doctest.h>

#include "hwspecs/loaders/gpu_loader.hpp"

namespace tracecast {
namespace {

/// Two elementwise kernels, a collective, a pageable and a peer copy, a memset, and the host.
struct Recorded {
  ReplayProgram program;
  std::vector<std::uint32_t> records;
  RecordedWork work;

  Recorded() {
    kernel(KernelClass::Elementwise, 100);
    kernel(KernelClass::Elementwise, 300);
    kernel(KernelClass::Collective, 50);
    copy(CopyRoute::Pageable, 40);
    copy(CopyRoute::Peer, 80);
    task(ReplayWork::Memset, 0, 10);
    task(ReplayWork::HostWork, 0, 60);
    task(ReplayWork::Call, 0, 5);
  }
  void kernel(KernelClass kernel_class, std::int64_t us) {
    task(ReplayWork::Kernel, static_cast<std::uint32_t>(work.kernels.size()), us, kernel_class);
    RecordedKernel& kernel = work.kernels.emplace_back();
    kernel.kernel_class = kernel_class;
    kernel.duration = Seconds(static_cast<double>(us) * 1e-6);
    kernel.launch = {.blocks = 100'000, .threads = 256};
  }
  void copy(CopyRoute route, std::int64_t us) {
    task(ReplayWork::Copy, static_cast<std::uint32_t>(work.copies.size()), us);
    work.copies.push_back(route);
  }
  void task(ReplayWork kind, std::uint32_t record, std::int64_t us,
            KernelClass kernel_class = KernelClass::Other) {
    program.tasks.push_back({kind, kernel_class, 0, 0, us * 1000, 0});
    records.push_back(record);
  }
  MovedWork move(std::string_view from, std::string_view to, const MoveOptions& options = {}) {
    static const GpuCatalog gpus = GpuCatalog::embedded();
    return move_to(program, records, work, gpus.find(from), gpus.find(to), default_cost_profile(),
                   options);
  }
};

TEST_SUITE_BEGIN("sim/replay/replay_transfer");

TEST_CASE("on the recorded GPU every time stays") {
  Recorded recorded;
  const ReplayProgram before = recorded.program;
  const MovedWork moved = recorded.move("p100_pcie_16gb", "p100_pcie_16gb");
  CHECK(recorded.program == before);
  CHECK(moved.from == moved.to);
  CHECK(moved.kernels.predicted_s == doctest::Approx(450e-6).epsilon(1e-9));
}

TEST_CASE("kernels and copies move as what they are, calls stay") {
  Recorded recorded;
  const ReplayProgram before = recorded.program;
  const MovedWork moved = recorded.move("p100_pcie_16gb", "v100_sxm2_16gb");
  const auto ratio = [&](std::size_t task) {
    return static_cast<double>(recorded.program.tasks[task].duration_ns) /
           static_cast<double>(before.tasks[task].duration_ns);
  };
  CHECK(ratio(0) < 0.95);  // memory-bound, on faster memory
  CHECK(ratio(2) == 1);    // a collective waits for others
  CHECK(ratio(3) == 1);    // through the host's buffer
  for (const std::size_t residences : {6, 7}) CHECK(ratio(residences) == 1);
}

TEST_CASE("the account sums to the work") {
  Recorded recorded;
  const MovedWork moved = recorded.move("v100_sxm2_16gb", "t4");
  CHECK(moved.from == "v100_sxm2_16gb");
  CHECK(moved.to == "t4");
  REQUIRE(moved.classes.size() == 2);  // those that took time, with their names
  CHECK(moved.classes[0].name == to_string(KernelClass::Elementwise));
  CHECK(moved.classes[0].recorded_s == doctest::Approx(400e-6).epsilon(1e-9));
  double in_program = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    in_program += static_cast<double>(recorded.program.tasks[i].duration_ns) * 1e-9;
  }
  for (const auto& parts : {moved.ways, moved.classes}) {
    double recorded_s = 0, predicted_s = 0;
    for (const MovedTime& part : parts) {
      CHECK(!part.name.empty());
      recorded_s += part.recorded_s, predicted_s += part.predicted_s;
    }
    CHECK(recorded_s == doctest::Approx(moved.kernels.recorded_s).epsilon(1e-12));
    CHECK(predicted_s == doctest::Approx(moved.kernels.predicted_s).epsilon(1e-12));
    CHECK(predicted_s == doctest::Approx(in_program).epsilon(1e-5));  // whole nanoseconds
  }
  CHECK(moved.copies.recorded_s == doctest::Approx(130e-6).epsilon(1e-9));
  CHECK(moved.errors.size() == 3);
}

TEST_CASE("a host twice as fast needs half the time between calls, and no less for them") {
  Recorded recorded;
  (void)recorded.move("v100_sxm2_16gb", "t4", {.host_speed = 2});
  CHECK(recorded.program.tasks[6].duration_ns == 30'000);
  CHECK(recorded.program.tasks[7].duration_ns == 5'000);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
