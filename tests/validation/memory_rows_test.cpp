#include <doctest/doctest.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/table/csv_reader.hpp"
#include "sim/job/resolved_job.hpp"
#include "tests/support/data.hpp"

namespace tracecast::test {
namespace {

/// What a source measured: the device as nvidia-smi shows it, or the framework's own count of live
/// tensors.
enum class Meter { Device, LiveTensors };

struct Stated {
  double mib = 0;
  Meter meter = Meter::Device;
};

/// A memory figure in a row's notes.
std::optional<Stated> stated_memory(const std::string& notes) {
  static const std::regex kMaximum("max memory ([0-9]+) MiB"), kTrain("train memory ([0-9.]+) GB"),
      kUses("uses ([0-9.]+) GB of GPU memory"), kPlain("memory ([0-9,]+) MB");
  std::smatch m;
  if (std::regex_search(notes, m, kMaximum)) return Stated{std::stod(m[1]), Meter::Device};
  if (std::regex_search(notes, m, kTrain))
    return Stated{std::stod(m[1]) * 1024, Meter::LiveTensors};
  if (std::regex_search(notes, m, kUses)) return Stated{std::stod(m[1]) * 1024, Meter::Device};
  if (!std::regex_search(notes, m, kPlain)) return std::nullopt;
  std::string digits = m[1];
  std::erase(digits, ',');
  return Stated{std::stod(digits), Meter::Device};
}

struct Row {
  std::map<std::string, std::string> fields;
  const std::string& operator[](const std::string& name) const { return fields.at(name); }
};

std::vector<Row> read_rows(const std::filesystem::path& path) {
  CsvReader reader(path);
  std::vector<Row> rows;
  while (reader.next()) {
    Row row;
    for (std::size_t c = 0; c < reader.header().size(); ++c) {
      row.fields[reader.header()[c]] = reader.field(c);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Side of a square of as many pixels as the detectors' largest image, 800 x 1344.
constexpr std::int64_t kDetectionSide = 1037;

/// How a source writes a network of the zoo.
struct Written {
  const char* text;
  const char* network;
  std::int64_t image_size;  ///< 0: the network's own
};
constexpr Written kNetworks[] = {
    {"inception-bn", "inception_bn", 0},
    {"resnet-18", "resnet18", 0},
    {"resnet-50", "resnet50", 0},
    {"resnet-101", "resnet101", 0},
    {"InceptionV3", "inception_v3", 0},
    {"Mask R-CNN R-50-FPN", "mask_rcnn", kDetectionSide},
    {"R50-FPN [COCO Instance Segmentation Baselines with Mask R-CNN]", "mask_rcnn", kDetectionSide},
    {"resnet50", "resnet50", 0},
    {"SSD", "ssd300_rn50", 0},
    {"maskrcnn", "mask_rcnn", kDetectionSide},
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Batches of the runs whose nvidia-smi logs stand in components.csv: the same source's throughput
/// rows. Folder of the log -> machine as those rows name it. The log of LambdaCloud_8xV10016G is
/// older than its rows, and those of p3.8xlarge are copies of a machine with 32 GB boards.
const std::map<std::string, std::string> kMachines = {
    {"V100", "V100 32GB"},
    {"2xV100", "2x V100 32GB"},
    {"4xV100", "4x V100 32GB"},
    {"8xV100", "8x V100 32GB"},
    {"8xA100_SXM4", "8x A100 40GB SXM4"},
    {"p3.16xlarge", "p3.16xlarge"},
};
const std::map<std::string, std::string> kLogNames = {
    {"resnet50", "ResNet-50 v1.5"}, {"SSD", "SSD300 (RN50)"}, {"maskrcnn", "Mask R-CNN"}};

std::string batch_of_log(const Row& log, const std::string& model, const std::vector<Row>& rows) {
  std::smatch m;
  static const std::regex kFolder("results/([^/]+)/");
  if (!std::regex_search(log["source_path_or_url"], m, kFolder)) return "";
  const auto machine = kMachines.find(m[1]);
  const auto name = kLogNames.find(model);
  if (machine == kMachines.end() || name == kLogNames.end()) return "";
  for (const Row& row : rows) {
    if (row["source"].starts_with("lambdal") && row["model"] == name->second &&
        row["precision"] == log["precision"] &&
        row["notes"].starts_with("row \"" + machine->second + "\"")) {
      return row["batch_per_gpu"];
    }
  }
  return "";
}

/// Whether NVIDIA's example of a network sets torch.backends.cudnn.benchmark. Source:
/// DeepLearningExamples, main.py of PyTorch/Classification/ConvNets and PyTorch/Detection/SSD;
/// train_net.py of Mask R-CNN does not.
bool sets_benchmark(std::string_view network) {
  return network == "resnet50" || network == "ssd300_rn50";
}

struct Judged {
  std::string id;
  double measured = 0, predicted = 0;
};

/// The row's job, or nothing where its network, batch or framework is not one we know.
std::optional<PlacedJob> job_of(const Row& row, const std::vector<Row>& e2e) {
  static const std::regex kLog("while training ([A-Za-z0-9]+)_");
  std::string written = row["model"], batch = row["batch_per_gpu"];
  std::smatch m;
  if (std::regex_search(written, m, kLog)) {
    const std::string model = m[1];
    batch = batch_of_log(row, model, e2e);
    written = model;
  }
  const auto known = std::find_if(std::begin(kNetworks), std::end(kNetworks),
                                  [&](const Written& w) { return written == w.text; });
  if (known == std::end(kNetworks) || batch.empty()) return std::nullopt;
  PlacedJob job;
  job.network = known->network;
  if (known->image_size > 0) job.image_size = known->image_size;
  job.gpu = row["gpu"];
  job.batch = std::stoll(batch);
  job.phase = row["phase"];
  job.software.framework = lower(row["framework"]);
  job.precision = row["precision"] == "fp32" ? "fp32" : "amp";
  return job;
}

TEST_SUITE_BEGIN("validation/memory_rows");

// Every measured memory figure of the two tables whose network, batch, framework and phase are
// known. Nothing is fitted to them. To read the table: validation_test -ts=validation/memory_rows
// -s
TEST_CASE("measured device memory is predicted within 12 % on average") {
  const auto e2e_path = find_data("published/e2e.csv");
  const auto components_path = find_data("published/components.csv");
  if (!e2e_path || !components_path) return;
  const std::vector<Row> e2e = read_rows(*e2e_path);
  const Hardware hardware = load_hardware({});
  std::vector<Judged> judged;
  int stated_rows = 0, no_reading = 0, not_ours = 0;
  for (const auto& rows : {e2e, read_rows(*components_path)}) {
    for (const Row& row : rows) {
      const std::optional<Stated> stated = stated_memory(row["notes"]);
      if (!stated) continue;
      ++stated_rows;
      if (stated->mib < 100) {  // a log of another GPU of the machine, which ran nothing
        ++no_reading;
        continue;
      }
      const std::optional<PlacedJob> options = job_of(row, e2e);
      if (!options) {
        ++not_ours;
        continue;
      }
      ResolvedJob job = make_job(*options, hardware);
      if (row["source"].starts_with("lambdal") && sets_benchmark(options->network)) {
        job.framework.convolutions.autotunes = true;
      }
      const MemoryPlan plan = plan_memory(job, hardware);
      const Bytes predicted = stated->meter == Meter::Device ? plan.device_used : plan.peak_live;
      judged.push_back({row["id"], stated->mib, predicted.in_mib()});
    }
  }
  double sum = 0;
  for (const Judged& row : judged) {
    const double error = row.predicted / row.measured - 1;
    sum += std::abs(error);
    MESSAGE(row.id << ": measured " << row.measured << " MiB, predicted "
                   << std::round(row.predicted) << " (" << std::round(1000 * error) / 10 << " %)");
  }
  const double mean = sum / static_cast<double>(judged.size());
  MESSAGE("rows that state memory " << stated_rows << ", without a reading " << no_reading
                                    << ", network or batch not known " << not_ours << ", judged "
                                    << judged.size() << ": mean absolute error " << 100 * mean
                                    << " %");
  CHECK(judged.size() >= 30);
  CHECK(mean <= 0.12);
}

/// Changes of device memory in a PyTorch profiler trace: time in us, bytes.
std::vector<std::pair<double, double>> memory_events(const std::filesystem::path& path) {
  std::string text;
  gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::vector<char> buffer(1 << 20);
  for (int n = 0; (n = gzread(file, buffer.data(), static_cast<unsigned>(buffer.size()))) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(n));
  }
  gzclose(file);
  const auto number_after = [&](const char* key, std::size_t from) {
    return std::stod(text.substr(text.find(key, from) + std::string_view(key).size(), 24));
  };
  std::vector<std::pair<double, double>> events;
  for (std::size_t at = text.find("\"[memory]\""); at != std::string::npos;
       at = text.find("\"[memory]\"", at + 1)) {
    if (number_after("\"Device Type\":", at) != 1) continue;
    events.emplace_back(number_after("\"ts\":", at), number_after("\"Bytes\":", at));
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return events;
}

TEST_CASE("the peak of a profiled training step is the plan's within 1 %") {
  const auto trace = find_data("traces/kineto/kineto_v100dgxs_resnet50_b32_workers0.json.gz");
  if (!trace) return;
  double now = 0, peak = 0;
  for (const auto& [time, bytes] : memory_events(*trace)) {
    now += bytes;
    peak = std::max(peak, now);
  }
  const Hardware hardware = load_hardware({});
  PlacedJob options;
  options.network = "resnet50";
  options.gpu = "v100_dgxs_32gb";
  options.batch = 32;
  options.software.framework = "pytorch";
  options.software.version = "1.8";
  const MemoryPlan plan = plan_memory(make_job(options, hardware), hardware);
  // The trace counts from a state in which weights, their gradients, momentum and one input are
  // there: 3 times 25,557,032 floats, the buffers of 53 batch norms (26,560 channels, 2 each), and
  // 32 images.
  const double there = 4 * (3 * 25'557'032.0 + 2 * 26'560.0 + 32 * 3 * 224.0 * 224);
  const double predicted = plan.peak_live.in_bytes() - there;
  MESSAGE("peak above what is always there: trace " << peak / 1048576 << " MiB, plan "
                                                    << predicted / 1048576);
  CHECK(predicted == doctest::Approx(peak).epsilon(0.01));
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
