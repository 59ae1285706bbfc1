#include "traces/transfer/recorded_work.hpp"

#include <doctest/doctest.h>

#include "tests/traces/trace_text.hpp"
#include "traces/transfer/input_shapes.hpp"

namespace tracecast::traces {
namespace {

using namespace test;

std::string shaped_op(const std::string& name, int begin, int duration, int id,
                      const std::string& dims, const std::string& types = "") {
  std::string args = R"("External id":)" + std::to_string(id) + R"(,"Input Dims":)" + dims;
  if (!types.empty()) args += R"(,"Input type":)" + types;
  return event("cpu_op", name, begin, duration, args);
}

RecordedWork work_of(const std::string& events) {
  return recorded_work(trace_of(events), KernelNames::builtin());
}

TEST_SUITE_BEGIN("traces/transfer/recorded_work");

TEST_CASE("sizes of inputs are read whatever their nesting") {
  const auto inputs = read_inputs("[[32,3,224,224],[],[[8],[2,4]],[7]]",
                                  R"(["c10::Half","Int","TensorList","long int"])");
  REQUIRE(inputs.size() == 5);
  CHECK(inputs[0].elements() == 32.0 * 3 * 224 * 224);
  CHECK(inputs[0].bytes() == 2 * inputs[0].elements());
  CHECK(inputs[1].elements() == 0);
  CHECK(inputs[3].dims == std::vector<std::int64_t>{2, 4});
  CHECK(inputs[3].element_bytes == 4);
  CHECK(inputs[4].element_bytes == 8);
  for (const char* hostile :
       {"", "[", "[[1,2]", "[[-1]]", "[[1,]]", "[[[1]", "[[99999999999999999999]]", "nonsense"}) {
    CAPTURE(hostile);
    CHECK(read_inputs(hostile, "").empty());
  }
}

TEST_CASE("a convolution's stride and padding follow from what its result feeds") {
  struct Row {
    const char *x, *weight, *next;
    int stride, pad;
    std::int64_t groups;
  };
  const Row rows[] = {
      {"[32,3,224,224]", "[64,3,7,7]", "[32,64,112,112]", 2, 3, 1},
      {"[32,64,56,56]", "[64,64,3,3]", "[32,64,56,56]", 1, 1, 1},
      {"[32,256,56,56]", "[512,256,1,1]", "[32,512,28,28]", 2, 0, 1},
      {"[32,96,112,112]", "[96,1,3,3]", "[32,96,56,56]", 2, 1, 96},
  };
  for (const Row& row : rows) {
    CAPTURE(row.x);
    const std::string dims = std::string("[") + row.x + "," + row.weight + ",[]]";
    const RecordedWork work =
        work_of(shaped_op("aten::cudnn_convolution", 0, 10, 1, dims) + "," + launch(2, 3, 5) + "," +
                kernel("volta_scudnn_128x64_relu_interior_nn_v1", 20, 100, 5, 1) + "," +
                shaped_op("aten::batch_norm", 12, 3, 2, std::string("[") + row.next + "]"));
    REQUIRE(work.convolutions.size() == 1);
    const RecordedConvolution& c = work.convolutions[0];
    CHECK(work.kernels[0].convolution == std::uint32_t{0});
    CHECK(c.shape.stride_h == row.stride);
    CHECK(c.shape.pad_left == row.pad);
    CHECK(c.shape.groups == row.groups);
    CHECK(c.algorithm == Algorithm::ImplicitPrecomputedGemm);
    CHECK(c.passes == std::vector{Pass::Forward});
  }
}

TEST_CASE("gradients are those of the forward convolution of the same sizes") {
  const std::string forward =
      shaped_op("aten::cudnn_convolution", 0, 10, 1, "[[8,64,56,56],[128,64,3,3],[]]") + "," +
      shaped_op("aten::batch_norm", 12, 3, 2, "[[8,128,28,28]]") + ",";
  struct Row {
    const char *name, *dims;
    std::size_t passes;
  };
  const Row rows[] = {
      {"aten::cudnn_convolution_backward_input", "[[],[8,128,28,28],[128,64,3,3]]", 1},
      {"aten::cudnn_convolution_backward_weight", "[[],[8,128,28,28],[8,64,56,56]]", 1},
      {"aten::convolution_backward", "[[8,128,28,28],[8,64,56,56],[128,64,3,3]]", 2},
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const RecordedWork work =
        work_of(forward + shaped_op(row.name, 20, 5, 3, row.dims) + "," +
                kernel("volta_scudnn_128x64_stridedB_interior_nn_v1", 40, 10, 6, 3));
    REQUIRE(work.convolutions.size() == 1);
    CHECK(work.convolutions[0].shape.h == 56);
    CHECK(work.convolutions[0].shape.r == 3);
    CHECK(work.convolutions[0].shape.stride_w == 2);
    CHECK(work.convolutions[0].passes.size() == row.passes);
  }
}

TEST_CASE("GEMMs, rows and streams take their sizes from the operator") {
  const RecordedWork work = work_of(
      shaped_op("aten::addmm", 0, 10, 1, "[[1000],[32,2048],[2048,1000],[]]") + "," +
      kernel("volta_sgemm_64x32_sliced1x4_tn", 20, 10, 5, 1) + "," +
      shaped_op("aten::cudnn_batch_norm", 12, 3, 2, "[[32,64,56,56],[64],[64]]") + "," +
      kernel("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>", 40, 10, 6, 2) + "," +
      shaped_op("aten::add_", 30, 3, 3, "[[32,64],[32,64],[]]", R"(["float","float","Int"])") +
      "," + kernel("void at::native::vectorized_elementwise_kernel<4>", 60, 10, 7, 3) + "," +
      kernel("void at::native::vectorized_elementwise_kernel<4>", 80, 10, 8, 3));
  REQUIRE(work.works.size() == 3);
  const auto& gemm = std::get<MatrixWork>(work.works[0].work);
  CHECK(gemm.m == 32);
  CHECK(gemm.n == 1000);
  CHECK(gemm.k == 2048);
  const auto& rows = std::get<ReductionWork>(work.works[1].work);
  CHECK(rows.rows == 64);
  CHECK(rows.cols == 32 * 56 * 56);
  CHECK(rows.strided);
  CHECK(work.works[2].bytes() == Bytes(3 * 32 * 64 * 4));
  CHECK(work.kernels[3].work == work.kernels[2].work);
}

TEST_CASE("without sizes the launch geometry and the tile are what is known") {
  const RecordedWork work =
      work_of(event("kernel", "volta_sgemm_128x64_nn", 0, 10,
                    R"("device":0,"stream":7,"correlation":1,"grid":[8,4,2],"block":[128,1,1],)"
                    R"("registers per thread":122,"shared memory":12544)",
                    7));
  REQUIRE(work.kernels.size() == 1);
  const RecordedKernel& kernel = work.kernels[0];
  CHECK(kernel.launch.blocks == 64);
  CHECK(kernel.launch.registers == 122);
  CHECK(kernel.tile_m == 128);
  CHECK(kernel.tiles_n == 4);
  CHECK(kernel.gemms == 2);
  CHECK_FALSE(kernel.work);
  CHECK_FALSE(kernel.convolution);
}

TEST_CASE("a copy goes where its kind and the host's memory say") {
  const RecordedWork work =
      work_of(event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 0, 5) + "," +
              event("gpu_memcpy", "Memcpy DtoH (Device -> Pageable)", 10, 5) + "," +
              event("gpu_memcpy", "Memcpy DtoD (Device -> Device)", 20, 5) + "," +
              event("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 30, 5));
  CHECK(work.copies ==
        std::vector{CopyRoute::Link, CopyRoute::Pageable, CopyRoute::Device, CopyRoute::Peer});
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::traces
