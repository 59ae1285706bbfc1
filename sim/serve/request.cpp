#include "sim/serve/request.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tracecast::serve {
namespace {

class DrawnLoad final : public RequestSource {
 public:
  DrawnLoad(const LoadOptions& options, bool closed)
      : options_(options), closed_(closed), random_(options.seed) {}

  std::optional<Request> next() override {
    if (count_ == options_.requests) return std::nullopt;
    Request request;
    request.number = count_++;
    if (!closed_) {
      if (request.number > 0 || options_.arrivals != Arrivals::Even) time_ += gap();
      request.arrival = std::llround(time_ * 1e6);
    }
    request.input = draw(options_.lengths.input);
    request.output = draw(options_.lengths.output);
    request.shared = std::min(options_.lengths.shared, request.input - 1);
    if (options_.lengths.prefixes > 1)
      request.prefix = static_cast<std::uint32_t>(random_.below(options_.lengths.prefixes));
    return request;
  }

 private:
  double exponential() { return -std::log1p(-random_.uniform()); }
  /// Mean 1 / rate. Gamma of shape 1/4 by its quantiles' own making: Ahrens and Dieter's method for
  /// shapes below 1 (Computing 12, 1974).
  double gap() {
    if (options_.arrivals == Arrivals::Even) return 1 / options_.per_second;
    if (options_.arrivals == Arrivals::Poisson) return exponential() / options_.per_second;
    constexpr double kShape = 0.25, kE = 2.718281828459045;
    const double b = (kE + kShape) / kE;
    for (;;) {
      const double p = b * random_.uniform();
      const double x = p <= 1 ? std::pow(p, 1 / kShape) : -std::log((b - p) / kShape);
      const double accept = p <= 1 ? std::exp(-x) : std::pow(x, kShape - 1);
      if (random_.uniform() < accept) return x / kShape / options_.per_second;
    }
  }
  std::int64_t draw(std::int64_t length) {
    if (options_.lengths.least_share >= 1) return length;
    const auto low = static_cast<std::int64_t>(
        std::floor(static_cast<double>(length) * options_.lengths.least_share));
    const std::int64_t least = std::max<std::int64_t>(1, low);
    return least +
           static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(length - least + 1)));
  }

  LoadOptions options_;
  bool closed_;
  Random random_;
  std::uint64_t count_ = 0;
  double time_ = 0;
};

class Replay final : public RequestSource {
 public:
  explicit Replay(std::vector<Request> requests) : requests_(std::move(requests)) {}
  std::optional<Request> next() override {
    if (at_ == requests_.size()) return std::nullopt;
    return requests_[at_++];
  }

 private:
  std::vector<Request> requests_;
  std::size_t at_ = 0;
};

}  // namespace

std::unique_ptr<RequestSource> make_load(const LoadOptions& options) {
  return std::make_unique<DrawnLoad>(options, false);
}
std::unique_ptr<RequestSource> make_closed_load(const LoadOptions& options) {
  return std::make_unique<DrawnLoad>(options, true);
}
std::unique_ptr<RequestSource> replay(std::vector<Request> requests) {
  return std::make_unique<Replay>(std::move(requests));
}

}  // namespace tracecast::serve
