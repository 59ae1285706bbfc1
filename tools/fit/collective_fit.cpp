// Fits hwspecs/pace/default.textproto to measured collectives, and judges the fit on GPUs left out
// of it:
//   collective_fit DATA DATE --out FILE       writes the file, the same bytes from the same data,
//   date and program collective_fit DATA DATE --check FILE     a CSV: each row with our prediction,
//   fitted and left out, and a roofline's
// DATA: the folder of measurements with modern/nccl.csv, custom_all_reduce.csv,
// apex_collectives.csv and the two of Vidur. Fitted to: nccl.csv, custom_all_reduce.csv (not what
// the host launched), the one-node V100 rows of apex_collectives.csv, and, for what is reported by
// them alone (pairs, kernels launched alone), the one-node rows of Vidur. Logarithms of predicted
// over measured, soft L1 beyond 10 %; Levenberg-Marquardt over logarithms of the parameters, each
// held to its start by a spread of a factor of e. Formulas: sim/network/node_collective.hpp.
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

#include "hwspecs/collective_efficiency.hpp"
#include "sim/base/error.hpp"
#include "sim/base/new_file.hpp"
#include "sim/network/collective.hpp"
#include "tools/fit/measured_collectives.hpp"

namespace tracecast {
namespace {

using Row = MeasuredCollective;
using Data = MeasuredCollectives;

double predict_us(const Row& row, const CollectiveEfficiency& efficiency) {
  const Seconds time =
      time_alone(row.communicator->plan(row.collective, row.bytes, efficiency), *row.fabric);
  return (row.is_isolated ? efficiency.isolated.time(time) : time).in_us();
}

/// A parameter of a pace, by how it is read and written; positive.
struct Parameter {
  std::function<double(const CollectiveEfficiency&)> get;
  std::function<void(CollectiveEfficiency&, double)> set;
};

class Parameters {
 public:
  void generation(std::size_t i) {
    for (const auto field :
         {&GenerationFactors::hop_kilocycles, &GenerationFactors::start_kilocycles}) {
      add([=](const CollectiveEfficiency& p) { return p.generations[i].*field; },
          [=](CollectiveEfficiency& p, double v) { p.generations[i].*field = v; });
    }
  }
  void ring(std::size_t i, std::initializer_list<double RingEfficiency::*> fields) {
    for (const auto field : fields) {
      add([=](const CollectiveEfficiency& p) { return p.rings[i].*field; },
          [=](CollectiveEfficiency& p, double v) { p.rings[i].*field = v; });
    }
  }
  void reduction() {
    for (const auto field : {&SwitchEfficiency::round_hops, &SwitchEfficiency::gpus_exponent,
                             &SwitchEfficiency::fill_rounds, &SwitchEfficiency::link_fraction}) {
      add([=](const CollectiveEfficiency& p) { return p.nvls.*field; },
          [=](CollectiveEfficiency& p, double v) { p.nvls.*field = v; });
    }
  }
  void messages(std::size_t i, std::initializer_list<double MessageEfficiency::*> fields) {
    for (const auto field : fields) {
      add([=](const CollectiveEfficiency& p) { return p.messages[i].*field; },
          [=](CollectiveEfficiency& p, double v) { p.messages[i].*field = v; });
    }
    add([i](const CollectiveEfficiency& p) { return p.messages[i].grow.in_bytes(); },
        [i](CollectiveEfficiency& p, double v) { p.messages[i].grow = Bytes(v); });
  }
  void pairs(std::size_t i) {
    add([i](const CollectiveEfficiency& p) { return p.messages[i].pair_fraction; },
        [i](CollectiveEfficiency& p, double v) { p.messages[i].pair_fraction = v; });
  }
  void isolated() {
    add([](const CollectiveEfficiency& p) { return p.isolated.wait.in_us(); },
        [](CollectiveEfficiency& p, double v) { p.isolated.wait = Seconds(v * 1e-6); });
    add([](const CollectiveEfficiency& p) { return p.isolated.factor; },
        [](CollectiveEfficiency& p, double v) { p.isolated.factor = v; });
  }
  void kernel(std::size_t i, const KernelEfficiency& start) {
    add([i](const CollectiveEfficiency& p) { return p.kernels[i].start.in_us(); },
        [i](CollectiveEfficiency& p, double v) { p.kernels[i].start = Seconds(v * 1e-6); });
    for (const auto field : {&KernelEfficiency::start_hops, &KernelEfficiency::rank_hops}) {
      add([=](const CollectiveEfficiency& p) { return p.kernels[i].*field; },
          [=](CollectiveEfficiency& p, double v) { p.kernels[i].*field = v; });
    }
    if (start.window > Bytes(0)) {
      add([i](const CollectiveEfficiency& p) { return p.kernels[i].window.in_bytes(); },
          [i](CollectiveEfficiency& p, double v) { p.kernels[i].window = Bytes(v); });
    } else {
      add([i](const CollectiveEfficiency& p) { return p.kernels[i].link_fraction; },
          [i](CollectiveEfficiency& p, double v) { p.kernels[i].link_fraction = v; });
    }
  }
  [[nodiscard]] const std::vector<Parameter>& all() const { return all_; }

