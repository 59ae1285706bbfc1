#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <cstdio>

namespace tracecast::test {
namespace {

/// A line as each case begins and one as it ends, for a process of many cases: whoever counts them reads it, and where it
/// breaks off in a crash.
class CaseLines : public doctest::IReporter {
 public:
  explicit CaseLines(const doctest::ContextOptions& /*options*/) {}
  void test_case_start(const doctest::TestCaseData& which) override {
    name_ = which.m_name;
    say("begins");
  }
  void test_case_end(const doctest::CurrentTestCaseStats& how) override {
    say(how.testCaseSuccess ? "passed" : "failed");
  }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

 private:
  void say(const char* what) const {
    std::printf("\n[%s] %s\n", what, name_);
    std::fflush(stdout);
  }
  const char* name_ = "";
};

}  // namespace

REGISTER_REPORTER("cases", 1, CaseLines);

}  // namespace tracecast::test
