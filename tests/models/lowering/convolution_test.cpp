#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "models/lowering/convolution.hpp"
#include "models/lowering/lower.hpp"
#include "tests/models/lowering/gpus.hpp"

using namespace tracecast;

namespace {

constexpr Pass kPasses[] = {Pass::Forward, Pass::BackwardData, Pass::BackwardWeights};

/// A square convolution with "same" padding for odd kernels.
ConvAttributes square(std::int64_t n, std::int64_t c, std::int64_t image, std::int64_t k,
                      std::int64_t kernel, int stride = 1, std::int64_t groups = 1,
                      int dilation = 1) {
  ConvAttributes a;
  a.n = n, a.c = c, a.h = a.w = image, a.k = k, a.r = a.s = kernel, a.groups = groups;
  a.stride_h = a.stride_w = stride;
  a.dilation_h = a.dilation_w = dilation;
  const int pad = dilation * static_cast<int>(kernel - 1) / 2;
  a.pad_top = a.pad_left = a.pad_bottom = a.pad_right = pad;
  a.p = a.q = (image + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
  return a;
}

std::vector<Candidate> candidates(const ConvAttributes& a, Pass pass,
                                  PrecisionMode mode = PrecisionMode::Fp32,
                                  const GpuSpec& gpu = test::volta(),
                                  ImageLayout layout = ImageLayout::Nchw) {
  return convolution_candidates(a, pass, mode, layout, gpu);
}

std::set<Algorithm> algorithms(const std::vector<Candidate>& list) {
  std::set<Algorithm> found;
  for (const Candidate& candidate : list) found.insert(candidate.algorithm);
  return found;
}

const Candidate& find(const std::vector<Candidate>& list, Algorithm algorithm) {
  const auto it = std::find_if(list.begin(), list.end(),
                               [&](const Candidate& c) { return c.algorithm == algorithm; });
  REQUIRE(it != list.end());
  return *it;
}

double flops(const Candidate& candidate, bool gemms_only) {
  double sum = 0;
  for (const Kernel& kernel : candidate.kernels) {
    if (!gemms_only || !std::holds_alternative<StreamWork>(kernel.work))
      sum += kernel.flops.in_flop();
  }
  return sum;
}

}  // namespace

TEST_SUITE("models/lowering/convolution") {
  TEST_CASE("without cuDNN every image is im2col and multiplied by itself") {
    const ConvAttributes a = square(8, 16, 14, 32, 3, 1, 2);
    for (const Pass pass : kPasses) {
      CAPTURE(static_cast<int>(pass));
      const auto list = convolution_candidates(a, pass, PrecisionMode::Fp32, ImageLayout::Nchw,
                                               test::kepler(), 0);
      REQUIRE(list.size() == 1);
      CHECK(list.front().kernels.size() == 2);  // im2col or col2im, and the GEMM
      CHECK(flops(list.front(), true) == doctest::Approx(2 * a.macs()));
      // One image im2col: 16 * 9 values for each of 14 * 14 pixels.
      CHECK(list.front().workspace.in_bytes() == doctest::Approx(4.0 * 16 * 9 * 14 * 14));
      for (const Kernel& kernel : list.front().kernels) {
        const bool is_gemm = std::holds_alternative<MatrixWork>(kernel.work);
        CHECK(kernel.launches == (is_gemm ? 8 * 2 : 8));  // images, times groups
      }
    }
    // A plain GEMM needs no unfolding.
    CHECK(convolution_candidates(square(8, 16, 14, 32, 1), Pass::Forward, PrecisionMode::Fp32,
                                 ImageLayout::Nchw, test::kepler(), 0)
              .front()
              .kernels.size() == 1);
  }

  TEST_CASE("algorithms appear with the version of cuDNN that brought them") {
    const ConvAttributes a = square(16, 64, 28, 64, 3);
    const auto known = [&](double version) {
      return algorithms(convolution_candidates(a, Pass::Forward, PrecisionMode::Fp32,
                                               ImageLayout::Nchw, test::kepler(), version));
    };
    CHECK(known(2).count(Algorithm::Fft) == 0);
    CHECK(known(3).count(Algorithm::Fft) == 1);
    CHECK(known(4).count(Algorithm::WinogradFused) == 0);
    CHECK(known(5).count(Algorithm::WinogradFused) == 1);
    CHECK(known(5).count(Algorithm::WinogradNonfused) == 0);
    CHECK(known(5.1).count(Algorithm::WinogradNonfused) == 1);
  }

  TEST_CASE("volumes have the algorithms that take five dimensions") {
    // 2 x 16 x 8 x 28 x 28 through 3 x 3 x 3: rows of all planes together
    ConvAttributes a = square(2, 16, 28, 32, 3);
    a.h *= 8;
    a.p *= 8;
    a.r *= 3;
    a.is_volume = true;
    for (const Pass pass : kPasses) {
      CAPTURE(static_cast<int>(pass));
      for (const Candidate& candidate : candidates(a, pass)) {
        const Algorithm algorithm = candidate.algorithm;
        CHECK((algorithm == Algorithm::ImplicitGemm ||
               algorithm == Algorithm::ImplicitPrecomputedGemm ||
               algorithm == Algorithm::ExplicitGemm));
      }
      const auto list = candidates(a, pass);
      CHECK(flops(find(list, Algorithm::ImplicitGemm), true) ==
            doctest::Approx(2.0 * 2 * 32 * 8 * 28 * 28 * 16 * 27));
    }
  }

  TEST_CASE("direct algorithms execute two operations per multiply-add in every pass") {
    const ConvAttributes a = square(8, 64, 56, 128, 3, 2);
    for (const Pass pass : kPasses) {
      const auto list = candidates(a, pass);
      for (const Algorithm algorithm :
           {Algorithm::ImplicitGemm, Algorithm::ImplicitPrecomputedGemm}) {
        CHECK(flops(find(list, algorithm), true) == 2 * a.macs());
      }
    }
  }

  TEST_CASE("half tensor cores want channels in eights until cuDNN pads them") {
    struct Row {
      const char* what;
      std::int64_t c, k;
      ImageLayout layout;
      double version;
      bool legal;
    };
    const auto nchw = ImageLayout::Nchw, nhwc = ImageLayout::Nhwc;
    const Row rows[] = {
        {"eights in the first version", 64, 64, nchw, 7.0, true},
        {"an image's three channels", 3, 64, nchw, 7.0, false},
        {"the first ten classes", 64, 10, nhwc, 7.0, false},
        {"NCHW is padded on its way to NHWC from 7.3", 3, 64, nchw, 7.3, true},
        {"NHWC is not", 3, 64, nhwc, 7.6, false},
        {"from 8 on it is", 3, 64, nhwc, 8.0, true},
        {"cuDNN 6 cannot drive Volta: the first that can is meant", 64, 64, nchw, 6.0, true},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const auto list =
          convolution_candidates(square(8, row.c, 56, row.k, 3), Pass::Forward, PrecisionMode::Fp16,
                                 row.layout, test::volta(), row.version);
      const bool found = std::any_of(list.begin(), list.end(), [](const Candidate& candidate) {
        return candidate.algorithm == Algorithm::ImplicitPrecomputedGemm &&
               std::any_of(candidate.kernels.begin(), candidate.kernels.end(),
                           [](const Kernel& k) { return k.unit == MathUnit::TensorCore; });
      });
      CHECK(found == row.legal);
    }
    // Ampere's first cuDNN is 8: everything is legal there, whatever a profile says.
    const auto on_ampere = convolution_candidates(square(8, 3, 56, 64, 3), Pass::Forward,
                                                  PrecisionMode::Fp16, nhwc, test::ampere(), 7.0);
    CHECK(std::any_of(on_ampere.begin(), on_ampere.end(), [](const Candidate& candidate) {
      return candidate.kernels.front().unit == MathUnit::TensorCore ||
             candidate.kernels.back().unit == MathUnit::TensorCore;
    }));
  }

  TEST_CASE("cells that a strided filter skips are cleared before the gradient of the image") {
    const auto clears = [](std::int64_t filter, int stride, Pass pass) {
      const auto list = candidates(square(8, 64, 56, 64, filter, stride), pass, PrecisionMode::Fp16,
                                   test::volta(), ImageLayout::Nhwc);
      const auto on_tensor_cores =
          std::find_if(list.begin(), list.end(), [](const Candidate& candidate) {
            return candidate.kernels.back().unit == MathUnit::TensorCore;
          });
      REQUIRE(on_tensor_cores != list.end());
      const auto& kernels = on_tensor_cores->kernels;
      return std::count_if(kernels.begin(), kernels.end(), [](const Kernel& kernel) {
        return kernel.kernel_class == KernelClass::Memset &&
               kernel.written == Bytes(2.0 * 8 * 64 * 56 * 56);
      });
    };
    CHECK(clears(1, 2, Pass::BackwardData) == 1);
    CHECK(clears(3, 2, Pass::BackwardData) == 0);
    CHECK(clears(1, 1, Pass::BackwardData) == 0);
    CHECK(clears(1, 2, Pass::Forward) == 0);
    CHECK(clears(1, 2, Pass::BackwardWeights) == 0);
  }

  TEST_CASE("before cuDNN 7 a framework runs a grouped convolution group by group") {
    const ConvAttributes grouped = square(8, 96, 27, 256, 5, 1, 2);
    const ConvAttributes half = square(8, 48, 27, 128, 5);
    const auto with = [](const ConvAttributes& shape, double version) {
      return convolution_candidates(shape, Pass::Forward, PrecisionMode::Fp32, ImageLayout::Nchw,
                                    test::kepler(), version);
    };
    const auto looped = with(grouped, 6), one = with(half, 6), whole = with(grouped, 7);
    for (const Candidate& candidate : one) {
      CHECK(find(looped, candidate.algorithm).kernels.size() == 2 * candidate.kernels.size());
      CHECK(find(looped, candidate.algorithm).workspace == candidate.workspace);
    }
    // The same arithmetic either way.
    CHECK(flops(find(looped, Algorithm::ImplicitGemm), true) ==
          flops(find(whole, Algorithm::ImplicitGemm), true));
    CHECK(find(whole, Algorithm::ImplicitGemm).kernels.size() == 1);
    // Depthwise layers have kernels of the frameworks' own.
    CHECK(with(square(8, 64, 28, 64, 3, 1, 64), 6).front().kernels.size() == 1);
  }

  TEST_CASE("cuDNN 7 launches the kernels of a grouped convolution once per group") {
    const ConvAttributes a = square(8, 64, 28, 64, 3, 1, 4);
    const struct {
      double version;
      ImageLayout layout;
      double more_launches;
    } rows[] = {
        {7.6, ImageLayout::Nchw, 3}, {8.0, ImageLayout::Nchw, 0}, {7.6, ImageLayout::Nhwc, 0}};
    for (const auto& row : rows) {
      CAPTURE(row.version);
      const auto list = convolution_candidates(a, Pass::Forward, PrecisionMode::Fp32, row.layout,
                                               test::kepler(), row.version);
      for (const Kernel& kernel : find(list, Algorithm::ImplicitPrecomputedGemm).kernels) {
        CHECK(kernel.more_launches == row.more_launches);
      }
    }
  }

  TEST_CASE("tiled FFT transforms filters of one row two tiles at a time") {
    // 100 outputs of 5 taps: 28 a tile of 32, four tiles. GEMMs over two tiles of 8 images of one
    // row.
    ConvAttributes a = square(8, 64, 100, 96, 5);
    a.h = a.p = a.r = 1;
    a.pad_top = a.pad_bottom = 0;
    const auto list = convolution_candidates(a, Pass::Forward, PrecisionMode::Fp32,
                                             ImageLayout::Nchw, test::kepler(), 7.6);
    const Candidate& tiled = find(list, Algorithm::FftTiling);
    const auto gemm = std::find_if(tiled.kernels.begin(), tiled.kernels.end(),
                                   [](const Kernel& k) { return k.name == "gemms"; });
    REQUIRE(gemm != tiled.kernels.end());
    CHECK(gemm->launches == 2);
    const auto& work = std::get<MatrixWork>(gemm->work);
    CHECK(work.batch == 17);
    CHECK(work.m == 8 * 2);
    CHECK(work.n == 96);
    CHECK(work.k == 4 * 64);
  }

  TEST_CASE("int8 has one way, with channels in whole vectors") {
    struct Row {
      const char* what;
      ConvAttributes shape;
      GpuSpec gpu;
      std::int64_t c, k;
      Precision math;
      MathUnit unit;
    };
    const auto cuda = MathUnit::CudaCore, tensor = MathUnit::TensorCore;
    const Row rows[] = {
        {"dp4a: fours", square(8, 30, 28, 18, 3), test::pascal_with_slow_half(), 32, 20,
         Precision::Int8, cuda},
        {"tensor cores: 32", square(8, 48, 28, 100, 3), test::ampere(), 64, 128, Precision::Int8,
         tensor},
        {"groups of four share tiles", square(8, 128, 28, 128, 3, 1, 32), test::ampere(), 128, 128,
         Precision::Int8, tensor},
        {"groups of three stay off tensor cores", square(8, 96, 28, 96, 3, 1, 32), test::ampere(),
         128, 128, Precision::Fp32, cuda},
        {"an image of three channels: a word", square(8, 3, 28, 64, 3), test::ampere(), 4, 64,
         Precision::Int8, tensor},
        {"depthwise: no sum over channels", square(8, 64, 28, 64, 3, 1, 64),
         test::pascal_with_slow_half(), 64, 64, Precision::Fp32, cuda},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const auto list = candidates(row.shape, Pass::Forward, PrecisionMode::Int8, row.gpu);
      REQUIRE(list.size() == 1);
      REQUIRE(list.front().kernels.size() == 1);
      const Kernel& kernel = list.front().kernels.front();
      CHECK(kernel.math == row.math);
      CHECK(kernel.unit == row.unit);
      const ConvAttributes& shape = std::get<ConvWork>(kernel.work).shape;
      CHECK(shape.c == row.c);
      CHECK(shape.k == row.k);
      CHECK(kernel.written.in_bytes() == 8.0 * static_cast<double>(row.k) * 28 * 28);
      CHECK(list.front().workspace == Bytes(0));
    }
  }

  TEST_CASE("which algorithms are legal") {
    using enum Algorithm;
    const std::set<Algorithm> general{ImplicitGemm, ImplicitPrecomputedGemm};
    const std::set<Algorithm> forward{ImplicitGemm, ImplicitPrecomputedGemm, ExplicitGemm};
    const auto with = [](std::set<Algorithm> base, std::initializer_list<Algorithm> more) {
      base.insert(more.begin(), more.end());
      return base;
    };
    struct Row {
      const char* what;
      ConvAttributes shape;
      Pass pass;
      std::set<Algorithm> expected;
    };
    const Row rows[] = {
        {"3x3 forward", square(8, 64, 56, 64, 3), Pass::Forward,
         with(forward, {Fft, FftTiling, WinogradFused, WinogradNonfused})},
        {"3x3 backward data", square(8, 64, 56, 64, 3), Pass::BackwardData,
         with(general, {Fft, FftTiling, WinogradFused, WinogradNonfused})},
        {"3x3 backward weights: no fused Winograd", square(8, 64, 56, 64, 3), Pass::BackwardWeights,
         with(general, {Fft, FftTiling, WinogradNonfused})},
        {"3x3 with stride: FFT in tiles, the outputs between dropped", square(8, 64, 56, 64, 3, 2),
         Pass::Forward, with(forward, {FftTiling})},
        {"3x3 backward through a stride", square(8, 64, 56, 64, 3, 2), Pass::BackwardData, general},
        {"3x3 with dilation", square(8, 64, 56, 64, 3, 1, 1, 2), Pass::Forward, forward},
        {"5x5: non-fused only", square(8, 64, 28, 64, 5), Pass::Forward,
         with(forward, {Fft, FftTiling, WinogradNonfused})},
        {"7x7: no Winograd", square(8, 64, 28, 64, 7), Pass::Forward,
         with(forward, {Fft, FftTiling})},
        {"1x1", square(8, 64, 28, 64, 1), Pass::Forward, with(forward, {Fft, FftTiling})},
        {"image over 256 with its padding", square(1, 8, 255, 8, 3), Pass::Forward,
         with(forward, {FftTiling, WinogradFused, WinogradNonfused})},
        {"groups: no FFT", square(8, 64, 28, 64, 3, 1, 4), Pass::Forward,
         with(forward, {WinogradFused, WinogradNonfused})},
        {"depthwise", square(8, 64, 28, 64, 3, 1, 64), Pass::Forward, {Direct}},
        {"depthwise backward", square(8, 64, 28, 64, 3, 1, 64), Pass::BackwardWeights, {Direct}},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      CHECK(algorithms(candidates(row.shape, row.pass)) == row.expected);
      CHECK(algorithms(candidates(row.shape, row.pass, PrecisionMode::Fp32, test::kepler())) ==
            row.expected);
    }
  }

  TEST_CASE("half-width data has FFT in NCHW alone, in 32-bit spectra, and no 5x5 Winograd") {
    using enum Algorithm;
    const ConvAttributes a = square(8, 64, 28, 64, 5);
    const auto list = [&](ImageLayout layout) {
      return convolution_candidates(a, Pass::Forward, PrecisionMode::Fp16, layout, test::volta(),
                                    8);
    };
    CHECK(algorithms(list(ImageLayout::Nchw)) ==
          std::set{ImplicitGemm, ImplicitPrecomputedGemm, Fft, FftTiling});
    CHECK(algorithms(list(ImageLayout::Nhwc)) == std::set{ImplicitGemm, ImplicitPrecomputedGemm});
    for (const Algorithm algorithm : {Fft, FftTiling}) {
      const auto half = list(ImageLayout::Nchw);
      const auto wide = candidates(a, Pass::Forward);
      // Complex fp32 numbers in both: the same scratch and the same arithmetic.
      CHECK(find(half, algorithm).workspace == find(wide, algorithm).workspace);
      for (const Kernel& kernel : find(half, algorithm).kernels) {
        if (std::holds_alternative<MatrixWork>(kernel.work)) CHECK(kernel.math == Precision::Fp32);
      }
    }
  }

  TEST_CASE("Winograd saves the multiplications of its tiles") {
    // 16 images of 8x8: F(2x2,3x3) needs 16 GEMMs for 4 results that take 36 directly. F(4x4,3x3)
    // has 2 x 2 tiles per image, 36 GEMMs each, per pair of channels.
    const ConvAttributes a = square(16, 32, 8, 64, 3);
    for (const Pass pass : {Pass::Forward, Pass::BackwardData}) {
      CHECK(flops(find(candidates(a, pass), Algorithm::WinogradFused), true) ==
            doctest::Approx(2 * a.macs() * 16 / 36));
    }
    for (const Pass pass : kPasses) {
      CHECK(flops(find(candidates(a, pass), Algorithm::WinogradNonfused), true) ==
            2.0 * 36 * (16 * 4) * 32 * 64);
    }
    // Rows, tiles of the images, come in blocks of 128 in cuDNN 7, but on Kepler. Those of weight
    // gradients are channels.
    const auto rows = [&](Pass pass, const GpuSpec& gpu, double cudnn_version) {
      const auto list = convolution_candidates(a, pass, PrecisionMode::Fp32, ImageLayout::Nchw, gpu,
                                               cudnn_version);
      return flops(find(list, Algorithm::WinogradNonfused), true) / (2.0 * 36 * 32 * 64);
    };
    CHECK(rows(Pass::Forward, test::volta(), 7.6) == 128);
    CHECK(rows(Pass::BackwardData, test::volta(), 7.6) == 128);
    CHECK(rows(Pass::BackwardWeights, test::volta(), 7.6) == 64);
    CHECK(rows(Pass::Forward, test::kepler(), 7.6) == 64);
    CHECK(rows(Pass::Forward, test::volta(), 8) == 64);
    // One image costs as much as sixteen: cuDNN pads them.
    const ConvAttributes one = square(1, 32, 8, 64, 3);
    CHECK(flops(find(candidates(one, Pass::Forward), Algorithm::WinogradNonfused), true) ==
          2.0 * 36 * (16 * 4) * 32 * 64);
  }

  TEST_CASE("non-fused Winograd pads images to sixteen, but for gradients of weights") {
    // 8x8 pixels are 2 x 2 tiles of 4x4, each 36 GEMMs per pair of channels.
    struct Row {
      std::int64_t images, padded;
    };
    for (const Row& row : {Row{1, 16}, {8, 16}, {16, 16}, {17, 32}, {32, 32}}) {
      CAPTURE(row.images);
      const ConvAttributes a = square(row.images, 32, 8, 64, 3);
      for (const Pass pass : kPasses) {
        CAPTURE(static_cast<int>(pass));
        const auto images =
            static_cast<double>(pass == Pass::BackwardWeights ? row.images : row.padded);
        // cuDNN 8, which does not round rows up.
        const auto list = convolution_candidates(a, pass, PrecisionMode::Fp32, ImageLayout::Nchw,
                                                 test::volta(), 8);
        const Candidate& winograd = find(list, Algorithm::WinogradNonfused);
        CHECK(flops(winograd, true) == 2.0 * 36 * (images * 4) * 32 * 64);
        // Scratch: what is transformed, 4 bytes a value.
        CHECK(winograd.workspace.in_bytes() == 4.0 * 36 * (images * 4 * (32 + 64) + 32.0 * 64));
      }
    }
  }

  TEST_CASE("few images, or images of few tiles, lose what non-fused Winograd saves") {
    struct Row {
      const char* what;
      std::int64_t n, pixels, window;
      bool saves;
    };
    const Row rows[] = {
        {"14x14, 8 images: 36 * 16 * 16 = 9216 against 16 * 49 * 8 = 6272", 8, 14, 3, false},
        {"14x14, 12 images: 9216 against 16 * 49 * 12 = 9408", 12, 14, 3, true},
        {"6x6, 12 images: 36 * 4 * 16 = 2304 against 16 * 9 * 12 = 1728", 12, 6, 3, false},
        {"12x12 by 5x5, one image: 169 * 4 * 16 = 10816 against 25 * 144 = 3600", 1, 12, 5, false},
        {"12x12 by 5x5, 4 images: 10816 against 14400", 4, 12, 5, true},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const ConvAttributes a = square(row.n, 64, row.pixels, 64, row.window);
      CHECK(lowering::nonfused_winograd_saves_multiplications(a, Pass::Forward) == row.saves);
      CHECK(lowering::nonfused_winograd_saves_multiplications(a, Pass::BackwardData) == row.saves);
      CHECK(lowering::nonfused_winograd_saves_multiplications(a, Pass::BackwardWeights));
    }
  }

  TEST_CASE("FFT multiplies one complex pair per frequency and pair of channels") {
    // 6x6 with padding 1 is 8, padded to 16: 16 * 9 frequencies, 8 operations per complex
    // multiply-add.
    const ConvAttributes a = square(4, 8, 6, 16, 3);
    for (const Pass pass : kPasses) {
      CHECK(flops(find(candidates(a, pass), Algorithm::Fft), true) == 144.0 * 8 * 4 * 8 * 16);
    }
  }

  TEST_CASE("a filter of one row is transformed along rows, 17 values for 32") {
    // 28x28 by 1x1: every row fits one tile, so 17 frequencies of 4 * 28 rows, 8 channels by 16, 8
    // operations each.
    const auto list = candidates(square(4, 8, 28, 16, 1), Pass::Forward);
    const Candidate& tiled = find(list, Algorithm::FftTiling);
    CHECK(flops(tiled, true) == 17.0 * 8 * (4 * 28) * 8 * 16);
    CHECK(tiled.workspace.in_bytes() == 8.0 * 17 * (8 * 16 + 4 * (8 + 16) * 28));
  }

  TEST_CASE("tiles of an FFT pass through their kernels one after the other") {
    // 112 outputs by a 3x3 filter: tiles of 30, so 4 x 4, of 544 frequencies each.
    const auto list = candidates(square(2, 8, 112, 16, 3), Pass::Forward);
    const Candidate& tiled = find(list, Algorithm::FftTiling);
    const double expected[] = {16, 1, 16, 16};  // data, filter, GEMMs, output
    REQUIRE(tiled.kernels.size() == 4);
    for (std::size_t i = 0; i < 4; ++i) {
      CAPTURE(tiled.kernels[i].name);
      CHECK(static_cast<double>(tiled.kernels[i].launches) == expected[i]);
    }
    CHECK(flops(tiled, true) == 16.0 * 544 * 8 * 2 * 8 * 16);
  }

  TEST_CASE("an im2col batch is one GEMM over all its pixels") {
    const auto list = candidates(square(8, 64, 14, 32, 3), Pass::Forward);
    const Candidate& im2col = find(list, Algorithm::ExplicitGemm);
    REQUIRE(im2col.kernels.size() == 2);
    CHECK(std::holds_alternative<ConvWork>(im2col.kernels[1].work));
    CHECK(im2col.kernels[1].read.in_bytes() == 4.0 * (8 * 64 * 9 * 14 * 14 + 32 * 64 * 9));
  }

  TEST_CASE(
      "a kernel that does the whole convolution reads its operands and writes its result once") {
    const ConvAttributes a =
        square(2, 8, 10, 16, 3);  // x 2*8*100, w 16*8*9, y 2*16*100 elements of 4 bytes
    const double x = 1600 * 4, w = 1152 * 4, y = 3200 * 4;
    const struct {
      Pass pass;
      double read, written;
    } rows[] = {{Pass::Forward, x + w, y},
                {Pass::BackwardData, y + w + x, x},  // it adds to the image's gradient
                {Pass::BackwardWeights, x + y, w}};
    for (const auto& row : rows) {
      const auto list = candidates(a, row.pass);
      const Kernel& kernel = find(list, Algorithm::ImplicitGemm).kernels.back();
      CHECK(kernel.read.in_bytes() == row.read);
      CHECK(kernel.written.in_bytes() == row.written);
      CHECK(kernel.pass == row.pass);
    }
  }

  TEST_CASE(
      "tensor cores work in NHWC: an NCHW framework pays for transposes, an NHWC one does not") {
    const ConvAttributes a = square(8, 64, 28, 64, 3, 2);
    const auto count_transposes = [](const std::vector<Candidate>& list) {
      for (const Candidate& candidate : list) {
        const bool on_tensor_cores =
            std::any_of(candidate.kernels.begin(), candidate.kernels.end(),
                        [](const Kernel& k) { return k.unit == MathUnit::TensorCore; });
        if (!on_tensor_cores) continue;
        return std::count_if(
            candidate.kernels.begin(), candidate.kernels.end(),
            [](const Kernel& k) { return k.kernel_class == KernelClass::Transpose; });
      }
      return std::ptrdiff_t{-1};
    };
    CHECK(count_transposes(candidates(a, Pass::Forward, PrecisionMode::Fp16, test::volta(),
                                      ImageLayout::Nchw)) == 3);
    CHECK(count_transposes(candidates(a, Pass::Forward, PrecisionMode::Fp16, test::volta(),
                                      ImageLayout::Nhwc)) == 0);
    CHECK(count_transposes(candidates(a, Pass::Forward, PrecisionMode::Fp32, test::volta(),
                                      ImageLayout::Nchw)) == -1);
    // Before tensor cores it is the other way round.
    const auto old =
        candidates(a, Pass::Forward, PrecisionMode::Fp32, test::kepler(), ImageLayout::Nhwc);
    for (const Candidate& candidate : old) {
      CHECK(std::count_if(candidate.kernels.begin(), candidate.kernels.end(), [](const Kernel& k) {
              return k.kernel_class == KernelClass::Transpose;
            }) == 3);
    }
  }

  TEST_CASE("a 1x1 convolution on Ampere's tensor cores can be a plain GEMM without transposes") {
    const ConvAttributes a = square(8, 64, 28, 32, 1);
    for (const Pass pass : kPasses) {
      for (const PrecisionMode mode : {PrecisionMode::Tf32, PrecisionMode::Fp16}) {
        const Candidate gemm =
            find(candidates(a, pass, mode, test::ampere()), Algorithm::ExplicitGemm);
        CHECK(gemm.kernels.size() == 1);
        CHECK(flops(gemm, true) == 2 * a.macs());
        CHECK(gemm.workspace.in_bytes() == 0);
      }
      // Its first library turned images and results.
      const auto before_8_1 = convolution_candidates(a, pass, PrecisionMode::Tf32,
                                                     ImageLayout::Nchw, test::ampere(), 8.0);
      const Candidate& turned = find(before_8_1, Algorithm::ImplicitPrecomputedGemm);
      CHECK(std::count_if(turned.kernels.begin(), turned.kernels.end(), [](const Kernel& k) {
              return k.kernel_class == KernelClass::Transpose;
            }) == 3);
      CHECK(std::none_of(before_8_1.begin(), before_8_1.end(), [](const Candidate& c) {
        return c.algorithm == Algorithm::ExplicitGemm && c.kernels.size() == 1;
      }));
    }
  }

  TEST_CASE("16-bit tensor cores have no Winograd from Ampere on") {
    const ConvAttributes a = square(16, 64, 56, 64, 3);
    const auto has = [&](Algorithm algorithm, PrecisionMode mode, const GpuSpec& gpu) {
      return algorithms(candidates(a, Pass::Forward, mode, gpu)).count(algorithm) == 1;
    };
    for (const Algorithm winograd : {Algorithm::WinogradFused, Algorithm::WinogradNonfused}) {
      CHECK_FALSE(has(winograd, PrecisionMode::Fp16, test::ampere()));
      CHECK(has(winograd, PrecisionMode::Tf32, test::ampere()));
      CHECK(has(winograd, PrecisionMode::Fp16, test::volta()));
    }
  }

  TEST_CASE("cuDNN 8 has tensor-core kernels for some groups of channels-last images") {
    struct Row {
      const char* what;
      std::int64_t channels, groups;
      bool forward, backward;
    };
    const Row rows[] = {
        {"32 groups of 4", 128, 32, true, true}, {"32 groups of 32", 1024, 32, true, true},
        {"4 groups of 16", 64, 4, false, false}, {"25 groups of 16", 400, 25, false, false},
        {"groups of 48", 432, 9, false, false},  {"groups of two tiles", 896, 7, true, false},
        {"groups of 168", 336, 2, false, false},
    };
    const auto on_tensor_cores = [](const Row& row, Pass pass, ImageLayout layout, double version) {
      const ConvAttributes a = square(8, row.channels, 14, row.channels, 3, 1, row.groups);
      const auto list =
          convolution_candidates(a, pass, PrecisionMode::Fp16, layout, test::ampere(), version);
      return std::any_of(list.begin(), list.end(), [](const Candidate& c) {
        return c.kernels.back().unit == MathUnit::TensorCore;
      });
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      CHECK(on_tensor_cores(row, Pass::Forward, ImageLayout::Nhwc, 8.5) == row.forward);
      for (const Pass pass : {Pass::BackwardData, Pass::BackwardWeights}) {
        CHECK(on_tensor_cores(row, pass, ImageLayout::Nhwc, 8.5) == row.backward);
      }
      CHECK(on_tensor_cores(row, Pass::Forward, ImageLayout::Nhwc, 8.9) ==
            (row.forward || row.channels / row.groups == 16));
      CHECK(on_tensor_cores(row, Pass::Forward, ImageLayout::Nhwc, 9));
      // No transposes round what runs in their place.
      const ConvAttributes a = square(8, row.channels, 14, row.channels, 3, 1, row.groups);
      if (row.backward) continue;
      const auto list = convolution_candidates(a, Pass::BackwardData, PrecisionMode::Fp16,
                                               ImageLayout::Nhwc, test::ampere(), 8.5);
      REQUIRE(list.size() == 1);
      CHECK(list.front().kernels.size() == 1);
      CHECK(list.front().kernels.front().unit == MathUnit::CudaCore);
    }
  }

  TEST_CASE("float16 depthwise convolutions run cuDNN's kernels where PyTorch takes them") {
    struct Row {
      const char* what;
      std::int64_t channels, image, kernel;
      int stride;
      ImageLayout layout;
      PrecisionMode mode;
      double version;
      bool library;
    };
    const auto nchw = ImageLayout::Nchw, nhwc = ImageLayout::Nhwc;
    const auto half = PrecisionMode::Fp16, whole = PrecisionMode::Fp32;
    const Row rows[] = {
        {"channels last", 16, 14, 7, 2, nhwc, whole, 8.5, true},
        {"channels last, older library", 16, 14, 7, 2, nhwc, whole, 8.1, false},
        {"stride 1", 32, 14, 3, 1, nchw, half, 8.5, true},
        {"stride 1, older library", 32, 14, 3, 1, nchw, half, 8.1, false},
        {"32 bits", 32, 14, 3, 1, nchw, whole, 8.5, false},
        {"bfloat16", 32, 14, 3, 1, nchw, PrecisionMode::Bf16, 8.5, false},
        {"few channels", 16, 14, 3, 1, nchw, half, 8.5, false},
        {"small image", 32, 6, 3, 1, nchw, half, 8.5, false},
        {"7x7", 32, 14, 7, 1, nchw, half, 8.5, false},
        {"stride 2, few channels", 128, 28, 3, 2, nchw, half, 8.5, false},
        {"stride 2, wide images", 256, 28, 3, 2, nchw, half, 8.5, true},
        {"stride 2, images of 14 pixels", 256, 14, 3, 2, nchw, half, 8.5, false},
        {"stride 2, many channels", 512, 14, 5, 2, nchw, half, 8.5, true},
    };
    for (const Row& row : rows) {
      CAPTURE(row.what);
      const ConvAttributes a =
          square(8, row.channels, row.image, row.channels, row.kernel, row.stride, row.channels);
      const Candidate direct = find(convolution_candidates(a, Pass::Forward, row.mode, row.layout,
                                                           test::ampere(), row.version),
                                    Algorithm::Direct);
      const auto work =
          std::find_if(direct.kernels.begin(), direct.kernels.end(),
                       [](const Kernel& k) { return std::holds_alternative<ConvWork>(k.work); });
      REQUIRE(work != direct.kernels.end());
      CHECK(is_library_depthwise(std::get<ConvWork>(work->work).shape, row.version) == row.library);
      if (row.library) CHECK(direct.kernels.size() == 1);
    }
  }

  TEST_CASE("sizes beyond any memory leave one candidate and overflow nothing") {
    const ConvAttributes a = square(std::int64_t{1} << 40, 8, 64, 8, 3);
    for (const Pass pass : kPasses) CHECK(candidates(a, pass).size() == 1);
  }

  TEST_CASE("kernel names stay short enough not to allocate") {
    for (const PrecisionMode mode : {PrecisionMode::Fp32, PrecisionMode::Amp}) {
      for (const Pass pass : kPasses) {
        for (const Candidate& candidate : candidates(square(8, 64, 28, 64, 3), pass, mode)) {
          for (const Kernel& kernel : candidate.kernels) CHECK(kernel.name.size() <= 15);
        }
      }
    }
  }
}
