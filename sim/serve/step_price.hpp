#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "hwspecs/cost_profile.hpp"
#include "hwspecs/software/engine_profile.hpp"
#include "models/language/forward.hpp"
#include "sim/base/units.hpp"
#include "sim/network/fabric.hpp"

namespace tracecast::serve {

/// What a step's time goes to.
enum class StepPart {
  Gemms,
  PromptAttention,
  TokenAttention,
  Experts,
  Communications,
  Streams,
  Gaps,
  Host
};
inline constexpr std::size_t kStepParts = 8;
[[nodiscard]] std::string_view to_string(StepPart part);

/// Time of the GPUs of a replica, by part, with how sure it is and what a GPU draws.
struct PartTimes {
  std::array<double, kStepParts> seconds{};  ///< Host: not here
  std::array<double, kStepParts>
      uncertainty{};         ///< seconds times their standard deviation of ln(measured / predicted)
  double joules = 0;         ///< of one GPU beyond what it draws active-idle
  double calls = 0;          ///< kernels, an engine's call of several as one
  double library_calls = 0;  ///< of them, through cuBLAS or NCCL
  double launches = 0;       ///< kernels that the host launches
  double prompt_calls = 0;   ///< attention of prompts
  double sums = 0;           ///< over ranks
  double communicated = 0;   ///< bytes of those tensors
  double guessed = 0;        ///< seconds without a cost model
  double roof_seconds = 0;   ///< what its arithmetic takes at the stated peaks of its formats
  [[nodiscard]] double total() const;
  void add(const PartTimes& other, double factor);
};

/// What is computed in a step.
struct StepBatch {
  std::int64_t prompt_tokens = 0;  ///< new ones of all prompts
  double prompt_square = 0;        ///< sum of the squares of the prompts' new tokens
  double prompt_pairs = 0;         ///< sum over new tokens of the keys that each sees
  bool has_cached = false;         ///< some of those keys were in the cache before
  std::int64_t decodes = 0;        ///< sequences that get one more token
  double keys = 0;                 ///< sum of their tokens, the new ones included
  std::int64_t words = 0;          ///< sequences whose next token is chosen
  std::int64_t begins = 0;         ///< requests whose first step it is
  std::int64_t verified = 1;  ///< tokens of each decoded sequence: 1, or a draft's and one more
  /// Adds a chunk of `tokens` of a prompt that has `cached` tokens in the cache.
  void add_prompt(std::int64_t tokens, std::int64_t cached);
};

/// A step's time.
struct StepTime {
  double seconds = 0;
  double gpu_seconds = 0, host_seconds = 0;
  bool in_graph = false;
  bool is_host_bound = false;  ///< the GPU waits for the host
  /// Up to so many `keys`, everything else alike, time and parts are linear in them as long as the
  /// GPU goes on waiting for the host, or not; 0 of steps with prompts.
  double linear_until = 0;
  double log_sd = 0;  ///< standard deviation of ln(measured / predicted)
  PartTimes parts;
};

/// Prices steps of one replica. GEMMs, collectives and the like follow from the number of new
/// tokens, attention of single tokens from sequences and mean length: both are kept in small tables
/// between whose entries times are linear (rows: each captured batch, then steps of an eighth
/// octave). Attention of prompts is priced as it comes.
///   gpu  = sum of kernels alone + graph_gap per call                           (in one stream)
///          + communication_hop per sum over ranks, outside graphs
///   host = step + sequences sequence + begins request + tokens context_token (+ launches launch +
///   library calls, outside graphs) step = max(gpu, host) where the engine overlaps them; else
///   step's own host time + max(gpu, launches)
/// Where communicated tensors stay taken until the GPU is there
/// (EngineProfile::renewed_seconds_per_byte), those of the kernels ahead of it that do not fit
/// beside the cache cost the host's calls of the driver, while the GPU waits:
///   + max(0, communicated (1 - launches / gpu) - what memory_share leaves)
///   renewed_seconds_per_byte
/// Stages of a pipeline follow each other: their times add up. Refers to what it was made of.
class StepPrice {
 public:
  /// `fabric`: of the replica's GPUs at least. Throws InputError: a collective library that is not
  /// known.
  StepPrice(ServedNetwork served, EngineProfile engine, const GpuSpec& gpu,
            const CostProfile& profile, const Fabric& fabric);
  ~StepPrice();
  StepPrice(const StepPrice&) = delete;
  StepPrice& operator=(const StepPrice&) = delete;

  [[nodiscard]] StepTime price(const StepBatch& batch);
  /// Of the errors of two steps' times, in seconds squared: causes are independent, and each has
  /// one error in both.
  [[nodiscard]] double covariance(const StepTime& a, const StepTime& b) const;
  [[nodiscard]] std::uint64_t priced() const { return priced_; }  ///< steps, so far

  [[nodiscard]] const ServedNetwork& served() const { return served_; }
  [[nodiscard]] const EngineProfile& engine() const { return engine_; }
  [[nodiscard]] const GpuSpec& gpu() const { return gpu_; }
  /// Of a GPU that holds a replica and computes nothing.
  [[nodiscard]] Watts active_idle() const;

 private:
  struct Board;
  [[nodiscard]] PartTimes sum(const std::vector<ForwardKernel>& kernels) const;
  const PartTimes& rows_at(std::int64_t rows);
  const PartTimes& words_at(std::int64_t rows);
  const PartTimes& tokens_at(std::int64_t sequences, int key_step);
  void add_rows(PartTimes& to, double rows);
  /// Returns the mean length at which the table's next entry stands.
  double add_tokens(PartTimes& to, double sequences, double keys);
  [[nodiscard]] double renewal(const PartTimes& parts, double launches) const;

  ServedNetwork served_;
  EngineProfile engine_;
  const GpuSpec& gpu_;
  std::unique_ptr<const Board> board_;
  std::uint64_t priced_ = 0;
  std::map<std::int64_t, PartTimes> rows_, words_;
  std::map<std::pair<std::int64_t, int>, PartTimes> tokens_;
};

}  // namespace tracecast::serve
