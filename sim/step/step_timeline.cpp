#include "sim/step/step_timeline.hpp"

#include <algorithm>
#include <map>

#include "sim/step/step_run.hpp"

namespace tracecast {
namespace {

using engine::TaskId;
using Kind = TimelineTrack::Kind;

/// Numbers as PyTorch's profiler shows them: 7 is the default stream.
constexpr std::int64_t kComputeStream = 7, kCopyStream = 14;

class Drawer {
 public:
  Drawer(const StepProgram& program, const PricedStep& priced, const NetworkGraph& graph,
         int num_steps)
      : program_(program),
        priced_(priced),
        graph_(graph),
        run_(build_step_run(program, num_steps)),
        schedule_(run_.graph.run()) {}

  Timeline draw(const std::string& gpu) {
    timeline_.gpu = gpu;
    timeline_.tracks = {{Kind::HostThread, 0, 0, "dispatch"},
                        {Kind::Stream, 0, kCopyStream, "copies"},
                        {Kind::Stream, 0, kComputeStream, "compute"}};
    for (std::size_t r = timeline_.tracks.size(); r < run_.graph.num_resources(); ++r) {
      const auto number = static_cast<std::int64_t>(r);
      timeline_.tracks.push_back({Kind::HostThread, 0, number, "input " + std::to_string(r - 2)});
    }
    const auto steps = static_cast<std::uint32_t>(timeline_.tracks.size());
    timeline_.tracks.push_back({Kind::HostThread, 0, static_cast<std::int64_t>(steps), "steps"});
    draw_kernels();
    draw_others();
    draw_steps(steps);
    return std::move(timeline_);
  }

 private:
  std::uint32_t name(const std::string& text) {
    const auto [at, is_new] =
        names_.emplace(text, static_cast<std::uint32_t>(timeline_.names.size()));
    if (is_new) timeline_.names.push_back(text);
    return at->second;
  }
  [[nodiscard]] std::int64_t start(TaskId task) const {
    return schedule_.start[task.index].count();
  }
  [[nodiscard]] std::int64_t end(TaskId task) const { return schedule_.end[task.index].count(); }
  std::uint32_t add(SliceKind kind, std::uint32_t track, std::uint32_t text, std::int64_t begin,
                    std::int64_t until) {
    timeline_.slices.push_back({kind, KernelClass::Other, track, text, 0, begin, until - begin, 0});
    return static_cast<std::uint32_t>(timeline_.slices.size() - 1);
  }

  /// Every kernel with the work of the host for it: the op's dispatch, where it is the op's first,
  /// then the launch.
  void draw_kernels() {
    std::vector<std::uint32_t> kernel_names, op_names;
    std::vector<KernelClass> classes;
    for (const ProgramKernel& launched : program_.kernels) {
      const Kernel& kernel = priced_.choices[launched.op].candidate->kernels[launched.kernel];
      const Op& op = graph_.op(priced_.lowered->ops[launched.op].op);
      std::string text = std::string(to_string(kernel.kernel_class)) + ": " + kernel.name;
      if (kernel.algorithm != Algorithm::None)
        text += ", " + std::string(to_string(kernel.algorithm));
      kernel_names.push_back(name(text));
      classes.push_back(kernel.kernel_class);
      op_names.push_back(name(op.name));
    }
    const std::uint32_t launch_name = name("cudaLaunchKernel");
    for (std::size_t i = 0; i < run_.kernels.size(); ++i) {
      const std::size_t k = i % program_.kernels.size();
      const TaskId launch = run_.launches[i], kernel = run_.kernels[i];
      const auto launching =
          engine::to_ticks<engine::Picoseconds>(program_.launch).count() +
          engine::to_ticks<engine::Picoseconds>(program_.kernels[k].more_launch).count();
      const std::int64_t called = std::max(start(launch), end(launch) - launching);
      if (called > start(launch))
        add(SliceKind::HostWork, StepRun::kHost, op_names[k], start(launch), called);
      const std::uint32_t from =
          add(SliceKind::Call, StepRun::kHost, launch_name, called, end(launch));
      const std::uint32_t to =
          add(SliceKind::Kernel, StepRun::kStream, kernel_names[k], start(kernel), end(kernel));
      timeline_.slices[to].kernel_class = classes[k];
      timeline_.slices[from].correlation = timeline_.slices[to].correlation =
          static_cast<std::uint32_t>(i + 1);
      timeline_.flows.push_back({from, to});
      drawn_.push_back(launch);
    }
  }

  /// Copies, loading, and the host's overhead of each step.
  void draw_others() {
    std::vector<bool> is_drawn(run_.kinds.size(), false);
    for (const TaskId launch : drawn_) is_drawn[launch.index] = true;
    const std::uint32_t copy = name("Memcpy HtoD (Pinned -> Device)");
    const std::uint32_t overhead = name("step overhead"), load = name("enumerate(DataLoader)");
    for (std::uint32_t i = 0; i < run_.kinds.size(); ++i) {
      const std::uint32_t track = run_.resources[i];
      const TaskId task{i};
      if (is_drawn[i] || track == StepRun::kNoResource || start(task) == end(task)) continue;
      if (run_.kinds[i] == TaskKind::Copy)
        add(SliceKind::Copy, track, copy, start(task), end(task));
      if (run_.kinds[i] == TaskKind::Input)
        add(SliceKind::Mark, track, load, start(task), end(task));
      if (run_.kinds[i] == TaskKind::Host)
        add(SliceKind::HostWork, track, overhead, start(task), end(task));
    }
  }

  void draw_steps(std::uint32_t track) {
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < run_.last_of_step.size(); ++i) {
      const std::int64_t until = end(run_.last_of_step[i]);
      add(SliceKind::Mark, track, name("ProfilerStep#" + std::to_string(i)), begin, until);
      begin = until;
    }
  }

  const StepProgram& program_;
  const PricedStep& priced_;
  const NetworkGraph& graph_;
  StepRun run_;
  engine::Schedule schedule_;
  Timeline timeline_;
  std::map<std::string, std::uint32_t> names_{{"", 0}};
  std::vector<TaskId> drawn_;
};

}  // namespace

Timeline step_timeline(const StepProgram& program, const PricedStep& priced,
                       const NetworkGraph& graph, int num_steps, const std::string& gpu) {
  return Drawer(program, priced, graph, num_steps).draw(gpu);
}

}  // namespace tracecast
