#pragma once
#include "models/language/forward.hpp"

/// Parts of a layer. Private to models/language.
namespace tracecast::forward_parts {

/// One kind of layer, `count` times in the network, for `rows` new tokens of a rank; kernels go to
/// `out`.
struct Layer {
  const ServedNetwork& served;
  const LanguageLayer& layer;
  double rows, count;
  std::vector<ForwardKernel>& out;
  void add(std::string_view name, ForwardWork work, double times = 1, double launches = 1,
           bool is_guess = false) const {
    out.push_back({name, std::move(work), times * count, launches, is_guess});
  }
  void gemm(std::string_view name, double n, double k) const {
    add(name, ForwardGemm{1, rows, n, k, served.formats.gemms});
  }
  [[nodiscard]] double tensor() const { return static_cast<double>(served.sharing.tensor); }
};

/// GEMMs of the mixer, and the sum over tensor ranks after it.
void add_mixer_rows(const Layer& at);
void add_feed_forward(const Layer& at);

}  // namespace tracecast::forward_parts
