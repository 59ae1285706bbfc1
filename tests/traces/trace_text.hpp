#pragma once
#include <string>

#include "tests/traces/text_source.hpp"
#include "traces/kineto/reader.hpp"

namespace tracecast::test {

/// A trace of Kineto events, "{...}, {...}".
inline traces::Trace trace_of(const std::string& events) {
  TextSource source("[" + events + "]");
  return traces::read_kineto(source, "t.json");
}

/// Events in short: times in microseconds, device 0, thread 1 unless said.
inline std::string event(const std::string& category, const std::string& name, int begin,
                         int duration, const std::string& args = "", int thread = 1) {
  return R"({"ph":"X","cat":")" + category + R"(","name":")" + name + R"(","pid":0,"tid":)" +
         std::to_string(thread) + R"(,"ts":)" + std::to_string(begin) + R"(,"dur":)" +
         std::to_string(duration) + R"(,"args":{)" + args + "}}";
}
inline std::string kernel(const std::string& name, int begin, int duration, int correlation,
                          int external_id = 0, int stream = 7) {
  return event("kernel", name, begin, duration,
               R"("device":0,"stream":)" + std::to_string(stream) + R"(,"correlation":)" +
                   std::to_string(correlation) + R"(,"External id":)" + std::to_string(external_id),
               stream);
}
inline std::string launch(int begin, int duration, int correlation, int thread = 1) {
  return event("cuda_runtime", "cudaLaunchKernel", begin, duration,
               R"("correlation":)" + std::to_string(correlation), thread);
}
inline std::string op(const std::string& name, int begin, int duration, int id, int thread = 1) {
  return event("cpu_op", name, begin, duration, R"("External id":)" + std::to_string(id), thread);
}

}  // namespace tracecast::test
