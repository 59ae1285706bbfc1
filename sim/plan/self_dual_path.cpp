#include "sim/plan/self_dual_path.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

constexpr double kTolerance = 1e-8, kStepShare = 0.99, kLongestStep = 0.999;
constexpr double kLeastCentring = 1e-4;
constexpr double kEnough = 1e-5;  ///< from here on, what does not help ends the path
constexpr int kMostSteps = 100, kScalings = 3, kMostRefinements = 4;

using Vector = std::vector<double>;

/// How many types of GPU there are, where a program is compiled for any number. Loops over the
/// types are the innermost.
constexpr std::size_t kAny = 0, kThree = 3;

/// The matrix G and the vectors h and c after scaling. Variables: x of row k and type j at k J + j,
/// then z. Constraints: per row k and at k (J + 2): J of x >= 0, then sum x <= 1, then weight z -
/// rates x <= 0; behind all rows J capacities. Sums over a row's constraints and variables count
/// its copies.
template <std::size_t kTypes>
class ScaledProgram {
 public:
  ScaledProgram(const FairProgram& program, std::optional<double> fixed_level)
      : rows_(program.rows.size()), types_(program.capacity.size()) {
    for (const FairRow& row : program.rows) copies_.push_back(row.copies);
    keep_.assign(rows_ * types(), -1);
    sum_.assign(rows_ * types(), 1);
    for (const FairRow& row : program.rows) {
      for (const double rate : row.rates) rate_.push_back(-rate);
      level_.push_back(fixed_level ? 0 : row.weight);
      held_.insert(held_.end(), types(), row.gpus);
    }
    h_.assign(constraints(), 0);
    for (std::size_t k = 0; k < rows_; ++k) h_[at(k) + types()] = 1;
    for (std::size_t k = 0; fixed_level && k < rows_; ++k)
      h_[at(k) + types() + 1] = -program.rows[k].weight * *fixed_level;
    std::copy(program.capacity.begin(), program.capacity.end(),
              h_.end() - static_cast<std::ptrdiff_t>(types()));
    column_scale_.assign(variables(), 1);
    for (int i = 0; i < kScalings; ++i) scale();
    is_fixed_ = fixed_level.has_value();
    cost_ = is_fixed_ ? 0 : -1 / column_scale_.back();
  }

  /// z does not occur.
  [[nodiscard]] bool is_fixed() const { return is_fixed_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] std::size_t types() const { return kTypes == kAny ? types_ : kTypes; }
  [[nodiscard]] std::size_t variables() const { return rows_ * types() + 1; }
  [[nodiscard]] std::size_t constraints() const { return rows_ * (types() + 2) + types(); }
  [[nodiscard]] std::size_t at(std::size_t k) const { return k * (types() + 2); }
  [[nodiscard]] std::size_t capacities() const { return rows_ * (types() + 2); }
  [[nodiscard]] double copies(std::size_t k) const { return copies_[k]; }
  [[nodiscard]] const Vector& h() const { return h_; }
  /// Of z; that of x is 0.
  [[nodiscard]] double cost() const { return cost_; }
  [[nodiscard]] double column_scale(std::size_t i) const { return column_scale_[i]; }
  [[nodiscard]] double keep(std::size_t i) const { return keep_[i]; }
  [[nodiscard]] double sum(std::size_t i) const { return sum_[i]; }
  [[nodiscard]] double rate(std::size_t i) const { return rate_[i]; }
  [[nodiscard]] double level(std::size_t k) const { return level_[k]; }
  [[nodiscard]] double held(std::size_t i) const { return held_[i]; }

