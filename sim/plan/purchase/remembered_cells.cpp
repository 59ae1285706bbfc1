#include "sim/plan/purchase/remembered_cells.hpp"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/job/job_key.hpp"
#include "sim/job/sha256.hpp"
#include "sim/plan/layout_search.hpp"
#include "sim/plan/purchase/served_cell.hpp"
#include "sim/store/store.hpp"

namespace tracecast::plan {

/// A demand's time and certainty say how its cell is used, and nothing about the cell.
static void add_members(KeyText& key, const ServingDemand& demand) {
  ServingDemand asked = demand;
  asked.time = {};
  asked.certainty = {};
  TRACECAST_ADD_MEMBERS(key, asked, requests_per_s, input, output, ttft_ms, tpot_ms, time, engine,
                        kv_precision, certainty);
}

namespace {

/// All of a question. Files are reported by their bytes.
std::string key_of(const std::string& fingerprint, const CellQuestion& question) {
  KeyText key;
  key.add("cell", fingerprint);
  TRACECAST_ADD_MEMBERS(key, question, job, place, serving, global_batch);
  const std::string &network = question.job.network, &cluster = question.place.cluster;
  if (is_network_path(network)) key.add(sha256_of_file(network));
  if (!cluster.empty()) key.add(sha256_of_file(cluster));
  return sha256(key.text());
}

/// The fastest parallel layout that fits, else the one that lacks least.
Cell sharded_cell(const Predictor& predictor, const CellQuestion& question) {
  Cell cell;
  try {
    Sharded base;
    base.plan.global_batch = *question.global_batch;
    // Cells are asked in threads of their own.
    const LayoutSearch found =
        search_layouts(predictor, question.job, question.place, base, false, 1);
    const ParallelLayout* best = &found.parallel_layouts.front();
    for (const ParallelLayout& other : found.parallel_layouts) {
      if (best->fits) break;
      if (other.memory - other.capacity < best->memory - best->capacity) best = &other;
    }
    cell.samples_per_s = best->samples_per_s;
    cell.step_time_s = best->step_time_s;
    cell.memory_needed = best->memory;
    cell.memory_capacity = best->capacity;
    cell.fits = best->fits;
  } catch (const InputError& error) {
    cell.fits = false;
    cell.refused = error.what();
  }
  return cell;
}

}  // namespace

std::string cell_text(const Cell& c) {
  return fmt::format("{:a} {:a} {:a} {:a} {:a} {:a} {:a} {:a} {} {} {:a} {}", c.samples_per_s.value,
                     c.samples_per_s.low, c.samples_per_s.high, c.step_time_s.value,
                     c.step_time_s.low, c.step_time_s.high, c.memory_needed.in_bytes(),
                     c.memory_capacity.in_bytes(), c.fits ? 1 : 0, c.is_guessed ? 1 : 0,
                     c.power ? c.power->in_w() : -1.0, c.refused);
}

Cell cell_from(std::string_view text) {
  const std::string copy(text);
  const char* at = copy.c_str();
  const auto next = [&] {
    char* end = nullptr;
    const double value = std::strtod(at, &end);
    if (end == at) throw InputError("store", "a value that is no cell", "a store that is whole");
    at = end;
    return value;
  };
  const auto interval = [&] {
    Interval i;
    i.value = next();
    i.low = next();
    i.high = next();
    return i;
  };
  Cell c;
  c.samples_per_s = interval();
  c.step_time_s = interval();
  c.memory_needed = Bytes(next());
  c.memory_capacity = Bytes(next());
  c.fits = next() != 0;
  c.is_guessed = next() != 0;
  const double power = next();
  if (power >= 0) c.power = Watts(power);
  if (*at == ' ') ++at;
  c.refused = at;
  return c;
}

struct RememberedCells::State {
  Predictor predictor;
  std::string fingerprint;
  std::optional<store::Store> store;
  unsigned threads = 1;
  std::atomic<std::size_t> predicted = 0;
};

RememberedCells::RememberedCells(Predictor predictor, std::string fingerprint,
                                 const std::filesystem::path& file, unsigned threads)
    : state_(new State{std::move(predictor), std::move(fingerprint), std::nullopt, 1, 0}) {
  if (!file.empty()) state_->store.emplace(file);
  state_->threads = threads > 0 ? threads : std::max(1U, std::thread::hardware_concurrency());
}
RememberedCells::~RememberedCells() = default;

std::size_t RememberedCells::predicted() const { return state_->predicted; }

std::vector<Cell> RememberedCells::operator()(const std::vector<CellQuestion>& questions) const {
  State& state = *state_;
  state.predicted = 0;
  std::vector<Cell> cells(questions.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failed(state.threads);
  const auto work = [&](unsigned worker) {
    try {
      for (std::size_t q = next++; q < questions.size(); q = next++) {
        const std::string key =
            state.store ? key_of(state.fingerprint, questions[q]) : std::string();
        if (state.store) {
          if (const auto known = state.store->find(key)) {
            cells[q] = cell_from(*known);
            continue;
          }
        }
        const CellQuestion& asked = questions[q];
        cells[q] = asked.serving ? served_cell(asked.job, *asked.serving, asked.place,
                                               state.predictor.hardware())
                   : asked.global_batch
                       ? sharded_cell(state.predictor, asked)
                       : state.predictor.throughput({&asked.job, 1}, {&asked.place, 1}).at(0, 0);
        ++state.predicted;
        if (state.store) state.store->put(key, cell_text(cells[q]));
      }
    } catch (...) {
      failed[worker] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 1; t < state.threads; ++t) threads.emplace_back(work, t);
  work(0);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : failed)
    if (error) std::rethrow_exception(error);
  return cells;
}

}  // namespace tracecast::plan