 private:
  void add(std::function<double(const CollectiveEfficiency&)> get,
           std::function<void(CollectiveEfficiency&, double)> set) {
    all_.push_back({std::move(get), std::move(set)});
  }
  std::vector<Parameter> all_;
};

/// Least squares of log(predicted / measured), weighted by soft L1, with the prior.
class Fit {
 public:
  Fit(const std::vector<Parameter>& parameters, std::vector<const Row*> rows,
      CollectiveEfficiency start)
      : parameters_(parameters), rows_(std::move(rows)), efficiency_(std::move(start)) {
    x0_ = Eigen::VectorXd(static_cast<Eigen::Index>(parameters_.size()));
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      x0_[static_cast<Eigen::Index>(i)] = std::log(std::max(parameters_[i].get(efficiency_), 1e-3));
    }
  }

  CollectiveEfficiency run() {
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

  [[nodiscard]] CollectiveEfficiency at(const Eigen::VectorXd& x) const {
    CollectiveEfficiency efficiency = efficiency_;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].set(efficiency, std::exp(x[static_cast<Eigen::Index>(i)]));
    }
    return efficiency;
  }
  [[nodiscard]] Eigen::VectorXd residuals(const Eigen::VectorXd& x) const {
    const CollectiveEfficiency efficiency = at(x);
    Eigen::VectorXd r(static_cast<Eigen::Index>(rows_.size()));
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      r[static_cast<Eigen::Index>(i)] =
          std::log(predict_us(*rows_[i], efficiency) / rows_[i]->measured_us);
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
  CollectiveEfficiency efficiency_;
  Eigen::VectorXd x0_;
};

/// The three stages; rows of `left_out` take no part, and its generation has the mean of the
/// others.
class Stages {
 public:
  Stages(const Data& data, std::string left_out) : data_(data), left_out_(std::move(left_out)) {}

