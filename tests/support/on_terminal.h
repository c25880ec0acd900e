// The program in a session of its own, on a terminal; what it shows there.
#pragma once

#include <gtest/gtest.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli_support.h"

namespace shoehorn::test_support {

class OnTerminal {
 public:
  explicit OnTerminal(const std::vector<std::string>& words) {
    std::vector<std::string> all = {SHOEHORN_PROGRAM};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> arguments;
    for (std::string& word : all) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
    pid_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    take_signals();
    setenv("OMP_WAIT_POLICY", "passive", 0);
    setenv("TERM", "xterm", 1);
    execv(arguments[0], arguments.data());
    _exit(127);
  }

  // Reads until the program has shown a text, or has ended.
  void read_until(const std::string& text) {
    std::array<char, 4096> block{};
    while (shown_.find(text) == std::string::npos) {
      const ssize_t count = read(terminal_, block.data(), block.size());
      if (count <= 0) return;
      shown_.append(block.data(), static_cast<size_t>(count));
    }
  }
  void type(char key) const { ASSERT_EQ(write(terminal_, &key, 1), 1); }
  void close_window() { close(terminal_); }
  int exit_code() const {
    int status = 0;
    waitpid(pid_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  const std::string& shown() const { return shown_; }

 private:
  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string shown_;
};

}  // namespace shoehorn::test_support
