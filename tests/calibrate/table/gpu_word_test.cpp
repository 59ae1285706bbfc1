#include "calibrate/table/gpu_word.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "calibrate/table/csv_reader.hpp"
#include "hwspecs/loaders/gpu_loader.hpp"
#include "sim/base/error.hpp"
#include "tests/support/data.hpp"

namespace tracecast {
namespace {

TEST_SUITE_BEGIN("calibrate/table/gpu_word");

TEST_CASE("a table may mean another board by a short form than everybody else") {
  CHECK(gpu_word("a100", "vidur_linear.csv") == "a100_pcie_80gb");
  CHECK(gpu_word("A100", "vidur_linear.csv.gz") == "a100_pcie_80gb");
  CHECK(gpu_word("a100_sxm4_40gb", "vidur_linear.csv") == "a100_sxm4_40gb");
  CHECK(gpu_word("a100", "elasticflow_a100_scaling.csv") == "a100");
  CHECK(GpuCatalog::embedded().find("a100").id == "a100_sxm4_80gb");
}

TEST_CASE("every spelling in the measured data names its GPU, in the table where it stands") {
  const GpuCatalog gpus = GpuCatalog::embedded();
  std::size_t checked = 0;
  for (const char* file : {"ids.csv", "modern/ids.csv"}) {
    const auto path = test::find_data(file);
    if (!path) return;
    CsvReader reader(*path);
    while (reader.next()) {
      if (reader.field(*reader.find_column("kind")) != "gpu") continue;
      const std::string canonical(reader.field(*reader.find_column("canonical")));
      const std::string word(reader.field(*reader.find_column("written_as")));
      // "modern/vidur_linear.csv (80 GB; by its bandwidth the PCIe card)", "kernels/a.csv;
      // kernels/b.csv.gz", "serving"
      std::string_view where = reader.field(*reader.find_column("where"));
      CAPTURE(file);
      CAPTURE(reader.line());
      CAPTURE(word);
      const std::string id = gpus.find(canonical).id;
      // "a100", "p100", "v100", "v100_pcie" stand for a board of several: the beginning of the one
      // that we take.
      CHECK(id.starts_with(canonical));
      constexpr std::string_view kEnd = ".csv";
      do {
        const std::size_t end = std::min(where.find(kEnd), where.size());
        std::string_view table = where.substr(0, std::min(end + kEnd.size(), where.size()));
        where.remove_prefix(table.size());
        table = table.ends_with(kEnd) ? table.substr(table.find_last_of("/ ") + 1) : "";
        CAPTURE(table);
        // A board that has had a spec of its own since the list was written is that one.
        const std::string found = gpus.find(gpu_word(word, table)).id;
        CHECK((found == id || found == word));
        ++checked;
      } while (where.find(kEnd) != where.npos);
    }
  }
  CHECK(checked > 100);
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast
