#include "sim/plan/fair_program.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

constexpr double kGap = 1e-7;                               ///< relative, of the level
constexpr double kShrink = 0.1;                             ///< of mu from one centre to the next
constexpr int kMostSteps = 60;                              ///< Newton's, per centre
constexpr double kLooseCentre = 1e-2, kTightCentre = 1e-9;  ///< squared Newton decrements

/// What is asked of a row at a level, and its derivatives; increasing and convex in t = +-z, which
/// is maximized.
struct Demand {
  double value = 0, slope = 0, curvature = 0;
};

Demand demand(const FairRow& row, FairGoal goal, double t) {
  if (goal == FairGoal::LargestRate) return {row.weight * t, row.weight, 0};
  // z = -t: work / (z reference - elapsed), as long as the denominator is above zero.
  const double spare = -t * row.reference - row.elapsed;
  if (spare <= 0) return {std::numeric_limits<double>::infinity(), 0, 0};
  const double value = row.work / spare, slope = value * row.reference / spare;
  return {value, slope, 2 * slope * row.reference / spare};
}

/// The program in the form that Newton's method sees, and where it stands.
class CentralPath {
 public:
  CentralPath(const FairProgram& program, std::optional<double> fixed_level)
      : program_(program),
        types_(program.capacity.size()),
        is_fixed_(fixed_level.has_value()),
        x_(program.rows.size() * types_),
        step_(x_.size()) {
    start();
    if (fixed_level) t_ = program.goal == FairGoal::LargestRate ? *fixed_level : -*fixed_level;
    if (fixed_level) upcast();
    scale_ = std::max(std::abs(t_), std::numeric_limits<double>::min());
    logarithms_ = static_cast<double>(types_);
    for (const FairRow& row : program.rows)
      logarithms_ += row.copies * static_cast<double>(types_ + 2);
  }

  FairShares run() {
    double mu = is_fixed_ ? 1 : 1 / logarithms_;
    const double last = is_fixed_ ? 1 : kGap / logarithms_;
    for (;;) {
      const bool is_last = mu <= last;
      centre(mu, is_last ? kTightCentre : kLooseCentre);
      if (is_last) break;
      mu = std::max(mu * kShrink, last);
    }
    FairShares shares;
    shares.level = program_.goal == FairGoal::LargestRate ? t_ : -t_;
    shares.x = std::move(x_);
    shares.newton_steps = steps_;
    return shares;
  }

 private:
  /// A point inside: equal small shares, and a level that they exceed.
  void start() {
    std::vector<double> load(types_);
    for (const FairRow& row : program_.rows) {
      for (std::size_t t = 0; t < types_; ++t)
        load[t] += row.rates[t] > 0 ? row.copies * row.gpus : 0;
    }
    double share = 0.5 / static_cast<double>(types_);
    for (std::size_t t = 0; t < types_; ++t) {
      if (load[t] > 0) share = std::min(share, 0.5 * program_.capacity[t] / load[t]);
    }
    t_ = std::numeric_limits<double>::max();
    for (std::size_t k = 0; k < program_.rows.size(); ++k) {
      const FairRow& row = program_.rows[k];
      double rate = 0;
      for (std::size_t t = 0; t < types_; ++t) {
        x_[k * types_ + t] = row.rates[t] > 0 ? share : 0;
        rate += x_[k * types_ + t] * row.rates[t];
      }
      const double level = program_.goal == FairGoal::LargestRate
                               ? 0.5 * rate / row.weight
                               : -(row.elapsed + 2 * row.work / rate) / row.reference;
      t_ = std::min(t_, level);
    }
  }
  /// For a fixed level: shares that reach it with room, from the path of the free level.
  void upcast() {
    const double wanted = t_;
    is_fixed_ = false;
    start();
    scale_ = std::max(std::abs(wanted), std::numeric_limits<double>::min());
    logarithms_ = static_cast<double>(types_);
    for (const FairRow& row : program_.rows)
      logarithms_ += row.copies * static_cast<double>(types_ + 2);
    for (double mu = 1 / logarithms_; t_ <= wanted && mu > 1e-12 / logarithms_; mu *= kShrink)
      centre(mu, kLooseCentre);
    TRACECAST_CHECK(t_ > wanted, "a fixed level is feasible with room");
    t_ = wanted;
    is_fixed_ = true;
  }

  [[nodiscard]] double rate_of(std::size_t k, const std::vector<double>& x) const {
    double rate = 0;
    for (std::size_t t = 0; t < types_; ++t) rate += program_.rows[k].rates[t] * x[k * types_ + t];
    return rate;
  }

