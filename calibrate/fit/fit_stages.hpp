#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "calibrate/fit/fit_profile.hpp"
#include "calibrate/table/measurement.hpp"

namespace tracecast {

/// Whether a row is one GEMM on tensor cores: those are fitted first and by themselves.
[[nodiscard]] bool is_gemm(const Measurement& measurement, const CostProfile& profile);
/// Whether a parameter belongs to GEMMs on tensor cores.
[[nodiscard]] bool is_tensor_gemm_parameter(std::string_view name);

/// One stage of a fit: its rows, its parameters, how it is done.
struct FitStage {
  std::vector<const Measurement*> rows;
  std::vector<ProfileParameter> prior;
  FitOptions options;
};
/// Whose parameters an engine's call moves: "attention.prefill.", "experts."; empty for other rows.
[[nodiscard]] std::string_view call_family(const Measurement& measurement);

/// GEMMs of 16 bits on tensor cores first, whose parameters no other row moves; those of other
/// formats, by what tells them and the engines' calls from the first; calls of engines, each family
/// by itself with parameters that no other row moves, on the board that the first stage found; then
/// all others, which price tensor cores at the clock that it found. In the first two a board's own
/// factors are held to 3 %: what boards of a generation share shall be in the parameters.
[[nodiscard]] std::vector<FitStage> stages_of(std::span<const Measurement* const> rows,
                                              const CostProfile& start,
                                              std::span<const ProfileParameter> prior,
                                              const FitOptions& options);

/// The stages one after the other, each from the profile of the one before; one result for all.
[[nodiscard]] FitResult fit_in_stages(std::span<const Measurement* const> rows,
                                      const CostProfile& start,
                                      std::span<const ProfileParameter> prior,
                                      const FitOptions& options);
/// Adds to `all` what a later stage found.
void append_stage(FitResult& all, FitResult&& stage);

/// The profile with which generations, and of GEMMs which GPUs, the rows of its fit were of.
[[nodiscard]] CostProfile with_coverage(CostProfile profile,
                                        std::span<const Measurement* const> rows);

}  // namespace tracecast
