#include "calibrate/collect/tables.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

#include "sim/base/foreign_text.hpp"

namespace tracecast::calibrate {
namespace {

/// Columns before the sizes, after the time, and ours.
constexpr std::string_view kFirst = "source,gpu,dtype,op,pass";
constexpr std::string_view kLast = "suspect,split,note";
constexpr std::string_view kOurs =
    "sm_clock_mhz,memory_clock_mhz,temperature_c,power_w,throttle,relative_error,repetitions,"
    "burst_us,experiment";

/// One row: the fields that differ by kind, in the order of the kind's columns.
struct Row {
  std::string_view op, pass;
  std::string sizes;  ///< between `pass` and `time_us`
  std::string rates;  ///< between `clock_mhz` and `suspect`
  std::string_view split = "";
};
struct Kind {
  std::string_view file;
  std::string_view sizes, rates;  ///< column names
};

std::string_view pass_name(Pass pass) {
  switch (pass) {
    case Pass::BackwardData:
      return "backward_data";
    case Pass::BackwardWeights:
      return "backward_filter";
    default:
      return "forward";
  }
}

std::string_view dtype_name(Precision precision, const DeviceIdentity& device) {
  if (precision == Precision::Fp16 && device.compute_capability >= 70) return "fp16_tensor_core";
  return to_string(precision);
}

/// What makes rows of one measurement.
struct RowMaker {
  const Experiment& experiment;
  const PlannedExperiment& planned;
  const TimedExperiment& timed;

  [[nodiscard]] std::string tflops() const {
    return fmt::format("{:.4g}", work_of(experiment).flops.in_flop() / timed.time.in_s() * 1e-12);
  }
  [[nodiscard]] std::string gbps() const {
    return fmt::format("{:.4g}", work_of(experiment).bytes.in_bytes() / timed.time.in_s() * 1e-9);
  }
  [[nodiscard]] std::string kernel() const { return csv_field(timed.kernel_name); }