  /// The function that is minimized; infinite outside.
  [[nodiscard]] double value(const std::vector<double>& x, double t, double mu) const {
    double sum = is_fixed_ ? 0 : -t / (mu * scale_);
    std::vector<double> free = program_.capacity;
    for (std::size_t k = 0; k < program_.rows.size(); ++k) {
      const FairRow& row = program_.rows[k];
      double rest = 1, gemm = 1, rate = 0;
      for (std::size_t j = 0; j < types_; ++j) {
        if (row.rates[j] <= 0) continue;
        const double share = x[k * types_ + j];
        if (share <= 0) return std::numeric_limits<double>::infinity();
        rest -= share;
        rate += row.rates[j] * share;
        gemm *= share;
        free[j] -= row.copies * row.gpus * share;
      }
      const double room = rate - demand(row, program_.goal, t).value;
      if (!(rest > 0) || !(room > 0)) return std::numeric_limits<double>::infinity();
      sum -= row.copies * (std::log(gemm) + std::log(rest) + std::log(room));
    }
    for (const double left : free) {
      if (left <= 0) return std::numeric_limits<double>::infinity();
      sum -= std::log(left);
    }
    return sum;
  }

  void centre(double mu, double tolerance) {
    for (int i = 0; i < kMostSteps; ++i) {
      const double decrement = find_step(mu);
      if (!(decrement > tolerance)) return;
      ++steps_;
      if (!walk(mu, decrement)) return;
    }
  }

  /// Goes along the step as far as the function falls enough; false: no more than rounding is left.
  bool walk(double mu, double decrement) {
    const double before = value(x_, t_, mu);
    double length = 1;
    std::vector<double>& trial = trial_;
    trial.resize(x_.size());
    for (int halvings = 0; halvings < 60; ++halvings, length *= 0.5) {
      for (std::size_t i = 0; i < x_.size(); ++i) trial[i] = x_[i] + length * step_[i];
      const double t = t_ + length * step_t_;
      const double now = value(trial, t, mu);
      if (!(now <= before - 1e-4 * length * decrement + 1e-12 * std::abs(before))) continue;
      x_.swap(trial);
      t_ = t;
      return true;
    }
    return false;
  }

  /// Newton's step and its squared decrement. Per row k, block H = copies (diag 1/x^2 + 1 1'/rest^2
  /// + a a'/room^2); the border holds t and, for every capacity j, y_j = (change of what is used) /
  /// free_j^2.
  double find_step(double mu) {
    const std::size_t border = types_ + 1, last = types_;
    std::vector<double> schur(border * border), right(border);
    std::vector<double> free = program_.capacity;
    for (std::size_t k = 0; k < program_.rows.size(); ++k) {
      for (std::size_t j = 0; j < types_; ++j)
        free[j] -= program_.rows[k].copies * program_.rows[k].gpus * x_[k * types_ + j];
    }
    blocks_.resize(program_.rows.size() * types_ * (border + 1));
    double gradient_t = is_fixed_ ? 0 : -1 / (mu * scale_);
    double hessian_t = is_fixed_ ? 1 : 0;
    for (std::size_t k = 0; k < program_.rows.size(); ++k)
      add_row(k, free, border, schur, right, gradient_t, hessian_t);
    for (std::size_t j = 0; j < types_; ++j) schur[j * border + j] -= free[j] * free[j];
    schur[last * border + last] += hessian_t;
    right[last] -= gradient_t;
    solve_dense(schur, right, border);
    double decrement = -gradient_t * right[last];
    for (std::size_t k = 0; k < program_.rows.size(); ++k) {
      for (std::size_t j = 0; j < types_; ++j) {
        const double* block = &blocks_[(k * types_ + j) * (border + 1)];
        double value = block[border];
        for (std::size_t b = 0; b < border; ++b) value -= block[b] * right[b];
        step_[k * types_ + j] = value;
      }
    }
    step_t_ = right[last];
    for (std::size_t i = 0; i < gradient_.size(); ++i) decrement -= gradient_[i] * step_[i];
    return decrement;
  }

