#include <doctest/doctest.h>
#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "hwspecs/loaders/textproto.hpp"
#include "hwspecs/proto/range.pb.h"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/tools/program.hpp"
#include "tools/command/captured_output.hpp"
#include "tools/command/run_command.hpp"

// Every number of every file that people write has a range in its schema
// (hwspecs/proto/range.proto), and no value of it, in the range or out of it, does more than to be
// refused in one line or to be answered.

namespace tracecast::test {
namespace {

namespace fs = std::filesystem;
namespace pb = google::protobuf;

TEST_SUITE_BEGIN("tools/ranges");

bool is_number(const pb::FieldDescriptor& field) {
  using F = pb::FieldDescriptor;
  const auto type = field.cpp_type();
  return type == F::CPPTYPE_DOUBLE || type == F::CPPTYPE_FLOAT || type == F::CPPTYPE_INT32 ||
         type == F::CPPTYPE_INT64 || type == F::CPPTYPE_UINT32 || type == F::CPPTYPE_UINT64;
}
bool has_range(const pb::FieldDescriptor& field) {
  if (!field.options().HasExtension(proto::range)) return false;
  const proto::Range& range = field.options().GetExtension(proto::range);
  return range.has_min() && range.has_max() && range.min() <= range.max();
}
/// A number with its source: its range is that of the field that holds it.
const pb::FieldDescriptor* value_of(const pb::Descriptor* message) {
  if (message == nullptr || message->FindFieldByName("source") == nullptr) return nullptr;
  const pb::FieldDescriptor* value = message->FindFieldByName("value");
  return value != nullptr && is_number(*value) && message->field_count() == 2 ? value : nullptr;
}

void check_message(const pb::Descriptor& message, int& numbers) {
  for (int i = 0; i < message.field_count(); ++i) {
    const pb::FieldDescriptor& field = *message.field(i);
    const bool needs = (is_number(field) && value_of(&message) == nullptr) ||
                       value_of(field.message_type()) != nullptr;
    if (!needs) continue;
    ++numbers;
    CAPTURE(field.full_name());
    CHECK(has_range(field));
  }
  for (int i = 0; i < message.nested_type_count(); ++i)
    check_message(*message.nested_type(i), numbers);
}

TEST_CASE("every number of every schema of a text file has a range") {
  {
    CapturedOutput output;  // the whole program is here, its schemas with it
    REQUIRE(run_command({"--version"}) == 0);
  }
  int files = 0, numbers = 0;
  for (const char* folder :
       {"hwspecs/proto", "sim/plan/proto", "tools/sweep", "tools/study", "tools/validate"}) {
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".proto" || entry.path().filename() == "range.proto")
        continue;
      CAPTURE(entry.path().string());
      const pb::FileDescriptor* file =
          pb::DescriptorPool::generated_pool()->FindFileByName(entry.path().generic_string());
      REQUIRE(file != nullptr);
      ++files;
      for (int i = 0; i < file->message_type_count(); ++i)
        check_message(*file->message_type(i), numbers);
    }
  }
  CHECK(files >= 33);
  CHECK(numbers >= 450);
}

/// A file of some kind, the command that reads it, and its schema.
struct Kind {
  std::string schema, file;
  std::vector<std::string> command;  ///< FILE: the file; FOLDER: where it lies
};

const std::vector<std::string> kPredict = {"predict", "alexnet", "--gpu", "t4", "--batch", "4"};

