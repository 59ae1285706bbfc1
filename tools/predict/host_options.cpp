#include "tools/predict/host_options.hpp"

#include <CLI/CLI.hpp>
#include <string>

#include "hwspecs/library.hpp"
#include "tools/command/whole_number.hpp"

namespace tracecast {

void add_host_options(CLI::App& subcommand, Job& job, Place& place) {
  std::string data_sets;
  for (const std::string& id : SpecLibrary::embedded().data_set_ids()) data_sets += ", " + id;
  subcommand
      .add_option("--data", job.data,
                  "synthetic (on the GPU already), memory (a program's arrays, copied every "
                  "step), or loaded: real "
                  "(the network's usual data set)" +
                      data_sets)
      ->type_name("D")
      ->capture_default_str();
  subcommand
      .add_option("--machine", place.machine,
                  "Machine whose CPU dispatches and loads, and whose links carry the input")
      ->type_name("ID");
  subcommand.add_option("--host-cpu", place.host_cpu, "CPU of the host, such as 2xe5_2698_v4")
      ->type_name("[N x]ID");
  subcommand.add_option("--cpu-threads", place.cpu_threads, "CPU threads that the job may use")
      ->type_name("T")
      ->check(whole_number(1, 4096));
  subcommand
      .add_option("--cpu-quota", place.cpu_quota,
                  "CPU time of the job's container, in CPUs: its threads may be more, and stand "
                  "still when it is used up")
      ->type_name("CPUS")
      ->check(number_within(0.1, 4096));
  subcommand
      .add_option("--workers", job.workers, "Loader threads or processes; 0: the main thread")
      ->type_name("W")
      ->check(whole_number(0, 4096));
  subcommand
      .add_option("--disk", place.disk,
                  "Disk, file system or object store that every sample is read from; else the page "
                  "cache")
      ->type_name("ID");
  subcommand
      .add_option("--program", job.software.program,
                  "Training program: one whose host time is known from runs (adaptdl_bert_squad "
                  "...), or any name: of one that is not known it is guessed from the others")
      ->type_name("NAME");
  subcommand
      .add_option("--pipeline", job.pipeline,
                  "Loader, if not the framework's: tensorpack, keras, ...")
      ->type_name("ID");
}

}  // namespace tracecast
