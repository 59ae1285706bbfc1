#include "models/lowering/lower.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "models/lowering/dump.hpp"
#include "models/ops.hpp"
#include "models/training.hpp"
#include "models/zoo/zoo.hpp"
#include "tests/models/lowering/gpus.hpp"
#include "tests/models/lowering/lowered.hpp"
#include "tests/support/specs.hpp"

using namespace tracecast;
using namespace tracecast::test;

TEST_SUITE("models/lowering/update") {
  TEST_CASE("an update touches weight, gradient and states as the framework's own loop does") {
    const double w = 4 * (10 * 64);  // bytes of logits.weight
    const struct {
      const char* what;
      OptimizerKind optimizer;
      const char* framework;
      Names kernels;
      double traffic;  ///< in tensors
    } rows[] = {
        // accumulate 3, scale 2, add 3, update 3, zero 1
        {"momentum, a kernel per term",
         OptimizerKind::Momentum,
         "pytorch",
         {"accumulate", "scale", "add", "update", "zero"},
         12},
        {"sgd, a kernel per term",
         OptimizerKind::Sgd,
         "pytorch",
         {"accumulate", "update", "zero"},
         7},
        // accumulate 3; 2 + 3 + 2 + 3 + 2 + 2 + 2 + 4; zero 1
        {"adam, a kernel per term",
         OptimizerKind::Adam,
         "pytorch",
         {"accumulate", "scale", "add", "scale", "addcmul", "sqrt", "divide", "add", "update",
          "zero"},
         24},
        // Adam's, and w from w 2 before it
        {"adamw, a kernel per term",
         OptimizerKind::AdamW,
         "pytorch",
         {"accumulate", "decay", "scale", "add", "scale", "addcmul", "sqrt", "divide", "add",
          "update", "zero"},
         26},
        // decay is a factor of the weight that the kernel reads anyway: w, g, 2 moments, w and 2
        // moments
        {"adamw in one kernel", OptimizerKind::AdamW, "mxnet", {"update"}, 7},
        // norms of g and w; direction from g, w, 2 moments, with both; its norm; w from w and
        // direction
        {"lamb, apex's kernels",
         OptimizerKind::Lamb,
         "mxnet",
         {"gradient_norm", "weight_norm", "direction", "direction_norm", "update"},
         1 + 1 + 7 + 1 + 3},
        // reads w, v, g, writes w, v
        {"momentum in one kernel", OptimizerKind::Momentum, "mxnet", {"update"}, 5},
        // l2_loss 1, l2_gradient 2, add 3; v from v and g 3; w from w and v 3
        {"momentum, a kernel per assignment, decay through the loss",
         OptimizerKind::Momentum,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "accumulate", "update"},
         12},
        // each moment from itself and g 3; w from w and both moments 4
        {"adam, a kernel per assignment",
         OptimizerKind::Adam,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "moment1", "moment2", "update"},
         16},
        // decoupled decay leaves the loss alone: rate * w 2, w minus that 3, then Adam's 10
        {"adamw, a kernel per assignment",
         OptimizerKind::AdamW,
         "tensorflow",
         {"decay", "subtract_decay", "moment1", "moment2", "update"},
         15},
        // moments 3 each, direction from w and both 4, two norms, w from w and direction 3
        {"lamb, a kernel per assignment",
         OptimizerKind::Lamb,
         "tensorflow",
         {"moment1", "moment2", "direction", "weight_norm", "direction_norm", "update"},
         15},
        // the sum from itself and g 3; w from w, g and the sum 4
        {"adagrad, a kernel per assignment",
         OptimizerKind::Adagrad,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "accumulate", "update"},
         13},
        // the square from itself and g 3; momentum from itself, the square and g 4; w from w and
        // momentum 3
        {"rmsprop, a kernel per assignment",
         OptimizerKind::RmsProp,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "mean_square", "momentum", "update"},
         16},
        // the square from itself and g 3; w from w, g and both squares 5; the step's square from
        // both and g 4
        {"adadelta, a kernel per assignment",
         OptimizerKind::Adadelta,
         "tensorflow",
         {"l2_loss", "l2_gradient", "add_gradient", "accumulate", "update", "accumulate_step"},
         18},
    };
    for (const auto& row : rows) {
      CAPTURE(row.what);
      const NetworkGraph graph = training(varied_network(), row.optimizer);
      const auto kernels =
          kernels_by_op(graph, lower(graph, find_framework(row.framework), test::volta(), {}));
      CHECK(names(kernels.at("update logits.weight")) == row.kernels);
      CHECK(bytes(kernels.at("update logits.weight")) == row.traffic * w);
    }
  }
}
