#include "calibrate/cuda/blas.hpp"

#include <cublas_api.h>
#include <fmt/format.h>

#include <limits>
#include <utility>

namespace tracecast::calibrate::cuda {
namespace {

/// The call's compute type: cudaDataType before cuBLAS 11, cublasComputeType_t since; both are
/// passed as an int.
int compute_type(Precision precision, int version) {
  const bool is_old = version < 11000;
  switch (precision) {
    case Precision::Int8:
      return is_old ? static_cast<int>(CUDA_R_32I) : static_cast<int>(CUBLAS_COMPUTE_32I);
    case Precision::Tf32:
      return static_cast<int>(CUBLAS_COMPUTE_32F_FAST_TF32);
    default:
      return is_old ? static_cast<int>(CUDA_R_32F) : static_cast<int>(CUBLAS_COMPUTE_32F);
  }
}

cudaDataType operand_type(Precision precision) {
  switch (precision) {
    case Precision::Fp16:
      return CUDA_R_16F;
    case Precision::Bf16:
      return CUDA_R_16BF;
    case Precision::Int8:
      return CUDA_R_8I;
    default:
      return CUDA_R_32F;
  }
}

struct Gemm {
  cublasOperation_t op_a, op_b;
  int m, n, k, lda, ldb, ldc, batch;
  long long stride_a, stride_b, stride_c;
};

/// The column-major GEMM that a row-major one is: operands swapped.
Gemm column_major(const GemmShape& s) {
  const auto low_precision = [](std::int64_t value) {
    if (value > std::numeric_limits<int>::max()) throw CannotRun("a size over 2^31");
    return static_cast<int>(value);
  };
  Gemm p{};
  p.op_a = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
  p.op_b = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  p.m = low_precision(s.n), p.n = low_precision(s.m), p.k = low_precision(s.k);
  p.lda = s.transpose_b ? p.k : p.m;
  p.ldb = s.transpose_a ? p.n : p.k;
  p.ldc = p.m;
  p.batch = low_precision(s.batch);
  p.stride_a = s.k * s.n, p.stride_b = s.m * s.k, p.stride_c = s.m * s.n;
  return p;
}

}  // namespace

struct Blas::State {
  Library library;
  const Driver& driver;
  decltype(&cublasCreate_v2) create = nullptr;
  decltype(&cublasDestroy_v2) destroy = nullptr;
  decltype(&cublasGetVersion_v2) get_version = nullptr;
  decltype(&cublasSetStream_v2) set_stream = nullptr;
  decltype(&cublasSetMathMode) set_math = nullptr;
  decltype(&cublasSgemm_v2) sgemm = nullptr;
  decltype(&cublasSgemmStridedBatched) sgemm_batched = nullptr;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int,
                         const void*, const void*, cudaDataType, int, const void*, cudaDataType,
                         int, const void*, void*, cudaDataType, int, int, int) = nullptr;
  cublasStatus_t (*gemm_batched)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int,
                                 int, const void*, const void*, cudaDataType, int, long long,
                                 const void*, cudaDataType, int, long long, const void*, void*,
                                 cudaDataType, int, long long, int, int, int) = nullptr;
  cublasHandle_t handle = nullptr;
  int version =
      0;  ///< major * 1000 + minor * 100 + patch up to 10, major * 10000 ... since 11: see below

  State(Library opened, const Driver& of) : library(std::move(opened)), driver(of) {}
  ~State() {
    if (handle != nullptr) destroy(handle);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  void run(const Gemm& p, Precision precision, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c) const;
};

std::unique_ptr<Blas> Blas::open(Library library, const Driver& driver, std::string& why) {
  auto state = std::make_shared<State>(std::move(library), driver);
  Symbols symbols(state->library);
  symbols.need(state->create, {"cublasCreate_v2"});
  symbols.need(state->destroy, {"cublasDestroy_v2"});
  symbols.need(state->get_version, {"cublasGetVersion_v2"});
  symbols.need(state->set_stream, {"cublasSetStream_v2"});
  symbols.need(state->set_math, {"cublasSetMathMode"});
  symbols.need(state->sgemm, {"cublasSgemm_v2"});
  symbols.need(state->sgemm_batched, {"cublasSgemmStridedBatched"});
  symbols.need(state->gemm, {"cublasGemmEx"});
  symbols.want(state->gemm_batched, {"cublasGemmStridedBatchedEx"});  // since 9.1
  if (!symbols.missing().empty()) {
    why = "cuBLAS lacks " + symbols.missing();
    return nullptr;
  }
  if (const cublasStatus_t status = state->create(&state->handle);
      status != CUBLAS_STATUS_SUCCESS) {
    state->handle = nullptr;
    why = fmt::format("cuBLAS does not start (status {}): made for other GPUs or drivers?",
                      static_cast<int>(status));
    return nullptr;
  }
  if (state->get_version(state->handle, &state->version) != CUBLAS_STATUS_SUCCESS ||
      state->set_stream(state->handle, driver.stream()) != CUBLAS_STATUS_SUCCESS) {
    why = "cuBLAS takes no stream";
    return nullptr;
  }
  return std::unique_ptr<Blas>(new Blas(std::move(state)));
}

