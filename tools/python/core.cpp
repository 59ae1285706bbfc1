// The compiled part of the Python module: words in, values out, without the interpreter's lock
// while it computes. What users see is tools/python/tracecast/__init__.py.
#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "models/kernel.hpp"
#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "sim/job/predictor.hpp"
#include "sim/job/roofline.hpp"
#include "sim/plan/layout_search.hpp"
#include "sim/store/query.hpp"
#include "tools/command/captured_output.hpp"
#include "tools/command/run_command.hpp"
#include "tools/command/version.hpp"
#include "tools/plan/fingerprint.hpp"
#include "tools/predict/predict_options.hpp"
#include "tools/sweep/result_columns.hpp"
#include "tools/sweep/run.hpp"

namespace py = pybind11;

namespace tracecast {
namespace {

using Words = std::vector<std::string>;
using Unlocked = py::call_guard<py::gil_scoped_release>;

/// Hardware and where it came from, so that subcommands can be asked with the same.
struct PyHardware {
  SourceOptions sources;
  Hardware hardware;
};

PyHardware make_hardware(const std::string& profile, const std::string& hwspecs,
                         const Words& settings) {
  SourceOptions sources{hwspecs, profile, settings};
  Hardware hardware = load_hardware(sources);
  return {std::move(sources), std::move(hardware)};
}

py::object to_python(const store::Value& value) {
  return std::visit(
      [](const auto& held) -> py::object {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>) {
          return py::none();
        } else {
          return py::cast(held);
        }
      },
      value);
}

using Report = std::shared_ptr<const Forecast>;

struct PyPredictor {
  explicit PyPredictor(const PyHardware& from) : hardware(from), predictor(from.hardware) {}
  PyHardware hardware;
  Predictor predictor;
};

PredictFlags& flags() {
  thread_local PredictFlags flags;
  return flags;
}

Report predict(const PyPredictor& p, const Words& words) {
  const PredictQuestion question = flags().read(words, p.hardware.hardware);
  return std::make_shared<const Forecast>(
      p.predictor.predict(question.job, question.job, question.parallelism));
}

/// The columns of a sweep's row, by name.
py::dict fields_of(const Forecast& forecast) {
  const std::vector<store::Column> columns = prediction_columns();
  std::vector<store::Value> values;
  append_prediction(forecast, values);
  py::dict fields;
  for (std::size_t i = 0; i < columns.size(); ++i)
    fields[py::str(columns[i].name)] = to_python(values[i]);
  fields["inputs_json"] = inputs_json(forecast.inputs);
  return fields;
}

template <class Range, class Get>
py::array_t<double> numbers(const Range& range, Get get) {
  py::array_t<double> array(static_cast<py::ssize_t>(std::size(range)));
  double* at = array.mutable_data();
  for (const auto& item : range) *at++ = get(item);
  return array;
}

py::dict roofline_of(const Forecast& forecast) {
  const auto* one = std::get_if<OneGpuDetails>(forecast.details.get());
  if (one == nullptr || one->job.cpu)
    throw InputError("roofline", "several GPUs, or none", "a prediction for one GPU");
  const Roofline roofline = make_roofline(one->job, one->prediction);
  py::dict fields;
  const auto& kernels = roofline.kernels;
  fields["flops"] = numbers(kernels, [](const auto& k) { return k.kernel->flops.in_flop(); });
  fields["bytes"] = numbers(kernels, [](const auto& k) { return k.kernel->bytes().in_bytes(); });
  fields["time_s"] = numbers(kernels, [](const auto& k) { return k.time.in_s(); });
  fields["log_sd"] = numbers(kernels, [](const auto& k) { return k.log_sd; });
  py::list classes;
  for (const RooflineKernel& k : kernels)
    classes.append(std::string(to_string(k.kernel->kernel_class)));
  fields["classes"] = classes;
  py::list roofs;
  for (const Roof& roof : roofline.roofs)
    roofs.append(py::make_tuple(std::string(to_string(roof.precision)),
                                std::string(to_string(roof.unit)), roof.peak.in_si()));
  fields["roofs"] = roofs;
  fields["bandwidth_bytes_per_s"] = roofline.bandwidth.in_si();
  fields["without_arithmetic"] = roofline.without_arithmetic;
  return fields;
}

py::dict throughput(const PyPredictor& p, const std::vector<Words>& job_words,
                    const std::vector<Words>& place_words) {
  Matrix matrix;
  {
    const py::gil_scoped_release unlocked;
    std::vector<Job> jobs;
    std::vector<Place> places;
    for (const Words& words : job_words)
      jobs.push_back(flags().read(words, p.hardware.hardware).job);
    for (const Words& words : place_words)
      places.push_back(flags().read(words, p.hardware.hardware).job);
    matrix = p.predictor.throughput(jobs, places);
  }
  py::dict fields;
  const auto column = [&](const char* name, auto get) {
    fields[name] = numbers(matrix.cells, get)
                       .reshape({static_cast<py::ssize_t>(matrix.jobs),
                                 static_cast<py::ssize_t>(matrix.places)});
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto known = [nan](double Interval::*part, Interval Cell::*which) {
    return [=](const Cell& c) { return c.refused.empty() ? (c.*which).*part : nan; };
  };
  column("samples_per_s", known(&Interval::value, &Cell::samples_per_s));
  column("samples_per_s_low", known(&Interval::low, &Cell::samples_per_s));
  column("samples_per_s_high", known(&Interval::high, &Cell::samples_per_s));
  column("step_time_s", known(&Interval::value, &Cell::step_time_s));
  column("memory_needed_bytes", [](const Cell& c) { return c.memory_needed.in_bytes(); });
  column("memory_capacity_bytes", [](const Cell& c) { return c.memory_capacity.in_bytes(); });
  column("power_w", [nan](const Cell& c) { return c.power ? c.power->in_w() : nan; });
  column("fits", [](const Cell& c) { return c.fits ? 1.0 : 0.0; });
  py::list refused;
  for (const Cell& cell : matrix.cells) refused.append(cell.refused);
  fields["refused"] = refused;
  return fields;
}

py::tuple to_tuple(const Interval& i) { return py::make_tuple(i.value, i.low, i.high); }

py::list search(const PyPredictor& p, const Words& words, bool exhaustive) {
  plan::LayoutSearch found;
  {
    const py::gil_scoped_release unlocked;
    const PredictFlags::Search asked = flags().read_search(words);
    found = plan::search_layouts(p.predictor, asked.job, asked.job, asked.base, exhaustive);
  }
  py::list parallel_layouts;
  for (const plan::ParallelLayout& d : found.parallel_layouts) {
    py::dict fields;
    fields["tp"] = d.tensor;
    fields["pp"] = d.pipeline;
    fields["dp"] = d.data;
    fields["ep"] = d.expert;
    fields["zero"] = d.zero;
    fields["micro_batch"] = d.micro_batch;
    fields["recompute"] = d.recompute;
    fields["schedule"] = d.schedule;
    fields["samples_per_s"] = to_tuple(d.samples_per_s);
    fields["step_time_s"] = to_tuple(d.step_time_s);
    fields["memory_bytes"] = d.memory.in_bytes();
    fields["capacity_bytes"] = d.capacity.in_bytes();
    fields["fits"] = d.fits;
    fields["bottleneck"] = d.bottleneck;
    parallel_layouts.append(fields);
  }
  return parallel_layouts;
}

constexpr std::uint64_t kMostGridBytes = 1 << 20;

/// `text`: of the grid; None: the file `where`. `on_progress(points, known, predicted, seconds)`,
/// or None.
py::dict sweep(const PyPredictor& p, const std::optional<std::string>& text,
               const std::string& where, const std::string& file, unsigned threads,
               const py::object& on_progress) {
  SweepOptions options;
  options.file = file;
  options.threads = threads;
  bool failed = false;  // in Python: an interrupt, or what on_progress raised
  options.stops = [&failed] {
    const py::gil_scoped_acquire locked;
    failed = failed || PyErr_CheckSignals() != 0;
    return failed;
  };
  if (!on_progress.is_none()) {
    options.on_progress = [&](const SweepProgress& state) {
      if (failed) return;
      const py::gil_scoped_acquire locked;
      try {
        on_progress(state.points, state.known, state.predicted, state.seconds);
      } catch (py::error_already_set& error) {
        error.restore();
        failed = true;
      }
    };
  }
  SweepSummary summary;
  {
    const py::gil_scoped_release unlocked;
    options.fingerprint = fingerprint_of(p.hardware.sources);
    const SweepGrid grid(text ? *text : read_file(where, kMostGridBytes), where);
    summary = run_sweep(grid, p.predictor, options);
  }
  if (failed) throw py::error_already_set();
  py::dict fields;
  fields["points"] = summary.points;
  fields["known"] = summary.known;
  fields["succeeded"] = summary.succeeded;
  fields["predicted"] = summary.predicted;
  fields["too_large"] = summary.too_large;
  fields["refused"] = summary.refused;
  fields["bugs"] = summary.bugs;
  fields["reasons"] = summary.reasons;
  fields["seconds"] = summary.seconds;
  return fields;
}

/// Names, and a list of values for each.
py::tuple query(const std::string& file, const std::string& sql, std::uint64_t limit,
                double time_limit) {
  Words names;
  std::vector<std::vector<store::Value>> columns;
  {
    const py::gil_scoped_release unlocked;
    store::query(
        file, sql, {.rows = limit, .seconds = time_limit},
        [&](const Words& found) {
          names = found;
          columns.resize(found.size());
        },
        [&](const std::vector<store::Value>& row) {
          for (std::size_t i = 0; i < row.size(); ++i) columns[i].push_back(row[i]);
        });
  }
  py::list values;
  for (const auto& column : columns) {
    py::list list;
    for (const store::Value& value : column) list.append(to_python(value));
    values.append(list);
  }
  return py::make_tuple(names, values);
}

/// Exit code, standard output and stderr of `tracecast WORDS...`.
std::tuple<int, std::string, std::string> run(const Words& words) {
  CapturedOutput output;
  const int code = run_command(words);
  return {code, output.report, output.talk};
}

py::dict gpu_of(const PyHardware& hardware, const std::string& word) {
  const GpuSpec& gpu = hardware.hardware.gpus().find(word);
  py::dict fields;
  fields["id"] = gpu.id;
  fields["name"] = gpu.name;
  fields["architecture"] = std::string(to_string(gpu.architecture));
  fields["sm_count"] = gpu.sm_count;
  fields["memory_bytes"] = gpu.memory.in_bytes();
  fields["bandwidth_bytes_per_s"] = gpu.dram_bandwidth.in_si();
  fields["tdp_w"] = gpu.tdp.in_w();
  py::list peaks;
  for (const PeakRate& peak : gpu.peaks)
    peaks.append(py::make_tuple(std::string(to_string(peak.precision)),
                                std::string(to_string(peak.unit)), peak.rate.in_si()));
  fields["peaks"] = peaks;
  return fields;
}

template <class Catalog>
Words ids_of(const Catalog& catalog) {
  Words ids;
  for (const auto& spec : catalog.all()) ids.push_back(spec.id);
  return ids;
}

}  // namespace
}  // namespace tracecast

