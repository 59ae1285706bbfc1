#include "sim/plan/purchase/matrix.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/math/distributions/normal.hpp>
#include <cmath>
#include <map>

#include "sim/base/error.hpp"

namespace tracecast::plan {
namespace {

bool may_use(const PlanJob& job, const std::string& gpu) {
  const auto names = [&](const std::vector<std::string>& ids) {
    return std::find(ids.begin(), ids.end(), gpu) != ids.end();
  };
  return (job.allowed.empty() || names(job.allowed)) && !names(job.forbidden);
}

/// Gangs are within a machine or have whole ones; parts of GPUs do not talk to each other.
bool could_hold(const Offer& offer, int gang) {
  if (offer.parts > 1) return gang == 1;
  return gang <= offer.gpus || gang % offer.gpus == 0;
}

/// Jobs whose errors are one: the same program at the same batch.
std::string program_of(const PlanJob& job) {
  const Job& j = job.job;
  return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", j.network, j.batch, j.phase, j.precision, j.data,
                     job.serving        ? "served by " + job.serving->engine
                     : job.global_batch ? "sharded"
                                        : j.software.framework);
}

/// The job's host and links at a cell; the machine of an offer goes before the job's.
Place place_of(const MatrixCell& cell, const PlanJob& job) {
  Place place = job.place;
  place.gpu = cell.gpu;
  if (!cell.machine.empty()) {
    place.machine = cell.machine;
    place.host_cpu.clear();
  }
  if (cell.gang > 1) place.gpus = cell.gang;
  if (cell.nodes > 1) place.nodes = cell.nodes;
  return place;
}

class Maker {
 public:
  Maker(const std::vector<PlanJob>& jobs, const std::vector<Offer>& offers)
      : jobs_(jobs), offers_(offers) {}

  PlanMatrix make(const CellSource& source, const ErrorShares& shares) {
    matrix_.reference.resize(jobs_.size());
    for (std::size_t j = 0; j < jobs_.size(); ++j) add_job(j);
    ask(source);
    correct(shares);
    for (std::size_t j = 0; j < jobs_.size(); ++j) matrix_.samples.push_back(samples_of(j));
    return std::move(matrix_);
  }

 private:
  std::size_t cell(std::size_t job, const std::string& gpu, const std::string& machine, int gang,
                   int nodes, bool only_known) {
    for (std::size_t c = 0; c < matrix_.cells.size(); ++c) {
      MatrixCell& known = matrix_.cells[c];
      if (known.job == job && known.gpu == gpu && known.gang == gang &&
          (known.machine == machine || only_known)) {
        known.only_known = known.only_known && only_known;
        return c;
      }
    }
    MatrixCell next;
    next.job = job;
    next.gpu = gpu;
    next.machine = machine;
    next.gang = gang;
    next.nodes = nodes;
    next.only_known = only_known;
    matrix_.cells.push_back(std::move(next));
    return matrix_.cells.size() - 1;
  }

  void add_job(std::size_t j) {
    for (const Offer& offer : offers_) {
      if (!may_use(jobs_[j], offer.gpu)) continue;
      for (const int gang : jobs_[j].gangs) {
        if (!could_hold(offer, gang)) continue;
        (void)cell(j, offer.gpu, offer.machine, gang, std::max(1, gang / offer.gpus), false);
      }
    }
    for (const MeasuredRate& run : jobs_[j].measured)
      measured_.emplace_back(cell(j, run.gpu, "", run.gpus, 1, true), run);
    if (const auto& hours = jobs_[j].hours_on)
      matrix_.reference[j] = cell(j, hours->gpu, "", hours->gpus, 1, true);
  }

  void ask(const CellSource& source) {
    std::vector<CellQuestion> questions;
    for (const MatrixCell& c : matrix_.cells)
      questions.push_back({jobs_[c.job].job, place_of(c, jobs_[c.job]), jobs_[c.job].serving,
                           jobs_[c.job].global_batch});
    const std::vector<Cell> reports = source(questions);
    for (std::size_t c = 0; c < reports.size(); ++c) {
      MatrixCell& into = matrix_.cells[c];
      const Cell& from = reports[c];
      into.predicted = into.samples_per_s = from.samples_per_s;
      into.basis = from.is_guessed ? "guessed" : "predicted";
      into.needed = from.memory_needed;
      into.capacity = from.memory_capacity;
      into.fits = from.fits;
      into.fit_probability = from.fits ? from.fit_probability : std::min(from.fit_probability, 0.5);
      into.power = from.power;
      into.refused = from.refused;
    }
  }

  void correct(const ErrorShares& shares) {
    std::map<std::string, std::size_t> programs, gpus;
    std::vector<ErrorCell> errors;
    for (const MatrixCell& c : matrix_.cells) {
      errors.push_back(
          {programs.try_emplace(program_of(jobs_[c.job]), programs.size()).first->second,
           gpus.try_emplace(c.gpu, gpus.size()).first->second, log_sd_of(c.predicted)});
    }
    std::vector<MeasuredCell> known;
    for (const auto& [index, run] : measured_) {
      MatrixCell& c = matrix_.cells[index];
      if (!c.refused.empty() || !(c.predicted.value > 0)) {
        c.refused.clear();  // measured, so it runs
        c.fits = true;
        c.samples_per_s = c.predicted = interval90(run.samples_per_s, run.log_sd);
        c.basis = "measured";
        errors[index].log_sd = run.log_sd;
        continue;
      }
      known.push_back({index, std::log(run.samples_per_s / c.predicted.value), run.log_sd});
      c.fits = true;
      c.basis = "measured";
    }
    matrix_.field = error_field(errors, shares, known);
    if (known.empty()) return;
    for (std::size_t c = 0; c < matrix_.cells.size(); ++c) {
      MatrixCell& into = matrix_.cells[c];
      if (!into.refused.empty() || !(into.predicted.value > 0)) continue;
      const bool is_moved = std::abs(matrix_.field.mean[c]) > 1e-12;
      if (is_moved) into.samples_per_s = corrected(into.predicted, matrix_.field, c);
      if (is_moved && into.basis != "measured") into.basis = "corrected";
    }
  }