Blas::Blas(std::shared_ptr<State> state) : state_(std::move(state)) {}
Blas::~Blas() = default;

std::string Blas::version() const {
  // The factor of the major version grew from 1000 to 10000 with the 11 series.
  const int v = state_->version;
  if (v >= 100000) return fmt::format("{}.{}.{}", v / 10000, v / 100 % 100, v % 100);
  return fmt::format("{}.{}.{}", v / 1000, v / 100 % 10, v % 100);
}

void Blas::State::run(const Gemm& p, Precision precision, CUdeviceptr a, CUdeviceptr b,
                      CUdeviceptr c) const {
  const float one = 1, zero = 0;
  const int int_one = 1, int_zero = 0;
  const auto at = [](CUdeviceptr pointer) { return reinterpret_cast<void*>(pointer); };
  // Before 11, tensor cores must be asked for; since then they are taken where the format has them,
  // and FP32 stays FP32.
  const bool wants_tensor_cores = version < 11000 && precision != Precision::Fp32;
  set_math(handle, wants_tensor_cores ? CUBLAS_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH);
  cublasStatus_t status = CUBLAS_STATUS_NOT_SUPPORTED;
  if (precision == Precision::Fp32) {  // on Kepler the only way
    const auto* fa = static_cast<const float*>(at(a));
    const auto* fb = static_cast<const float*>(at(b));
    auto* fc = static_cast<float*>(at(c));
    status = p.batch == 1
                 ? sgemm(handle, p.op_a, p.op_b, p.m, p.n, p.k, &one, fa, p.lda, fb, p.ldb, &zero,
                         fc, p.ldc)
                 : sgemm_batched(handle, p.op_a, p.op_b, p.m, p.n, p.k, &one, fa, p.lda, p.stride_a,
                                 fb, p.ldb, p.stride_b, &zero, fc, p.ldc, p.stride_c, p.batch);
  } else {
    const bool is_int = precision == Precision::Int8;
    const void* alpha = is_int ? static_cast<const void*>(&int_one) : &one;
    const void* beta = is_int ? static_cast<const void*>(&int_zero) : &zero;
    const cudaDataType in = operand_type(precision), out = is_int ? CUDA_R_32I : in;
    const int compute = compute_type(precision, version);
    const int algorithm = wants_tensor_cores ? CUBLAS_GEMM_DEFAULT_TENSOR_OP : CUBLAS_GEMM_DEFAULT;
    if (p.batch == 1) {
      status = gemm(handle, p.op_a, p.op_b, p.m, p.n, p.k, alpha, at(a), in, p.lda, at(b), in,
                    p.ldb, beta, at(c), out, p.ldc, compute, algorithm);
    } else if (gemm_batched != nullptr) {
      status = gemm_batched(handle, p.op_a, p.op_b, p.m, p.n, p.k, alpha, at(a), in, p.lda,
                            p.stride_a, at(b), in, p.ldb, p.stride_b, beta, at(c), out, p.ldc,
                            p.stride_c, p.batch, compute, algorithm);
    }
  }
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw CannotRun(fmt::format("cuBLAS has no such GEMM in {} (status {})", to_string(precision),
                                static_cast<int>(status)));
  }
}

Operation Blas::prepare(const GemmShape& s, Precision precision) {
  struct Buffers {
    DeviceMemory a, b, c;
  };
  const Driver& driver = state_->driver;
  const Gemm gemm = column_major(s);
  const auto count = [&](std::int64_t x, std::int64_t y) {
    return static_cast<std::size_t>(s.batch * x * y);
  };
  const std::size_t wide = precision == Precision::Int8
                               ? 4
                               : static_cast<std::size_t>(element_size(precision).in_bytes());
  auto buffers = std::make_shared<Buffers>(Buffers{noise(driver, count(s.k, s.n), precision),
                                                   noise(driver, count(s.m, s.k), precision),
                                                   zeros(driver, count(s.m, s.n) * wide)});
  Operation operation;
  operation.launch = [state = state_, buffers, gemm, precision] {
    state->run(gemm, precision, buffers->a.at(), buffers->b.at(), buffers->c.at());
  };
  operation.launch();
  driver.wait();
  return operation;
}

}  // namespace tracecast::calibrate::cuda
