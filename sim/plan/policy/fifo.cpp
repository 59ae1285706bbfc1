#include "sim/plan/policy/policies.hpp"

namespace tracecast::plan {
namespace {

/// First come first served, no preemption, the first in line holds up the others; blind to speed (`fifo`) or where each
/// runs fastest (`fifo_perf`). The words are Gavel's (Narayanan et al., OSDI 2020, section 7.1).
class FirstComeFirstServed final : public Ranking {
 public:
  explicit FirstComeFirstServed(TypeChoice choice) : choice_(choice) {}
  bool preempts() const override { return false; }
  bool blocks() const override { return true; }
  TypeChoice type_choice() const override { return choice_; }
  void order(const Progress&, std::vector<JobId>&) override {}  // as they came

 private:
  TypeChoice choice_;
};

}  // namespace

std::unique_ptr<Ranking> make_fifo(const PolicyOptions&) {
  return std::make_unique<FirstComeFirstServed>(TypeChoice::First);
}
std::unique_ptr<Ranking> make_fifo_perf(const PolicyOptions&) {
  return std::make_unique<FirstComeFirstServed>(TypeChoice::Fastest);
}

}  // namespace tracecast::plan
