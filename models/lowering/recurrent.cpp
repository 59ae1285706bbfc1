#include "models/lowering/recurrent.hpp"

#include <algorithm>
#include <utility>

#include "models/lowering/kernels.hpp"

namespace tracecast::lowering {
namespace {

/// Operations per element of the elementwise kernel: a sigmoid or tanh takes about ten
/// (streaming.cpp).
constexpr double kOperationsPerGate = 12;
constexpr std::int64_t kMostRecords = 64;
/// cuDNN version from which GEMMs of single steps split their inner dimension: up to 6 the time of
/// a step goes with the inner dimension alone, in 7.6 it does not. Source: data/kernels/rnn.csv,
/// rows of P100 and V100.
constexpr double kFirstSplitting = 7;

class Layers {
 public:
  Layers(const Context& context, const Op& op, bool persistent)
      : context_(context),
        op_(op),
        a_(std::get<RecurrentAttributes>(op.attributes)),
        persistent_(persistent) {}

  std::vector<Kernel> run() {
    switch (op_.pass) {
      case Pass::BackwardData:
        loops();
        input_gradients();
        break;
      case Pass::BackwardWeights:
        weight_gradients();
        break;
      default:
        cast_weights(true);
        loops();
    }
    return std::move(kernels_);
  }

 private:
  [[nodiscard]] bool is_forward() const { return op_.pass == Pass::Forward; }
  [[nodiscard]] std::int64_t rows() const { return a_.steps * a_.batch; }
  [[nodiscard]] bool reads_input(int layer) const { return layer > 0 || !a_.skip_input; }

  void cast_weights(bool before) {
    if (!context_.formats.casts_weights()) return;
    double weights = 0;
    for (const TensorId id : before ? op_.inputs : op_.outputs) {
      const TensorRole role = context_.graph.tensor(id).role;
      const bool counts = role == TensorRole::Weight || role == TensorRole::WeightGradient;
      if (counts) weights += context_.elements(id);
    }
    kernels_.push_back(weight_cast(context_, op_.pass, weights));
  }

  void gemm(const char* name, const MatrixWork& work) {
    kernels_.push_back(matrix_kernel(name, KernelClass::Gemm, op_.pass, context_.formats, work));
  }

  void inputs_of(int layer) {
    if (!is_forward() || !reads_input(layer)) return;
    for (std::int64_t d = 0; d < a_.directions(); ++d) {
      gemm(
          "inputs",
          {.m = rows(), .n = a_.gates() * a_.hidden, .k = a_.input_of(layer), .transpose_b = true});
    }
  }

  void dropout_before(int layer) {
    if (layer == 0 || !a_.dropout || !context_.is_training) return;
    const double elements = static_cast<double>(rows() * a_.input_of(layer));
    const Bytes bytes = element_size(context_.formats.storage) * elements;
    kernels_.push_back(stream_kernel("dropout", KernelClass::Elementwise, op_.pass,
                                     context_.formats.storage, bytes, bytes, elements, 12));
  }

  /// A wavefront where layers may overlap, else layer by layer.
  void loops() {
    const bool wavefront = context_.framework.recurrence.streams && !a_.bidirectional;
    if (wavefront) {
      for (int layer = 0; layer < a_.layers; ++layer) {
        dropout_before(layer);
        inputs_of(layer);
      }
      const std::int64_t widest = std::min<std::int64_t>(a_.layers, a_.steps);
      for (std::int64_t cells = 1; cells < widest; ++cells) loop(1, cells);
      loop(std::max<std::int64_t>(a_.steps, a_.layers) - widest + 1, widest);
      for (std::int64_t cells = widest - 1; cells >= 1; --cells) loop(1, cells);
      return;
    }
    const bool together = context_.framework.recurrence.streams;
    for (int layer = 0; layer < a_.layers; ++layer) {
      dropout_before(layer);
      inputs_of(layer);
      const std::int64_t loops = together ? 1 : a_.directions();
      for (std::int64_t i = 0; i < loops; ++i) loop(a_.steps, a_.directions() / loops);
    }
  }

  /// `steps` steps of `cells` cells each.
  void loop(std::int64_t steps, std::int64_t cells) {
    const std::int64_t per_record = persistent_ ? steps : (steps + kMostRecords - 1) / kMostRecords;
    for (std::int64_t done = 0; done < steps; done += per_record) {
      kernels_.push_back(record(std::min(per_record, steps - done), cells));
    }
  }

  [[nodiscard]] RecurrentWork work_of(std::int64_t steps, std::int64_t cells) const {
    const std::int64_t gates = a_.gates() * a_.hidden;
    const double elements = static_cast<double>(a_.batch * a_.hidden);
    const auto g = static_cast<double>(a_.gates());
    // Forward: both GEMMs in, state in and out, h out, gates out in training. Backward: gates,
    // states and two gradients in, gate gradients and the state's out.
    double words = is_forward() ? 2 * g + 3 + (context_.is_training ? g : 0) : 2 * g + 5;
    if (a_.gates() == 1) words = is_forward() ? 3 : 4;
    RecurrentWork work;
    work.steps = steps;
    work.cells = cells;
    work.gemm = is_forward() ? MatrixWork{.m = a_.batch, .n = gates, .k = a_.output()}
                             : MatrixWork{.m = a_.batch, .n = a_.output(), .k = gates};
    work.projection = a_.projection;
    work.elements = elements;
    work.elementwise_bytes = words * elements * element_size(context_.formats.storage).in_bytes();
    work.may_split_k =
        !is_forward() || context_.framework.convolutions.cudnn_version >= kFirstSplitting;
    work.persistent = persistent_;
    return work;
  }

