#include "models/lowering/convolution.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "models/lowering/cudnn_versions.hpp"
#include "models/lowering/kernels.hpp"
#include "sim/base/error.hpp"

namespace tracecast::lowering {
namespace {

double round_up(std::int64_t value, std::int64_t multiple) {
  return static_cast<double>((value + multiple - 1) / multiple * multiple);
}
std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Non-fused Winograd F(m x m, r x r) on t x t input tiles, t = m + r - 1.
struct NonfusedWinograd {
  std::int64_t m, t;
};
constexpr NonfusedWinograd kNonfused3x3{4, 6}, kNonfused5x5{9, 13};

/// Tiles of non-fused Winograd. Weight gradients are not padded to 16 images: half the time of 16
/// images at 8 (DeepBench, P100 to V100).
std::int64_t nonfused_tiles(const ConvAttributes& a, Pass pass, const NonfusedWinograd& winograd) {
  const bool on_data = pass == Pass::BackwardData;
  const std::int64_t images = pass == Pass::BackwardWeights ? a.n : ceil_divide(a.n, 16) * 16;
  return images * ceil_divide(on_data ? a.h : a.p, winograd.m) *
         ceil_divide(on_data ? a.w : a.q, winograd.m);
}

/// One operand of a convolution in memory.
struct Operand {
  double elements = 0;
  double padded = 0;            ///< with channels rounded up for tensor cores
  bool has_one_layout = false;  ///< one channel: NHWC and NCHW are the same bytes
};

/// Collects the candidates of one pass of one convolution.
class CandidateBuilder {
 public:
  CandidateBuilder(const ConvAttributes& shape, Pass pass, const Formats& formats,
                   ImageLayout layout, Architecture architecture, double cudnn_version)
      : a_(shape),
        pass_(pass),
        formats_(formats),
        layout_(layout),
        architecture_(architecture),
        cudnn_version_(cudnn_version) {
    // Off the tensor cores the same data meet another arithmetic.
    cuda_formats_ = formats;
    cuda_formats_.math = formats.cuda_core_math;
    cuda_formats_.unit = MathUnit::CudaCore;

    const std::int64_t align = element_size(formats.storage) == Bytes(4) ? 4 : 8;
    const double n = number(a_.n), hw = number(a_.h) * number(a_.w),
                 pq = number(a_.p) * number(a_.q);
    const double rs = number(a_.r) * number(a_.s);
    x_ = {n * number(a_.c) * hw, n * round_up(a_.c, align) * hw, a_.c == 1};
    w_ = {number(a_.k) * number(a_.c / a_.groups) * rs,
          round_up(a_.k, align) *
              (a_.groups == 1 ? round_up(a_.c, align) : number(a_.c / a_.groups)) * rs};
    y_ = {n * number(a_.k) * pq, n * round_up(a_.k, align) * pq, a_.k == 1};
    switch (pass) {
      case Pass::BackwardData:
        in1_ = y_, in2_ = w_, out_ = x_;
        break;
      case Pass::BackwardWeights:
        in1_ = x_, in2_ = y_, out_ = w_;
        break;
      default:
        in1_ = x_, in2_ = w_, out_ = y_;
    }
    macs_ = a_.macs();
  }

  std::vector<Candidate> build_without_library() && {
    add_image_loop();
    return std::move(candidates_);
  }

