#pragma once
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hwspecs/software/attention_kernels.hpp"
#include "models/canonical/canonical.hpp"
#include "models/graph.hpp"
#include "sim/job/input_record.hpp"
#include "sim/job/job.hpp"
#include "sim/step/prediction.hpp"
#include "sim/step/prepared_step.hpp"

namespace tracecast {

/// A network's forward graph, as a job asks for it.
struct ForwardGraph {
  std::shared_ptr<const NetworkGraph> graph;
  InputRecord record;
  std::vector<std::string> warnings;  ///< of the import of a file
  std::vector<Rewrite> rewrites{};    ///< alike
  bool from_file = false;
};

/// Graphs of networks and of their steps, built once and remembered, some hundred of each. Safe
/// from several threads; two that ask for the same graph at the same time may both build it, and
/// get equal ones.
class GraphStore {
 public:
  /// The forward graph; of `job` count network, batch and sizes, of its framework what it makes of
  /// code. Throws InputError: an unknown network, a file that cannot be read.
  [[nodiscard]] ForwardGraph forward(const Job& job, Phase phase, const NetworkCode& code);
  /// What make_step_graph makes of it; `unrolls`: recurrent layers become ordinary ops first.
  [[nodiscard]] std::shared_ptr<const NetworkGraph> step(
      const std::shared_ptr<const NetworkGraph>& forward, Phase phase, const StepOptions& options,
      bool unrolls);
  /// What lowering makes of the graphs, remembered alike.
  [[nodiscard]] const std::shared_ptr<PreparedSteps>& prepared() const { return prepared_; }

 private:
  struct Step {
    std::shared_ptr<const NetworkGraph> forward;  ///< lives as long as its address is a key
    std::shared_ptr<const NetworkGraph> graph;
  };
  std::mutex mutex_;
  std::map<std::string, ForwardGraph> forwards_;
  std::map<std::string, Step> steps_;
  std::shared_ptr<PreparedSteps> prepared_ = std::make_shared<PreparedSteps>();
};

}  // namespace tracecast