  /// Logarithms of the barrier, all copies.
  [[nodiscard]] double degree() const {
    double degree = static_cast<double>(types());
    for (const double n : copies_) degree += n * static_cast<double>(types() + 2);
    return degree;
  }
  /// u'v over constraints.
  [[nodiscard]] double dot(const Vector& u, const Vector& v) const {
    double all = 0;
    for (std::size_t k = 0; k < rows_; ++k) {
      double part = 0;
      for (std::size_t i = at(k); i < at(k) + types() + 2; ++i) part += u[i] * v[i];
      all += copies_[k] * part;
    }
    for (std::size_t i = capacities(); i < constraints(); ++i) all += u[i] * v[i];
    return all;
  }
  /// The norm over variables.
  [[nodiscard]] double norm_of_x(const Vector& x) const {
    double all = x.back() * x.back();
    for (std::size_t i = 0; i + 1 < x.size(); ++i) all += copies_[i / types()] * x[i] * x[i];
    return std::sqrt(all);
  }
  /// G x.
  [[nodiscard]] Vector times(const Vector& x) const {
    Vector v(constraints());
    for (std::size_t k = 0; k < rows_; ++k) {
      double all = 0, got = 0;
      for (std::size_t j = 0; j < types(); ++j) {
        const std::size_t i = k * types() + j;
        v[at(k) + j] = keep_[i] * x[i];
        all += sum_[i] * x[i];
        got += rate_[i] * x[i];
        v[capacities() + j] += copies_[k] * held_[i] * x[i];
      }
      v[at(k) + types()] = all;
      v[at(k) + types() + 1] = got + level_[k] * x.back();
    }
    return v;
  }
  /// G' v: of x the derivative for one copy.
  [[nodiscard]] Vector transposed_times(const Vector& v) const {
    Vector x(variables());
    for (std::size_t k = 0; k < rows_; ++k) {
      for (std::size_t j = 0; j < types(); ++j) {
        const std::size_t i = k * types() + j;
        x[i] = keep_[i] * v[at(k) + j] + sum_[i] * v[at(k) + types()] +
               rate_[i] * v[at(k) + types() + 1] + held_[i] * v[capacities() + j];
      }
      x.back() += copies_[k] * level_[k] * v[at(k) + types() + 1];
    }
    return x;
  }

 private:
  /// One of Ruiz' scalings: every row and column is divided by the root of its largest entry.
  void scale() {
    Vector column(variables());
    Vector row(constraints());
    const auto see = [&](std::size_t r, std::size_t c, double value) {
      row[r] = std::max(row[r], std::abs(value));
      column[c] = std::max(column[c], std::abs(value));
    };
    each_entry([&](std::size_t r, std::size_t c, double& value) { see(r, c, value); });
    for (double& value : row) value = value < 1e-6 ? 1 : std::sqrt(value);
    for (double& value : column) value = value < 1e-6 ? 1 : std::sqrt(value);
    each_entry([&](std::size_t r, std::size_t c, double& value) { value /= row[r] * column[c]; });
    for (std::size_t i = 0; i < h_.size(); ++i) h_[i] /= row[i];
    for (std::size_t i = 0; i < column.size(); ++i) column_scale_[i] *= column[i];
  }
  template <class Visit>
  void each_entry(Visit visit) {
    const std::size_t last = variables() - 1;
    for (std::size_t k = 0; k < rows_; ++k) {
      for (std::size_t j = 0; j < types(); ++j) {
        const std::size_t i = k * types() + j;
        visit(at(k) + j, i, keep_[i]);
        visit(at(k) + types(), i, sum_[i]);
        visit(at(k) + types() + 1, i, rate_[i]);
        visit(capacities() + j, i, held_[i]);
      }
      visit(at(k) + types() + 1, last, level_[k]);
    }
  }

  std::size_t rows_, types_;
  Vector copies_, keep_, sum_, rate_, level_, held_;  ///< by row, or row and type
  Vector h_, column_scale_;
  double cost_ = 0;
  bool is_fixed_ = false;
};