  std::vector<Candidate> build() && {
    candidates_.reserve(8);
    if (formats_.storage == Precision::Int8) {
      add_integer();
      return std::move(candidates_);
    }
    if (is_depthwise()) {
      add_direct();
    } else {
      add_implicit();
    }
    const bool half_on_tensor_cores =
        formats_.unit == MathUnit::TensorCore && element_size(formats_.storage) == Bytes(2);
    if (half_on_tensor_cores && layout_ == ImageLayout::Nhwc &&
        lacks_grouped_tensor_kernels(a_, pass_, cudnn_version_)) {
      candidates_.clear();
      add_grouped_direct();
      return std::move(candidates_);
    }
    // No memory holds more: nothing to choose from, and the sizes below stay far from overflow.
    constexpr double kMostElements = 0x1p44;
    if (std::max({x_.elements, w_.elements, y_.elements}) > kMostElements)
      return std::move(candidates_);
    if (!is_depthwise()) {
      if (formats_.unit == MathUnit::TensorCore && suits_tensor_cores()) add_tensor_core();
      add_precomputed();
      if (pass_ == Pass::Forward && cuda_formats_.math == Precision::Fp32) add_explicit();
    }
    if (a_.is_volume) return std::move(candidates_);
    const bool is_strided = a_.stride_h > 1 || a_.stride_w > 1;
    if (is_fft_shape()) {
      if (!is_strided) add_fft();
      if (!is_strided || pass_ == Pass::Forward) add_fft_tiling();
    }
    if (!is_strided && a_.dilation_h == 1 && a_.dilation_w == 1) {
      if (!is_depthwise() && !lacks_grouped() && !lacks_winograd()) {
        if (a_.r == 3 && a_.s == 3) {
          if (pass_ != Pass::BackwardWeights) add_winograd_fused();
          add_winograd_nonfused(kNonfused3x3);
        } else if (a_.r == 5 && a_.s == 5 && element_size(formats_.storage) == Bytes(4)) {
          add_winograd_nonfused(kNonfused5x5);
        }
      }
    }
    return std::move(candidates_);
  }

 private:
  static double number(std::int64_t value) { return static_cast<double>(value); }
  [[nodiscard]] bool is_depthwise() const { return a_.groups > 1 && a_.groups == a_.c; }
  [[nodiscard]] Bytes bytes(double elements) const {
    return element_size(formats_.storage) * elements;
  }

  [[nodiscard]] bool lacks_grouped() const {
    return a_.groups > 1 && lacks_grouped_kernels(architecture_, cudnn_version_);
  }
  /// From Ampere on there is no Winograd on tensor cores in 16 bits. CHOICE by rows: VGG with
  /// everything tried out (data/market/timm.csv.gz) nears the peak of plain convolution on RTX
  /// 3090, 4090 and 5090, and never passes it (notes/0001).
  [[nodiscard]] bool lacks_winograd() const {
    return architecture_ >= Architecture::Ampere && formats_.unit == MathUnit::TensorCore &&
           element_size(formats_.storage) == Bytes(2) && cudnn_version_ >= 8.1;
  }
  [[nodiscard]] bool suits_tensor_cores() const {
    if (lacks_grouped()) return false;
    if (element_size(formats_.storage) != Bytes(2) || cudnn_version_ >= 8) return true;
    if (layout_ == ImageLayout::Nchw && cudnn_version_ >= 7.3) return true;
    return (a_.c / a_.groups) % 8 == 0 && (a_.k / a_.groups) % 8 == 0;
  }

