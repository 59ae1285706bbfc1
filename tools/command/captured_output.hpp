#pragma once
#include <string>

namespace tracecast {

/// While it lives, what this thread's commands would write to standard output and to stderr is kept
/// instead, for programs that call them as functions.
class CapturedOutput {
 public:
  CapturedOutput();
  ~CapturedOutput();
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;

  std::string report;  ///< of write_report
  std::string talk;    ///< lines of say

 private:
  CapturedOutput* outer_;
};

}  // namespace tracecast