  Row operator()(const GemmShape& s) const {
    return {.op = s.batch > 1 ? "bmm" : "gemm",
            .pass = "forward",
            .sizes = fmt::format("{},{},{},{},{},{},row,,{},,,", s.batch, s.m, s.n, s.k,
                                 s.transpose_a ? 'T' : 'N', s.transpose_b ? 'T' : 'N', kernel()),
            .rates = tflops() + ',' + gbps()};
  }
  Row operator()(const ConvolutionShape& s) const {
    const ConvAttributes& a = s.shape;
    return {.op = "conv2d",
            .pass = pass_name(s.pass),
            .sizes = fmt::format(
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{:.0f},{},,,", a.n, a.c,
                a.h, a.w, a.k, a.r, a.s, a.pad_top, a.pad_left, a.stride_h, a.stride_w,
                a.dilation_h, a.dilation_w, a.groups, a.p, a.q,
                s.layout == ImageLayout::Nhwc ? "NHWC" : "NCHW", table_name(s.algorithm),
                planned.heuristic == Algorithm::None ? "unknown" : table_name(planned.heuristic),
                timed.workspace.in_bytes(), kernel()),
            .rates = tflops() + ',' + gbps()};
  }
  Row operator()(const PoolingShape& s) const {
    const auto out = [&](std::int64_t in) { return (in + 2 * s.pad - s.window) / s.stride + 1; };
    return {.op = s.average ? "avgpool" : "maxpool",
            .pass = "forward",
            .sizes = fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},NCHW,{}", s.n, s.c, s.h, s.w,
                                 s.window, s.window, s.pad, s.pad, s.stride, s.stride, out(s.h),
                                 out(s.w), s.average ? "average_count_include_padding" : "max"),
            .rates = gbps()};
  }
  Row operator()(const BatchNormShape& s) const {
    return {.op = s.training ? "batchnorm_fwd_training" : "batchnorm_fwd_inference",
            .pass = "forward",
            .sizes = fmt::format("{},{},{},{},NCHW,spatial", s.n, s.c, s.h, s.w),
            .rates = gbps()};
  }
  Row operator()(const RowsShape& s) const {
    return {.op = s.softmax ? "softmax" : "layernorm",
            .pass = "forward",
            .sizes = fmt::format("{},{},{}{},,", s.rows, s.cols, s.softmax ? "," : "", kernel()),
            .rates = gbps()};
  }
  Row operator()(const ElementwiseShape& s) const {
    return {.op = s.function,
            .pass = "forward",
            .sizes = fmt::format("{},{},{},row,{},,", s.elements, s.elements, s.inputs, kernel()),
            .rates = gbps()};
  }
  Row operator()(const ReductionShape& s) const {
    return {.op = "reduce_sum",
            .pass = "forward",
            .sizes = fmt::format("{},{},{}", s.outer, s.inner, kernel()),
            .rates = gbps()};
  }
  Row operator()(const EmbeddingShape& s) const {
    return {.op = "embedding",
            .pass = "forward",
            .sizes = fmt::format("{},{},{},{}", s.tokens, s.width, s.vocabulary, kernel()),
            .rates = gbps()};
  }
  Row operator()(const RecurrentShape& s) const {
    return {.op = to_string(s.cell),
            .pass = pass_name(s.pass),
            .sizes = fmt::format("{},{},{},{},1,skip_input,cudnn_standard", s.hidden, s.hidden,
                                 s.batch, s.steps),
            .rates = tflops(),
            .split = s.pass == Pass::Forward ? "inference" : "train"};
  }
  Row operator()(const OptimizerShape& s) const {
    return {.op = s.adam ? "adam" : "momentum",
            .pass = "update",
            .sizes = fmt::format("{},{}", s.parameters, kernel()),
            .rates = gbps()};
  }
  Row operator()(const CopyShape& s) const {
    return {.op = to_string(s.direction),
            .pass = "",
            .sizes = fmt::format("{},{}", s.pinned ? "pinned" : "pageable", s.bytes),
            .rates = gbps()};
  }
  Row operator()(const LaunchShape& s) const {
    return {.op = s.launches > 1 ? "launch" : "empty_kernel",
            .pass = "",
            .sizes = fmt::format("{}", s.launches),
            .rates = ""};
  }
  Row operator()(const AllReduceShape& s) const {
    return {.op = "allreduce",
            .pass = "",
            .sizes = fmt::format("{},{},{},1,NCCL,", s.bytes / 4, s.bytes, s.gpus),
            .rates = gbps()};
  }
};

constexpr std::string_view kGemmSizes =
    "batch,m,n,k,transa,transb,layout,algo,kernel_name,kernels,grid,block";

Kind kind_of(ExperimentClass experiment_class) {
  switch (experiment_class) {
    case ExperimentClass::Gemm:
      return {"gemm.csv", kGemmSizes, "tflops,gbps"};
    case ExperimentClass::BatchedGemm:
      return {"bmm.csv", kGemmSizes, "tflops,gbps"};
    case ExperimentClass::Convolution:
      return {"conv_cudnn_algos.csv",
              "n,c,h,w,k,r,s,pad_h,pad_w,stride_h,stride_w,dil_h,dil_w,groups,p,q,layout,algo,"
              "heur_algo,workspace_bytes,kernel_name,kernels,grid,block",
              "tflops,gbps"};
    case ExperimentClass::Pooling:
      return {"pooling.csv", "n,c,h,w,r,s,pad_h,pad_w,stride_h,stride_w,p,q,layout,algo", "gbps"};
    case ExperimentClass::BatchNorm:
      return {"batchnorm.csv", "n,c,h,w,layout,algo", "gbps"};
    case ExperimentClass::LayerNorm:
      return {"layernorm.csv", "rows,cols,kernel_name,grid,block", "gbps"};
    case ExperimentClass::Softmax:
      return {"softmax.csv", "rows,cols,algo,kernel_name,grid,block", "gbps"};
    case ExperimentClass::Elementwise:
      return {"elementwise.csv", "shape,numel,n_in,layout,kernel_name,grid,block", "gbps"};
    case ExperimentClass::Reduction:
      return {"reduction.csv", "outer,inner,kernel_name", "gbps"};
    case ExperimentClass::Embedding:
      return {"embedding.csv", "tokens,width,vocabulary,kernel_name", "gbps"};
    case ExperimentClass::Recurrent:
      return {"rnn.csv", "hidden,input,batch,timesteps,layers,input_mode,algo", "tflops"};
    case ExperimentClass::Optimizer:
      return {"optimizer.csv", "parameters,kernel_name", "gbps"};
    case ExperimentClass::Copy:
      return {"copy.csv", "host_memory,bytes", "gbps"};
    case ExperimentClass::Launch:
      return {"launch.csv", "launches", ""};
    case ExperimentClass::AllReduce:
      return {"allreduce.csv", "floats,bytes,ngpus,nodes,algo,std_us", "gbps"};
  }
  return {};
}

