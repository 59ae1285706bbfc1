#include "tools/fit/measured_collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tools/validate/collective_words.hpp"

namespace tracecast {
MeasuredCollectives::MeasuredCollectives(std::filesystem::path data)
    : folder_(std::move(data)), hardware_(Hardware::embedded()) {
  read_nccl();
  read_engines();
  read_apex();
  read_vidur("vidur_all_reduce", Collective::AllReduce);
  read_vidur("vidur_send_recv", Collective::SendReceive);
}

double MeasuredCollectives::roofline_us(const MeasuredCollective& row) const {
  const GpuSpec& gpu = hardware_.gpus().find(row.gpu);
  const BytesPerSecond link =
      row.link == EfficiencyLink::Nvlink ? gpu.nvlink_bandwidth : gpu.pcie_bandwidth;
  const auto n = static_cast<std::size_t>(row.ranks);
  return 10 + (row.bytes * bus_factor(row.collective, n) / (link * 0.8)).in_us();
}

const MeasuredCollectives::Box& MeasuredCollectives::box(const GpuSpec& gpu, int gpus,
                                                         const CollectiveLibrary& library,
                                                         const std::string& machine) {
  const std::string key = fmt::format("{}/{}/{}/{}", gpu.id, gpus, library.id, machine);
  const auto it = boxes_.find(key);
  if (it != boxes_.end()) return it->second;
  const std::string id =
      machine.empty() ? hardware_.specs().default_machine(gpu, gpus).machine : machine;
  const Fabric fabric = build_fabric(uniform_cluster(id, gpus, 1, gpu.id), hardware_.specs());
  const std::vector<Rank> ranks = all_ranks(fabric);
  return boxes_.try_emplace(key, Box{fabric, Communicator(fabric, ranks, library)}).first->second;
}

void MeasuredCollectives::add(const CsvReader& reader, const RowFields& fields, std::string what,
                              Collective collective, int ranks, const CollectiveLibrary& library,
                              bool is_fitted) {
  const GpuSpec& gpu = hardware_.gpus().find(std::string(fields.gpu()));
  const std::string file = reader.file_name(), name = file.substr(0, file.find('.'));
  const Box& where = box(gpu, ranks, library, records_->program_of(reader).box);
  const bool is_card = gpu.nvlink_bandwidth <= BytesPerSecond(0);
  rows_.push_back({name, gpu.id, std::move(what), reader.line(), collective, ranks,
                   Bytes(fields.positive("bytes")), fields.positive("time_us"), is_fitted, false,
                   is_card ? EfficiencyLink::Pcie : EfficiencyLink::Nvlink, &where.communicator,
                   &where.fabric});
}

void MeasuredCollectives::read(const std::string& name,
                               const std::function<void(const CsvReader&, RowFields)>& take) {
  CsvReader reader(folder_ / "modern" / (name + ".csv"));
  records_.emplace(hardware_.specs(), reader);
  while (reader.next()) take(reader, RowFields(reader));
}

void MeasuredCollectives::read_nccl() {
  const auto& library = hardware_.specs().find_collective_library("nccl", "2.27");
  read("nccl", [&](const CsvReader& reader, RowFields row) {
    const auto collective = find_collective(row.text("op_name"));
    if (!collective) return;
    add(reader, row, std::string(row.text("op_name")), *collective,
        static_cast<int>(row.integer("num_gpus", 2, 64)), library, true);
  });
}

void MeasuredCollectives::read_engines() {
  read("custom_all_reduce", [&](const CsvReader& reader, RowFields row) {
    const std::string source(row.text("kernel_source"));
    if (source.find("eager") != source.npos) return;
    add(reader, row, source, Collective::AllReduce,
        static_cast<int>(row.integer("num_gpus", 2, 64)),
        hardware_.specs().find_collective_library(custom_all_reduce_library(source)), true);
  });
}

void MeasuredCollectives::read_apex() {
  const auto& library = hardware_.specs().find_collective_library("nccl", "2.18");
  read("apex_collectives", [&](const CsvReader& reader, RowFields row) {
    const auto collective = find_collective(row.text("op_name"));
    if (!collective || row.integer("num_nodes", 1, 1'000'000) != 1) return;
    const auto gpus = static_cast<int>(row.integer("gpus_per_node", 1, 1'000'000));
    if (gpus < 2 || gpus > 8) return;
    const bool is_card =
        hardware_.gpus().find(std::string(row.gpu())).nvlink_bandwidth <= BytesPerSecond(0);
    add(reader, row, std::string(row.text("op_name")), *collective, gpus, library, is_card);
  });
}

void MeasuredCollectives::read_vidur(const std::string& name, Collective collective) {
  const auto& library = hardware_.specs().find_collective_library("nccl", "", "2024-03");
  read(name, [&](const CsvReader& reader, RowFields row) {
    const auto gpus = static_cast<int>(row.integer("num_gpus", 2, 1'000'000));
    if (row.integer("gpus_per_node", 1, 1'000'000) != gpus) return;
    add(reader, row, name, collective, gpus, library, true);
    rows_.back().is_isolated = collective == Collective::AllReduce;
  });
}

}  // namespace tracecast
