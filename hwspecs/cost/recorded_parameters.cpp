#include "hwspecs/cost/recorded_parameters.hpp"

namespace tracecast {
namespace {

void add_depthwise(std::vector<RecordedSlot>& all, const std::string& prefix,
                   RecordedParameters::DepthwisePasses RecordedParameters::*kernels,
                   bool has_forward) {
  using P = RecordedParameters;
  const auto add = [&](const char* pass, double P::DepthwisePasses::*member) {
    all.push_back({prefix + pass, 0.01, 100, [=](P& p) -> double& { return p.*kernels.*member; }});
  };
  if (has_forward) add("forward", &P::DepthwisePasses::forward);
  add("backward_data", &P::DepthwisePasses::backward_data);
  add("backward_weights", &P::DepthwisePasses::backward_weights);
}

}  // namespace

std::vector<RecordedSlot> recorded_slots() {
  using P = RecordedParameters;
  std::vector<RecordedSlot> all;
  add_depthwise(all, "convolution.own_depthwise.", &P::own_depthwise, false);
  add_depthwise(all, "convolution.library_depthwise.", &P::library_depthwise, true);
  add_depthwise(all, "convolution.wide_library_depthwise.", &P::wide_library_depthwise, true);
  all.push_back(
      {"attention.split_efficiency", 0.01, 1, [](P& p) -> double& { return p.split_attention; }});
  all.push_back(
      {"memory.addition_cycles", 0.1, 100, [](P& p) -> double& { return p.addition_cycles; }});
  return all;
}

}  // namespace tracecast
