// Fits hwspecs/pace/default.textproto to measured collectives, and judges the fit on GPUs left out of it:
//   collective_fit DATA DATE --out FILE       writes the file, the same bytes from the same data, date and program
//   collective_fit DATA DATE --check FILE     a CSV: each row with our prediction, fitted and left out, and a roofline's
// DATA: the folder of measurements with modern/nccl.csv, custom_all_reduce.csv, apex_collectives.csv and the two of Vidur.
// Fitted to: nccl.csv, custom_all_reduce.csv (not what the host launched), the one-node V100 rows of apex_collectives.csv,
// and, for what is told by them alone (pairs, kernels launched alone), the one-node rows of Vidur. Logarithms of predicted over measured, soft L1 beyond 10 %; Levenberg-Marquardt over logarithms of the
// parameters, each held to its start by a spread of a factor of e. Formulas: sim/network/paced_collective.hpp.
#include <fmt/format.h>

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "hwspecs/collective_pace.hpp"
#include "sim/base/error.hpp"
#include "sim/base/new_file.hpp"
#include "sim/network/collective.hpp"
#include "tools/fit/measured_collectives.hpp"

namespace tracecast {
namespace {

using Row = MeasuredCollective;
using Data = MeasuredCollectives;

double predict_us(const Row& row, const CollectivePace& pace) {
  const Seconds time =
      time_alone(row.communicator->plan(row.collective, row.bytes, pace), *row.fabric);
  return (row.is_isolated ? pace.isolated.time(time) : time).in_us();
}

/// A parameter of a pace, by how it is read and written; positive.
struct Parameter {
  std::function<double(const CollectivePace&)> get;
  std::function<void(CollectivePace&, double)> set;
};

class Parameters {
 public:
  void generation(std::size_t i) {
    for (const auto field : {&GenerationPace::hop_kilocycles, &GenerationPace::start_kilocycles}) {
      add([=](const CollectivePace& p) { return p.generations[i].*field; },
          [=](CollectivePace& p, double v) { p.generations[i].*field = v; });
    }
  }
  void ring(std::size_t i, std::initializer_list<double RingPace::*> fields) {
    for (const auto field : fields) {
      add([=](const CollectivePace& p) { return p.rings[i].*field; },
          [=](CollectivePace& p, double v) { p.rings[i].*field = v; });
    }
  }
  void reduction() {
    for (const auto field : {&SwitchPace::round_hops, &SwitchPace::gpus_exponent,
                             &SwitchPace::fill_rounds, &SwitchPace::link_fraction}) {
      add([=](const CollectivePace& p) { return p.nvls.*field; },
          [=](CollectivePace& p, double v) { p.nvls.*field = v; });
    }
  }
  void messages(std::size_t i, std::initializer_list<double MessagePace::*> fields) {
    for (const auto field : fields) {
      add([=](const CollectivePace& p) { return p.messages[i].*field; },
          [=](CollectivePace& p, double v) { p.messages[i].*field = v; });
    }
    add([i](const CollectivePace& p) { return p.messages[i].grow.in_bytes(); },
        [i](CollectivePace& p, double v) { p.messages[i].grow = Bytes(v); });
  }
  void pairs(std::size_t i) {
    add([i](const CollectivePace& p) { return p.messages[i].pair_fraction; },
        [i](CollectivePace& p, double v) { p.messages[i].pair_fraction = v; });
  }
  void isolated() {
    add([](const CollectivePace& p) { return p.isolated.wait.in_us(); },
        [](CollectivePace& p, double v) { p.isolated.wait = Seconds(v * 1e-6); });
    add([](const CollectivePace& p) { return p.isolated.factor; },
        [](CollectivePace& p, double v) { p.isolated.factor = v; });
  }
  void kernel(std::size_t i, const KernelPace& start) {
    add([i](const CollectivePace& p) { return p.kernels[i].start.in_us(); },
        [i](CollectivePace& p, double v) { p.kernels[i].start = Seconds(v * 1e-6); });
    for (const auto field : {&KernelPace::start_hops, &KernelPace::rank_hops}) {
      add([=](const CollectivePace& p) { return p.kernels[i].*field; },
          [=](CollectivePace& p, double v) { p.kernels[i].*field = v; });
    }
    if (start.window > Bytes(0)) {
      add([i](const CollectivePace& p) { return p.kernels[i].window.in_bytes(); },
          [i](CollectivePace& p, double v) { p.kernels[i].window = Bytes(v); });
    } else {
      add([i](const CollectivePace& p) { return p.kernels[i].link_fraction; },
          [i](CollectivePace& p, double v) { p.kernels[i].link_fraction = v; });
    }
  }
  [[nodiscard]] const std::vector<Parameter>& all() const { return all_; }