/// Solves the quasi-definite system G' w = r, G x - w / D = q for diagonal D > 0, where q is zero
/// but for its rows of levels: x of a row by its diagonal, then its two multipliers, then the
/// capacities and z together. Nothing of very different size is subtracted on the way, as it would
/// be in G' D G.
template <std::size_t kTypes>
class NormalEquations {
 public:
  explicit NormalEquations(const ScaledProgram<kTypes>& program)
      : p_(program),
        inverse_(program.rows() * program.types()),
        small_(program.rows()),
        columns_(program.rows() * program.types() * width()),
        multipliers_(program.rows() * width()),
        schur_(width() * width()) {}

  void factor(const Vector& d) {
    const std::size_t n = p_.types();
    std::fill(schur_.begin(), schur_.end(), 0.0);
    Vector column(n);
    for (std::size_t k = 0; k < p_.rows(); ++k) {
      Small m{1 / d[p_.at(k) + n], 0, 1 / d[p_.at(k) + n + 1]};
      for (std::size_t j = 0; j < n; ++j) {
        const std::size_t i = k * n + j;
        inverse_[i] = 1 / (d[p_.at(k) + j] * p_.keep(i) * p_.keep(i));
        m.aa += p_.sum(i) * p_.sum(i) * inverse_[i];
        m.ab += p_.sum(i) * p_.rate(i) * inverse_[i];
        m.bb += p_.rate(i) * p_.rate(i) * inverse_[i];
      }
      small_[k] = m;
      // What x and the level's multiplier become for each capacity's price, and for z.
      for (std::size_t c = 0; c < width(); ++c) {
        std::fill(column.begin(), column.end(), 0.0);
        if (c < n) column[c] = p_.held(k * n + c);
        multipliers_[k * width() + c] = eliminate(k, column.data(), c == n ? p_.level(k) : 0);
        for (std::size_t j = 0; j < n; ++j) columns_[(k * n + j) * width() + c] = column[j];
      }
      for (std::size_t c = 0; c < width(); ++c) {
        for (std::size_t j = 0; j < n; ++j)
          schur_[j * width() + c] -=
              p_.copies(k) * p_.held(k * n + j) * columns_[(k * n + j) * width() + c];
        schur_[n * width() + c] -= p_.copies(k) * p_.level(k) * multipliers_[k * width() + c];
      }
    }
    for (std::size_t j = 0; j < n; ++j) schur_[j * width() + j] -= 1 / d[p_.capacities() + j];
    if (p_.is_fixed()) schur_[n * width() + n] = 1;
  }

  [[nodiscard]] Vector solve(const Vector& r) const {
    const std::size_t n = p_.types();
    Vector x = r, right(width()), matrix = schur_;
    right[n] = r.back();
    for (std::size_t k = 0; k < p_.rows(); ++k) {
      const double multiplier = eliminate(k, &x[k * n], 0);
      for (std::size_t j = 0; j < n; ++j)
        right[j] -= p_.copies(k) * p_.held(k * n + j) * x[k * n + j];
      right[n] -= p_.copies(k) * p_.level(k) * multiplier;
    }
    solve_small(matrix, right);
    for (std::size_t i = 0; i + 1 < x.size(); ++i) {
      for (std::size_t c = 0; c < width(); ++c) x[i] -= columns_[i * width() + c] * right[c];
    }
    x.back() = right[n];
    return x;
  }

