// For tests of what a process leaves that has ended.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace shoehorn {

// A process id that is free: of a child that has ended.
inline pid_t dead_process() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

}  // namespace shoehorn
