#include "tools/predict/explain_many.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/job/mode/replicated_job.hpp"
#include "tools/command/csv.hpp"
#include "tools/command/json_text.hpp"
#include "tools/command/output.hpp"
#include "tools/report/report.hpp"

namespace tracecast {
namespace {

constexpr std::size_t kName = 39;

struct Row {
  std::string name;
  Seconds time{};
  double calls = 0;
};

struct Table {
  std::vector<Row> rows;  ///< greatest first
  Seconds sum{};
  const ReplicatedRun* process = nullptr;  ///< of one process on several GPUs
};

void add(Table& table, const std::string& name, Seconds time, double calls) {
  auto row = std::find_if(table.rows.begin(), table.rows.end(),
                          [&](const Row& r) { return r.name == name; });
  if (row == table.rows.end()) row = table.rows.insert(table.rows.end(), {name});
  row->time += time;
  row->calls += calls;
  table.sum += time;
}

/// Every rank with its own process: the kernels of one, as often as there are ranks, and the
/// communication.
void add_ranks(Table& table, const ResolvedJob& job, const ManyGpus& many) {
  const double ranks = many.fabric.num_ranks();
  const PricedStep& priced = many.one_gpu.priced;
  for (std::size_t i = 0; i < priced.choices.size(); ++i) {
    const cost::PricedCandidate& choice = priced.choices[i];
    const Op& op = job.step->op(priced.lowered->ops[i].op);
    for (std::size_t k = 0; k < choice.estimates.size(); ++k) {
      const Kernel& kernel = choice.candidate->kernels[k];
      add(table,
          device_work_name({.kernel_class = kernel.kernel_class,
                            .algorithm = kernel.algorithm,
                            .op = op.kind,
                            .pass = op.pass}),
          choice.estimates[k].duration * ranks, ranks);
    }
  }
  if (many.step.communication_busy > Seconds(0)) {
    add(table, many.strategy->library == "copies" ? "copies of the communication" : "collectives",
        many.step.communication_busy * ranks, static_cast<double>(many.step.num_buckets) * ranks);
  }
}

Table make_table(const ResolvedJob& job, const ManyGpus& many) {
  Table table;
  if (many.process) {
    for (const DeviceTime& time : many.process->times) {
      add(table, device_work_name(time), time.time, static_cast<double>(time.calls));
    }
    table.process = many.process.get();
  } else {
    add_ranks(table, job, many);
  }
  std::stable_sort(table.rows.begin(), table.rows.end(),
                   [](const Row& a, const Row& b) { return b.time < a.time; });
  return table;
}

}  // namespace

std::string explain_many_text(const ResolvedJob& job, const ManyGpus& many) {
  const Table table = make_table(job, many);
  std::string page = fmt::format(
      "{} on {} x {}, {}, batch {} per GPU, {}\n"
      "One step, kernels and copies of all GPUs together; a collective counts on each\n"
      "GPU from the start of its kernel, waiting for the others included.\n\n",
      job.forward->name, many.fabric.num_ranks(), many.groups.front().gpu, to_string(job.phase),
      job.options.batch, many.strategy->name);
  page += fmt::format("{}{:>8}  share{:>8}\n", fit("class", kName), "ms", "calls");
  for (const Row& row : table.rows) {
    const double share = row.time / table.sum;
    std::string line =
        fmt::format("{}{:>8} {:>4.1f} %{:>8.0f}  {}", fit(row.name, kName),
                    three_digits(row.time.in_ms()), 100 * share, row.calls, bar(share, 15));
    page.append(line, 0, line.find_last_not_of(' ') + 1) += '\n';
  }
  if (table.process) {
    page += fmt::format("\nHost: {} launches in {} ms, {} ms of waiting for the first GPU\n",
                        table.process->launches, three_digits(table.process->launching.in_ms()),
                        three_digits(table.process->waiting.in_ms()));
  }
  return page;
}

std::string explain_many_json(const ResolvedJob& job, const ManyGpus& many,
                              const MemoryAdvice& advice) {
  using Json = nlohmann::ordered_json;
  const Table table = make_table(job, many);
  Json doc = Json::parse(report_many_json(job, many, advice));
  doc["device_time"] = Json::array();
  for (const Row& row : table.rows) {
    doc["device_time"].push_back({{"class", row.name},
                                  {"time_s", row.time.in_s()},
                                  {"share", row.time / table.sum},
                                  {"calls", row.calls}});
  }
  if (table.process) {
    doc["host_calls"] = {{"launches", table.process->launches},
                         {"launching_s", table.process->launching.in_s()},
                         {"waiting_s", table.process->waiting.in_s()}};
  }
  return json_text(doc) + '\n';
}

std::string explain_many_csv(const ResolvedJob& job, const ManyGpus& many) {
  const Table table = make_table(job, many);
  std::string text = "class,time_s,share,calls\n";
  for (const Row& row : table.rows) {
    text += csv_line(row.name, row.time.in_s(), row.time / table.sum, row.calls);
  }
  return text;
}

}  // namespace tracecast
