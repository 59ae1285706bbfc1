#include "tools/sweep/ranks.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>
#include <utility>

#include "sim/base/error.hpp"
#include "sim/base/text.hpp"
#include "tools/sweep/result_row.hpp"

namespace tracecast {
namespace {

/// A process's count that mpirun states; 0 where it states none.
int count_from(const char* variable) {
  const char* text = std::getenv(variable);
  const long long number = parse_integer(text == nullptr ? "" : text).value_or(0);
  return number > 0 && number < 1'000'000 ? static_cast<int>(number) : 0;
}

// OpenMPI's binary interface, the same since its version 1.7: handles are addresses of objects in
// its library.
using Handle = void*;
constexpr int kAnySource = -1, kRowsTag = 1, kPointsTag = 2;

}  // namespace

struct SweepRanks::State {
  struct Status {
    int source = 0, tag = 0, error = 0, cancelled = 0;
    std::size_t bytes = 0;
    char more[64] = {};  ///< that a later version may use
  };

  void* library = nullptr;
  Handle world = nullptr, byte = nullptr;
  int rank = 0, size = 1, on_this_machine = 1;
  int helping = 0;
  int exceptions = std::uncaught_exceptions();

  int (*init)(int*, char***) = nullptr;
  int (*finalize)() = nullptr;
  int (*comm_rank)(Handle, int*) = nullptr;
  int (*comm_size)(Handle, int*) = nullptr;
  int (*send)(const void*, int, Handle, int, int, Handle) = nullptr;
  int (*receive)(void*, int, Handle, int, int, Handle, Status*) = nullptr;
  int (*probe)(int, int, Handle, int*, Status*) = nullptr;
  int (*wait_probe)(int, int, Handle, Status*) = nullptr;
  int (*get_count)(const Status*, Handle, int*) = nullptr;

  void* symbol(const char* name) const {
    void* found = dlsym(library, name);
    if (found == nullptr)
      throw InputError("libmpi.so.40", std::string("no ") + name, "OpenMPI 3 or later");
    return found;
  }
  template <class Function>
  void set(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(symbol(name));
  }
  void load();
  void send_bytes(const std::string& bytes, int to, int tag) const {
    send(bytes.data(), static_cast<int>(bytes.size()), byte, to, tag, world);
  }
  [[nodiscard]] std::string receive_bytes(int from, int tag, Status& status) const {
    int size_bytes = 0;
    get_count(&status, byte, &size_bytes);
    std::string bytes(static_cast<std::size_t>(size_bytes), '\0');
    receive(bytes.data(), size_bytes, byte, from, tag, world, &status);
    return bytes;
  }
};

void SweepRanks::State::load() {
  for (const char* name : {"libmpi.so.40", "libmpi.so"}) {
    library = dlopen(name, RTLD_NOW | RTLD_GLOBAL);  // global: its parts look for it there
    if (library != nullptr) break;
  }
  if (library == nullptr)
    throw InputError("libmpi.so.40", "not found, but mpirun started several processes",
                     "OpenMPI's library on every machine (libopenmpi3), or no mpirun");
  set(init, "MPI_Init");
  set(finalize, "MPI_Finalize");
  set(comm_rank, "MPI_Comm_rank");
  set(comm_size, "MPI_Comm_size");
  set(send, "MPI_Send");
  set(receive, "MPI_Recv");
  set(probe, "MPI_Iprobe");
  set(wait_probe, "MPI_Probe");
  set(get_count, "MPI_Get_count");
  world = symbol("ompi_mpi_comm_world");
  byte = symbol("ompi_mpi_byte");
  init(nullptr, nullptr);
  comm_rank(world, &rank);
  comm_size(world, &size);
  helping = size - 1;
}

std::optional<SweepRanks> SweepRanks::join() {
  if (count_from("OMPI_COMM_WORLD_SIZE") < 2) return std::nullopt;
  auto state = std::make_unique<State>();
  state->on_this_machine = std::max(1, count_from("OMPI_COMM_WORLD_LOCAL_SIZE"));
  state->load();
  return SweepRanks(std::move(state));
}

SweepRanks::SweepRanks(std::unique_ptr<State> state) : state_(std::move(state)) {}
SweepRanks::SweepRanks(SweepRanks&&) noexcept = default;
SweepRanks::~SweepRanks() {
  // After an error the others wait for an answer that will not come: mpirun ends them.
  if (state_ && std::uncaught_exceptions() == state_->exceptions) state_->finalize();
}

int SweepRanks::rank() const { return state_->rank; }
unsigned SweepRanks::size() const { return static_cast<unsigned>(state_->size); }
unsigned SweepRanks::on_this_machine() const {
  return static_cast<unsigned>(state_->on_this_machine);
}
unsigned SweepRanks::helping() const { return static_cast<unsigned>(state_->helping); }

bool SweepRanks::serve_one(const std::string& common,
                           const std::function<std::vector<std::int64_t>()>& next,
                           std::vector<store::PointRow>& rows) {
  State& s = *state_;
  if (s.helping == 0) return false;
  int waits = 0;
  State::Status status;
  s.probe(kAnySource, kRowsTag, s.world, &waits, &status);
  if (waits == 0) return false;
  const int from = status.source;
  const std::string bytes = s.receive_bytes(from, kRowsTag, status);
  std::string_view rest(bytes);
  if (!rest.starts_with(common))
    throw InputError("rank " + std::to_string(from), "another program, grid or specs",
                     "the same on every machine");
  rest.remove_prefix(common.size());
  while (!rest.empty()) rows.push_back(row_from(rest));
  const std::vector<std::int64_t> points = next();
  if (points.empty()) --s.helping;
  std::string report(points.size() * sizeof(std::int64_t), '\0');
  std::memcpy(report.data(), points.data(), report.size());
  s.send_bytes(report, from, kPointsTag);
  return true;
}

std::vector<std::int64_t> SweepRanks::ask(const std::string& common,
                                          const std::vector<store::PointRow>& rows) {
  const State& s = *state_;
  std::string bytes = common;
  for (const store::PointRow& row : rows) bytes += row_bytes(row);
  s.send_bytes(bytes, 0, kRowsTag);
  State::Status status;
  s.wait_probe(0, kPointsTag, s.world, &status);
  const std::string report = s.receive_bytes(0, kPointsTag, status);
  std::vector<std::int64_t> points(report.size() / sizeof(std::int64_t));
  std::memcpy(points.data(), report.data(), report.size());
  return points;
}

}  // namespace tracecast
