#include "calibrate/fit/fit_profile.hpp"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <set>
#include <thread>
#include <tuple>
#include <unsupported/Eigen/LevenbergMarquardt>

#include "hwspecs/parameter_access.hpp"
#include "sim/base/error.hpp"

namespace tracecast {
namespace {

enum class UnknownKind {
  Parameter,
  GenerationShift,
  Generation,
  EngineShift,
  Arithmetic,
  Bandwidth,
  Floor
};

/// One coordinate of the fit: x = (ln value - ln prior) / prior log_sd.
struct Unknown {
  UnknownKind kind{};
  std::string name;  ///< parameter, stem of a parameter by generation, GPU, or session's group
  double log_sd = 0;
  std::size_t index = 0;  ///< of the GPU or session
};

/// A parameter by generation: "gemm.step_cycles" and its names by architecture; or an engine's by
/// instruction.
struct Generations {
  std::string stem;
  std::vector<std::string> names;
};

/// What a profile says of its numbers is of no use to a fit, and is most of what a copy costs.
CostProfile numbers_alone(CostProfile profile) {
  profile.data_sets.clear();
  profile.parameters.clear();
  return profile;
}

std::optional<Architecture> find_generation(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  for (std::size_t a = 0; a < ByArchitecture::kCount; ++a) {
    if (to_string(static_cast<Architecture>(a)) == last) return static_cast<Architecture>(a);
  }
  return std::nullopt;
}

/// "attention.decode.factor_of.vllm.*.half" of a factor on an engine's kernels by generation of the
/// instruction; none of others.
std::optional<std::string> find_engine_stem(const std::string& name) {
  for (const std::string_view kind : {".async_warp", ".warp_group", ".tensor_memory"}) {
    const std::size_t at = name.find(kind);
    if (at == std::string::npos) continue;
    const std::string before = name.substr(0, at);
    for (const std::string_view engine : {".trtllm", ".sglang", ".vllm"}) {
      if (before.ends_with(engine)) return before + ".*" + name.substr(at + kind.size());
    }
  }
  return std::nullopt;
}

struct Cell {
  std::string gpu, source, group, split;
  friend auto operator<=>(const Cell&, const Cell&) = default;
};

double soft_root(double u) { return std::copysign(std::sqrt(std::log1p(u * u)), u); }

/// d soft_root / d u.
double soft_slope(double u) {
  if (std::abs(u) < 1e-6) return 1;
  return u / ((1 + u * u) * soft_root(u));
}

/// What the unknowns are, and what rows they have to explain.
class Problem {
 public:
  Problem(std::span<const Measurement* const> rows, const CostProfile& start,
          std::span<const ProfileParameter> prior, const FitOptions& options)
      : start_(numbers_alone(start)), options_(options) {
    num_threads_ = options.num_threads > 0
                       ? options.num_threads
                       : std::clamp(std::thread::hardware_concurrency(), 1U, 8U);
    index_rows(rows);
    for (const ProfileParameter& p : prior) {
      if (p.log_sd > 0) start_ = with_parameter(std::move(start_), p.name, p.value);
    }
    add_unknowns(prior);
    leave_out_idle();
  }

  [[nodiscard]] std::size_t num_unknowns() const { return unknowns_.size(); }
  [[nodiscard]] std::size_t num_rows() const { return rows_.size(); }
  [[nodiscard]] const std::vector<Unknown>& unknowns() const { return unknowns_; }
  [[nodiscard]] const std::vector<const Measurement*>& rows() const { return rows_; }
  [[nodiscard]] const std::vector<std::string>& gpus() const { return gpus_; }
  [[nodiscard]] const std::vector<SessionKey>& sessions() const { return sessions_; }

