// Runs mpirun as a child, and passes signals on to the ranks themselves. mpirun takes a signal for an order to end: Open MPI 4
// passes SIGTERM on behind its kill timeout and kills behind the same time again, in which a rank may not have saved a
// checkpoint. A rank that is told directly tells the others, on all hosts, and they end as one process would. Where no rank is on
// this host mpirun is sent kPassedOnSignal, which every mpirun passes on as it is.
//
// Linux; for a process of one thread.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

namespace shoehorn {

// Set in the environment of the ranks. Ranks that end by a stop then end with 0, so that mpirun takes none for failed: the
// launcher has the exit code of the stop.
inline constexpr const char* kLauncherVariable = "SHOEHORN_LAUNCHER";

// Set in the environment of the ranks where the launcher asks for their success: the path of a file into which the first rank
// writes at a good end.
inline constexpr const char* kSuccessVariable = "SHOEHORN_LAUNCH_SUCCESS";

// Whether mpirun's exit code 0 says that no rank was lost. MPICH 4.2.1 ends with 0 in a fifth of the runs of two ranks of which one is
// killed: it notes 0 for all but a rank that has just ended, also when it has ended the others itself.
enum class Success { kIsExitCode, kIsTold };

// A request to stop, to ranks that have a launcher.
inline constexpr int kPassedOnSignal = SIGUSR1;

struct LaunchEnd {
  int exit_code = 0;             // mpirun's; 128 + signal if a signal ended it
  int stop_signal = 0;           // the first one that was passed on; 0 if there was none
  bool has_lost_a_rank = false;  // mpirun's exit code was 0, and no rank told of success; exit_code is 1
  bool was_stuck = false;        // mpirun was killed, for it had no child any more and did not end

  // What a shell is told: 130, 143 or 129 of a run that was stopped and did not fail.
  int shell_code() const;
};

// How long mpirun may run on when its children have ended. Open MPI 4.1 waits several times its kill timeout. With PMIx 4.2 it may wait for
// itself for ever, for a lock in PMIx_server_finalize: seen once in some hundreds of runs of which a rank was killed as it started.
inline constexpr double kSecondsAlone = 30;

// Starts the program `words` and waits for its end; SIGINT, SIGTERM and SIGHUP that come meanwhile go to the ranks on this
// host (processes of this program below it), or as kPassedOnSignal to mpirun where there is none. The second goes to mpirun too. A signal that is ignored stays ignored. The program is in a process group of its own, so that Ctrl-C of a
// terminal comes here alone, has no terminal as its input, and is ended where this process is killed. SystemError if it
// cannot be started.
LaunchEnd run_launcher(const std::vector<std::string>& words, Success success = Success::kIsExitCode,
                       double seconds_alone = kSecondsAlone);

// Of the first rank, at a good end: tells the launcher if it asks.
void tell_success();

// Processes below `ancestor` whose program is this process's.
std::vector<pid_t> processes_below(pid_t ancestor);

}  // namespace shoehorn
