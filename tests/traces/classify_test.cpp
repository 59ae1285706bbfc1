#include "traces/classify.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/traces/trace_text.hpp"

using namespace tracecast;
using namespace tracecast::traces;
using test::event, test::kernel, test::launch, test::op, test::trace_of;

namespace {

std::vector<KernelNameInfo> classified(const Trace& trace) {
  return classify_kernels(trace, KernelNames::builtin(), LaunchIndex(trace));
}

}  // namespace

TEST_CASE("work is joined to its operator by External id, else by the operator around its launch") {
  const Trace trace =
      trace_of(op("outer", 0, 100, 1) + "," + op("inner", 10, 20, 2) + "," + op("later", 40, 5, 3) +
               "," + op("other thread", 0, 100, 4, 2) + "," + launch(15, 2, 21) + "," +
               launch(35, 2, 22) + "," + launch(200, 2, 23) + "," + launch(15, 2, 24, 2));
  const LaunchIndex launches(trace);
  CHECK(launches.op_of(3, 21) == 2);                   // by id, whatever the time
  CHECK(launches.op_of(0, 21) == 1);                   // "inner" is around 15
  CHECK(launches.op_of(99, 21) == 1);                  // an id that no operator has
  CHECK(launches.op_of(0, 22) == 0);                   // only "outer" is around 35
  CHECK(launches.op_of(0, 23) == LaunchIndex::kNone);  // nothing is around 200
  CHECK(launches.op_of(0, 24) == 3);                   // on its own thread
  CHECK(launches.op_of(0, 99) == LaunchIndex::kNone);
  CHECK(launches.call_of(22) == 1);
  CHECK(launches.call_of(0) == LaunchIndex::kNone);
}

TEST_CASE("a GEMM within a convolution takes the algorithm of the kernels around it") {
  const std::string transform =
      "void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(x)";
  const Trace trace =
      trace_of(op("aten::cudnn_convolution", 0, 9, 1) + "," + op("aten::addmm", 10, 9, 2) + "," +
               op("aten::cudnn_convolution", 20, 9, 3) + "," + op("aten::bmm", 30, 9, 4) + "," +
               kernel(transform, 0, 5, 0, 1) + "," + kernel("volta_sgemm_64x64_nn", 5, 50, 0, 1) +
               "," + kernel("volta_sgemm_64x64_nn", 60, 5, 0, 2) + "," +
               kernel("volta_sgemm_64x64_nn", 70, 5, 0, 3) + "," +
               kernel("volta_sgemm_64x64_nn", 80, 5, 0, 4));
  const auto infos = classified(trace);
  struct Row {
    const char* what;
    KernelClass kernel_class;
    Algorithm algorithm;
  };
  const Row rows[] = {
      {"the transform", KernelClass::Convolution, Algorithm::WinogradNonfused},
      {"the GEMM between transforms", KernelClass::Convolution, Algorithm::WinogradNonfused},
      {"a linear layer's GEMM", KernelClass::Gemm, Algorithm::None},
      {"a convolution that is nothing but a GEMM", KernelClass::Convolution,
       Algorithm::ExplicitGemm},
      {"a batched GEMM", KernelClass::BatchedGemm, Algorithm::None},
  };
  for (std::size_t i = 0; i < std::size(rows); ++i) {
    CAPTURE(rows[i].what);
    CHECK(infos[i].kernel_class == rows[i].kernel_class);
    CHECK(infos[i].algorithm == rows[i].algorithm);
  }
}

TEST_CASE("elementwise kernels launched within an optimizer's step are the optimizer's") {
  const std::string add =
      "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float> >(int)";
  const Trace trace =
      trace_of(event("user_annotation", "Optimizer.step#SGD.step", 100, 50) + "," +
               launch(90, 2, 1) + "," + launch(120, 2, 2) + "," + launch(120, 2, 3, 2) + "," +
               kernel(add, 200, 5, 1) + "," + kernel(add, 210, 5, 2) + "," +
               kernel(add, 220, 5, 3) + "," + kernel("volta_sgemm_64x64_nn", 230, 5, 2));
  const auto infos = classified(trace);
  CHECK(infos[0].kernel_class == KernelClass::Elementwise);  // before the step
  CHECK(infos[1].kernel_class == KernelClass::Optimizer);
  CHECK(infos[1].pass == Pass::Update);
  CHECK(infos[2].kernel_class == KernelClass::Elementwise);  // another thread
  CHECK(infos[3].kernel_class == KernelClass::Gemm);         // a GEMM stays one
}