  /// The profile of a point: shared parameters alone.
  [[nodiscard]] CostProfile profile_at(const Eigen::VectorXd& x) const {
    std::vector<ParameterFactor> factors;
    for (std::size_t i = 0; i < moved_.size(); ++i) {
      const double factor = std::exp(x[static_cast<Eigen::Index>(i)] * unknowns_[i].log_sd);
      for (const ParameterAccess& parameter : moved_[i]) factors.push_back({parameter, factor});
    }
    return ParameterFactor::apply(start_, factors);
  }
  [[nodiscard]] BoardFactors board_at(const Eigen::VectorXd& x, std::size_t gpu) const {
    return {.arithmetic = std::exp(x[static_cast<Eigen::Index>(first_board_ + 2 * gpu)] *
                                   options_.arithmetic_log_sd),
            .bandwidth = std::exp(x[static_cast<Eigen::Index>(first_board_ + 2 * gpu + 1)] *
                                  options_.bandwidth_log_sd)};
  }
  [[nodiscard]] Seconds floor_at(const Eigen::VectorXd& x, std::size_t session) const {
    return session_priors_[session] *
           std::exp(x[static_cast<Eigen::Index>(first_floor_ + session)] * options_.floor_log_sd);
  }

  /// Residuals of all rows at `x`; `only` limits the work to rows whose cell needs it, others keep
  /// `fallback`.
  void evaluate(const Eigen::VectorXd& x, Eigen::Ref<Eigen::VectorXd> logs,
                const std::vector<char>* cells = nullptr) const {
    const CostProfile shared = profile_at(x);
    std::vector<CostProfile> by_gpu(gpus_.size(), shared);
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      by_gpu[g].measured_gpu = gpus_[g];
      by_gpu[g].board = board_at(x, g);
    }
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      if (cells && !(*cells)[cell_of_[r]]) continue;
      const Measurement& row = *rows_[r];
      std::optional<Seconds> floor;
      if (session_of_[r]) floor = floor_at(x, *session_of_[r]);
      const auto estimate = estimate_measurement(row, *row.spec, by_gpu[gpu_of_[r]], floor);
      logs[static_cast<Eigen::Index>(r)] = std::log(estimate->time / row.time);
    }
  }