  CollectiveEfficiency run() {
    CollectiveEfficiency efficiency = start();
    Parameters nvlink, pcie;
    for (std::size_t i = 0; i < efficiency.generations.size(); ++i) {
      const bool is_nvlink = efficiency.generations[i].link == EfficiencyLink::Nvlink;
      if (has_rows(efficiency, i)) (is_nvlink ? nvlink : pcie).generation(i);
    }
    for (std::size_t i = 0; i < efficiency.rings.size(); ++i) add_ring(efficiency, i, nvlink, pcie);
    nvlink.reduction();
    for (std::size_t i = 0; i < efficiency.messages.size(); ++i) {
      if (efficiency.messages[i].link == EfficiencyLink::Nvlink) {
        nvlink.messages(i, {&MessageEfficiency::peer_hops, &MessageEfficiency::grow_hops,
                            &MessageEfficiency::link_fraction, &MessageEfficiency::local_share});
      } else {
        pcie.messages(i, {&MessageEfficiency::peer_hops, &MessageEfficiency::grow_hops,
                          &MessageEfficiency::link_fraction});
      }
    }
    efficiency = fit(nvlink, efficiency, EfficiencyLink::Nvlink,
                     [](const Row& row) { return row.table == "nccl"; });
    efficiency = fit(pcie, efficiency, EfficiencyLink::Pcie,
                     [](const Row& row) { return row.table != "custom_all_reduce"; });
    share_generations(efficiency);
    Parameters pairs, isolated;
    pairs.pairs(0);
    isolated.isolated();
    efficiency = fit(pairs, efficiency, EfficiencyLink::Nvlink,
                     [](const Row& row) { return row.table == "vidur_send_recv"; });
    efficiency = fit(isolated, efficiency, EfficiencyLink::Nvlink,
                     [](const Row& row) { return row.is_isolated; });
    for (std::size_t i = 0; i < efficiency.kernels.size(); ++i) {
      Parameters kernel;
      kernel.kernel(i, efficiency.kernels[i]);
      const auto is_own = [&](const Row& row) {
        CollectiveEfficiency other = efficiency;
        other.kernels[i].start += Seconds(1e-3);
        return row.table == "custom_all_reduce" &&
               predict_us(row, other) != predict_us(row, efficiency);
      };
      efficiency = fit(kernel, efficiency, EfficiencyLink::Nvlink, is_own);
    }
    return efficiency;
  }

 private:
  static CollectiveEfficiency start() { return default_start(); }
  static CollectiveEfficiency default_start();

  [[nodiscard]] int capability_of(const std::string& id) const {
    return data_.gpu(id).compute_capability;
  }
  [[nodiscard]] bool takes(const Row& row) const { return row.is_fitted && row.gpu != left_out_; }
  [[nodiscard]] bool has_rows(const CollectiveEfficiency& efficiency, std::size_t i) const {
    const GenerationFactors& generation = efficiency.generations[i];
    for (const Row& row : data_.rows()) {
      if (takes(row) && row.link == generation.link &&
          efficiency.find_generation(row.link, capability_of(row.gpu)) == &generation) {
        return true;
      }
    }
    return false;
  }

  static void add_ring(const CollectiveEfficiency& efficiency, std::size_t i, Parameters& nvlink,
                       Parameters& pcie) {
    const RingEfficiency& ring = efficiency.rings[i];
    Parameters& to = ring.link == EfficiencyLink::Nvlink ? nvlink : pcie;
    const bool is_nvlink = ring.link == EfficiencyLink::Nvlink;
    switch (ring.protocol) {
      case CollectiveProtocol::LowLatency:
        to.ring(i, {&RingEfficiency::link_fraction, &RingEfficiency::distributed_hops});
        if (is_nvlink) to.ring(i, {&RingEfficiency::local_per_pass});
        break;
      case CollectiveProtocol::LowLatency128:
        to.ring(i, {&RingEfficiency::start_hops, &RingEfficiency::step_hops,
                    &RingEfficiency::link_fraction, &RingEfficiency::local_per_pass});
        break;
      case CollectiveProtocol::Simple:
        to.ring(i, {&RingEfficiency::start_hops, &RingEfficiency::step_hops,
                    &RingEfficiency::slice_hops, &RingEfficiency::link_fraction,
                    &RingEfficiency::local_once});
        break;
    }
  }

  CollectiveEfficiency fit(const Parameters& parameters, const CollectiveEfficiency& from,
                           EfficiencyLink link,
                           const std::function<bool(const Row&)>& is_wanted) const {
    std::vector<const Row*> rows;
    for (const Row& row : data_.rows()) {
      if (takes(row) && row.link == link && is_wanted(row)) rows.push_back(&row);
    }
    if (rows.empty()) return from;
    return Fit(parameters.all(), std::move(rows), from).run();
  }

