#pragma once
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hwspecs/library.hpp"
#include "sim/job/input_record.hpp"
#include "sim/job/job.hpp"

namespace tracecast {

/// Everything that predictions know about the world: specs of hardware, and profiles of software
/// and of costs. Never changes; copies share it and are cheap; safe from several threads. The
/// with_... functions make another one beside it, in which later files and settings go before
/// earlier ones.
class Hardware {
 public:
  /// What is in the binary. Specs are parsed when they are first asked for.
  [[nodiscard]] static Hardware embedded();
  /// With the files of a folder of the same form as hwspecs/, of any kind
  /// (SpecLibrary::with_folder); a known id is replaced. Throws InputError.
  [[nodiscard]] Hardware with_folder(const std::filesystem::path& folder) const;
  /// With the cost profile of a file instead. Settings of the cost profile stay. Throws InputError.
  [[nodiscard]] Hardware with_profile(const std::filesystem::path& file) const;
  /// The same with a profile that is in no file; answers name it by its id and values.
  [[nodiscard]] Hardware with_profile(CostProfile profile) const;
  /// With one thing set, "PATH=VALUE": "cost.PARAMETER=0.5", "framework.dispatch_us=4",
  /// "sharing.time_slice_us=2000" (numbers), "gpu.compute=2x", "link.latency=0.5x" (factors,
  /// sim/job/hardware_factor.hpp). Throws InputError.
  [[nodiscard]] Hardware with(std::string_view setting) const;

  /// Every file: hardware with its factors, and all else that is looked up.
  [[nodiscard]] const SpecLibrary& specs() const;
  [[nodiscard]] const GpuCatalog& gpus() const;
  [[nodiscard]] const CpuCatalog& cpus() const;
  [[nodiscard]] const DiskCatalog& disks() const;
  [[nodiscard]] const LinkCatalog& links() const;
  [[nodiscard]] const MachineCatalog& machines() const;
  [[nodiscard]] const CostProfile& cost() const;
  /// The GPU as it is sold and the cost profile that goes with it, where factors of hardware were
  /// set; else nothing.
  [[nodiscard]] const GpuSpec* find_sold(const std::string& gpu) const;
  [[nodiscard]] const CostProfile& cost_of_sold() const;
  [[nodiscard]] const InputRecord& cost_record() const;
  /// How processes take turns on a GPU.
  [[nodiscard]] const GpuSharing& sharing() const;
  /// Factors of hardware other than it is, one line each: every answer repeats them.
  [[nodiscard]] const std::vector<std::string>& factors() const;

  /// The framework profile of that id with the settings "framework.FIELD=VALUE" in it. Throws
  /// InputError.
  [[nodiscard]] FrameworkProfile framework(std::string_view id) const;
  /// A profile, changed since it was taken, with those settings again as they were set.
  [[nodiscard]] FrameworkProfile with_settings(FrameworkProfile framework) const;
  /// The same for the version or date that `software` names, or compiled by XLA (find_framework).
  /// Throws InputError.
  [[nodiscard]] FrameworkProfile framework(const Software& software) const;
  /// That of a training program, whose version or date decide which kernels its matrix library has
  /// on `gpu`. Throws InputError.
  [[nodiscard]] FrameworkProfile framework_of(const TrainingSoftware& program,
                                              const SoftwareWords& words, const GpuSpec& gpu) const;

 private:
  friend Hardware load_hardware(const struct SourceOptions& options);
  struct Recipe;
  struct State;
  explicit Hardware(Recipe recipe);
  std::shared_ptr<const State> state_;
};

/// Where specs and profiles come from, as flags say it.
struct SourceOptions {
  std::string hwspecs;            ///< folder that adds or overrides specs; empty: none
  std::string profile;            ///< cost profile file; empty: the one in the binary
  std::vector<std::string> sets;  ///< "PATH=VALUE" of Hardware::with
};
/// The hardware that `options` ask for. Throws InputError.
[[nodiscard]] Hardware load_hardware(const SourceOptions& options);

}  // namespace tracecast