  double samples_of(std::size_t j) const {
    const PlanJob& job = jobs_[j];
    if (!job.hours_on) return job.samples;
    const MatrixCell& c = matrix_.cells[*matrix_.reference[j]];
    if (!c.refused.empty()) {
      throw InputError(fmt::format("job \"{}\"", job.id),
                       fmt::format("hours_on {}: {}", c.gpu, c.refused),
                       "a GPU where the job can be predicted, or samples");
    }
    return c.samples_per_s.value * job.hours_on->time.in_s();
  }

  const std::vector<PlanJob>& jobs_;
  const std::vector<Offer>& offers_;
  PlanMatrix matrix_;
  std::vector<std::pair<std::size_t, MeasuredRate>> measured_;
};

/// Energy of a job over that of idle machines: what its boards draw more, at most what the machine
/// can.
Joules extra_energy(const MatrixCell& cell, const Offer& offer, const GpuSpec& gpu, Seconds time) {
  const Watts most = (offer.load - offer.idle) * (static_cast<double>(cell.gang) / offer.gpus);
  if (!cell.power) return most * time;
  const Watts boards = *cell.power - gpu.idle_power * static_cast<double>(cell.gang);
  return max(Watts{}, min(boards, most)) * time;
}

/// Replicas of a gang each that bear what is asked for, in whole machines where one does not hold
/// them. Nothing: more than anybody has.
std::optional<ServedGangs> gangs_for(const ServingDemand& demand, const MatrixCell& cell,
                                     const Offer& offer) {
  constexpr double kMost = 1e6;
  ServedGangs served;
  served.asked_per_s = demand.requests_per_s;
  served.borne_per_s = cell.samples_per_s.value;
  const double margin = std::exp(-boost::math::quantile(boost::math::normal(), demand.certainty) *
                                 log_sd_of(cell.samples_per_s));
  const double needed = served.asked_per_s / (served.borne_per_s * margin);
  if (!(needed < kMost)) return std::nullopt;
  served.gangs = std::max(1, static_cast<int>(std::ceil(needed * (1 - 1e-12))));
  served.gpus = served.gangs * cell.gang;
  if (served.gpus > offer.gpus && cell.gang <= offer.gpus) {
    const int each = offer.gpus / cell.gang, machines = (served.gangs + each - 1) / each;
    served.gangs = machines * each;
    served.gpus = machines * offer.gpus;
  }
  return served;
}

}  // namespace

const MatrixCell* PlanMatrix::find(std::size_t job, std::string_view gpu, std::string_view machine,
                                   int gang) const {
  for (const MatrixCell& c : cells) {
    if (c.job == job && c.gpu == gpu && c.machine == machine && c.gang == gang && !c.only_known)
      return &c;
  }
  return nullptr;
}

PlanMatrix make_matrix(const std::vector<PlanJob>& jobs, const std::vector<Offer>& offers,
                       const CellSource& source, const ErrorShares& shares) {
  return Maker(jobs, offers).make(source, shares);
}

PurchaseProblem make_problem(const std::vector<PlanJob>& jobs, const Catalogue& catalogue,
                             const PlanMatrix& matrix, const GpuCatalog& gpus,
                             std::vector<std::size_t>& cell_of_mode) {
  PurchaseProblem problem;
  problem.offers = catalogue.offers;
  problem.costs = catalogue;
  cell_of_mode.clear();
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    const PlanJob& job = jobs[j];
    problem.jobs.push_back({job.count, job.arrival, job.deadline, job.after});
    for (std::size_t o = 0; o < catalogue.offers.size(); ++o) {
      const Offer& offer = catalogue.offers[o];
      for (const int gang : job.gangs) {
        const MatrixCell* cell = matrix.find(j, offer.gpu, offer.machine, gang);
        if (cell == nullptr || !cell->fits || !cell->refused.empty()) continue;
        if (!could_hold(offer, gang)) continue;
        Mode mode{.job = j, .offer = o, .gang = gang, .time = {}, .extra_energy = {}, .served = {}};
        if (job.serving) {
          mode.served = gangs_for(*job.serving, *cell, offer);
          if (!mode.served) continue;
          mode.gang = mode.served->gpus;
          mode.time = job.serving->time;
          // Replicas that share the requests share the work: what all draw is what the busy ones
          // would.
          const double busy = job.serving->requests_per_s / cell->samples_per_s.value;
          mode.extra_energy = extra_energy(*cell, offer, gpus.find(offer.gpu), mode.time) * busy;
          problem.modes.push_back(mode);
          cell_of_mode.push_back(static_cast<std::size_t>(cell - matrix.cells.data()));
          continue;
        }
        mode.time = Seconds(matrix.samples[j] / cell->samples_per_s.value * (1 + offer.extra_time));
        mode.extra_energy = extra_energy(*cell, offer, gpus.find(offer.gpu), mode.time);
        problem.modes.push_back(mode);
        cell_of_mode.push_back(static_cast<std::size_t>(cell - matrix.cells.data()));
      }
    }
  }
  return problem;
}

}  // namespace tracecast::plan