std::string header_of(const Kind& kind) {
  return fmt::format("{},{},time_us,timing,framework,clock_mhz,{}{}{},{}\n", kFirst, kind.sizes,
                     kind.rates, kind.rates.empty() ? "" : ",", kLast, kOurs);
}

template <class Value, class Read>
std::string or_empty(const std::optional<Value>& value, Read read) {
  return value ? fmt::format("{:.6g}", read(*value)) : std::string();
}

std::string_view timing_of(ExperimentClass experiment_class, TimingMethod method) {
  if (experiment_class == ExperimentClass::Recurrent ||
      experiment_class == ExperimentClass::AllReduce)
    return "loop";
  return to_string(method);
}

std::string line_of(const Row& row, const Kind& kind, const RowMaker& of, const std::string& gpu,
                    const DeviceIdentity& device) {
  const TimedExperiment& t = of.timed;
  const std::string pinned = device.pinned_clock > Hertz(0)
                                 ? fmt::format("{:.0f}", device.pinned_clock.in_mhz())
                                 : std::string();
  const auto mhz = [](Hertz clock) { return clock.in_mhz(); };
  std::string line = fmt::format(
      "tracecast,{},{},{},{},{},{:.6g},{},cuda{}/cudnn{},{}", gpu,
      dtype_name(of.experiment.precision, device), row.op, row.pass, row.sizes, t.time.in_us(),
      timing_of(class_of(of.experiment), t.method), device.cuda, device.cudnn, pinned);
  if (!kind.rates.empty()) line += ',' + row.rates;
  line += fmt::format(",,{},", row.split);  // suspect, split, note
  const SensorSample& s = t.sensors;
  return line + fmt::format(",{},{},{},{},{},{:.2g},{},{:.6g},{}\n", or_empty(s.sm_clock, mhz),
                            or_empty(s.memory_clock, mhz),
                            or_empty(s.temperature_c, [](double c) { return c; }),
                            or_empty(s.power, [](Watts w) { return w.in_w(); }), s.throttle.text(),
                            t.relative_error, t.repetitions, t.burst.in_us(), t.experiment);
}

}  // namespace

std::vector<CollectedTable> collected_tables(const Plan& plan, const Journal& journal,
                                             const std::string& gpu, const DeviceIdentity& device) {
  std::array<CollectedTable, kExperimentClassCount> tables;
  for (const PlannedExperiment& planned : plan.experiments) {
    const auto at = journal.measurements().find(describe(planned.experiment));
    if (at == journal.measurements().end() || at->second.outcome != TimedOutcome::Accepted)
      continue;
    const ExperimentClass experiment_class = class_of(planned.experiment);
    const Kind kind = kind_of(experiment_class);
    CollectedTable& table = tables[static_cast<std::size_t>(experiment_class)];
    if (table.rows == 0) table = {std::string(kind.file), header_of(kind), 0};
    const RowMaker maker{planned.experiment, planned, at->second};
    table.content += line_of(std::visit(maker, planned.experiment.shape), kind, maker, gpu, device);
    ++table.rows;
  }
  std::vector<CollectedTable> result;
  for (CollectedTable& table : tables) {
    if (table.rows > 0) result.push_back(std::move(table));
  }
  return result;
}

}  // namespace tracecast::calibrate
