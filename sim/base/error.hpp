#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace tracecast {

/// The input (file, flag, spec, trace, measurement) is wrong. The message is one line: where it is
/// wrong, what was found there, what was expected. `main` alone catches it and exits with code 2.
class InputError : public std::runtime_error {
 public:
  /// `where`: "file:line", "file, byte 123" or a key path such as "--batch".
  /// Line breaks and control characters in any part are escaped, so that one error is one line.
  InputError(std::string_view where, std::string_view found, std::string_view expected);
  /// The same error seen from further out: "WHERE: " goes before its line.
  InputError(std::string_view where, const InputError& inner);
};

/// tracecast itself is wrong. `main` prints it and exits with code 70.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void fail_check(const char* condition, const char* file, int line,
                             std::string_view meaning);

}  // namespace tracecast

/// Always on: states what must hold at a module's door, and what it means when it does not.
#define TRACECAST_CHECK(condition, meaning)                               \
  do {                                                                    \
    if (!(condition)) [[unlikely]]                                        \
      ::tracecast::fail_check(#condition, __FILE__, __LINE__, (meaning)); \
  } while (false)
