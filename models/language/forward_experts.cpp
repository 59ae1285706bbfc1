#include "models/language/forward_parts.hpp"

namespace tracecast {
namespace {

constexpr double kHalf = 2;

double num(std::int64_t value) { return static_cast<double>(value); }

using forward_parts::Layer;

void add(const Layer&, const std::monostate&) {}

/// Two GEMMs or three with an activation between, of `width` on this rank.
void add_dense(const Layer& at, double width, bool gated) {
  const double model = num(at.served.network.width), values = at.rows * width;
  at.gemm("into feed-forward", width * (gated ? 2 : 1), model);
  at.add("activation", ForwardPass{values, values * (gated ? 2 : 1) * kHalf, values * kHalf, 8});
  at.gemm("out of feed-forward", model, width);
}

void add(const Layer& at, const DenseFeedForward& f) {
  add_dense(at, num(f.width) / at.tensor(), f.gated);
}

void add(const Layer& at, const ExpertFeedForward& f) {
  const ModelSharing& s = at.served.sharing;
  const double model = num(at.served.network.width), group = at.rows * num(s.data);
  at.add("router", ForwardGemm{1, at.rows, num(f.experts), model, GemmFormat::Half}, 1, 2);
  if (f.shared_width > 0) add_dense(at, num(f.shared_width) / at.tensor(), f.gated);
  if (s.data > 1)  // every rank sees all tokens; results go back to those whose they are
    at.add("tokens to experts", ForwardCommunication{Collective::AllGather, group * model * kHalf,
                                                     ForwardGroup::Experts});
  ExpertsWork work;
  work.load = random_expert_load(group, num(f.per_token), num(f.experts), num(s.experts));
  work.tokens = group;
  work.per_token = num(f.per_token);
  work.all_experts = num(f.experts);
  work.hidden = model;
  work.width = num(f.width) / num(s.expert_tensor());
  work.gated = f.gated;
  work.format = at.served.formats.experts;
  work.engine = at.served.engine;
  at.add("experts", work, 1, 9);
  if (s.data > 1)
    at.add("tokens from experts",
           ForwardCommunication{Collective::ReduceScatter, group * model * kHalf,
                                ForwardGroup::Experts});
}

}  // namespace

void forward_parts::add_feed_forward(const Layer& at) {
  std::visit([&](const auto& feed) { add(at, feed); }, at.layer.feed_forward);
  const bool has_feed = !std::holds_alternative<std::monostate>(at.layer.feed_forward);
  const bool by_experts = std::holds_alternative<ExpertFeedForward>(at.layer.feed_forward);
  if (has_feed && at.tensor() > 1 && !(by_experts && at.served.sharing.data > 1)) {
    at.add("sum over ranks", ForwardCommunication{Collective::AllReduce,
                                                  at.rows * num(at.served.network.width) * kHalf});
  }
}

}  // namespace tracecast
