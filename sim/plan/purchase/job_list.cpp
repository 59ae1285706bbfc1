#include "sim/plan/purchase/job_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "hwspecs/loaders/textproto.hpp"
#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "sim/job/network_file.hpp"
#include "sim/plan/proto/jobs.pb.h"

namespace tracecast::plan {
namespace {

using Message = proto::JobList::Job;
constexpr double kMostWork = 1e18, kMostHours = 1e6;
constexpr std::int64_t kMostCount = 100'000, kMostGang = 100'000;

double above_zero(double value, const std::string& place, std::string_view field,
                  double most = kMostWork) {
  if (!std::isfinite(value) || value <= 0 || value > most) {
    throw InputError(place, fmt::format("{} {}", field, value),
                     fmt::format("a number above zero, at most {}", most));
  }
  return value;
}

std::int64_t whole(std::int64_t value, const std::string& place, std::string_view field,
                   std::int64_t most) {
  if (value < 1 || value > most) {
    throw InputError(place, fmt::format("{} {}", field, value), fmt::format("1 to {}", most));
  }
  return value;
}

std::string gpu_id(const GpuCatalog& gpus, const std::string& word, const std::string& place) {
  try {
    return gpus.find(word).id;
  } catch (const InputError& error) {
    throw InputError(place, error);
  }
}

/// How input is loaded, and what of the machine is not the offer's.
void read_host(const Message& m, const std::string& place, PlanJob& job) {
  if (m.has_data()) job.job.data = m.data();
  job.job.pipeline = m.pipeline();
  if (m.has_workers())
    job.job.workers = m.workers() == 0 ? 0 : whole(m.workers(), place, "workers", 4096);
  Place& p = job.place;
  if (m.has_cpu_threads()) p.cpu_threads = whole(m.cpu_threads(), place, "cpu_threads", 4096);
  if (m.has_cpu_quota()) p.cpu_quota = above_zero(m.cpu_quota(), place, "cpu_quota", 4096);
  p.host_cpu = m.host_cpu();
  p.machine = m.machine();
  p.disk = m.disk();
  p.nic = m.nic();
  p.no_p2p = m.no_p2p();
}

void read_network(const Message& m, const std::string& place, PlanJob& job) {
  if (m.network().empty()) throw InputError(place, "no network", "network: \"resnet50\"");
  Job& j = job.job;
  j.network = m.network();
  j.batch = m.has_batch() ? whole(m.batch(), place, "batch", kMostBatch) : usual_batch(j.network);
  if (m.has_phase()) j.phase = m.phase();
  j.precision = m.precision();
  j.software.framework = m.framework();
  j.optimizer = m.optimizer();
  if (m.has_recompute()) j.recompute = m.recompute();
  if (m.has_lora()) j.lora_rank = whole(m.lora(), place, "lora", 65536);
  j.lora_targets = m.lora_targets();
  if (m.has_image_size()) j.image_size = whole(m.image_size(), place, "image_size", 1'000'000);
  if (m.has_seq_len()) j.seq_len = whole(m.seq_len(), place, "seq_len", 100'000'000);
  j.software.version = m.framework_version();
  read_host(m, place, job);
  if (m.has_global_batch()) {
    job.global_batch = whole(m.global_batch(), place, "global_batch", 10'000'000);
    if (m.has_batch())
      throw InputError(place, "batch beside global_batch", "one: micro-batches are searched");
    if (m.has_steps())
      throw InputError(place, "steps beside global_batch", "samples, tokens or hours_on");
  }
  if (m.has_epoch_samples()) {
    j.epoch_samples = whole(m.epoch_samples(), place, "epoch_samples", 1'000'000'000'000);
  }
}

void read_work(const Message& m, const GpuCatalog& gpus, const std::string& place, PlanJob& job) {
  const int kinds =
      m.has_steps() + m.has_samples() + m.has_epochs() + m.has_tokens() + m.has_hours_on();
  if (kinds != 1) {
    throw InputError(place, fmt::format("job \"{}\" with {} kinds of work", m.id(), kinds),
                     "one of steps, samples, epochs, tokens, hours_on");
  }
  if (m.has_steps()) {
    job.samples = above_zero(m.steps(), place, "steps") * static_cast<double>(job.job.batch);
  } else if (m.has_samples()) {
    job.samples = above_zero(m.samples(), place, "samples");
  } else if (m.has_epochs()) {
    if (!m.has_epoch_samples()) {
      throw InputError(place, "epochs without epoch_samples", "epoch_samples: 1281167");
    }
    job.samples = above_zero(m.epochs(), place, "epochs") * static_cast<double>(m.epoch_samples());
  } else if (m.has_tokens()) {
    if (!m.has_seq_len()) throw InputError(place, "tokens without seq_len", "seq_len: 512");
    job.samples = above_zero(m.tokens(), place, "tokens") / static_cast<double>(m.seq_len());
  } else {
    const auto& h = m.hours_on();
    if (h.gpu().empty()) throw InputError(place, "hours_on without gpu", "gpu: \"v100\"");
    job.hours_on = HoursOn{
        .time = Seconds(3600 * above_zero(h.hours(), place, "hours", kMostHours)),
        .gpu = gpu_id(gpus, h.gpu(), place),
        .gpus = h.has_gpus() ? static_cast<int>(whole(h.gpus(), place, "gpus", kMostGang)) : 1};
  }
}

void read_times(const Message& m, const std::string& place, PlanJob& job) {
  if (m.has_arrival_hours() && m.arrival_hours() != 0)
    job.arrival = Seconds(3600 * above_zero(m.arrival_hours(), place, "arrival_hours", kMostHours));
  if (m.has_deadline_hours()) {
    job.deadline =
        Seconds(3600 * above_zero(m.deadline_hours(), place, "deadline_hours", kMostHours));
    if (*job.deadline <= job.arrival) {
      throw InputError(place, fmt::format("deadline_hours {}", m.deadline_hours()),
                       fmt::format("later than arrival_hours {}", m.arrival_hours()));
    }
  }
  if (m.has_priority()) job.priority = above_zero(m.priority(), place, "priority", 1e6);
}

void read_places(const Message& m, const GpuCatalog& gpus, const std::string& place, PlanJob& job) {
  for (const std::int64_t gang : m.gpus())
    job.gangs.push_back(static_cast<int>(whole(gang, place, "gpus", kMostGang)));
  if (job.gangs.empty()) job.gangs = {1};
  std::sort(job.gangs.begin(), job.gangs.end());
  if (std::adjacent_find(job.gangs.begin(), job.gangs.end()) != job.gangs.end())
    throw InputError(place, "a number of gpus twice", "each gang size once");
  for (const std::string& word : m.allowed_gpu()) job.allowed.push_back(gpu_id(gpus, word, place));
  for (const std::string& word : m.forbidden_gpu())
    job.forbidden.push_back(gpu_id(gpus, word, place));
  for (const auto& run : m.measured()) {
    MeasuredRate rate;
    if (run.gpu().empty()) throw InputError(place, "measured without gpu", "gpu: \"v100\"");
    rate.gpu = gpu_id(gpus, run.gpu(), place);
    if (run.has_gpus()) rate.gpus = static_cast<int>(whole(run.gpus(), place, "gpus", kMostGang));
    rate.samples_per_s = above_zero(run.samples_per_s(), place, "samples_per_s");
    if (run.has_log_sd()) rate.log_sd = above_zero(run.log_sd(), place, "log_sd", 3);
    job.measured.push_back(std::move(rate));
  }
}

void read_serving(const Message& m, const std::string& place, PlanJob& job) {
  const auto& s = m.serving();
  for (const auto& [is_there, field] :
       {std::pair{m.has_steps() || m.has_samples() || m.has_epochs() || m.has_tokens() ||
                      m.has_hours_on(),
                  "work"},
        std::pair{m.has_batch() || m.has_global_batch(), "batch"},
        std::pair{m.has_phase(), "phase"}, std::pair{m.has_deadline_hours(), "deadline_hours"},
        std::pair{m.measured_size() > 0, "measured"}}) {
    if (is_there)
      throw InputError(place, fmt::format("job \"{}\" with serving and {}", m.id(), field),
                       "serving alone: what it takes follows from its requests");
  }
  ServingDemand demand;
  const auto needed = [&](bool has, const char* field, const char* example) {
    if (!has) throw InputError(place, fmt::format("serving without {}", field), example);
  };
  needed(s.has_requests_per_s(), "requests_per_s", "requests_per_s: 4");
  needed(s.has_input() && s.has_output(), "input and output", "input: 2000 output: 300");
  needed(s.has_hours(), "hours", "hours: 720");
  needed(s.has_ttft_ms() || s.has_tpot_ms(), "a limit", "ttft_ms: 500 or tpot_ms: 30");
  demand.requests_per_s = above_zero(s.requests_per_s(), place, "requests_per_s", 1e6);
  demand.input = whole(s.input(), place, "input", 1 << 24);
  demand.output = whole(s.output(), place, "output", 1 << 24);
  demand.time = Seconds(3600 * above_zero(s.hours(), place, "hours", kMostHours));
  if (s.has_ttft_ms()) demand.ttft_ms = above_zero(s.ttft_ms(), place, "ttft_ms", 1e9);
  if (s.has_tpot_ms()) demand.tpot_ms = above_zero(s.tpot_ms(), place, "tpot_ms", 1e9);
  if (s.has_engine()) demand.engine = s.engine();
  demand.kv_precision = s.kv_precision();
  if (s.has_certainty()) {
    demand.certainty = above_zero(s.certainty(), place, "certainty", 0.99);
    if (demand.certainty < 0.5)
      throw InputError(place, fmt::format("certainty {}", s.certainty()), "0.5 to 0.99");
  }
  job.samples = demand.requests_per_s * demand.time.in_s();
  job.deadline = job.arrival + demand.time;
  job.serving = std::move(demand);
}

/// `after` by index; and no job waits for itself.
void link_jobs(const proto::JobList& list, const std::vector<std::string>& places,
               std::vector<PlanJob>& jobs) {
  std::vector<std::string> ids;
  for (const PlanJob& job : jobs) ids.push_back(job.id);
  for (std::size_t j = 0; j < jobs.size(); ++j) {
    for (const std::string& word : list.job(static_cast<int>(j)).after()) {
      const auto found = std::find(ids.begin(), ids.end(), word);
      if (found == ids.end())
        throw InputError(places[j], "after \"" + word + '"', describe_choices(word, ids));
      jobs[j].after.push_back(static_cast<std::size_t>(found - ids.begin()));
    }
  }
  std::vector<int> state(jobs.size(), 0);  // 1: on the way, 2: done
  const auto visit = [&](const auto& self, std::size_t j) -> void {
    if (state[j] == 2) return;
    if (state[j] == 1)
      throw InputError(places[j], "job \"" + ids[j] + "\" after itself", "no cycle of `after`");
    state[j] = 1;
    for (const std::size_t earlier : jobs[j].after) self(self, earlier);
    state[j] = 2;
  };
  for (std::size_t j = 0; j < jobs.size(); ++j) visit(visit, j);
}

}  // namespace

std::vector<PlanJob> load_jobs(std::string_view text, std::string_view where,
                               const GpuCatalog& gpus) {
  proto::JobList message;
  TextprotoLines lines;
  parse_textproto(text, where, message, &lines);
  if (message.job_size() == 0) {
    throw InputError(where, "no job",
                     "job { id: \"a\" network: \"resnet50\" batch: 64 samples: 1e8 }");
  }
  const auto* field = proto::JobList::descriptor()->FindFieldByName("job");
  std::vector<PlanJob> jobs;
  std::vector<std::string> places;
  std::set<std::string> ids;
  for (int j = 0; j < message.job_size(); ++j) {
    const Message& m = message.job(j);
    const int line = lines.find(field, j);
    places.push_back(line > 0 ? fmt::format("{}:{}", where, line) : std::string(where));
    const std::string& place = places.back();
    if (m.id().empty()) throw InputError(place, "a job without id", "id: \"vision\"");
    if (!ids.insert(m.id()).second)
      throw InputError(place, "a second job \"" + m.id() + '"', "each id once");
    PlanJob job;
    job.id = m.id();
    read_network(m, place, job);
    if (!m.has_serving()) read_work(m, gpus, place, job);
    if (m.has_count()) job.count = static_cast<int>(whole(m.count(), place, "count", kMostCount));
    read_times(m, place, job);
    read_places(m, gpus, place, job);
    if (m.has_serving()) read_serving(m, place, job);
    jobs.push_back(std::move(job));
  }
  link_jobs(message, places, jobs);
  return jobs;
}

}  // namespace tracecast::plan