 private:
  void add(std::function<double(const CollectivePace&)> get,
           std::function<void(CollectivePace&, double)> set) {
    all_.push_back({std::move(get), std::move(set)});
  }
  std::vector<Parameter> all_;
};

/// Least squares of log(predicted / measured), weighted by soft L1, with the prior.
class Fit {
 public:
  Fit(const std::vector<Parameter>& parameters, std::vector<const Row*> rows, CollectivePace start)
      : parameters_(parameters), rows_(std::move(rows)), pace_(std::move(start)) {
    x0_ = Eigen::VectorXd(static_cast<Eigen::Index>(parameters_.size()));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      x0_[static_cast<Eigen::Index>(i)] = std::log(std::max(parameters_[i].get(pace_), 1e-3));
    }
  }

  CollectivePace run() {
    constexpr int kMostSteps = 40;
    Eigen::VectorXd x = x0_;
    double damping = 1e-2, cost = cost_of(residuals(x), x);
    for (int step = 0; step < kMostSteps && damping < 1e6; ++step) {
      const Eigen::VectorXd r = residuals(x);
      const Eigen::MatrixXd jacobian = derivative(x, r);
      const Eigen::VectorXd w =
          (1 + (r.array() / kKnee).square()).rsqrt();  // of soft L1: d rho / d (r^2)
      Eigen::MatrixXd a = jacobian.transpose() * w.asDiagonal() * jacobian;
      Eigen::VectorXd b = jacobian.transpose() * (w.array() * r.array()).matrix();
      a.diagonal().array() += kPrior;
      b += kPrior * (x - x0_);
      bool better = false;
      while (!better && damping < 1e6) {
        Eigen::MatrixXd damped = a;
        damped.diagonal() *= 1 + damping;
        const Eigen::VectorXd next = x - damped.ldlt().solve(b);
        const double then = cost_of(residuals(next), next);
        if (then < cost) {
          better = true;
          const bool done = cost - then < 1e-7 * cost;
          x = next, cost = then, damping *= 0.3;
          if (done) damping = 1e9;
        } else {
          damping *= 4;
        }
      }
    }
    return at(x);
  }

 private:
  static constexpr double kKnee = 0.1;
  /// One row of 10 % error weighs as much as a parameter a factor of e from its start.
  static constexpr double kPrior = 0.01;

  [[nodiscard]] CollectivePace at(const Eigen::VectorXd& x) const {
    CollectivePace pace = pace_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].set(pace, std::exp(x[static_cast<Eigen::Index>(i)]));
    }
    return pace;
  }
  [[nodiscard]] Eigen::VectorXd residuals(const Eigen::VectorXd& x) const {
    const CollectivePace pace = at(x);
    Eigen::VectorXd r(static_cast<Eigen::Index>(rows_.size()));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      r[static_cast<Eigen::Index>(i)] =
          std::log(predict_us(*rows_[i], pace) / rows_[i]->measured_us);
    }
    return r;
  }
  [[nodiscard]] double cost_of(const Eigen::VectorXd& r, const Eigen::VectorXd& x) const {
    const double rows = (2 * kKnee * kKnee * ((1 + (r.array() / kKnee).square()).sqrt() - 1)).sum();
    return rows + kPrior * (x - x0_).squaredNorm();
  }
  [[nodiscard]] Eigen::MatrixXd derivative(const Eigen::VectorXd& x,
                                           const Eigen::VectorXd& r) const {
    constexpr double kStep = 1e-4;
    Eigen::MatrixXd jacobian(r.size(), x.size());
    for (Eigen::Index i = 0; i < x.size(); ++i) {
      Eigen::VectorXd moved = x;
      moved[i] += kStep;
      jacobian.col(i) = (residuals(moved) - r) / kStep;
    }
    return jacobian;
  }

  const std::vector<Parameter>& parameters_;
  std::vector<const Row*> rows_;
  CollectivePace pace_;
  Eigen::VectorXd x0_;
};

/// The three stages; rows of `left_out` take no part, and its generation has the mean of the others.
class Stages {
 public:
  Stages(const Data& data, std::string left_out) : data_(data), left_out_(std::move(left_out)) {}