 private:
  struct Small {
    double aa = 0, ab = 0, bb = 0;
  };
  [[nodiscard]] std::size_t width() const { return p_.types() + 1; }
  /// Solves row k for the right side `r`, which becomes x, and `q` of its level; returns the
  /// level's multiplier.
  double eliminate(std::size_t k, double* r, double q) const {
    const std::size_t n = p_.types();
    double a = 0, b = -q;
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t i = k * n + j;
      a += p_.sum(i) * inverse_[i] * r[j];
      b += p_.rate(i) * inverse_[i] * r[j];
    }
    const Small& m = small_[k];
    double wa = 0, wb = 0;
    if (m.aa >= m.bb) {
      const double factor = m.ab / m.aa;
      wb = (b - factor * a) / (m.bb - factor * m.ab);
      wa = (a - m.ab * wb) / m.aa;
    } else {
      const double factor = m.ab / m.bb;
      wa = (a - factor * b) / (m.aa - factor * m.ab);
      wb = (b - m.ab * wa) / m.bb;
    }
    for (std::size_t j = 0; j < n; ++j) {
      const std::size_t i = k * n + j;
      r[j] = inverse_[i] * (r[j] - p_.sum(i) * wa - p_.rate(i) * wb);
    }
    return wb;
  }
  /// Indefinite: Gauss with partial pivoting on rows scaled to one.
  void solve_small(Vector& a, Vector& b) const {
    const std::size_t n = width();
    for (std::size_t i = 0; i < n; ++i) {
      double largest = 0;
      for (std::size_t j = 0; j < n; ++j) largest = std::max(largest, std::abs(a[i * n + j]));
      for (std::size_t j = 0; j < n; ++j) a[i * n + j] /= largest;
      b[i] /= largest;
    }
    for (std::size_t p = 0; p < n; ++p) {
      std::size_t best = p;
      for (std::size_t i = p + 1; i < n; ++i) {
        if (std::abs(a[i * n + p]) > std::abs(a[best * n + p])) best = i;
      }
      for (std::size_t j = 0; j < n; ++j) std::swap(a[p * n + j], a[best * n + j]);
      std::swap(b[p], b[best]);
      for (std::size_t i = p + 1; i < n; ++i) {
        const double factor = a[i * n + p] / a[p * n + p];
        for (std::size_t j = p; j < n; ++j) a[i * n + j] -= factor * a[p * n + j];
        b[i] -= factor * b[p];
      }
    }
    for (std::size_t p = n; p-- > 0;) {
      for (std::size_t j = p + 1; j < n; ++j) b[p] -= a[p * n + j] * b[j];
      b[p] /= a[p * n + p];
    }
  }

  const ScaledProgram<kTypes>& p_;
  Vector inverse_;
  std::vector<Small> small_;
  Vector columns_, multipliers_, schur_;
};

/// The iterate and its steps.
template <std::size_t kTypes>
class SelfDualPath {
 public:
  SelfDualPath(const FairProgram& program, std::optional<double> fixed_level)
      : p_(program, fixed_level), equations_(p_) {
    start();
  }

  FairShares run() {
    int steps = 0;
    double worst = measure();
    Point best{x_, s_, z_, tau_, kappa_};
    double least = worst;
    while (worst > kTolerance && steps < kMostSteps) {
      step();
      ++steps;
      worst = measure();
      // Near the end it gets worse where doubles can tell no more apart; at the start a step may
      // well do that.
      if (!std::isfinite(worst) || (!(worst < least) && least < kEnough)) break;
      if (worst < least) {
        least = worst;
        best = {x_, s_, z_, tau_, kappa_};
      }
    }
    if (!(worst <= least)) {
      x_ = best.x;
      tau_ = best.tau;
    }
    FairShares shares;
    shares.newton_steps = steps;
    shares.gap = least;
    shares.level = x_.back() / (tau_ * p_.column_scale(x_.size() - 1));
    for (std::size_t i = 0; i + 1 < x_.size(); ++i)
      shares.x.push_back(std::clamp(x_[i] / (tau_ * p_.column_scale(i)), 0.0, 1.0));
    return shares;
  }

 private:
  struct Point {
    Vector x, s, z;
    double tau = 0, kappa = 0;
  };
  using Direction = Point;

