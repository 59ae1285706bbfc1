#include "hwspecs/framework_kernels.hpp"

#include <tuple>

namespace tracecast {

namespace {

/// All but the host's time per argument.
auto kernels_of(const GraphCompiler& compiler) {
  // A new field has to be named here, and below where it decides about kernels.
  const auto& [framework, name, expands_normalization, fuses_convolution_epilogue,
               repeats_producers, merges_siblings, most_operands, argument] = compiler;
  return std::tie(expands_normalization, fuses_convolution_epilogue, repeats_producers,
                  merges_siblings, most_operands);
}

auto kernels_of(const ComposedBatchNorm& batch_norm) {
  const auto& [forward_sums, backward_sums, block_threads, address_instructions] = batch_norm;
  return std::tie(forward_sums, backward_sums, block_threads, address_instructions);
}

/// What decides about the kernels of a step and the tensors in memory.
auto kernels_of(const FrameworkProfile& profile) {
  // A new field has to be named here, and below unless it is a cost of the host or words.
  const auto& [id, name, image_layout, dispatch_per_op, dispatch_per_backward_op,
               dispatch_per_optimizer_op, dispatch_per_library_call, launch_per_kernel,
               step_overhead, host_log_sd, system_log_sd, reference_cpu, cpu_kernels,
               synchronizes_each_step, graph_ops_per_synchronization, updates_per_synchronization,
               synchronization, tensor_core_image_layout, cudnn_version, autotunes_convolutions,
               convolution_workspace_limit, transforms_filters, pads_uneven_images,
               avoids_tiled_fft, avoids_nonfused_winograd, fuses_bias, fuses_product_bias,
               fuses_batch_norm_activation, fuses_batch_norm_residual, fuses_activations,
               folds_inference_batch_norm, batch_norm_forward_passes, batch_norm_backward_passes,
               batch_norm_update_kernels, batch_norm_updates_are_ops, instance_norm_is_batch_norm,
               max_pool_saves_indices, max_pool_backward_efficiency, dropout_kernels,
               in_place_activations, recurrence, recurrent_step, recurrent_streams,
               persistent_recurrence, differentiates_input, copies_first_gradient,
               adds_weight_gradients_in_place, adds_gradients_in_convolutions, allows_tf32,
               tf32_products, fuses_optimizer, assigns_optimizer_terms, multi_tensor_optimizer,
               weight_decay, zeroes_gradients, accumulates_weight_gradients, mixed_wide_ops,
               mixed_reuses_casts, mixed_loss_scaling, int8_engine, trains, tensor_memory,
               allocator_block, allocator_large_segment, pool_fraction, pool_least_reserve,
               context_memory, compiler, composed_batch_norm, host_pooling, era, container_of,
               network_meanings, sources, values] = profile;
  return std::tie(
      image_layout, tensor_core_image_layout, cudnn_version, autotunes_convolutions,
      convolution_workspace_limit, transforms_filters, pads_uneven_images, avoids_tiled_fft,
      avoids_nonfused_winograd, fuses_bias, fuses_product_bias, fuses_batch_norm_activation,
      fuses_batch_norm_residual, fuses_activations, folds_inference_batch_norm,
      batch_norm_forward_passes, batch_norm_backward_passes, batch_norm_update_kernels,
      batch_norm_updates_are_ops, instance_norm_is_batch_norm, max_pool_saves_indices,
      max_pool_backward_efficiency, dropout_kernels, in_place_activations, recurrence,
      recurrent_streams, persistent_recurrence, differentiates_input, copies_first_gradient,
      adds_weight_gradients_in_place, adds_gradients_in_convolutions, allows_tf32, tf32_products,
      fuses_optimizer, assigns_optimizer_terms, multi_tensor_optimizer, weight_decay,
      zeroes_gradients, accumulates_weight_gradients, mixed_wide_ops, mixed_reuses_casts,
      mixed_loss_scaling, int8_engine, trains, tensor_memory, allocator_block,
      allocator_large_segment, pool_fraction, pool_least_reserve, context_memory);
}

}  // namespace

bool differ_in_host_alone(const FrameworkProfile& a, const FrameworkProfile& b) {
  if (a.compiler.has_value() != b.compiler.has_value()) return false;
  if (a.compiler && kernels_of(*a.compiler) != kernels_of(*b.compiler)) return false;
  const auto &batch_norm = a.composed_batch_norm, &other = b.composed_batch_norm;
  if (batch_norm.has_value() != other.has_value()) return false;
  if (batch_norm && kernels_of(*batch_norm) != kernels_of(*other)) return false;
  return a.host_pooling.has_value() == b.host_pooling.has_value() && kernels_of(a) == kernels_of(b);
}

}  // namespace tracecast