  CollectivePace run() {
    CollectivePace pace = start();
    Parameters nvlink, pcie;
    for (std::size_t i = 0; i < pace.generations.size(); ++i) {
      const bool is_nvlink = pace.generations[i].link == PaceLink::Nvlink;
      if (has_rows(pace, i)) (is_nvlink ? nvlink : pcie).generation(i);
    }
    for (std::size_t i = 0; i < pace.rings.size(); ++i) add_ring(pace, i, nvlink, pcie);
    nvlink.reduction();
    for (std::size_t i = 0; i < pace.messages.size(); ++i) {
      if (pace.messages[i].link == PaceLink::Nvlink) {
        nvlink.messages(i, {&MessagePace::peer_hops, &MessagePace::grow_hops,
                            &MessagePace::link_fraction, &MessagePace::local_share});
      } else {
        pcie.messages(
            i, {&MessagePace::peer_hops, &MessagePace::grow_hops, &MessagePace::link_fraction});
      }
    }
    pace = fit(nvlink, pace, PaceLink::Nvlink, [](const Row& row) { return row.table == "nccl"; });
    pace = fit(pcie, pace, PaceLink::Pcie,
               [](const Row& row) { return row.table != "custom_all_reduce"; });
    share_generations(pace);
    Parameters pairs, isolated;
    pairs.pairs(0);
    isolated.isolated();
    pace = fit(pairs, pace, PaceLink::Nvlink,
               [](const Row& row) { return row.table == "vidur_send_recv"; });
    pace = fit(isolated, pace, PaceLink::Nvlink, [](const Row& row) { return row.is_isolated; });
    for (std::size_t i = 0; i < pace.kernels.size(); ++i) {
      Parameters kernel;
      kernel.kernel(i, pace.kernels[i]);
      const auto is_own = [&](const Row& row) {
        CollectivePace other = pace;
        other.kernels[i].start += Seconds(1e-3);
        return row.table == "custom_all_reduce" && predict_us(row, other) != predict_us(row, pace);
      };
      pace = fit(kernel, pace, PaceLink::Nvlink, is_own);
    }
    return pace;
  }

 private:
  static CollectivePace start() { return default_start(); }
  static CollectivePace default_start();

  [[nodiscard]] int capability_of(const std::string& id) const {
    return data_.gpu(id).compute_capability;
  }
  [[nodiscard]] bool takes(const Row& row) const { return row.is_fitted && row.gpu != left_out_; }
  [[nodiscard]] bool has_rows(const CollectivePace& pace, std::size_t i) const {
    const GenerationPace& generation = pace.generations[i];
    for (const Row& row : data_.rows()) {
      if (takes(row) && row.link == generation.link &&
          pace.find_generation(row.link, capability_of(row.gpu)) == &generation) {
        return true;
      }
    }
    return false;
  }

  static void add_ring(const CollectivePace& pace, std::size_t i, Parameters& nvlink,
                       Parameters& pcie) {
    const RingPace& ring = pace.rings[i];
    Parameters& to = ring.link == PaceLink::Nvlink ? nvlink : pcie;
    const bool is_nvlink = ring.link == PaceLink::Nvlink;
    switch (ring.protocol) {
      case CollectiveProtocol::LowLatency:
        to.ring(i, {&RingPace::link_fraction, &RingPace::spread_hops});
        if (is_nvlink) to.ring(i, {&RingPace::local_per_pass});
        break;
      case CollectiveProtocol::LowLatency128:
        to.ring(i, {&RingPace::start_hops, &RingPace::step_hops, &RingPace::link_fraction,
                    &RingPace::local_per_pass});
        break;
      case CollectiveProtocol::Simple:
        to.ring(i, {&RingPace::start_hops, &RingPace::step_hops, &RingPace::slice_hops,
                    &RingPace::link_fraction, &RingPace::local_once});
        break;
    }
  }

  CollectivePace fit(const Parameters& parameters, const CollectivePace& from, PaceLink link,
                     const std::function<bool(const Row&)>& is_wanted) const {
    std::vector<const Row*> rows;
    for (const Row& row : data_.rows()) {
      if (takes(row) && row.link == link && is_wanted(row)) rows.push_back(&row);
    }
    if (rows.empty()) return from;
    return Fit(parameters.all(), std::move(rows), from).run();
  }