  /// The least squares of G x - h and of z with G' z = -c, moved inside.
  void start() {
    equations_.factor(Vector(p_.constraints(), 1.0));
    x_ = equations_.solve(p_.transposed_times(p_.h()));
    s_ = p_.times(x_);
    for (std::size_t i = 0; i < s_.size(); ++i) s_[i] = p_.h()[i] - s_[i];
    Vector cost(p_.variables());
    cost.back() = p_.cost();
    z_ = p_.times(equations_.solve(cost));
    for (double& value : z_) value = -value;
    move_inside(s_);
    move_inside(z_);
  }
  static void move_inside(Vector& v) {
    const double least = *std::min_element(v.begin(), v.end());
    const double by = 1 + (least <= 0 ? std::max(-least, -kStepShare) : -kStepShare);
    for (double& value : v) value += by;
  }

  /// Residuals of the embedding; the largest of them and of the gap, relative.
  double measure() {
    rx_ = p_.transposed_times(z_);
    for (double& value : rx_) value = -value;
    rx_.back() -= p_.cost() * tau_;
    rz_ = p_.times(x_);
    for (std::size_t i = 0; i < rz_.size(); ++i) rz_[i] = p_.h()[i] * tau_ - rz_[i] - s_[i];
    const double value = p_.cost() * x_.back();
    rt_ = kappa_ + value + p_.dot(p_.h(), z_);
    const double gap = p_.dot(s_, z_);
    mu_ = (gap + tau_ * kappa_) / (p_.degree() + 1);
    const auto norm = [&](const Vector& v) { return std::sqrt(p_.dot(v, v)); };
    const double primal =
        norm(rz_) / std::max(std::max(1.0, norm(p_.h())) + p_.norm_of_x(x_) + norm(s_), 1.0) / tau_;
    const double dual =
        p_.norm_of_x(rx_) / std::max(std::max(1.0, std::abs(p_.cost())) + norm(z_), 1.0) / tau_;
    const double relative = gap / std::max(std::abs(value / tau_), 1e-300);
    return std::max({primal, dual, std::min(gap, relative)});
  }

  void step() {
    Vector d(s_.size());
    for (std::size_t i = 0; i < d.size(); ++i) d[i] = z_[i] / s_[i];
    equations_.factor(d);
    Vector minus_cost(p_.variables());
    minus_cost.back() = -p_.cost();
    along_tau_ = solve(minus_cost, p_.h(), Vector(s_.size()), d);
    Vector centre(s_.size());
    for (std::size_t i = 0; i < centre.size(); ++i) centre[i] = -s_[i] * z_[i];
    const Direction affine = find(1, centre, -tau_ * kappa_, d);
    const double reach = longest(affine);
    const double sigma = std::clamp(std::pow(1 - reach, 3), kLeastCentring, 1.0);
    for (std::size_t i = 0; i < centre.size(); ++i)
      centre[i] += sigma * mu_ - affine.s[i] * affine.z[i];
    const Direction best =
        find(1 - sigma, centre, -tau_ * kappa_ - affine.tau * affine.kappa + sigma * mu_, d);
    const double length = kStepShare * longest(best);
    for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += length * best.x[i];
    for (std::size_t i = 0; i < s_.size(); ++i) {
      s_[i] += length * best.s[i];
      z_[i] += length * best.z[i];
    }
    tau_ += length * best.tau;
    kappa_ += length * best.kappa;
  }