  int operator()(const Eigen::VectorXd& x, Eigen::VectorXd& residuals) const {
    Eigen::VectorXd logs(static_cast<Eigen::Index>(rows_.size()));
    evaluate(x, logs);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      const auto i = static_cast<Eigen::Index>(r);
      residuals[i] = weight_root_[r] * soft_root(logs[i] / options_.robust_scale);
    }
    residuals.tail(static_cast<Eigen::Index>(unknowns_.size())) = x;
    return 0;
  }

  /// Derivatives by forward differences in x, one column per unknown, columns shared among threads.
  void differentiate(const Eigen::VectorXd& x, Eigen::MatrixXd& jacobian) {
    const auto n = static_cast<Eigen::Index>(rows_.size());
    Eigen::VectorXd base(n);
    evaluate(x, base);
    jacobian.setZero();
    for_each_unknown([&](std::size_t j) {
      const double step = kStep / unknowns_[j].log_sd;
      Eigen::VectorXd moved = x, logs = base;
      moved[static_cast<Eigen::Index>(j)] += step;
      evaluate(moved, logs, &active_[j]);
      for (Eigen::Index r = 0; r < n; ++r) {
        const double change = logs[r] - base[r];
        if (change == 0) continue;
        jacobian(r, static_cast<Eigen::Index>(j)) = weight_root_[static_cast<std::size_t>(r)] *
                                                    soft_slope(base[r] / options_.robust_scale) /
                                                    options_.robust_scale * change / step;
      }
    });
    for (std::size_t j = 0; j < unknowns_.size(); ++j) {
      jacobian(n + static_cast<Eigen::Index>(j), static_cast<Eigen::Index>(j)) = 1;
    }
  }

 private:
  /// Of ln(value), for derivatives: past the ceilings of tile counts, well within a prior's width.
  static constexpr double kStep = 0.02;

  /// All unknowns, shared among threads.
  void for_each_unknown(const std::function<void(std::size_t)>& act) const {
    std::atomic<std::size_t> next{0};
    const auto work = [&] {
      for (std::size_t j = next++; j < unknowns_.size(); j = next++) act(j);
    };
    std::vector<std::jthread> threads;
    for (unsigned t = 1; t < num_threads_; ++t) threads.emplace_back(work);
    work();
  }

  /// Finds which cells each unknown moves, and leaves out those that move none: they stay as
  /// believed. A calibration of one GPU keeps a tenth of them.
  void leave_out_idle() {
    const Eigen::VectorXd start = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(num_unknowns()));
    Eigen::VectorXd base(static_cast<Eigen::Index>(rows_.size()));
    evaluate(start, base);
    active_.assign(unknowns_.size(), std::vector<char>(num_cells_, 0));
    for_each_unknown([&](std::size_t j) {
      Eigen::VectorXd moved = start, logs = base;
      moved[static_cast<Eigen::Index>(j)] += kStep / unknowns_[j].log_sd;
      evaluate(moved, logs);
      for (std::size_t r = 0; r < rows_.size(); ++r) {
        if (logs[static_cast<Eigen::Index>(r)] != base[static_cast<Eigen::Index>(r)])
          active_[j][cell_of_[r]] = 1;
      }
    });
    std::size_t kept = 0;
    const std::size_t num_shared = first_board_;
    for (std::size_t j = 0; j < unknowns_.size(); ++j) {
      const bool is_idle = std::count(active_[j].begin(), active_[j].end(), 1) == 0;
      if (j < num_shared && is_idle) {
        --first_board_, --first_floor_;
        continue;
      }
      if (kept != j) {
        unknowns_[kept] = std::move(unknowns_[j]);
        active_[kept] = std::move(active_[j]);
        if (j < num_shared) moved_[kept] = std::move(moved_[j]);
      }
      ++kept;
    }
    unknowns_.resize(kept);
    active_.resize(kept);
    moved_.resize(first_board_);
  }

  void index_rows(std::span<const Measurement* const> rows) {
    std::map<Cell, std::size_t> cells;
    std::vector<double> counts;
    std::map<std::string, std::size_t> gpus;
    std::map<SessionKey, std::size_t> sessions;
    for (const Measurement* row : rows) {
      if (!estimate_measurement(*row, *row->spec, start_)) continue;
      rows_.push_back(row);
      const auto cell =
          cells.try_emplace({row->gpu, row->source, row->group, row->split}, cells.size()).first;
      if (cell->second == counts.size()) counts.push_back(0);
      counts[cell->second] += 1;
      cell_of_.push_back(cell->second);
      const auto gpu = gpus.try_emplace(row->gpu, gpus.size()).first;
      if (gpu->second == gpus_.size()) gpus_.push_back(row->gpu);
      gpu_of_.push_back(gpu->second);
      session_of_.push_back(session_index(*row, sessions));
    }
    num_cells_ = cells.size();
    for (const std::size_t cell : cell_of_) {
      weight_root_.push_back(std::sqrt(std::min(1.0, options_.rows_per_cell / counts[cell])));
    }
  }

  std::optional<std::size_t> session_index(const Measurement& row,
                                           std::map<SessionKey, std::size_t>& sessions) {
    const auto* op = std::get_if<IsolatedOp>(&row.work);
    if (!op || op->timing == Timing::Loop || op->timing == Timing::KernelOnly) return std::nullopt;
    const SessionKey key{row.source, row.gpu, row.group};
    const auto session = sessions.try_emplace(key, sessions.size()).first;
    if (session->second == sessions_.size()) {
      sessions_.push_back(key);
      session_priors_.push_back(expected_host_floor(*op));
    }
    return session->second;
  }

  void add_unknowns(std::span<const ProfileParameter> prior) {
    std::set<Architecture> measured;
    for (const Measurement* row : rows_) measured.insert(row->spec->architecture);
    std::map<std::string, std::size_t> stems;
    for (const ProfileParameter& p : prior) {
      if (!(p.log_sd > 0)) continue;
      const auto generation = find_generation(p.name);
      if (!generation) {
        unknowns_.push_back({UnknownKind::Parameter, p.name, p.log_sd, 0});
        if (const auto stem = find_engine_stem(p.name)) {
          const auto group = stems.try_emplace(*stem, generations_.size()).first->second;
          if (group == generations_.size()) {
            generations_.push_back({*stem, {}});
            unknowns_.push_back(
                {UnknownKind::EngineShift, *stem, options_.generation_log_sd, group});
          }
          generations_[group].names.push_back(p.name);
        }
        continue;
      }
      const std::string stem = p.name.substr(0, p.name.rfind('.'));
      const auto group = stems.try_emplace(stem, generations_.size()).first->second;
      if (group == generations_.size()) {
        generations_.push_back({stem, {}});
        unknowns_.push_back(
            {UnknownKind::GenerationShift, stem, options_.generation_log_sd, group});
      }
      generations_[group].names.push_back(p.name);
      if (measured.contains(*generation)) {
        unknowns_.push_back({UnknownKind::Generation, p.name, p.log_sd, group});
      }
    }
    first_board_ = unknowns_.size();
    for (const Unknown& u : unknowns_) {
      std::vector<ParameterAccess>& moved = moved_.emplace_back();
      if (u.kind == UnknownKind::GenerationShift || u.kind == UnknownKind::EngineShift) {
        for (const std::string& name : generations_[u.index].names) moved.emplace_back(name);
      } else {
        moved.emplace_back(u.name);
      }
    }
    for (std::size_t g = 0; g < gpus_.size(); ++g) {
      unknowns_.push_back({UnknownKind::Arithmetic, gpus_[g], options_.arithmetic_log_sd, g});
      unknowns_.push_back({UnknownKind::Bandwidth, gpus_[g], options_.bandwidth_log_sd, g});
    }
    first_floor_ = unknowns_.size();
    for (std::size_t s = 0; s < sessions_.size(); ++s) {
      unknowns_.push_back({UnknownKind::Floor, sessions_[s].group, options_.floor_log_sd, s});
    }
  }

  CostProfile start_;
  FitOptions options_;
  unsigned num_threads_ = 1;
  std::vector<const Measurement*> rows_;
  std::vector<std::size_t> cell_of_, gpu_of_;
  std::vector<std::optional<std::size_t>> session_of_;
  std::vector<double> weight_root_;
  std::size_t num_cells_ = 0;
  std::vector<std::string> gpus_;
  std::vector<SessionKey> sessions_;
  std::vector<Seconds> session_priors_;
  std::vector<Generations> generations_;
  std::vector<Unknown> unknowns_;
  std::vector<std::vector<ParameterAccess>> moved_;  ///< by unknown, up to the first board
  std::size_t first_board_ = 0, first_floor_ = 0;
  std::vector<std::vector<char>> active_;  ///< [unknown][cell]: moving it moves rows there
};