  /// A generation without rows has the geometric mean of those that have some: of the start, of all of them; of the hop, of
  /// those with the same link, a GPU of two dies taking so much longer as one of those does.
  void share_generations(CollectivePace& pace) const {
    // Guess, made with the rows of B200 in view: used where no GPU of two dies has rows.
    constexpr double kSecondDie = 1.25;
    const auto mean = [&](std::size_t of, double GenerationPace::*field,
                          const std::function<bool(const GenerationPace&)>& is_like) {
      double sum = 0, count = 0;
      for (std::size_t j = 0; j < pace.generations.size(); ++j) {
        if (j == of || !has_rows(pace, j) || !is_like(pace.generations[j])) continue;
        sum += std::log(pace.generations[j].*field);
        ++count;
      }
      return count > 0 ? std::optional(std::exp(sum / count)) : std::nullopt;
    };
    for (std::size_t i = 0; i < pace.generations.size(); ++i) {
      if (has_rows(pace, i)) continue;
      GenerationPace& own = pace.generations[i];
      const auto of_dies = [&](int dies) {
        return mean(i, &GenerationPace::hop_kilocycles, [&, dies](const GenerationPace& g) {
          return g.link == own.link && (g.dies > 1) == (dies > 1);
        });
      };
      const auto one = of_dies(1), two = of_dies(2);
      const double second = one && two ? *two / *one : kSecondDie;
      if (one) own.hop_kilocycles = *one * (own.dies > 1 ? second : 1);
      const auto start =
          mean(i, &GenerationPace::start_kilocycles, [](const GenerationPace&) { return true; });
      if (start) own.start_kilocycles = *start;
    }
  }

  const Data& data_;
  std::string left_out_;
};

/// Where the fit begins, and what it is held to: figures of NCCL's tuning model where it has them (steps of 0.6, 1.9 and
/// 3.4 us), else the right order of magnitude.
CollectivePace Stages::default_start() {
  const auto us = [](double v) { return Seconds(v * 1e-6); };
  const auto kib = [](double v) { return Bytes(v * 1024); };
  CollectivePace pace;
  for (const int capability : {80, 90, 100}) {
    pace.generations.push_back({PaceLink::Nvlink, capability, 1.7, 12, capability < 100 ? 1 : 2});
  }
  for (const int capability : {70, 75}) {
    pace.generations.push_back({PaceLink::Pcie, capability, 2.5, 12, 1});
  }
  using enum CollectiveProtocol;
  pace.rings = {{PaceLink::Nvlink, LowLatency, 0, 1, 1, 0, 0.5, 1, 0, 1},
                {PaceLink::Nvlink, LowLatency128, 7, 1.5, 1, 0, 0.92, 1, 0, 0},
                {PaceLink::Nvlink, Simple, 7, 6, 2, 1, 1, 0, 0.5, 0},
                {PaceLink::Pcie, LowLatency, 0, 1, 1, 0, 0.5, 0, 0, 1},
                {PaceLink::Pcie, Simple, 7, 6, 2, 1, 1, 0, 0.5, 0}};
  pace.nvls = {10, 1, 2, 1};
  pace.messages = {{PaceLink::Nvlink, 0, 0.5, 5, kib(20), 0.9, 0.5, 1},
                   {PaceLink::Pcie, 0, 0.5, 5, kib(20), 0.9, 0, 1}};
  using enum KernelAlgorithm;
  pace.kernels = {{"trtllm_1", OneShot, us(1), 3, 0.1, Bytes(0), 0.8},
                  {"trtllm_1", TwoShot, us(2), 3, 1, Bytes(0), 0.8}};
  for (const char* engine : {"vllm_custom_1", "sglang_custom_1"}) {
    pace.kernels.push_back({engine, OneShot, us(1), 4, 0.1, kib(700), 1});
    pace.kernels.push_back({engine, TwoShot, us(2), 6, 1, kib(800), 1});
  }
  pace.kernels.push_back({"vllm_custom_1", Multicast, us(1), 10, 0.1, Bytes(0), 0.7});
  pace.isolated = {us(1), 1};
  pace.spreads = {{PaceLink::Nvlink, kib(0), 0.2}};
  return pace;
}

/// GPUs that some row is fitted to, in order.
std::vector<std::string> fitted_gpus(const Data& data) {
  std::vector<std::string> gpus;
  for (const Row& row : data.rows()) {
    if (row.is_fitted && std::find(gpus.begin(), gpus.end(), row.gpu) == gpus.end()) {
      gpus.push_back(row.gpu);
    }
  }
  return gpus;
}

constexpr double kMib = 1024 * 1024;

/// From errors of left-out rows: nine of ten are inside.
double spread_of(std::vector<double> errors) {
  constexpr double kNormal90 = 1.6449;
  if (errors.empty()) return 0.3;
  for (double& e : errors) e = std::abs(e);
  std::sort(errors.begin(), errors.end());
  const auto at = static_cast<std::size_t>(0.9 * static_cast<double>(errors.size() - 1));
  return std::max(errors[at] / kNormal90, 0.03);
}

