#include "traces/cupti/cupti_api.hpp"

#include "traces/cupti/find_function.hpp"

namespace tracecast::traces::cupti {

const char* Api::load(void* library) {
  const char* missing = nullptr;
  const auto want = [library](auto& to, const char* name) {
    return find_function(library, to, name);
  };
  const auto need = [&](auto& to, const char* name) {
    if (!want(to, name) && missing == nullptr) missing = name;
  };
  need(get_version, "cuptiGetVersion");
  need(get_timestamp, "cuptiGetTimestamp");
  need(get_result_string, "cuptiGetResultString");
  need(get_callback_name, "cuptiGetCallbackName");
  need(activity_enable, "cuptiActivityEnable");
  need(activity_disable, "cuptiActivityDisable");
  need(register_callbacks, "cuptiActivityRegisterCallbacks");
  need(flush_all, "cuptiActivityFlushAll");
  need(get_next_record, "cuptiActivityGetNextRecord");
  need(get_num_dropped, "cuptiActivityGetNumDroppedRecords");
  need(subscribe, "cuptiSubscribe");
  need(unsubscribe, "cuptiUnsubscribe");
  need(enable_callback, "cuptiEnableCallback");
  want(set_thread_id_type, "cuptiSetThreadIdType");
  want(enable_runtime_api, "cuptiActivityEnableRuntimeApi");
  want(enable_driver_api, "cuptiActivityEnableDriverApi");
  return missing;
}

}  // namespace tracecast::traces::cupti
