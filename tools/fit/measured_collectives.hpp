#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "calibrate/table/published_rows.hpp"
#include "calibrate/table/row_fields.hpp"
#include "hwspecs/collective_efficiency.hpp"
#include "sim/job/hardware.hpp"
#include "sim/network/collective.hpp"

namespace tracecast {

/// One measured time.
struct MeasuredCollective {
  std::string table, gpu, what;
  std::size_t line = 0;
  Collective collective{};
  int ranks = 0;
  Bytes bytes{};
  double measured_us = 0;
  bool is_fitted = false;    ///< may be; else only judged
  bool is_isolated = false;  ///< launched alone, as a profiler sees it
  EfficiencyLink link{};
  const Communicator* communicator = nullptr;
  const Fabric* fabric = nullptr;
};

/// The rows of data/modern on one node, with the communicators they ran on.
class MeasuredCollectives {
 public:
  /// `data`: the folder of measurements. Throws InputError.
  explicit MeasuredCollectives(std::filesystem::path data);
  [[nodiscard]] const std::vector<MeasuredCollective>& rows() const { return rows_; }
  [[nodiscard]] const GpuSpec& gpu(const std::string& id) const {
    return hardware_.gpus().find(id);
  }
  /// 10 us and what NCCL's bus carries at 0.8 of the data sheet's link.
  [[nodiscard]] double roofline_us(const MeasuredCollective& row) const;

 private:
  struct Box {
    Fabric fabric;
    Communicator communicator;
  };
  const Box& box(const GpuSpec& gpu, int gpus, const CollectiveLibrary& library,
                 const std::string& machine);
  void add(const CsvReader& reader, const RowFields& fields, std::string what,
           Collective collective, int ranks, const CollectiveLibrary& library, bool is_fitted);
  void read(const std::string& name, const std::function<void(const CsvReader&, RowFields)>& take);
  void read_nccl();
  void read_engines();
  void read_apex();
  void read_vidur(const std::string& name, Collective collective);

  std::filesystem::path folder_;
  Hardware hardware_;
  std::optional<PublishedRows> records_;  ///< of the table that is read
  std::map<std::string, Box> boxes_;
  std::vector<MeasuredCollective> rows_;
};

}  // namespace tracecast