  [[nodiscard]] Kernel record(std::int64_t steps, std::int64_t cells) const {
    const RecurrentWork work = work_of(steps, cells);
    const double times = static_cast<double>(steps) * static_cast<double>(cells);
    const double m = static_cast<double>(a_.batch);
    const double projected = static_cast<double>(a_.hidden) * static_cast<double>(a_.projection);
    const double weights =
        static_cast<double>(work.gemm.n) * static_cast<double>(work.gemm.k) + projected;
    const Bytes size = element_size(context_.formats.storage);
    const double weight_reads = persistent_ ? static_cast<double>(cells) : times;
    const double state = m * static_cast<double>(work.gemm.n + work.gemm.k);
    Kernel kernel;
    kernel.name = "steps";
    kernel.kernel_class = KernelClass::Recurrent;
    kernel.algorithm = persistent_ ? Algorithm::Persistent : Algorithm::StepByStep;
    kernel.pass = op_.pass;
    kernel.data = context_.formats.storage;
    kernel.math = context_.formats.math;
    kernel.unit = context_.formats.unit;
    kernel.flops = Flops(times * (2 * m * weights + work.elements * kOperationsPerGate *
                                                        static_cast<double>(a_.gates())));
    kernel.read = size * (weight_reads * weights + times * state * 0.5) +
                  Bytes(times * work.elementwise_bytes * 0.5);
    kernel.written = size * (times * state * 0.5) + Bytes(times * work.elementwise_bytes * 0.5);
    kernel.work = work;
    const double per_cell = a_.projection > 0 ? 3 : 2;
    kernel.more_launches = persistent_ ? 0 : per_cell * times - 1;
    kernel.driven_steps = persistent_ ? 0 : times;
    return kernel;
  }

  void input_gradients() {
    const bool wants_first = op_.outputs.size() > 1 && reads_input(0);
    for (int layer = a_.layers - 1; layer >= (wants_first ? 0 : 1); --layer) {
      for (std::int64_t d = 0; d < a_.directions(); ++d) {
        gemm("input_grad", {.m = rows(), .n = a_.input_of(layer), .k = a_.gates() * a_.hidden});
      }
      dropout_before(layer);
    }
  }

  void weight_gradients() {
    const std::int64_t gates = a_.gates() * a_.hidden;
    for (int layer = 0; layer < a_.layers; ++layer) {
      for (std::int64_t d = 0; d < a_.directions(); ++d) {
        if (reads_input(layer)) {
          gemm("input_weights",
               {.m = gates, .n = a_.input_of(layer), .k = rows(), .transpose_a = true});
        }
        gemm("state_weights", {.m = gates, .n = a_.output(), .k = rows(), .transpose_a = true});
        if (a_.projection > 0) {
          gemm("projection",
               {.m = a_.projection, .n = a_.hidden, .k = rows(), .transpose_a = true});
        }
        if (a_.biases > 0) {
          kernels_.push_back(bias_gradient(
              context_, static_cast<double>(rows()) * static_cast<double>(gates), gates));
        }
      }
    }
    cast_weights(false);
  }

  const Context& context_;
  const Op& op_;
  const RecurrentAttributes& a_;
  bool persistent_;
  std::vector<Kernel> kernels_;
};

bool is_volta_batch(const RecurrentAttributes& a) {
  const std::int64_t n = a.batch;
  const bool good = n == 8 || (n % 16 == 0 && n != 80 && n != 112);
  return good &&
         ((a.steps >= 40 && n <= 128) || (a.steps >= 20 && n <= 96) || (a.steps >= 10 && n <= 32));
}

bool is_later_batch(const RecurrentAttributes& a) {
  if (a.cell == CellKind::Gru || a.batch % 8 != 0 || a.batch > 128) return false;
  return a.cell == CellKind::Lstm || a.batch < 96 || a.hidden < 896;
}

}  // namespace

bool is_persistent(const RecurrentAttributes& a, const Formats& formats, const GpuTraits& gpu) {
  const bool is_half = formats.unit == MathUnit::TensorCore && formats.storage == Precision::Fp16;
  const bool is_simple = a.layers == 1 && !a.bidirectional && a.projection == 0;
  const bool fits = a.hidden <= 1024 && a.hidden % 128 == 0 && a.input % 128 == 0;
  if (!is_half || !is_simple || !fits) return false;
  if (gpu.architecture() == Architecture::Volta) return is_volta_batch(a);
  // Compute capability 8.0 and from 9.0 on, chips of 98 SMs and more.
  return gpu.architecture() >= Architecture::Ampere && gpu.is_large() && is_later_batch(a);
}

std::vector<Candidate> lower_recurrent(const Context& context, const Op& op, const GpuTraits& gpu) {
  const auto& a = std::get<RecurrentAttributes>(op.attributes);
  const bool persistent = op.pass != Pass::BackwardWeights &&
                          context.framework.recurrence.persistent &&
                          is_persistent(a, context.formats, gpu);
  Candidate candidate;
  candidate.algorithm = op.pass == Pass::BackwardWeights ? Algorithm::None
                        : persistent                     ? Algorithm::Persistent
                                                         : Algorithm::StepByStep;
  candidate.kernels = Layers(context, op, persistent).run();
  return {std::move(candidate)};
}

}  // namespace tracecast::lowering