/// The problem as Eigen's solver takes it: n rows and p priors, p unknowns.
struct Functor : Eigen::DenseFunctor<double> {
  Functor(Problem& p, const FitOptions& o)
      : DenseFunctor(static_cast<int>(p.num_unknowns()),
                     static_cast<int>(p.num_rows() + p.num_unknowns())),
        problem(&p),
        options(&o) {}
  int operator()(const InputType& x, ValueType& residuals) const {
    return (*problem)(x, residuals);
  }
  int df(const InputType& x, JacobianType& jacobian) {
    if (options->progress) {
      ValueType residuals(values());
      (*problem)(x, residuals);
      options->progress(++iteration, residuals.squaredNorm());
    }
    jacobian.resize(values(), inputs());
    problem->differentiate(x, jacobian);
    return 0;
  }
  Problem* problem;
  const FitOptions* options;
  int iteration = 0;
};

/// Source whose rows carry most of the information on an unknown: greatest sum of squared
/// derivatives.
std::string main_source(const Problem& problem, const Eigen::MatrixXd& jacobian,
                        Eigen::Index column) {
  std::map<std::string, double> information;
  for (std::size_t r = 0; r < problem.num_rows(); ++r) {
    const double d = jacobian(static_cast<Eigen::Index>(r), column);
    if (d != 0) {
      information[std::string(origin(*problem.rows()[r]))] += d * d;
    }
  }
  const auto most = std::max_element(information.begin(), information.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  // Rows that narrow the prior by less than a tenth say nothing worth naming.
  return most == information.end() || most->second < 0.2 ? "" : most->first;
}

std::vector<FittedParameter> describe(const Problem& problem, const CostProfile& fitted,
                                      std::span<const ProfileParameter> prior,
                                      const Eigen::MatrixXd& jacobian, double generation_log_sd) {
  const Eigen::MatrixXd covariance =
      (jacobian.transpose() * jacobian)
          .ldlt()
          .solve(Eigen::MatrixXd::Identity(jacobian.cols(), jacobian.cols()));
  const std::vector<Unknown>& unknowns = problem.unknowns();
  std::vector<FittedParameter> result;
  for (const ProfileParameter& p : prior) {
    if (!(p.log_sd > 0)) continue;
    FittedParameter f{.name = p.name,
                      .value = get_parameter(fitted, p.name),
                      .log_sd = p.log_sd,
                      .prior_value = p.value,
                      .prior_log_sd = p.log_sd,
                      .main_source = {}};
    Eigen::VectorXd mix = Eigen::VectorXd::Zero(jacobian.cols());
    // What no unknown moves keeps its prior's width.
    double untouched = p.log_sd * p.log_sd;
    const double shift = generation_log_sd * generation_log_sd;
    const std::optional<std::string> engine_stem = find_engine_stem(p.name);
    double untouched_shift = find_generation(p.name) || engine_stem ? shift : 0;
    for (std::size_t i = 0; i < unknowns.size(); ++i) {
      const Unknown& u = unknowns[i];
      const auto column = static_cast<Eigen::Index>(i);
      const bool own = (u.kind == UnknownKind::Parameter || u.kind == UnknownKind::Generation) &&
                       u.name == p.name;
      const bool shared =
          (u.kind == UnknownKind::GenerationShift && find_generation(p.name) &&
           p.name.starts_with(u.name + ".") && p.name.rfind('.') == u.name.size()) ||
          (u.kind == UnknownKind::EngineShift && engine_stem && u.name == *engine_stem);
      if (!own && !shared) continue;
      mix[column] = u.log_sd;
      if (own) untouched = 0;
      if (shared) untouched_shift = 0;
      if (own || f.main_source.empty()) f.main_source = main_source(problem, jacobian, column);
    }
    f.log_sd = std::sqrt(std::max(0.0, mix.dot(covariance * mix)) + untouched + untouched_shift);
    result.push_back(std::move(f));
  }
  return result;
}

}  // namespace

