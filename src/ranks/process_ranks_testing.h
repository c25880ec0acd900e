// For tests: ranks that are processes, forked here and joined by sockets, so that each has its libraries' state for itself,
// as under MPI. The products' library is not made for several runs at a time in one process.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ranks/communicator.h"

namespace shoehorn::test_support {

class ProcessRank final : public Communicator {
 public:
  // `sockets`: to each rank; that to itself is not used.
  ProcessRank(RankPlace place, std::vector<int> sockets)
      : Communicator(place), sockets_(std::move(sockets)) {}

 private:
  void begin(int32_t to, std::span<const std::byte> bytes, int32_t from,
             std::span<std::byte> received) override {
    to_ = to;
    from_ = from;
    unsent_ = bytes;
    missing_ = received;
  }

  bool is_done() override {
    if (!unsent_.empty()) {
      const ssize_t sent = send(sockets_.at(static_cast<size_t>(to_)), unsent_.data(), unsent_.size(),
                                MSG_DONTWAIT | MSG_NOSIGNAL);
      if (sent > 0) unsent_ = unsent_.subspan(static_cast<size_t>(sent));
    }
    if (!missing_.empty()) {
      const ssize_t read =
          recv(sockets_.at(static_cast<size_t>(from_)), missing_.data(), missing_.size(), MSG_DONTWAIT);
      if (read == 0) throw system_error("[ranks] expected a message, got the end of {}", name_of(from_));
      if (read > 0) missing_ = missing_.subspan(static_cast<size_t>(read));
    }
    return unsent_.empty() && missing_.empty();
  }

  std::vector<int> sockets_;
  int32_t to_ = 0, from_ = 0;
  std::span<const std::byte> unsent_;
  std::span<std::byte> missing_;
};

// Runs function(rank) in a process for each rank and returns what each of them returned; one rank gets null. Throws if one
// of them threw. Expectations of GoogleTest belong into the caller: those of the processes are not counted.
inline std::vector<std::string> run_in_processes(
    int32_t size, const std::function<std::string(std::shared_ptr<Communicator> ranks)>& function) {
  const auto count = static_cast<size_t>(size);
  std::vector<std::vector<int>> sockets(count, std::vector<int>(count, -1));
  for (size_t a = 0; a < count; ++a) {
    for (size_t b = a + 1; b < count; ++b) {
      int pair[2];
      CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "no sockets: {}", errno);
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  }
  std::vector<int> results;
  std::vector<pid_t> children;
  for (int32_t rank = 0; rank < size; ++rank) {
    results.push_back(memfd_create("result", MFD_CLOEXEC));
    const pid_t child = fork();
    CHECK(child >= 0, "no process: {}", errno);
    if (child == 0) {
      std::string text;
      int exit_code = 0;
      try {
        const auto own =
            std::make_shared<ProcessRank>(RankPlace{rank, size, size}, sockets[static_cast<size_t>(rank)]);
        own->set_timeout_seconds(60);
        text = function(size > 1 ? own : std::shared_ptr<Communicator>{});
      } catch (const std::exception& error) {
        text = error.what();
        exit_code = 1;
      }
      if (write(results.back(), text.data(), text.size()) != std::ssize(text)) exit_code = 2;
      _exit(exit_code);
    }
    children.push_back(child);
  }
  for (const std::vector<int>& of_rank : sockets) {
    for (const int socket : of_rank) {
      if (socket >= 0) close(socket);
    }
  }
  std::vector<std::string> texts;
  std::string failure;
  for (size_t rank = 0; rank < count; ++rank) {
    int status = 0;
    waitpid(children[rank], &status, 0);
    std::string& text = texts.emplace_back(static_cast<size_t>(lseek(results[rank], 0, SEEK_END)), '\0');
    CHECK(pread(results[rank], text.data(), text.size(), 0) == std::ssize(text), "no result of rank {}",
          rank);
    close(results[rank]);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
      failure += fmt::format("rank {} ended with {}: {}\n", rank, status, text);
  }
  if (!failure.empty()) throw std::runtime_error(failure);
  return texts;
}

}  // namespace shoehorn::test_support
