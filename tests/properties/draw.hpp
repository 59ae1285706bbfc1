#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "hwspecs/gpu_spec.hpp"
#include "models/zoo/zoo.hpp"
#include "sim/base/random.hpp"
#include "tests/properties/command.hpp"

namespace tracecast::test {

/// Kinds of questions, and how many of a hundred jobs ask each.
enum class Kind { OneGpu, DataParallel, Sharded, Serve, Compare, Plan, Schedule };
struct KindShare {
  Kind kind;
  const char* name;
  int percent;
};
inline constexpr std::array<KindShare, 7> kKinds{{{Kind::OneGpu, "one GPU", 42},
                                                  {Kind::DataParallel, "data parallel", 18},
                                                  {Kind::Sharded, "sharded", 16},
                                                  {Kind::Serve, "serve", 14},
                                                  {Kind::Compare, "compare", 4},
                                                  {Kind::Plan, "plan", 2},
                                                  {Kind::Schedule, "schedule", 4}}};

/// Draws job `index`: the same whichever jobs were drawn before. Networks of the zoo, GPUs and
/// machines of hwspecs, and what people set, from wide but sensible ranges.
class Draw {
 public:
  explicit Draw(std::uint64_t index);

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] Command job();

  /// Draws for those who vary the job.
  bool chance(double probability) { return random_.uniform() < probability; }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least +
           static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most - least + 1)));
  }
  template <class Container>
  const auto& pick(const Container& all) {
    return all[static_cast<std::size_t>(random_.below(all.size()))];
  }
  /// A size after `size` as people take them: the next, the next multiple of eight, or half as much
  /// again, or twice.
  std::int64_t next_size(std::int64_t size);

 private:
  Command one_gpu();
  Command data_parallel();
  Command sharded();
  Command serve();
  Command compare();
  Command plan();
  Command schedule();

  const ZooEntry& network_for(const GpuSpec& gpu, double bytes_per_parameter);
  const GpuSpec& gpu_since(Architecture oldest);
  /// About the middle of the range on a logarithmic scale as often as either end.
  std::int64_t size_between(std::int64_t least, std::int64_t most);
  void add_precision(const GpuSpec& gpu, bool trains, Command& command);
  void add_software(const GpuSpec& gpu, bool trains, Command& command);
  void add_sizes(const ZooEntry& network, Command& command);
  void add_board(const GpuSpec& gpu, Command& command);
  void add_host(Command& command, std::int64_t gpus);

  Random random_;
  Kind kind_;
};

}  // namespace tracecast::test
