#pragma once
#include <dlfcn.h>

namespace tracecast::traces::cupti {

/// Points `to` to a function of a library of dlopen; null and false when it has
/// none of that name.
template <class Function>
bool find_function(void* library, Function& to, const char* name) {
  to = reinterpret_cast<Function>(::dlsym(library, name));
  return to != nullptr;
}

}  // namespace tracecast::traces::cupti
