// A request to this process to end its work early: by a signal, or by the program itself.
//
//   const StopSignals signals;   // SIGINT, SIGTERM and SIGHUP request a stop while the object lives
//   …
//   throw_if_stop_requested();   // in long work, where it may be given up
//
// Work that is given up throws Stopped. Training (train/trainer.h) catches it, saves a checkpoint and returns; other
// work leaves nothing half-written. There is one request per process, because signals are the process's.
//
// The library only asks for the request. Nothing installs handlers unless it is told to (StopSignals,
// enable_jit_checkpoint); a program with handlers of its own calls request_stop() in them.
#pragma once

#include <csignal>
#include <exception>
#include <initializer_list>
#include <string>
#include <vector>

namespace shoehorn {

// A second signal ends the process if it comes this long after the first. An earlier one is the same event: `timeout`
// signals a process and then its group, and a shell passes the hang-up of its terminal on.
inline constexpr double kSecondSignalSeconds = 0.5;

// Requests a stop. The first request counts. Async-signal-safe.
void request_stop(int signal = SIGTERM) noexcept;

// The signal of the request; 0 if there is none. Async-signal-safe, and cheap enough for every kernel.
int stop_signal() noexcept;

// Forgets the request, for a program that goes on after it.
void clear_stop_request() noexcept;

// "Ctrl-C (SIGINT)", "SIGTERM", …
std::string stop_signal_name(int signal);

// What a shell reports for a program that ended by the signal: 130, 143, 129, 141.
inline int exit_code_of_stop(int signal) {
  return 128 + signal;
}

// Thrown where work is given up because a stop was requested. It is no error, and nothing but the owner of the work
// should catch it.
class Stopped : public std::exception {
 public:
  // `kept`: a sentence on what there is of the work; may be empty.
  explicit Stopped(int signal, std::string kept = {});

  const char* what() const noexcept override { return text_.c_str(); }
  int signal() const { return signal_; }
  const std::string& kept() const { return kept_; }

 private:
  int signal_;
  std::string kept_;
  std::string text_;
};

// Throws Stopped if a stop was requested.
inline void throw_if_stop_requested() {
  if (const int signal = stop_signal(); signal != 0) throw Stopped(signal);
}

// Returns work(); if it is stopped, says what was kept of it.
template <typename Work>
auto with_kept_text(const std::string& kept, const Work& work) {
  try {
    throw_if_stop_requested();
    return work();
  } catch (const Stopped& stop) {
    throw Stopped(stop.signal(), kept);
  }
}

// While an object lives, its signals call request_stop(). SIGPIPE may be one: the output has no reader any more, which
// ends a program that does not ask for it. A signal that was ignored stays ignored (SIGHUP under nohup). A second signal,
// other than SIGPIPE, kSecondSignalSeconds after the request or later, ends the process at once
// with its exit code. Objects may be nested; each restores what it found.
class StopSignals {
 public:
  explicit StopSignals(std::initializer_list<int> signals = {SIGINT, SIGTERM, SIGHUP});
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

 private:
  struct Installed {
    int signal;
    struct sigaction before;
  };
  std::vector<Installed> installed_;
};

// From now on an object of StopSignals leaves its handlers behind. For a program whose last work it guards: a signal that
// comes between the work's end and the process's then changes neither the exit code nor what was said.
void keep_stop_signals() noexcept;

}  // namespace shoehorn