  Candidate& add(Algorithm algorithm, std::size_t num_kernels) {
    Candidate& candidate = candidates_.emplace_back();
    candidate.algorithm = algorithm;
    candidate.kernels.reserve(num_kernels);
    return candidate;
  }
  Kernel& append(Candidate& candidate, Kernel kernel) {
    kernel.algorithm = candidate.algorithm;
    kernel.kernel_class =
        kernel.kernel_class == KernelClass::Other ? KernelClass::Convolution : kernel.kernel_class;
    candidate.kernels.push_back(std::move(kernel));
    return candidate.kernels.back();
  }
  /// The whole GEMM as one kernel on the library's convolution tiles.
  Kernel& append_main(Candidate& candidate, std::string_view name, const Formats& formats,
                      double saving = 1) {
    Kernel kernel;
    kernel.name = name;
    kernel.pass = pass_;
    kernel.data = formats.storage;
    kernel.math = formats.math;
    kernel.unit = formats.unit;
    kernel.flops = Flops(2 * macs_ / saving);
    kernel.read = bytes(in1_.elements + in2_.elements);
    kernel.written = bytes(out_.elements);
    kernel.work = ConvWork{a_};
    return append(candidate, std::move(kernel));
  }
  /// Part of an algorithm that only moves or transforms data.
  Kernel& append_stream(Candidate& candidate, std::string_view name, Bytes read, Bytes written,
                        double elements, double operations = 1,
                        KernelClass kernel_class = KernelClass::Convolution) {
    return append(candidate, stream_kernel(name, kernel_class, pass_, formats_.storage, read,
                                           written, elements, operations));
  }
  Kernel& append_gemms(Candidate& candidate, const Formats& formats, const MatrixWork& work) {
    return append(candidate,
                  matrix_kernel("gemms", KernelClass::Convolution, pass_, formats, work));
  }
  void append_transpose(Candidate& candidate, std::string_view name, const Operand& from,
                        double to) {
    append_stream(candidate, name, bytes(from.elements), bytes(to), to, 1, KernelClass::Transpose);
    candidate.workspace += bytes(to);
  }
  /// A framework in NHWC round kernels that want NCHW: before them. The filter counts too.
  void open_nchw(Candidate& candidate) {
    if (layout_ != ImageLayout::Nhwc) return;
    for (const Operand& operand : {in1_, in2_}) {
      if (!operand.has_one_layout)
        append_transpose(candidate, "to_nchw", operand, operand.elements);
    }
  }
  void close_nchw(Candidate& candidate) {
    if (layout_ == ImageLayout::Nhwc) append_transpose(candidate, "to_nhwc", out_, out_.elements);
  }

  void append_clear(Candidate& candidate) {
    append_stream(candidate, "clear", Bytes(0), bytes(out_.elements), out_.elements, 1,
                  KernelClass::Memset);
  }

  void add_implicit() {
    Candidate& candidate = add(Algorithm::ImplicitGemm, 5);
    open_nchw(candidate);
    if (pass_ != Pass::Forward) append_clear(candidate);
    Kernel& kernel = append_main(candidate, "conv", cuda_formats_);
    // It adds to the image's gradient, which it reads as well.
    if (pass_ == Pass::BackwardData) kernel.read += bytes(out_.elements);
    close_nchw(candidate);
  }

  [[nodiscard]] Bytes offset_table() const {
    return architecture_ >= Architecture::Volta
               ? Bytes(6 * number(a_.p) * number(a_.q))
               : Bytes(4 * number(a_.c / a_.groups) * number(a_.r) * number(a_.s));
  }
  void append_offsets(Candidate& candidate) {
    const Bytes table = offset_table();
    append_stream(candidate, "offsets", Bytes(0), table, table.in_bytes() / 4);
    // The inner dimension of the weights' gradient is split among blocks: a table for that as well.
    if (pass_ == Pass::BackwardWeights) {
      append_stream(candidate, "split_offsets", Bytes(0), table, table.in_bytes() / 4);
    }
    candidate.workspace += table;
  }
  void add_precomputed() {
    Candidate& candidate = add(Algorithm::ImplicitPrecomputedGemm, 6);
    open_nchw(candidate);
    append_offsets(candidate);
    append_main(candidate, "conv", cuda_formats_);
    close_nchw(candidate);
  }