  /// Eliminates row k: keeps inv(H) [capacity columns, t column] and inv(H)(-gradient), adds to the
  /// border's system.
  void add_row(std::size_t k, const std::vector<double>& free, std::size_t border,
               std::vector<double>& schur, std::vector<double>& right, double& gradient_t,
               double& hessian_t) {
    const FairRow& row = program_.rows[k];
    gradient_.resize(x_.size());
    double rest = 1;
    for (std::size_t j = 0; j < types_; ++j) rest -= x_[k * types_ + j];
    const Demand asked = demand(row, program_.goal, t_);
    const double room = rate_of(k, x_) - asked.value;
    const double n = row.copies, held = n * row.gpus;
    const std::size_t width = border + 1;
    std::vector<double>&h = small_, &rhs = small_right_;
    h.assign(types_ * types_, 0);
    rhs.assign(types_ * width, 0);
    for (std::size_t i = 0; i < types_; ++i) {
      double& gradient = gradient_[k * types_ + i];
      gradient = 0;
      if (row.rates[i] <= 0) {
        h[i * types_ + i] = 1;  // stays zero
        continue;
      }
      const double share = x_[k * types_ + i];
      // The capacities' own part of the gradient; of the Hessian it is the border.
      gradient = n * (-1 / share + 1 / rest - row.rates[i] / room) + held / free[i];
      for (std::size_t j = 0; j < types_; ++j) {
        if (row.rates[j] <= 0) continue;
        h[i * types_ + j] = n * (1 / (rest * rest) + row.rates[i] * row.rates[j] / (room * room) +
                                 (i == j ? 1 / (share * share) : 0));
      }
      rhs[i * width + i] = held;
      if (!is_fixed_) rhs[i * width + types_] = -n * asked.slope * row.rates[i] / (room * room);
      rhs[i * width + border] = -gradient;
    }
    if (!is_fixed_) {
      gradient_t += n * asked.slope / room;
      hessian_t += n * (asked.slope * asked.slope / (room * room) + asked.curvature / room);
    }
    solve_blocks(h, rhs, width);
    for (std::size_t i = 0; i < types_; ++i) {
      if (row.rates[i] <= 0) continue;
      const double t_column = is_fixed_ ? 0 : -n * asked.slope * row.rates[i] / (room * room);
      for (std::size_t b = 0; b < border; ++b) {
        schur[i * border + b] -= held * rhs[i * width + b];
        schur[types_ * border + b] -= t_column * rhs[i * width + b];
      }
      right[i] -= held * rhs[i * width + border];
      right[types_] -= t_column * rhs[i * width + border];
    }
    std::copy(rhs.begin(), rhs.end(),
              blocks_.begin() + static_cast<std::ptrdiff_t>(k * types_ * width));
  }

  /// h is positive definite: Gaussian elimination without pivots keeps its accuracy whatever the
  /// scales of its rows.
  void solve_blocks(std::vector<double>& h, std::vector<double>& rhs, std::size_t width) const {
    const std::size_t n = types_;
    for (std::size_t p = 0; p < n; ++p) {
      const double pivot = 1 / h[p * n + p];
      for (std::size_t i = p + 1; i < n; ++i) {
        const double factor = h[i * n + p] * pivot;
        if (factor == 0) continue;
        for (std::size_t j = p + 1; j < n; ++j) h[i * n + j] -= factor * h[p * n + j];
        for (std::size_t c = 0; c < width; ++c) rhs[i * width + c] -= factor * rhs[p * width + c];
      }
    }
    for (std::size_t p = n; p-- > 0;) {
      for (std::size_t c = 0; c < width; ++c) {
        double sum = rhs[p * width + c];
        for (std::size_t j = p + 1; j < n; ++j) sum -= h[p * n + j] * rhs[j * width + c];
        rhs[p * width + c] = sum / h[p * n + p];
      }
    }
  }
  /// The border's system is indefinite and small: partial pivoting on rows scaled to one.
  static void solve_dense(std::vector<double>& a, std::vector<double>& b, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      double largest = 0;
      for (std::size_t j = 0; j < n; ++j) largest = std::max(largest, std::abs(a[i * n + j]));
      if (largest == 0) continue;
      for (std::size_t j = 0; j < n; ++j) a[i * n + j] /= largest;
      b[i] /= largest;
    }
    for (std::size_t p = 0; p < n; ++p) {
      std::size_t best = p;
      for (std::size_t i = p + 1; i < n; ++i) {
        if (std::abs(a[i * n + p]) > std::abs(a[best * n + p])) best = i;
      }
      if (best != p) {
        std::swap_ranges(a.begin() + static_cast<std::ptrdiff_t>(p * n),
                         a.begin() + static_cast<std::ptrdiff_t>(p * n + n),
                         a.begin() + static_cast<std::ptrdiff_t>(best * n));
        std::swap(b[p], b[best]);
      }
      if (a[p * n + p] == 0) continue;
      for (std::size_t i = p + 1; i < n; ++i) {
        const double factor = a[i * n + p] / a[p * n + p];
        for (std::size_t j = p; j < n; ++j) a[i * n + j] -= factor * a[p * n + j];
        b[i] -= factor * b[p];
      }
    }
    for (std::size_t p = n; p-- > 0;) {
      for (std::size_t j = p + 1; j < n; ++j) b[p] -= a[p * n + j] * b[j];
      b[p] = a[p * n + p] == 0 ? 0 : b[p] / a[p * n + p];
    }
  }

  const FairProgram& program_;
  std::size_t types_;
  bool is_fixed_;
  std::vector<double> x_, step_, trial_, gradient_, blocks_, small_, small_right_;
  double t_ = 0, step_t_ = 0, scale_ = 1, logarithms_ = 0;
  int steps_ = 0;
};

}  // namespace

FairShares solve(const FairProgram& program, std::optional<double> fixed_level) {
  for (const FairRow& row : program.rows) {
    TRACECAST_CHECK(row.rates.size() == program.capacity.size(), "a rate for every type");
  }
  if (program.rows.empty()) return {};
  return CentralPath(program, fixed_level).run();
}

}  // namespace tracecast::plan