  /// G' dz = bx, G dx + ds = bz, s dz + z ds = bs.
  [[nodiscard]] Direction solve(const Vector& bx, const Vector& bz, const Vector& bs,
                                const Vector& d) const {
    Vector scaled(bz.size());
    for (std::size_t i = 0; i < scaled.size(); ++i) scaled[i] = bs[i] / s_[i] - d[i] * bz[i];
    Vector right = p_.transposed_times(scaled);
    for (std::size_t i = 0; i < right.size(); ++i) right[i] = bx[i] - right[i];
    Direction out;
    out.x = equations_.solve(right);
    complete(out, bz, bs, d);
    refine(out, bx, bz, bs, d);
    return out;
  }
  /// ds and dz that belong to dx.
  void complete(Direction& out, const Vector& bz, const Vector& bs, const Vector& d) const {
    out.s = p_.times(out.x);
    out.z.resize(bz.size());
    for (std::size_t i = 0; i < bz.size(); ++i) {
      out.s[i] = bz[i] - out.s[i];
      out.z[i] = bs[i] / s_[i] - d[i] * out.s[i];
    }
  }
  /// Near the end D spans twenty orders of magnitude: what is left of G' dz = bx is solved for
  /// again while that helps.
  void refine(Direction& out, const Vector& bx, const Vector& bz, const Vector& bs,
              const Vector& d) const {
    double before = 0;
    Vector left = left_of(out, bx, before);
    for (int i = 0; i < kMostRefinements && before > 0; ++i) {
      Direction better = out;
      const Vector more = equations_.solve(left);
      for (std::size_t v = 0; v < more.size(); ++v) better.x[v] += more[v];
      complete(better, bz, bs, d);
      double now = 0;
      Vector left_now = left_of(better, bx, now);
      if (!(now < before)) return;
      out = std::move(better);
      left = std::move(left_now);
      before = now;
    }
  }
  [[nodiscard]] Vector left_of(const Direction& out, const Vector& bx, double& norm) const {
    Vector left = p_.transposed_times(out.z);
    for (std::size_t i = 0; i < left.size(); ++i) left[i] = bx[i] - left[i];
    norm = p_.norm_of_x(left);
    return left;
  }
  /// The same with the residuals times `part`, and with tau and kappa.
  [[nodiscard]] Direction find(double part, const Vector& bs, double bk, const Vector& d) const {
    Vector bx = rx_, bz = rz_;
    for (double& value : bx) value *= part;
    for (double& value : bz) value *= part;
    Direction out = solve(bx, bz, bs, d);
    const double along =
        p_.cost() * along_tau_.x.back() + p_.dot(p_.h(), along_tau_.z) - kappa_ / tau_;
    out.tau = (-part * rt_ - p_.cost() * out.x.back() - p_.dot(p_.h(), out.z) - bk / tau_) / along;
    out.kappa = (bk - kappa_ * out.tau) / tau_;
    for (std::size_t i = 0; i < out.x.size(); ++i) out.x[i] += out.tau * along_tau_.x[i];
    for (std::size_t i = 0; i < out.s.size(); ++i) {
      out.s[i] += out.tau * along_tau_.s[i];
      out.z[i] += out.tau * along_tau_.z[i];
    }
    return out;
  }
  [[nodiscard]] double longest(const Direction& d) const {
    double inverse = std::max(-d.tau / tau_, -d.kappa / kappa_);
    for (std::size_t i = 0; i < s_.size(); ++i)
      inverse = std::max({inverse, -d.s[i] / s_[i], -d.z[i] / z_[i]});
    return inverse > 1 / kLongestStep ? 1 / inverse : kLongestStep;
  }

  ScaledProgram<kTypes> p_;
  NormalEquations<kTypes> equations_;
  Vector x_, s_, z_, rx_, rz_;
  Direction along_tau_;
  double tau_ = 1, kappa_ = 1, rt_ = 0, mu_ = 0;
};

}  // namespace

FairShares follow_self_dual_path(const FairProgram& program, std::optional<double> fixed_level) {
  TRACECAST_CHECK(program.goal == FairGoal::LargestRate, "a linear program");
  if (program.rows.empty()) return {};
  FairShares shares = program.capacity.size() == kThree
                          ? SelfDualPath<kThree>(program, fixed_level).run()
                          : SelfDualPath<kAny>(program, fixed_level).run();
  if (fixed_level) shares.level = *fixed_level;
  // Where rounding broke the path off too early, the other way ends in the middle of the best
  // shares.
  const bool is_sound =
      shares.gap < kEnough &&
      std::all_of(shares.x.begin(), shares.x.end(), [](double x) { return std::isfinite(x); });
  return is_sound || fixed_level ? shares : solve(program);
}

}  // namespace tracecast::plan