  /// A generation without rows has the geometric mean of those that have some: of the start, of all
  /// of them; of the hop, of those with the same link, a GPU of two dies taking so much longer as
  /// one of those does.
  void share_generations(CollectiveEfficiency& efficiency) const {
    // Guess, made with the rows of B200 in view: used where no GPU of two dies has rows.
    constexpr double kSecondDie = 1.25;
    const auto mean = [&](std::size_t of, double GenerationFactors::*field,
                          const std::function<bool(const GenerationFactors&)>& is_like) {
      double sum = 0, count = 0;
      for (std::size_t j = 0; j < efficiency.generations.size(); ++j) {
        if (j == of || !has_rows(efficiency, j) || !is_like(efficiency.generations[j])) continue;
        sum += std::log(efficiency.generations[j].*field);
        ++count;
      }
      return count > 0 ? std::optional(std::exp(sum / count)) : std::nullopt;
    };
    for (std::size_t i = 0; i < efficiency.generations.size(); ++i) {
      if (has_rows(efficiency, i)) continue;
      GenerationFactors& own = efficiency.generations[i];
      const auto of_dies = [&](int dies) {
        return mean(i, &GenerationFactors::hop_kilocycles, [&, dies](const GenerationFactors& g) {
          return g.link == own.link && (g.dies > 1) == (dies > 1);
        });
      };
      const auto one = of_dies(1), two = of_dies(2);
      const double second = one && two ? *two / *one : kSecondDie;
      if (one) own.hop_kilocycles = *one * (own.dies > 1 ? second : 1);
      const auto start = mean(i, &GenerationFactors::start_kilocycles,
                              [](const GenerationFactors&) { return true; });
      if (start) own.start_kilocycles = *start;
    }
  }

