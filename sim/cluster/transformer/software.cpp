#include "sim/cluster/transformer/software.hpp"

#include <algorithm>
#include <array>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"

namespace tracecast {
namespace {

// Bytes of an update per weight. Megatron-LM's mixed-precision optimizer (core/optimizer/optimizer.py): gradient copied
// to fp32 (2 + 4; not with fp32 gradients), unscaled and checked (4 + 4), its norm (4), Adam on fp32 weight, gradient
// and two moments (16 read, 12 written), weight copied to 16 bit (4 + 2). PyTorch's fused or foreach Adam on fp32
// shards has no copies: norm (4), clip (4 + 4), Adam (16 + 12).
constexpr double kMegatron16 = 6 + 8 + 4 + 28 + 6;
constexpr double kMegatron32 = 8 + 4 + 28 + 6;
constexpr double kFsdp = 4 + 8 + 28;

// PyTorch FullyShardedDataParallel; gradients reduced in fp32.
constexpr TrainingSoftware kPytorchFsdp{.id = "fsdp",
                                        .name = "PyTorch FSDP",
                                        .framework = "pytorch_fsdp",
                                        .loss = LossKernels::LogSoftmax,
                                        .wide_gradients = true,
                                        .overlaps_gradients = true,
                                        .update_bytes = kFsdp,
                                        .update_passes = 4};

constexpr TrainingSoftware named(TrainingSoftware software, std::string_view id,
                                 std::string_view name) {
  software.id = id;
  software.name = name;
  return software;
}
constexpr TrainingSoftware with_16_bit_gradients(TrainingSoftware software) {
  software.wide_gradients = false;
  return software;
}
// llm-foundry of 2023 on Composer: FSDP; attention of the first FlashAttention (attn_impl triton), twice the time of the
// second (Dao, arXiv 2307.08691, abstract); LanguageCrossEntropy and LanguagePerplexity of every training batch
// (use_train_metrics). Composer's mixed_precision DEFAULT reduces gradients in fp32, PURE in 16 bit.
constexpr TrainingSoftware llm_foundry() {
  TrainingSoftware software = named(kPytorchFsdp, "llm_foundry", "llm-foundry (PyTorch FSDP)");
  software.loss = LossKernels::Fused;
  software.attention_time = 2;
  software.training_metrics = 2;
  return software;
}

const std::array<TrainingSoftware, 8> kSoftware{{
    // Megatron-LM of 2020 to 2022, and Megatron-DeepSpeed without ZeRO: gradients in 16 bit, one all-reduce after the
    // last backward pass, batch_isend_irecv followed by a synchronization (megatron/p2p_communication.py).
    {.id = "megatron_2021",
     .name = "Megatron-LM 2 or Megatron-DeepSpeed, 2020 to 2022",
     .framework = "megatron",
     .loss = LossKernels::StepByStep,
     .adds_gradients = true,
     .waits_after_send = true,
     .update_bytes = kMegatron16,
     .update_passes = 5},
    // Megatron Core: fp32 main gradients accumulated by the product itself, distributed optimizer that overlaps reduce
    // and gather, tensor-parallel exchanges beside products (README: --overlap-grad-reduce, --overlap-param-gather,
    // --tp-comm-overlap).
    {.id = "megatron",
     .name = "Megatron Core",
     .framework = "megatron",
     .loss = LossKernels::StepByStep,
     .wide_gradients = true,
     .overlaps_gradients = true,
     .overlaps_weights = true,
     .overlaps_tensor = true,
     .update_bytes = kMegatron32,
     .update_passes = 4},
    kPytorchFsdp,
    named(with_16_bit_gradients(kPytorchFsdp), "fsdp_pure",
          "PyTorch FSDP, gradients reduced in 16 bit"),
    llm_foundry(),
    named(with_16_bit_gradients(llm_foundry()), "llm_foundry_pure",
          "llm-foundry (PyTorch FSDP), 16 bit throughout"),
    // torchtitan: FSDP2, torch.compile of each block, cross entropy in fp32.
    named(kPytorchFsdp, "torchtitan", "torchtitan (FSDP2)"),
    // InternEvo: ZeRO-1 in groups, gradients reduced in buckets beside the last backward pass, broadcast of weights after
    // the update (internlm/solver/optimizer/hybrid_zero_optim.py).
    {.id = "internevo",
     .name = "InternLM InternEvo",
     .framework = "megatron",
     .loss = LossKernels::Fused,
     .overlaps_gradients = true,
     .adds_gradients = true,
     .update_bytes = kMegatron16,
     .update_passes = 5},
}};

}  // namespace

const TrainingSoftware& find_training_software(std::string_view id) {
  const auto found = std::find_if(kSoftware.begin(), kSoftware.end(),
                                  [&](const TrainingSoftware& s) { return s.id == id; });
  if (found != kSoftware.end()) return *found;
  throw InputError("--software", std::string(id), describe_choices(id, training_software_ids()));
}

std::vector<std::string> training_software_ids() {
  std::vector<std::string> ids;
  for (const TrainingSoftware& s : kSoftware) ids.emplace_back(s.id);
  return ids;
}

}  // namespace tracecast
