#include <csignal>
#include <exception>
#include <new>
#include <string>

#include "sim/base/error.hpp"
#include "tools/command/output.hpp"
#include "tools/command/run_command.hpp"
#include "tools/command/subcommand.hpp"

int main(int argc, char** argv) {
  using namespace tracecast;
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is the reader's choice; see write_answer
  try {
    return run_command({argv + (argc > 0 ? 1 : 0), argv + argc});
  } catch (const InputError& error) {
    say(error.what());
    return kExitWrongInput;
  } catch (const std::bad_alloc&) {
    say("tracecast: out of memory; expected a smaller input or more memory");
    return kExitWrongInput;
  } catch (const std::exception& error) {
    say(std::string("tracecast has a bug: ") + error.what());
    return kExitOurBug;
  }
}