  void add_tensor_core() {
    const bool is_plain_gemm = a_.r == 1 && a_.s == 1 && a_.stride_h == 1 && a_.stride_w == 1 &&
                               a_.groups == 1 && a_.p == a_.h && a_.q == a_.w;
    if (is_plain_gemm && layout_ == ImageLayout::Nchw &&
        multiplies_images_as_they_lie(architecture_, formats_.storage, cudnn_version_)) {
      const std::int64_t pixels = a_.p * a_.q;
      Candidate& candidate = add(Algorithm::ExplicitGemm, 1);
      switch (pass_) {
        case Pass::BackwardData:
          append_gemms(candidate, formats_,
                       {.batch = a_.n, .m = a_.c, .n = pixels, .k = a_.k, .transpose_a = true});
          break;
        case Pass::BackwardWeights:
          append_gemms(candidate, formats_,
                       {.batch = 1, .m = a_.k, .n = a_.c, .k = a_.n * pixels, .transpose_b = true});
          break;
        default:
          append_gemms(candidate, formats_, {.batch = a_.n, .m = a_.k, .n = pixels, .k = a_.c});
      }
      candidate.kernels.back().read =
          bytes(in1_.elements + in2_.elements);  // the filter once, not once per image
      candidate.kernels.back().written = bytes(out_.elements);
    }
    Candidate& candidate = add(Algorithm::ImplicitPrecomputedGemm, 7);
    const bool transposes = layout_ == ImageLayout::Nchw;
    if (transposes) {
      append_transpose(candidate, "to_nhwc", in1_, in1_.padded);
      append_transpose(candidate, "to_nhwc", in2_, in2_.padded);
    }
    append_offsets(candidate);
    // Cells of the image that no filter reaches.
    if (pass_ == Pass::BackwardData && (a_.stride_h > a_.r || a_.stride_w > a_.s))
      append_clear(candidate);
    append_main(candidate, "conv", formats_);
    if (transposes) append_transpose(candidate, "to_nchw", out_, out_.elements);
  }

  /// As frameworks did it before cuDNN: unfold an image, multiply, image after image. Source:
  /// BVLC/caffe, base_conv_layer.cpp, conv_layer.cu.
  void add_image_loop() {
    const std::int64_t pixels = a_.p * a_.q, depth = a_.c / a_.groups * a_.r * a_.s;
    const std::int64_t filters = a_.k / a_.groups;
    const double im2col = number(a_.groups) * number(depth) * number(pixels);
    const bool is_pointwise = a_.r * a_.s == 1 && a_.stride_h * a_.stride_w == 1;
    Candidate& candidate = add(Algorithm::ExplicitGemm, 2);
    const auto add_unfolding = [&](std::string_view name, const Operand& image) {
      if (is_pointwise) return;
      Kernel& kernel = append_stream(candidate, name, bytes(image.elements),
                                     bytes(im2col * number(a_.n)), im2col);
      kernel.launches = a_.n;
      candidate.workspace += bytes(im2col);
    };
    MatrixWork gemm{.batch = 1, .m = filters, .n = pixels, .k = depth};
    if (pass_ == Pass::BackwardData) {
      gemm = {.batch = 1, .m = depth, .n = pixels, .k = filters, .transpose_a = true};
    } else {
      if (pass_ == Pass::BackwardWeights) {
        gemm = {.batch = 1, .m = filters, .n = depth, .k = pixels, .transpose_b = true};
      }
      add_unfolding("im2col", x_);
    }
    Kernel& kernel = append_gemms(candidate, cuda_formats_, gemm);
    const double launches = number(a_.n) * number(a_.groups);
    kernel.launches = a_.n * a_.groups;
    kernel.flops = kernel.flops * launches;
    kernel.read = kernel.read * launches;
    kernel.written = kernel.written * launches;
    if (pass_ == Pass::BackwardData) add_unfolding("col2im", x_);
  }

  /// GEMMs of 8-bit integers with 32-bit sums; scaling back to 8 bits, bias and relu are the
  /// epilogue. Channels lie in vectors of 4 (dp4a, groups, and an image of up to 4) or 32 (tensor
  /// cores), padded with zeros.
  void add_integer() {
    constexpr std::int64_t kVector = 32, kFew = 4;
    const std::int64_t depth = a_.c / a_.groups;
    const bool fills_vectors = a_.groups == 1 || depth % kFew == 0;
    const bool tensor_cores = formats_.unit == MathUnit::TensorCore && fills_vectors;
    const bool in_few = !tensor_cores || a_.groups > 1;
    ConvAttributes padded = a_;
    if (!is_depthwise()) {
      const std::int64_t in = in_few || depth <= kFew ? kFew : kVector;
      const std::int64_t out = in_few ? kFew : kVector;
      padded.c = a_.groups * ceil_divide(depth, in) * in;
      padded.k = a_.groups * ceil_divide(a_.k / a_.groups, out) * out;
    }
    Formats formats = tensor_cores ? formats_ : cuda_formats_;
    // A filter of one channel has no sums over channels for dp4a to take.
    if (is_depthwise()) formats.math = Precision::Fp32;
    Candidate& candidate =
        add(is_depthwise() ? Algorithm::Direct : Algorithm::ImplicitPrecomputedGemm, 1);
    Kernel& kernel = append_main(candidate, "conv", formats);
    const double images = number(a_.n);
    const double x = images * number(padded.c) * number(a_.h) * number(a_.w);
    const double y = images * number(padded.k) * number(a_.p) * number(a_.q);
    const double w = number(padded.k) * number(padded.c / a_.groups) * number(a_.r) * number(a_.s);
    kernel.read = bytes((pass_ == Pass::BackwardData ? y : x) + w);
    kernel.written = bytes(pass_ == Pass::BackwardData ? x : y);
    kernel.work = ConvWork{padded};
  }