FitResult fit_profile(std::span<const Measurement* const> rows, const CostProfile& start,
                      std::span<const ProfileParameter> prior, const FitOptions& options) {
  Problem problem(rows, start, prior, options);
  Functor functor(problem, options);
  Eigen::LevenbergMarquardt<Functor> solver(functor);
  solver.setXtol(1e-4);
  solver.setFtol(1e-4);
  solver.setFactor(1);  // first step: about one prior width in all
  Eigen::VectorXd x = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(problem.num_unknowns()));
  auto status = solver.minimizeInit(x);
  FitResult result;
  do {
    status = solver.minimizeOneStep(x);
    ++result.iterations;
  } while (status == Eigen::LevenbergMarquardtSpace::Running &&
           result.iterations < options.most_iterations);
  if (status == Eigen::LevenbergMarquardtSpace::Running)
    result.termination = FitTermination::TooManyIterations;

  result.num_rows = problem.num_rows();
  const CostProfile fitted = problem.profile_at(x);
  result.profile = start;
  for (const ProfileParameter& p : prior) {
    if (p.log_sd > 0)
      result.profile =
          with_parameter(std::move(result.profile), p.name, get_parameter(fitted, p.name));
  }
  Eigen::MatrixXd jacobian(functor.values(), functor.inputs());
  problem.differentiate(x, jacobian);
  result.parameters = describe(problem, fitted, prior, jacobian, options.generation_log_sd);
  for (std::size_t g = 0; g < problem.gpus().size(); ++g) {
    result.boards[problem.gpus()[g]] = problem.board_at(x, g);
  }
  for (std::size_t s = 0; s < problem.sessions().size(); ++s) {
    result.floors[problem.sessions()[s]] = problem.floor_at(x, s);
  }
  return result;
}

std::optional<Seconds> expected_floor(const FitResult& fit, const Measurement& row) {
  double sum = 0, sum_of_source = 0;
  int n = 0, n_of_source = 0;
  for (const auto& [key, floor] : fit.floors) {
    if (key.group != row.group) continue;
    sum += std::log(floor.in_s()), ++n;
    if (key.source == row.source) sum_of_source += std::log(floor.in_s()), ++n_of_source;
  }
  if (n_of_source > 0) return Seconds(std::exp(sum_of_source / n_of_source));
  if (n > 0) return Seconds(std::exp(sum / n));
  return std::nullopt;
}

}  // namespace tracecast
