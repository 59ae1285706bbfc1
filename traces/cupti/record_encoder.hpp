#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "traces/cupti/cupti_api.hpp"
#include "traces/cupti/stream_writer.hpp"

namespace tracecast::traces::cupti {

/// Turns CUPTI's records into those of the stream. One thread at a time.
class RecordEncoder {
 public:
  RecordEncoder(const Api& api, StreamWriter& writer) : api_(api), writer_(writer) {}

  /// Calls of this thread (CUPTI's number) are the recorder's own and left out.
  void set_own_thread(std::uint32_t thread) { own_thread_ = thread; }
  void write(const Activity& activity);
  /// Tells CUPTI, where it can be told, not to record calls that are not worth
  /// it.
  void skip_boring_calls();

  /// Something that the recording lacks, in words; `write_losses` writes counts
  /// that have changed.
  void set_loss(const std::string& what, std::uint64_t count) { losses_[what].now = count; }
  void write_losses();

 private:
  /// A call by callback id: what CUPTI says, whether it is worth recording, its
  /// id in the stream.
  struct CallName {
    const char* text = nullptr;
    bool is_boring = false;
    std::uint32_t id = 0, generation = 0xFFFFFFFF;
  };
  struct Loss {
    std::uint64_t now = 0, written = 0;
  };

  void write_kernel(const KernelActivity& kernel);
  void write_call(const ApiActivity& call, CallbackDomain domain);
  CallName& call_name(CallbackDomain domain, std::uint32_t callback_id);

  const Api& api_;
  StreamWriter& writer_;
  std::uint32_t own_thread_ = 0;
  std::array<std::vector<CallName>, 3> call_names_;  ///< by domain
  std::map<std::string, Loss> losses_;
};

}  // namespace tracecast::traces::cupti