  /// As kernels of cuDNN's for one or a few channels, whose images need no transposes.
  void append_library_direct(Candidate& candidate) {
    Kernel& kernel = append_main(candidate, "conv", cuda_formats_);
    std::get<ConvWork>(kernel.work).shape.channels_last = true;
  }
  void add_grouped_direct() {
    const bool forward = pass_ == Pass::Forward;
    Candidate& candidate = add(forward ? Algorithm::ImplicitGemm : Algorithm::Direct, 1);
    if (forward) {
      append_main(candidate, "conv", cuda_formats_);
    } else {
      append_library_direct(candidate);
    }
  }

  void add_direct() {
    Candidate& candidate = add(Algorithm::Direct, 4);
    if (is_library_depthwise(a_, cudnn_version_) ||
        takes_library_depthwise(a_, layout_, formats_.storage, cudnn_version_)) {
      append_library_direct(candidate);
      return;
    }
    open_nchw(candidate);
    append_main(candidate, "conv", cuda_formats_);
    close_nchw(candidate);
  }

  void add_explicit() {
    const double depth = number(a_.c) * number(a_.r) * number(a_.s);
    const double im2col = number(a_.n) * depth * number(a_.p) * number(a_.q);
    Candidate& candidate = add(Algorithm::ExplicitGemm, 5);
    open_nchw(candidate);
    append_stream(candidate, "im2col", bytes(in1_.elements), bytes(im2col), im2col);
    append_main(candidate, "gemms", cuda_formats_).read = bytes(im2col + in2_.elements);
    candidate.workspace += bytes(im2col);
    close_nchw(candidate);
  }

