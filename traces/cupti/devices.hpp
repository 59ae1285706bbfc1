#pragma once
#include "traces/cupti/stream_writer.hpp"

namespace tracecast::traces::cupti {

/// Writes a DeviceRecord for each GPU that the process sees, from the driver
/// that it has loaded; nothing where the driver does not answer. The driver
/// must have been initialised.
void describe_devices(StreamWriter& writer);

}  // namespace tracecast::traces::cupti
