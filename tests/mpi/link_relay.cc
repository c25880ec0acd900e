#include "link_relay.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <deque>
#include <stdexcept>
#include <vector>

namespace shoehorn::test_support {

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMostBytes = 65536;  // of a packet

struct Packet {
  Clock::time_point due;
  std::vector<char> bytes;
};

// A device of the namespace of a process; -1 where none can be made.
int open_device(pid_t process, const std::string& name) {
  const int space = open(fmt::format("/proc/{}/ns/net", process).c_str(), O_RDONLY | O_CLOEXEC);
  if (space < 0 || setns(space, CLONE_NEWNET) != 0) return -1;
  close(space);
  const int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  ifreq request = {};
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  return device >= 0 && ioctl(device, TUNSETIFF, &request) == 0 ? device : -1;
}

// Until it is killed.
[[noreturn]] void hand_on(const std::array<int, 2>& devices, std::chrono::microseconds delay) {
  std::array<std::deque<Packet>, 2> waiting;  // for the device of the number
  std::vector<char> buffer(kMostBytes);
  for (;;) {
    auto next = Clock::time_point::max();
    for (const std::deque<Packet>& packets : waiting) {
      if (!packets.empty()) next = std::min(next, packets.front().due);
    }
    std::array<pollfd, 2> polled = {pollfd{devices[0], POLLIN, 0}, pollfd{devices[1], POLLIN, 0}};
    const auto left = std::chrono::duration_cast<std::chrono::nanoseconds>(next - Clock::now()).count();
    const timespec until = {std::max<int64_t>(0, left) / 1'000'000'000,
                            std::max<int64_t>(0, left) % 1'000'000'000};
    ppoll(polled.data(), polled.size(), next == Clock::time_point::max() ? nullptr : &until, nullptr);
    for (size_t from = 0; from < 2; ++from) {
      for (ssize_t count; (count = read(devices[from], buffer.data(), buffer.size())) > 0;)
        waiting[1 - from].push_back({Clock::now() + delay, {buffer.data(), buffer.data() + count}});
    }
    for (size_t to = 0; to < 2; ++to) {
      for (; !waiting[to].empty() && waiting[to].front().due <= Clock::now(); waiting[to].pop_front()) {
        const std::vector<char>& bytes = waiting[to].front().bytes;
        [[maybe_unused]] const ssize_t written = write(devices[to], bytes.data(), bytes.size());  // or lost
      }
    }
  }
}

}  // namespace

LinkRelay::LinkRelay(pid_t a, pid_t b, const std::string& name, std::chrono::microseconds delay) {
  std::array<int, 2> ready = {};
  if (pipe2(ready.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe to the relay");
  relay_ = fork();
  if (relay_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const std::array<int, 2> devices = {open_device(a, name), open_device(b, name)};
    if (devices[0] < 0 || devices[1] < 0 || write(ready[1], "1", 1) != 1) _exit(1);
    hand_on(devices, delay);
  }
  close(ready[1]);
  char is_ready = 0;
  const bool is_made = read(ready[0], &is_ready, 1) == 1;
  close(ready[0]);
  if (is_made) return;
  waitpid(relay_, nullptr, 0);
  throw std::runtime_error("no TUN device here (/dev/net/tun, CONFIG_TUN)");
}

LinkRelay::~LinkRelay() {
  kill(relay_, SIGKILL);
  waitpid(relay_, nullptr, 0);
}

}  // namespace shoehorn::test_support
