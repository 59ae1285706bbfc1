#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "hwspecs/cost_profile.hpp"
#include "hwspecs/library.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "hwspecs/software/framework_profile.hpp"
#include "models/graph.hpp"
#include "models/kernel.hpp"
#include "sim/base/units.hpp"
#include "sim/cost/price.hpp"

namespace tracecast {

/// Between which moments a row's time was taken, and what of the host it holds.
enum class Timing {
  /// "ev5": one op of an idle host between two events: the host's way to the launch + kernels, and
  /// no less than its way to
  /// the second event.
  FrameworkOp,
  LibraryCall,    ///< "evlib": one library call between two events: kernels + one launch
  FrameworkLoop,  ///< "loop_framework": ops back to back, at least the host's time each
  Loop,           ///< calls back to back, at least one launch time per kernel
  KernelOnly,     ///< "derived", "cupti": the kernels alone
};

/// One op as the kernels that could run for it, alone on the GPU.
struct IsolatedOp {
  LoweredStep step;
  Timing timing = Timing::Loop;
  Seconds host_floor{};  ///< of the op in an idle host, launch included
  /// Of it, what comes between the launch and the second event: kernels run meanwhile.
  /// Timing::FrameworkOp alone.
  Seconds after_launch{};
  Seconds launch{};  ///< per kernel
  double host_log_sd = 0;
};
/// A whole step of a framework, as the engine runs it.
struct FrameworkStep {
  NetworkGraph graph;
  std::shared_ptr<const FrameworkProfile> framework;
};

/// One GEMM on tensor cores as an engine or library runs it, in a loop of its own.
struct GemmCall {
  /// The calls whose median the figure is: one per engine, or one.
  std::vector<cost::TensorGemm> gemms;
  Seconds gap{};          ///< between kernels, in the figure
  Seconds floor{};        ///< of the host that launches it
  bool in_graph = false;  ///< captured: the gap is the profile's
  bool is_alone = false;  ///< between two events: the gap times the profile's event_gap
  bool is_power = false;  ///< the figure is the mean board power in watts, not a time
};

/// An engine's call in a captured graph, the same data each time: attention, a MoE, a quantisation.
struct EngineCall {
  /// The calls whose median the figure is: one per engine, or one.
  std::vector<Work> calls;
};

/// A measured row that can be priced again under any parameters.
struct Measurement {
  std::string gpu;                ///< id of its spec
  const GpuSpec* spec = nullptr;  ///< at the row's clock; lives as long as the context's specs
  std::string group;   ///< what errors are reported by: "linear", "convolution forward", "softmax"
  std::string source;  ///< who measured, "" where the table has one source
  std::string split;   ///< subset of the source, may be empty
  std::size_t line = 0;
  Seconds time{};
  std::string flag;  ///< why the figure stands apart, as its table says; such rows are never fitted
  std::variant<IsolatedOp, FrameworkStep, GemmCall, EngineCall> work;
};

/// What profiles call the measurement's origin: its source, else its group.
[[nodiscard]] std::string_view origin(const Measurement& measurement);
/// Whether the profile was fitted to rows of this origin and GPU: then its price is no prediction.
[[nodiscard]] bool is_fitted(const Measurement& measurement, const CostProfile& profile);

/// What the cost model says of a measurement.
struct MeasurementEstimate {
  Seconds time{};     ///< comparable to the measured one
  Seconds kernels{};  ///< of it, kernels
  double log_sd = 0;  ///< of ln(measured / predicted)
  std::string_view basis;
  std::optional<CostForm> form;  ///< of the longest kernel; nothing for whole steps
  double body_share =
      0;  ///< of an engine's call, what is not the fixed time around its main kernel
  cost::CallUncertainty uncertainty = {};  ///< of an engine's call; of several the last
};
/// The host's part in an op's time, by the framework's profile: its way to the first kernel, or one
/// launch for library calls.
[[nodiscard]] Seconds expected_host_floor(const IsolatedOp& op);
/// Prices a measurement. `host_floor` replaces the framework's where the session's own is known; it
/// matters for Timing::FrameworkOp, FrameworkLoop and LibraryCall alone. Nothing when no kernel
/// runs for it.
[[nodiscard]] std::optional<MeasurementEstimate> estimate_measurement(
    const Measurement& measurement, const GpuSpec& gpu, const CostProfile& profile,
    std::optional<Seconds> host_floor = std::nullopt);

/// Specs by (name, clock), kept, since a table asks for few of them thousands of times.
class SpecsAtClock {
 public:
  explicit SpecsAtClock(const GpuCatalog& gpus);
  ~SpecsAtClock();
  /// The spec of a name, pinned to a clock if one is given, with ECC on if that is known of a board
  /// that has it; null when there is none.
  [[nodiscard]] const GpuSpec* find(std::string_view name, std::optional<double> clock_mhz = {},
                                    bool ecc_on = false);

 private:
  struct Known;
  std::unique_ptr<Known> known_;
};

/// What readers of measurements need to know of hardware and frameworks.
struct MeasurementContext {
  std::shared_ptr<SpecsAtClock> specs;  ///< measurements point into it
  std::function<FrameworkProfile(std::string_view id)> framework;
  /// Whose column to read of tables that hold several engines'; nothing: the figure over all.
  std::optional<GemmEngine> engine{};
  bool power = false;  ///< read the board's mean power in watts in place of the time
  SpecLibrary library =
      SpecLibrary::embedded();  ///< records of published tables, costs of library calls
};

/// A row as a measurement, or the reason why it is none.
using MeasurementOrReason = std::variant<Measurement, std::string>;

/// Knows one kind of table: which columns mean what, and how its figures were taken.
class MeasurementReader {
 public:
  virtual ~MeasurementReader() = default;
  [[nodiscard]] virtual std::string_view table() const = 0;
  /// How a figure was measured and what is added to be comparable; one line.
  [[nodiscard]] virtual std::string_view convention() const = 0;
  /// The row of the reader. Throws InputError when it is malformed.
  [[nodiscard]] virtual MeasurementOrReason read(const CsvReader& row) = 0;
  /// Reads this engine's column from now on. False: the table does not tell engines apart.
  virtual bool use_engine(GemmEngine) { return false; }
  /// Reads the board's mean power, in watts, in place of the time from now on. False: the table
  /// holds none.
  virtual bool use_power() { return false; }
  /// Column that holds the time, and seconds per unit of it.
  [[nodiscard]] virtual std::string_view time_column() const { return "time_us"; }
  [[nodiscard]] virtual Seconds time_unit() const { return Seconds(1e-6); }
};

/// A kind of table: recognised by its header.
struct MeasurementTable {
  std::string_view name;
  std::vector<std::string_view> required;  ///< columns that tell it from the others
  std::function<std::unique_ptr<MeasurementReader>(const MeasurementContext&)> make;
};
/// Kernels and library calls measured alone (data/kernels); TensorFlow layers (data/kernels_tf).
[[nodiscard]] std::vector<MeasurementTable> kernel_measurement_tables();
[[nodiscard]] std::vector<MeasurementTable> session_measurement_tables();
/// GEMMs on tensor cores (data/modern).
[[nodiscard]] std::vector<MeasurementTable> gemm_measurement_tables();
/// Attention, MoE networks and quantisation by inference engines (data/modern).
[[nodiscard]] std::vector<MeasurementTable> engine_measurement_tables();
/// The reader for a header, or nothing.
[[nodiscard]] std::unique_ptr<MeasurementReader> find_measurement_reader(
    const CsvReader& reader, const MeasurementContext& context);

}  // namespace tracecast
