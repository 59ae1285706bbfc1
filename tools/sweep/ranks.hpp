#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/store/sweep_store.hpp"

namespace tracecast {

/// The processes that `mpirun` started on one or several machines. Number 0 has the grid's points
/// and the file; the others ask it for points and send rows. OpenMPI is loaded when it is needed
/// and is no part of the program: notes/0001. One thread's.
class SweepRanks {
 public:
  /// Joins the others; nothing where OpenMPI's mpirun did not start this process, or it alone.
  /// Throws InputError: its library cannot be loaded.
  static std::optional<SweepRanks> join();
  ~SweepRanks();  ///< waits for the others, unless an exception is under way
  SweepRanks(SweepRanks&&) noexcept;

  [[nodiscard]] int rank() const;
  [[nodiscard]] unsigned size() const;
  [[nodiscard]] unsigned on_this_machine() const;

  /// `common`: what all must have alike. Number 0: takes the rows of a process that waits, and
  /// gives it points; false where none waits. Throws InputError: it has another program, grid or
  /// specs.
  bool serve_one(const std::string& common, const std::function<std::vector<std::int64_t>()>& next,
                 std::vector<store::PointRow>& rows);
  /// How many still have points or will ask for some.
  [[nodiscard]] unsigned helping() const;

  /// The others: hands in rows and asks for points; none: the end.
  std::vector<std::int64_t> ask(const std::string& common,
                                const std::vector<store::PointRow>& rows);

 private:
  struct State;
  explicit SweepRanks(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tracecast