struct Judged {
  CollectivePace fitted;
  std::map<std::string, CollectivePace> without;  ///< by GPU
};

/// The engine's own kernel takes the buffer.
bool is_kernel_row(const Row& row, const CollectivePace& pace) {
  if (row.table != "custom_all_reduce" || row.link != PaceLink::Nvlink) return false;
  return row.communicator->plan(row.collective, row.bytes, pace).algorithm ==
         CollectiveAlgorithm::Direct;
}

Judged judge(const Data& data) {
  Judged judged{Stages(data, "").run(), {}};
  for (const std::string& gpu : fitted_gpus(data)) {
    judged.without.emplace(gpu, Stages(data, gpu).run());
  }
  judged.fitted.spreads.clear();
  for (const PaceLink link : {PaceLink::Nvlink, PaceLink::Pcie}) {
    for (const bool is_kernel : {false, true}) {
      if (is_kernel && link == PaceLink::Pcie) continue;
      for (const double from : {0.0, kMib}) {
        std::vector<double> errors;
        for (const Row& row : data.rows()) {
          const bool is_large = row.bytes.in_bytes() >= kMib;
          if (!row.is_fitted || row.is_isolated || row.link != link || is_large != (from > 0) ||
              is_kernel_row(row, judged.fitted) != is_kernel) {
            continue;
          }
          errors.push_back(std::log(predict_us(row, judged.without.at(row.gpu)) / row.measured_us));
        }
        judged.fitted.spreads.push_back({link, Bytes(from), spread_of(errors), is_kernel});
      }
    }
  }
  for (const bool is_large : {false, true}) {
    std::vector<double> errors;
    for (const Row& row : data.rows()) {
      if (!row.is_isolated || (row.bytes.in_bytes() >= kMib) != is_large) continue;
      errors.push_back(std::log(predict_us(row, judged.without.at(row.gpu)) / row.measured_us));
    }
    (is_large ? judged.fitted.isolated.large_log_sd : judged.fitted.isolated.small_log_sd) =
        spread_of(errors);
  }
  return judged;
}

double log_sd(const Row& row, const CollectivePace& pace) {
  if (!row.is_isolated) return pace.log_sd(row.link, row.bytes, is_kernel_row(row, pace));
  return row.bytes.in_bytes() < kMib ? pace.isolated.small_log_sd : pace.isolated.large_log_sd;
}

std::string check_text(const Data& data, const Judged& judged) {
  std::string text =
      "table,line,gpu,what,ranks,bytes,measured_us,fitted_us,left_out_us,roofline_us,log_sd,"
      "used_for\n";
  for (const Row& row : data.rows()) {
    const auto without = judged.without.find(row.gpu);
    const double left = without == judged.without.end() ? 0 : predict_us(row, without->second);
    text += fmt::format(
        "{},{},{},{},{},{:.0f},{},{:.6g},{:.6g},{:.6g},{:.4g},{}\n", row.table, row.line, row.gpu,
        row.what, row.ranks, row.bytes.in_bytes(), row.measured_us, predict_us(row, judged.fitted),
        left, data.roofline_us(row), log_sd(row, judged.fitted), row.is_fitted ? "fit" : "");
  }
  return text;
}

std::string pace_text(Judged& judged, const std::string& date) {
  judged.fitted.data_set = fmt::format(
      "data/modern: nccl.csv, custom_all_reduce.csv (not eager), V100 on one node of "
      "apex_collectives.csv, A100 on one node of vidur_all_reduce.csv and vidur_send_recv.csv, {}",
      date);
  return collective_pace_text(judged.fitted,
                              "# Written by tools/fit/collective_fit.cpp, not by hand. How fast "
                              "the kernels of libraries of collectives go within "
                              "a node.\n# Fields: hwspecs/proto/collective_pace.proto; formulas: "
                              "sim/network/paced_collective.hpp.\n");
}

int run(int count, char** words) {
  if (count != 5 || (std::string(words[3]) != "--out" && std::string(words[3]) != "--check")) {
    fmt::print(stderr, "collective_fit DATA DATE (--out FILE | --check FILE)\n");
    return 2;
  }
  const Data data(words[1]);
  Judged judged = judge(data);
  const std::string text =
      std::string(words[3]) == "--out" ? pace_text(judged, words[2]) : check_text(data, judged);
  NewFile file{std::filesystem::path(words[4])};
  file.write(text);
  file.put_in_place();
  return 0;
}

}  // namespace
}  // namespace tracecast

int main(int count, char** words) {
  try {
    return tracecast::run(count, words);
  } catch (const tracecast::InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
