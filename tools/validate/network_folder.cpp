#include "tools/validate/network_folder.hpp"

#include "calibrate/table/csv_reader.hpp"
#include "calibrate/table/row_fields.hpp"
#include "sim/base/error.hpp"

namespace tracecast {

NetworkFolder::NetworkFolder(const std::filesystem::path& folder) {
  CsvReader reader(folder / "files.csv");
  const RowFields row(reader);
  while (reader.next()) {
    const std::filesystem::path file = folder / row.text("file");
    std::error_code unread;
    if (!std::filesystem::is_regular_file(file, unread)) {
      throw InputError(reader.where() + ", file", "\"" + std::string(row.text("file")) + "\"",
                       "a file in " + folder.string());
    }
    const std::string model(row.text("model")), size(row.text("image_size"));
    if (!paths_.emplace(std::pair(model, size), file.string()).second) {
      throw InputError(reader.where() + ", model", model + " at " + size + ", a second time",
                       "each network once");
    }
  }
  if (paths_.empty()) throw InputError(reader.file_name(), "a header and no rows", "networks");
}

std::optional<std::string> NetworkFolder::find(std::string_view model,
                                               std::string_view image_size) const {
  const auto known = paths_.find({std::string(model), std::string(image_size)});
  return known == paths_.end() ? std::nullopt : std::optional(known->second);
}

}  // namespace tracecast