  /// 16-bit images pass through spectra of 32-bit numbers, unless they lie in NHWC.
  [[nodiscard]] bool is_fft_shape() const {
    const bool is_wide =
        formats_.storage == Precision::Fp32 && cuda_formats_.math == Precision::Fp32;
    const bool is_half = formats_.storage == Precision::Fp16 && layout_ == ImageLayout::Nchw;
    return (is_wide || is_half) && a_.groups == 1 && a_.dilation_h == 1 && a_.dilation_w == 1 &&
           a_.r > std::max(a_.pad_top, a_.pad_bottom) && a_.s > std::max(a_.pad_left, a_.pad_right);
  }
  /// Planes that an FFT transforms, and into what.
  struct Spectra {
    double image = 0;        ///< complex values of one image and channel, of one tile
    double filter = 0;       ///< complex values of one pair of channels
    std::int64_t batch = 1;  ///< GEMMs: one per frequency
    std::int64_t rows = 1;   ///< rows of an image that share a frequency
    std::int64_t tiles = 1;  ///< passes through transform, GEMM and transform back
  };
  /// The three transforms and the GEMM of complex matrices, one per frequency. Returns the size of
  /// the two transformed operands, all tiles.
  Bytes append_fft(Candidate& candidate, const Spectra& spectra) {
    const double tiles = number(spectra.tiles);
    const double x = number(a_.n) * number(a_.c) * spectra.image * tiles;
    const double y = number(a_.n) * number(a_.k) * spectra.image * tiles;
    const double w = number(a_.k) * number(a_.c) * spectra.filter;
    const std::int64_t m = a_.n * spectra.rows;
    double in1 = x, in2 = w, out = y;
    // The factor 4 on the inner dimension: a complex multiply-add is four real ones.
    MatrixWork gemms{.batch = spectra.batch, .m = m, .n = a_.k, .k = 4 * a_.c};
    if (pass_ == Pass::BackwardData) {
      in1 = y, out = x;
      gemms = {.batch = spectra.batch, .m = m, .n = a_.c, .k = 4 * a_.k};
    } else if (pass_ == Pass::BackwardWeights) {
      in2 = y, out = w;
      gemms = {.batch = spectra.batch, .m = a_.k, .n = a_.c, .k = 4 * m};
    }
    open_nchw(candidate);
    append_transform(candidate, "data_tf", in1_.elements, in1, kTransform, spectra.tiles);
    append_transform(candidate, pass_ == Pass::BackwardWeights ? "delta_tf" : "filter_tf",
                     in2_.elements, in2,
                     pass_ == Pass::BackwardWeights ? kTransform : kFilterTransform,
                     pass_ == Pass::BackwardWeights ? spectra.tiles : 1);
    Formats formats = cuda_formats_;
    formats.math = Precision::Fp32;  // spectra are, whatever the images
    Kernel& gemm = append_gemms(candidate, formats, gemms);
    gemm.launches = spectra.tiles;
    gemm.flops = gemm.flops * tiles;
    // The filter's spectrum is read again for every tile.
    gemm.read = Bytes(8 * (pass_ == Pass::BackwardWeights ? in1 + in2 : in1 + in2 * tiles));
    gemm.written = Bytes(8 * (pass_ == Pass::BackwardWeights ? out * tiles : out));
    append_transform(candidate, "output_tf", out_.elements, out, kTransform,
                     pass_ == Pass::BackwardWeights ? 1 : spectra.tiles);
    close_nchw(candidate);
    return Bytes(8 * (in1 + in2));
  }
  /// Operations per real number of a spectrum: a transform of a 32 x 32 plane takes about 5/2
  /// log2(1024) of them for real data (Cooley and Tukey, 1965), filters less, since most of their
  /// plane is zero. Guess: what cuDNN's kernels save of it and lose to shared memory;
  /// data/kernels/conv_cudnn_algos.csv.gz says 18 and 3.
  static constexpr double kTransform = 18, kFilterTransform = 3;
  /// Into (in1, in2) or out of (out) the frequency domain.
  void append_transform(Candidate& candidate, std::string_view name, double elements,
                        double spectrum, double operations, std::int64_t launches) {
    const bool is_inverse = name == "output_tf";
    const Bytes plain = bytes(elements), complex = Bytes(8 * spectrum);
    const double numbers = 2 * spectrum;
    Kernel& kernel =
        append_stream(candidate, name, is_inverse ? complex : plain, is_inverse ? plain : complex,
                      numbers / number(launches), operations);
    kernel.flops = Flops(numbers * operations);
    kernel.launches = launches;
  }
  void add_fft() {
    const std::int64_t extent =
        std::max(a_.h + a_.pad_top + a_.pad_bottom, a_.w + a_.pad_left + a_.pad_right);
    if (extent > 256) return;
    const auto f = static_cast<std::int64_t>(
        std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 16))));
    const std::int64_t frequencies = f * (f / 2 + 1);
    Candidate& candidate = add(Algorithm::Fft, 8);
    if (pass_ != Pass::BackwardWeights) {
      append_stream(candidate, "flip_filter", bytes(w_.elements), bytes(w_.elements), w_.elements);
    }
    candidate.workspace += append_fft(candidate, {.image = number(frequencies),
                                                  .filter = number(frequencies),
                                                  .batch = frequencies}) *
                           2.0;
  }
  void add_fft_tiling() {
    if (a_.r > 32 || a_.s > 32) return;
    Candidate& candidate = add(Algorithm::FftTiling, 7);
    const double filters = number(a_.c) * number(a_.k), images = number(a_.n) * number(a_.c + a_.k);
    const std::int64_t across =
        ceil_divide(a_.w + a_.pad_left + a_.pad_right - a_.s + 1, 33 - a_.s);
    const std::int64_t down = ceil_divide(a_.h + a_.pad_top + a_.pad_bottom - a_.r + 1, 33 - a_.r);
    // Filters of one row are transformed along it alone, two tiles at a time, as the workspace
    // holds them.
    if (a_.r == 1 && a_.stride_h == 1 && a_.stride_w == 1) {
      const std::int64_t passes = ceil_divide(across, 2);
      (void)append_fft(candidate, {.image = number(17 * a_.h * across) / number(passes),
                                   .filter = 17,
                                   .batch = 17,
                                   .rows = a_.h * std::min<std::int64_t>(across, 2),
                                   .tiles = passes});
      const double kept = number(a_.h * std::min<std::int64_t>(across, 2));
      candidate.workspace += Bytes(8 * 17 * (filters + images * kept));
      return;
    }
    const double spectrum = 32 * 17;
    const std::int64_t tiles = down * across;
    (void)append_fft(candidate, {.image = spectrum,
                                 .filter = spectrum,
                                 .batch = static_cast<std::int64_t>(spectrum),
                                 .tiles = tiles});
    candidate.workspace +=
        Bytes(8 * spectrum * (filters + images * number(std::min<std::int64_t>(tiles, 2))));
  }

  void add_winograd_fused() {
    Candidate& candidate = add(Algorithm::WinogradFused, 5);
    const double filters = number(a_.c / a_.groups) * number(a_.k);
    const Bytes transformed(100 * filters);
    open_nchw(candidate);
    append_stream(candidate, "filter_tf", bytes(w_.elements), transformed, 9 * filters, 4);
    append_main(candidate, "conv", cuda_formats_, 2.25);
    candidate.workspace += transformed + Bytes(4 * number(a_.k));
    close_nchw(candidate);
  }

  void add_winograd_nonfused(const NonfusedWinograd& winograd) {
    const std::int64_t m = winograd.m, t = winograd.t;
    const Formats& formats = formats_.unit == MathUnit::TensorCore ? formats_ : cuda_formats_;
    const bool on_data = pass_ == Pass::BackwardData;
    const std::int64_t tiles = nonfused_tiles(a_, pass_, winograd);
    const double points = number(t * t);
    const double tiles_x = points * number(a_.c) * number(tiles),
                 tiles_y = points * number(a_.k) * number(tiles);
    const double tiles_w = points * number(a_.k) * number(a_.c / a_.groups);
    const std::int64_t depth_c = a_.c / a_.groups, depth_k = a_.k / a_.groups,
                       batch = t * t * a_.groups;
    // Rows of the GEMMs come in blocks of 128 in cuDNN 7, but on Kepler
    // (data/kernels/conv_cudnn_algos.csv.gz, 512 channels of 7x7 pixels, 8, 16, 32, 64, 128 images:
    // 532, 533, 581, 833, 1466 us on TITAN Xp; alike on M60 and V100).
    constexpr std::int64_t kRows = 128;
    const bool in_blocks = cudnn_version_ < 8 && architecture_ != Architecture::Kepler;
    const std::int64_t rows = in_blocks ? ceil_divide(tiles, kRows) * kRows : tiles;
    double tiles_in1 = tiles_x, tiles_in2 = tiles_w, tiles_out = tiles_y;
    MatrixWork gemms{.batch = batch, .m = rows, .n = depth_k, .k = depth_c};
    if (on_data) {
      std::swap(tiles_in1, tiles_out);
      gemms = {.batch = batch, .m = rows, .n = depth_c, .k = depth_k};
    } else if (pass_ == Pass::BackwardWeights) {
      tiles_in2 = tiles_y, tiles_out = tiles_w;
      gemms = {.batch = batch, .m = depth_k, .n = depth_c, .k = tiles, .transpose_b = true};
    }
    // Additions per transformed value: a t x t tile passes through two t-wide GEMMs with
    // constants.
    const double operations = 2 * number(t);
    Candidate& candidate = add(Algorithm::WinogradNonfused, 7);
    open_nchw(candidate);
    // A thread transforms a tile: it works for the pixels that the tile covers, as that of the
    // output does.
    append_stream(candidate, "data_tf", bytes(in1_.elements), bytes(tiles_in1),
                  tiles_in1 * number(m * m) / points, operations);
    append_stream(candidate, pass_ == Pass::BackwardWeights ? "delta_tf" : "filter_tf",
                  bytes(in2_.elements), bytes(tiles_in2), tiles_in2, operations);
    Kernel& gemm = append_gemms(candidate, formats, gemms);
    gemm.read = bytes(tiles_in1 + tiles_in2);
    gemm.written = bytes(tiles_out);
    append_stream(candidate, "output_tf", bytes(tiles_out), bytes(out_.elements), out_.elements,
                  operations);
    candidate.workspace += bytes(tiles_x + tiles_y + tiles_w);
    close_nchw(candidate);
  }

  const ConvAttributes& a_;
  Pass pass_;
  const Formats& formats_;
  Formats cuda_formats_;
  ImageLayout layout_;
  Architecture architecture_;
  double cudnn_version_;
  Operand x_, w_, y_, in1_, in2_, out_;
  double macs_ = 0;
  std::vector<Candidate> candidates_;
};

/// Channels of one group lie in a strided view; the library is called once per group.
void repeat_kernels(Candidate& candidate, std::int64_t times) {
  const std::vector<Kernel> once = candidate.kernels;
  candidate.kernels.reserve(once.size() * static_cast<std::size_t>(times));
  for (std::int64_t i = 1; i < times; ++i) {
    candidate.kernels.insert(candidate.kernels.end(), once.begin(), once.end());
  }
}

}  // namespace

bool nonfused_winograd_saves_multiplications(const ConvAttributes& shape, Pass pass) {
  if (pass == Pass::BackwardWeights) return true;
  const bool on_data = pass == Pass::BackwardData;
  const std::int64_t height = on_data ? shape.h : shape.p, width = on_data ? shape.w : shape.q;
  const bool is_3x3 = shape.r == 3 && shape.s == 3;
  const NonfusedWinograd& winograd = is_3x3 ? kNonfused3x3 : kNonfused5x5;
  const std::int64_t rival = is_3x3 ? 16 * ceil_divide(height, 2) * ceil_divide(width, 2)
                                    : shape.r * shape.s * height * width;
  return winograd.t * winograd.t * nonfused_tiles(shape, pass, winograd) < shape.n * rival;
}

std::vector<Candidate> convolution_candidates(const ConvAttributes& shape, Pass pass,
                                              const Formats& formats, ImageLayout layout,
                                              Architecture architecture, double cudnn_version) {
  TRACECAST_CHECK(
      pass == Pass::Forward || pass == Pass::BackwardData || pass == Pass::BackwardWeights,
      "a convolution has three passes");
  TRACECAST_CHECK(shape.groups > 0, "a convolution has at least one group");
  if (cudnn_version < 1) {
    return CandidateBuilder(shape, pass, formats, layout, architecture, cudnn_version)
        .build_without_library();
  }
  const double version = std::max(cudnn_version, first_cudnn_version(architecture));
  // Depthwise convolutions have kernels of the frameworks' own.
  const bool by_group = shape.groups > 1 && shape.groups < shape.c && version < 7;
  ConvAttributes one = shape;
  if (by_group) {
    one.c /= shape.groups;
    one.k /= shape.groups;
    one.groups = 1;
  }
  std::vector<Candidate> candidates =
      CandidateBuilder(one, pass, formats, layout, architecture, version).build();
  keep_known_algorithms(candidates, pass, version);
  if (by_group) {
    for (Candidate& candidate : candidates) repeat_kernels(candidate, shape.groups);
  } else if (shape.groups > 1 && version >= 7 && version < 8 && layout == ImageLayout::Nchw) {
    launch_by_group(candidates, shape.groups);
  }
  return candidates;
}

}  // namespace tracecast::lowering
