// The program. Exit codes: 0 done, 1 failed, 2 the user's mistake; 130, 143, 129 and 141 stopped by SIGINT (Ctrl-C),
// SIGTERM, SIGHUP and SIGPIPE.
#include <csignal>

#include "base/stop_request.h"
#include "base/thread_waits.h"
#include "cli/commands.h"

int main(int argc, char** argv) {
  shoehorn::bound_thread_waits(argv);
  shoehorn::keep_stop_signals();
  // A file beyond the limit of `ulimit -f` is then an error of the call that writes it, which names the file.
  std::signal(SIGXFSZ, SIG_IGN);
  return shoehorn::run_program({argv + 1, argv + argc});
}