PYBIND11_MODULE(_core, m) {
  using namespace tracecast;
  m.doc() = "Compiled part of tracecast; use the package.";
  m.attr("version") = kVersion;
  py::register_exception<InputError>(m, "InputError", PyExc_ValueError);
  py::class_<PyHardware>(m, "Hardware")
      .def(py::init(&make_hardware), py::arg("profile"), py::arg("hwspecs"), py::arg("settings"),
           Unlocked())
      .def("gpu_ids", [](const PyHardware& h) { return ids_of(h.hardware.gpus()); })
      .def("cpu_ids", [](const PyHardware& h) { return ids_of(h.hardware.cpus()); })
      .def("machine_ids", [](const PyHardware& h) { return ids_of(h.hardware.machines()); })
      .def("gpu", &gpu_of);
  py::class_<Forecast, std::shared_ptr<Forecast>>(m, "Forecast")
      .def("fields", &fields_of)
      .def("roofline", &roofline_of);
  py::class_<PyPredictor>(m, "Predictor")
      .def(py::init<const PyHardware&>(), Unlocked())
      .def(
          "predict",
          [](const PyPredictor& p, const Words& words) {
            return std::const_pointer_cast<Forecast>(predict(p, words));
          },
          Unlocked())
      .def("throughput", &throughput)
      .def("search", &search)
      .def("sweep", &sweep);
  m.def("query", &query);
  m.def("run", &run, Unlocked());
}
