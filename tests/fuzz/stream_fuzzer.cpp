#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "sim/base/error.hpp"
#include "sim/base/file.hpp"
#include "traces/bytes/byte_source.hpp"
#include "traces/cupti/recorded_process.hpp"
#include "traces/kineto/reader.hpp"

/// What a recorder left: looked over, made a trace, and that trace read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tracecast;
  namespace fs = std::filesystem;
  static const fs::path folder = [] {
    const fs::path made =
        fs::temp_directory_path() / ("stream_fuzzer." + std::to_string(::getpid()));
    fs::create_directories(made);
    return made;
  }();
  const fs::path stream = folder / "stream", trace = folder / "trace.json";
  write_file(stream, std::string(reinterpret_cast<const char*>(data), size));
  try {
    const auto process = traces::cupti::scan_stream(stream);
    (void)traces::cupti::write_trace(process, trace, "step");
  } catch (const InputError&) {
    return 0;
  }
  const auto source = traces::open_file(trace);
  (void)traces::read_kineto(*source, "fuzz");  // whatever was recorded, the trace is whole
  return 0;
}