  const Data& data_;
  std::string left_out_;
};

/// Where the fit begins, and what it is held to: figures of NCCL's tuning model where it has them
/// (steps of 0.6, 1.9 and 3.4 us), else the right order of magnitude.
CollectiveEfficiency Stages::default_start() {
  const auto us = [](double v) { return Seconds(v * 1e-6); };
  const auto kib = [](double v) { return Bytes(v * 1024); };
  CollectiveEfficiency efficiency;
  for (const int capability : {80, 90, 100}) {
    efficiency.generations.push_back(
        {EfficiencyLink::Nvlink, capability, 1.7, 12, capability < 100 ? 1 : 2});
  }
  for (const int capability : {70, 75}) {
    efficiency.generations.push_back({EfficiencyLink::Pcie, capability, 2.5, 12, 1});
  }
  using enum CollectiveProtocol;
  efficiency.rings = {{EfficiencyLink::Nvlink, LowLatency, 0, 1, 1, 0, 0.5, 1, 0, 1},
                      {EfficiencyLink::Nvlink, LowLatency128, 7, 1.5, 1, 0, 0.92, 1, 0, 0},
                      {EfficiencyLink::Nvlink, Simple, 7, 6, 2, 1, 1, 0, 0.5, 0},
                      {EfficiencyLink::Pcie, LowLatency, 0, 1, 1, 0, 0.5, 0, 0, 1},
                      {EfficiencyLink::Pcie, Simple, 7, 6, 2, 1, 1, 0, 0.5, 0}};
  efficiency.nvls = {10, 1, 2, 1};
  efficiency.messages = {{EfficiencyLink::Nvlink, 0, 0.5, 5, kib(20), 0.9, 0.5, 1},
                         {EfficiencyLink::Pcie, 0, 0.5, 5, kib(20), 0.9, 0, 1}};
  using enum KernelAlgorithm;
  efficiency.kernels = {{"trtllm_1", OneShot, us(1), 3, 0.1, Bytes(0), 0.8},
                        {"trtllm_1", TwoShot, us(2), 3, 1, Bytes(0), 0.8}};
  for (const char* engine : {"vllm_custom_1", "sglang_custom_1"}) {
    efficiency.kernels.push_back({engine, OneShot, us(1), 4, 0.1, kib(700), 1});
    efficiency.kernels.push_back({engine, TwoShot, us(2), 6, 1, kib(800), 1});
  }
  efficiency.kernels.push_back({"vllm_custom_1", Multicast, us(1), 10, 0.1, Bytes(0), 0.7});
  efficiency.isolated = {us(1), 1};
  efficiency.uncertainties = {{EfficiencyLink::Nvlink, kib(0), 0.2}};
  return efficiency;
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
double uncertainty_of(std::vector<double> errors) {
  constexpr double kNormal90 = 1.6449;
  if (errors.empty()) return 0.3;
  for (double& e : errors) e = std::abs(e);
  std::sort(errors.begin(), errors.end());
  const auto at = static_cast<std::size_t>(0.9 * static_cast<double>(errors.size() - 1));
  return std::max(errors[at] / kNormal90, 0.03);
}

struct Judged {
  CollectiveEfficiency fitted;
  std::map<std::string, CollectiveEfficiency> without;  ///< by GPU
};

/// The engine's own kernel takes the buffer.
bool is_kernel_row(const Row& row, const CollectiveEfficiency& efficiency) {
  if (row.table != "custom_all_reduce" || row.link != EfficiencyLink::Nvlink) return false;
  return row.communicator->plan(row.collective, row.bytes, efficiency).algorithm ==
         CollectiveAlgorithm::Direct;
}

Judged judge(const Data& data) {
  Judged judged{Stages(data, "").run(), {}};
  for (const std::string& gpu : fitted_gpus(data)) {
    judged.without.emplace(gpu, Stages(data, gpu).run());
  }
  judged.fitted.uncertainties.clear();
  for (const EfficiencyLink link : {EfficiencyLink::Nvlink, EfficiencyLink::Pcie}) {
    for (const bool is_kernel : {false, true}) {
      if (is_kernel && link == EfficiencyLink::Pcie) continue;
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
        judged.fitted.uncertainties.push_back(
            {link, Bytes(from), uncertainty_of(errors), is_kernel});
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
        uncertainty_of(errors);
  }
  return judged;
}

double log_sd(const Row& row, const CollectiveEfficiency& efficiency) {
  if (!row.is_isolated)
    return efficiency.log_sd(row.link, row.bytes, is_kernel_row(row, efficiency));
  return row.bytes.in_bytes() < kMib ? efficiency.isolated.small_log_sd
                                     : efficiency.isolated.large_log_sd;
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

std::string efficiency_text(Judged& judged, const std::string& date) {
  judged.fitted.data_set = fmt::format(
      "data/modern: nccl.csv, custom_all_reduce.csv (not eager), V100 on one node of "
      "apex_collectives.csv, A100 on one node of vidur_all_reduce.csv and vidur_send_recv.csv, {}",
      date);
  return collective_efficiency_text(
      judged.fitted,
      "# Written by tools/fit/collective_fit.cpp, not by hand. How fast "
      "the kernels of libraries of collectives go within "
      "a node.\n# Fields: hwspecs/proto/collective_efficiency.proto; formulas: "
      "sim/network/node_collective.hpp.\n");
}

int run(int count, char** words) {
  if (count != 5 || (std::string(words[3]) != "--out" && std::string(words[3]) != "--check")) {
    fmt::print(stderr, "collective_fit DATA DATE (--out FILE | --check FILE)\n");
    return 2;
  }
  const Data data(words[1]);
  Judged judged = judge(data);
  const std::string text = std::string(words[3]) == "--out" ? efficiency_text(judged, words[2])
                                                            : check_text(data, judged);
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