std::vector<std::string> with(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

/// Runs the program on a kind's file with every number in turn at each of the values.
class Walk {
 public:
  explicit Walk(const Kind& kind, const std::string& text) : kind_(kind) {
    const auto* type = pb::DescriptorPool::generated_pool()->FindMessageTypeByName(
        "tracecast.proto." + kind.schema);
    REQUIRE(type != nullptr);
    root_.reset(pb::MessageFactory::generated_factory()->GetPrototype(type)->New());
    REQUIRE(pb::TextFormat::ParseFromString(text, root_.get()));
    path_ = folder_.path() / kind.file;
    fs::create_directories(path_.parent_path());
    write_file(path_, text);
    const ProcessResult result = run();
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
  }
  void walk() { walk(*root_, nullptr); }
  [[nodiscard]] int fields() const { return static_cast<int>(seen_.size()); }
  [[nodiscard]] int taken() const { return taken_; }

 private:
  ProcessResult run() {
    std::vector<std::string> words = kind_.command;
    for (std::string& word : words) {
      if (word == "FILE") word = path_.string();
      if (word == "FOLDER") word = folder_.path().string();
    }
    return tracecast(words);
  }

  void walk(pb::Message& message, const pb::FieldDescriptor* outer) {
    const pb::Descriptor& type = *message.GetDescriptor();
    const pb::Reflection& reflection = *message.GetReflection();
    for (int i = 0; i < type.field_count(); ++i) {
      const pb::FieldDescriptor* field = type.field(i);
      if (is_number(*field)) {
        try_values(message, field, outer);
        continue;
      }
      if (field->message_type() == nullptr) continue;
      if (field->is_repeated()) {
        const bool was_there = reflection.FieldSize(message, field) > 0;
        if (!was_there) continue;
        walk(*reflection.MutableRepeatedMessage(&message, field, 0), field);
      } else if (reflection.HasField(message, field)) {
        walk(*reflection.MutableMessage(&message, field), field);
      }
    }
  }

  void try_values(pb::Message& message, const pb::FieldDescriptor* field,
                  const pb::FieldDescriptor* outer) {
    const std::string name = outer != nullptr && value_of(message.GetDescriptor()) == field
                                 ? outer->full_name()
                                 : field->full_name();
    if (!seen_.insert(name).second) return;
    CAPTURE(name);
    const pb::FieldDescriptor* owner = has_range(*field) ? field : outer;
    REQUIRE(owner != nullptr);
    const proto::Range& range = owner->options().GetExtension(proto::range);
    const bool is_whole = field->cpp_type() != pb::FieldDescriptor::CPPTYPE_DOUBLE;
    std::vector<double> values = {range.min(), range.max(), 0, -1, 9223372036854775807.0};
    if (!is_whole) {
      for (const double value : {1e308, 1e-320, std::numeric_limits<double>::quiet_NaN(),
                                 std::numeric_limits<double>::infinity()})
        values.push_back(value);
    }
    const std::unique_ptr<pb::Message> before(message.New());
    before->CopyFrom(message);
    std::set<double> tried;
    for (const double value : values) {
      if (!std::isnan(value) && !tried.insert(value).second) continue;
      set(message, field, value);
      std::string text;
      REQUIRE(pb::TextFormat::PrintToString(*root_, &text));
      CAPTURE(value);
      value >= range.min() && value <= range.max() ? check_taken(text)
                                                   : check_refused(text, owner->name());
      message.CopyFrom(*before);
    }
  }
  /// Out of its range a number is refused where the text is read, whoever reads it.
  void check_refused(const std::string& text, const std::string& name) const {
    const std::unique_ptr<pb::Message> into(root_->New());
    std::string refusal;
    try {
      parse_textproto(text, "file", *into);
    } catch (const InputError& error) {
      refusal = error.what();
    }
    CHECK(refusal.starts_with("file:"));
    CHECK(refusal.find(name) != std::string::npos);
    CHECK(refusal.find("a number from") != std::string::npos);
  }
  /// Within it the program answers, or says in one line what it does not go with.
  void check_taken(const std::string& text) {
    write_file(path_, text);
    const ProcessResult result = run();
    CAPTURE(result.err);
    CAPTURE(result.signal);
    CHECK_FALSE(result.timed_out);
    CHECK(result.exit_code >= 0);
    CHECK(result.exit_code <= 2);
    if (result.exit_code == 2) CHECK(count_lines(result.err) == 1);
    ++taken_;
  }
  static void set(pb::Message& message, const pb::FieldDescriptor* field, double value) {
    const pb::Reflection& r = *message.GetReflection();
    const bool many = field->is_repeated();
    if (many) r.ClearField(&message, field);
    const std::int64_t whole = value >= 9.2e18 ? std::numeric_limits<std::int64_t>::max()
                                               : static_cast<std::int64_t>(value);
    const auto small = static_cast<std::int32_t>(std::clamp<std::int64_t>(
        whole, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
    switch (field->cpp_type()) {
      case pb::FieldDescriptor::CPPTYPE_DOUBLE:
        return many ? r.AddDouble(&message, field, value) : r.SetDouble(&message, field, value);
      case pb::FieldDescriptor::CPPTYPE_INT64:
        return many ? r.AddInt64(&message, field, whole) : r.SetInt64(&message, field, whole);
      case pb::FieldDescriptor::CPPTYPE_INT32:
        return many ? r.AddInt32(&message, field, small) : r.SetInt32(&message, field, small);
      default:
        FAIL("a type of numbers that no file has yet");
    }
  }

  Kind kind_;
  TemporaryFolder folder_;
  fs::path path_;
  std::unique_ptr<pb::Message> root_;
  std::set<std::string> seen_;
  int taken_ = 0;
};

const std::vector<std::string> kFourGpus = {"predict", "alexnet", "--gpu",     "v100_sxm2_16gb",
                                            "--gpus",  "4",       "--machine", "dgx1_v100",
                                            "--batch", "4"};
const std::vector<std::string> kServe = {
    "serve", "llama3_8b",  "--gpu", "h100_sxm5_80gb", "--input", "64", "--output",
    "8",     "--requests", "20",    "--concurrency",  "2"};
const std::vector<std::string> kServers = {"predict",     "alexnet",    "--gpu",     "v100",
                                           "--nodes",     "3",          "--servers", "1",
                                           "--framework", "tensorflow", "--batch",   "8"};
const std::vector<std::string> kSharded = {"predict",       "gpt2", "--gpu",          "a100",
                                           "--gpus",        "4",    "--tp",           "2",
                                           "--micro-batch", "1",    "--global-batch", "8"};
const std::vector<std::string> kFolder = {"--hwspecs", "FOLDER"};

void check_kinds(const std::vector<Kind>& kinds) {
  for (const Kind& kind : kinds) {
    CAPTURE(kind.file);
    const fs::path file = fs::path("hwspecs") / kind.file;
    Walk walk(kind, read_file(file, 1 << 20));
    walk.walk();
    CHECK(walk.fields() >= 1);
    CHECK(walk.taken() >= walk.fields());
  }
}

TEST_CASE("numbers of hardware at the ends of their ranges and far beyond them") {
  check_kinds({{"GpuSpec", "gpu/t4.textproto", with(kPredict, kFolder)},
               {"CpuSpec", "cpu/e5_2698_v4.textproto",
                with(with(kPredict, {"--host-cpu", "e5_2698_v4"}), kFolder)},
               {"MachineSpec", "machine/dgx1_v100.textproto", with(kFourGpus, kFolder)},
               {"LinkSpec", "link/pcie3_x16.textproto", with(kFourGpus, kFolder)},
               {"DiskSpec", "disk/dgx1_raid0.textproto",
                with(with(kPredict, {"--data", "imagenet", "--disk", "dgx1_raid0"}), kFolder)}});
}

TEST_CASE("numbers of software at the ends of their ranges and far beyond them") {
  check_kinds({{"FrameworkProfile", "framework/pytorch.textproto",
                with(with(kPredict, {"--framework", "pytorch"}), kFolder)},
               {"InputPipelineProfile", "pipeline/pytorch.textproto",
                with(with(kPredict, {"--data", "imagenet", "--pipeline", "pytorch"}), kFolder)},
               {"DataSetSpec", "dataset/imagenet.textproto",
                with(with(kPredict, {"--data", "imagenet"}), kFolder)},
               {"ChannelProfile", "channel/grpc.textproto", with(kServers, kFolder)},
               {"CollectiveLibrary", "collective/nccl_2_4.textproto", with(kFourGpus, kFolder)},
               {"StrategyProfile", "strategy/horovod.textproto",
                with(with(kFourGpus, {"--strategy", "horovod"}), kFolder)},
               {"EngineProfile", "engine/vllm_v1.textproto", with(kServe, kFolder)},
               {"TrainingSoftware", "training_software/megatron.textproto",
                with(with(kSharded, {"--software", "megatron"}), kFolder)},
               {"JobSpec", "job/alexnet_imagenet.textproto",
                with({"predict", "job:alexnet_imagenet", "--gpu", "t4"}, kFolder)}});
}

TEST_CASE(
    "numbers of clusters, fleets, rules, prices and jobs at the ends of their ranges and far "
    "beyond them") {
  const TemporaryFolder folder;
  const auto put = [&](const char* name, const char* text) {
    write_file(folder.path() / name, text);
    return (folder.path() / name).string();
  };
  const std::string jobs =
      put("jobs.csv", "job_id,submit_s,num_gpu,duration_s\na,0,1,100\nb,10,2,3600\n");
  const std::string bought =
      put("jobs.textproto", "job { id: 'a' network: 'alexnet' batch: 64 samples: 1e8 }");
  const std::string prices =
      put("prices.textproto", "offer { id: 'box' gpu: 't4' gpus: 2 price_usd: 9000 }");
  struct Row {
    Kind kind;
    const char* text;
  };
  const std::vector<std::string> plan = {"plan",       "FILE", "--catalogue", prices,
                                         "--deadline", "60d",  "--worlds",    "10"};
  const Row rows[] = {
      {{"ClusterSpec",
        "c.textproto",
        {"predict", "alexnet", "--gpu", "v100_sxm2_16gb", "--batch", "4", "--cluster", "FILE"}},
       "id: 'c' group { name: 'g' count: 2 machine: 'dgx1_v100' gpus: 4 compute_time_factor: 1 "
       "start_jitter_us: 5 switch: 's' "
       "slow_link { a: 'gpu0' b: 'gpu1' bandwidth_factor: 0.5 } } network { link: 'infiniband_edr' "
       "switch { name: 'r' } "
       "switch { name: 's' parent: 'r' link: 'infiniband_edr' count: 2 } } "
       "failures { node_mtbf_hours: 5000 checkpoint_s: 30 restart_s: 60 }"},
      {{"ClusterSpec", "c.textproto", {"cluster", "--cluster", "FILE"}},
       "id: 'c' group { name: 'g' count: 4 machine: 'dgx1_v100' } network { nodes_per_leaf: 2 "
       "oversubscription: 2 }"},
      {{"Fleet",
        "f.textproto",
        {"schedule", jobs, "--fleet", "FILE", "--policy", "srtf", "--format", "csv"}},
       "group { count: 2 gpus: 4 gpu: 't4' usd_per_gpu_hour: 1 busy_w: 300 idle_w: 50 "
       "machine_load_w: 1500 machine_idle_w: 400 "
       "rack_units: 2 parts: 1 } failures { node_mtbf_hours: 5000 gpu_mtbf_hours: 50000 "
       "checkpoint_interval_s: 600 restart_s: 60 }"},
      {{"Fleet",
        "f.textproto",
        {"schedule", jobs, "--fleet", "FILE", "--policy", "max_min", "--round", "60", "--format",
         "csv"}},
       "group { count: 2 gpus: 4 gpu: 't4' } failures { node_mtbf_hours: 5000 gpu_mtbf_hours: "
       "50000 checkpoint_interval_s: 600 "
       "restart_s: 60 }"},
      {{"ScheduleRules",
        "r.textproto",
        {"schedule", jobs, "--gpus", "8", "--rules-file", "FILE", "--policy", "las", "--format",
         "csv"}},
       "id: 'mine' source: 'made up' round_s: 60 shares_round_s: 60 least_between_decisions_s: 10 "
       "decides_ahead: 0.1 "
       "start_charge: WHEN_STARTED start_s: 5 run_time_factor: 1.1 placement: NEAREST "
       "scattered_run_time_factor: 1.5 "
       "queue_limit_gpu_s: 100 allox_reach: 0.5"},
      {{"Catalogue",
        "k.textproto",
        {"plan", bought, "--catalogue", "FILE", "--deadline", "60d", "--worlds", "10"}},
       "offer { id: 'box' gpu: 't4' gpus: 2 price_usd: 9000 usd_per_hour: 1 spot_usd_per_hour: 0.5 "
       "spot_extra_time: 0.1 load_w: 400 "
       "idle_w: 100 rack_units: 2 most: 10 delivery_days: 20 parts: 1 } energy_usd_per_kwh: 0.15 "
       "pue: 1.3 "
       "rack_unit_usd_per_month: 50 amortisation_years: 3"},
      {{"JobList", "j.textproto", plan},
       "job { id: 'a' network: 'alexnet' batch: 64 samples: 1e6 gpus: 1 count: 2 arrival_hours: 1 "
       "deadline_hours: 900 priority: 2 "
       "image_size: 224 measured { gpu: 't4' gpus: 1 samples_per_s: 1500 log_sd: 0.05 } }"},
      {{"JobList", "j.textproto", plan},
       "job { id: 'a' network: 'alexnet' epochs: 1 epoch_samples: 1000000 }"},
      {{"JobList", "j.textproto", plan},
       "job { id: 'a' network: 'bert_base' tokens: 1e8 seq_len: 128 lora: 8 }"},
      {{"JobList", "j.textproto", plan}, "job { id: 'a' network: 'alexnet' steps: 1e5 }"},
      {{"JobList", "j.textproto", plan},
       "job { id: 'a' network: 'alexnet' hours_on { hours: 10 gpu: 't4' gpus: 1 } }"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.kind.schema);
    CAPTURE(std::string(row.text));
    Walk walk(row.kind, row.text);
    walk.walk();
    CHECK(walk.taken() >= walk.fields());
  }
}

TEST_SUITE_END();

}  // namespace
}  // namespace tracecast::test
