#include "models/optimizer.hpp"

namespace tracecast {
namespace {

constexpr OptimizerKind kOptimizers[] = {
    OptimizerKind::Sgd,       OptimizerKind::Momentum, OptimizerKind::Adam,
    OptimizerKind::AdamW,     OptimizerKind::Lamb,     OptimizerKind::Adagrad,
    OptimizerKind::RmsProp,   OptimizerKind::Adadelta, OptimizerKind::Adam8bit,
    OptimizerKind::Adafactor, OptimizerKind::None};

}  // namespace

std::string_view to_string(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::Sgd:
      return "sgd";
    case OptimizerKind::Momentum:
      return "momentum";
    case OptimizerKind::Adam:
      return "adam";
    case OptimizerKind::AdamW:
      return "adamw";
    case OptimizerKind::Lamb:
      return "lamb";
    case OptimizerKind::Adagrad:
      return "adagrad";
    case OptimizerKind::RmsProp:
      return "rmsprop";
    case OptimizerKind::Adadelta:
      return "adadelta";
    case OptimizerKind::Adam8bit:
      return "adam8bit";
    case OptimizerKind::Adafactor:
      return "adafactor";
    case OptimizerKind::None:
      return "none";
  }
  return "?";
}

std::optional<OptimizerKind> find_optimizer(std::string_view name) {
  for (const OptimizerKind kind : kOptimizers) {
    if (to_string(kind) == name) return kind;
  }
  return std::nullopt;
}

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const OptimizerKind kind : kOptimizers) names.emplace_back(to_string(kind));
  return names;
}

int state_count(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::Sgd:
    case OptimizerKind::None:
    case OptimizerKind::Adafactor:
      return 0;
    case OptimizerKind::Momentum:
    case OptimizerKind::Adagrad:
      return 1;
    case OptimizerKind::Adam:
    case OptimizerKind::AdamW:
    case OptimizerKind::Lamb:
    case OptimizerKind::RmsProp:
    case OptimizerKind::Adadelta:
    case OptimizerKind::Adam8bit:
      return 2;
  }
  return 0;
}

double state_bytes(OptimizerKind kind) {
  constexpr double kBlock = 256;
  if (kind == OptimizerKind::Adam8bit) return 2 * (1 + 4 / kBlock);
  return 4.0 * state_count(kind);
}

double update_accesses(OptimizerKind kind) {
  if (kind == OptimizerKind::None) return 0;
  if (kind == OptimizerKind::Adam8bit) return 4;
  if (kind == OptimizerKind::Adafactor) return 7;
  return kind == OptimizerKind::Lamb ? 12 : 3 + 2.0 * state_count(kind);
}

}  // namespace tracecast
