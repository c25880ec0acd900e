// For tests: two hosts on one machine, joined by a link that can be counted and cut. A host is a set of namespaces of its own:
// network, host name, mounts, processes and shared memory, with a /proc and a /dev/shm to match, or else MPI would find a way
// around the link. A third network namespace is where runs are started, as on the login node of a cluster: it has a link of
// its own to each of the hosts, over which mpirun starts what it needs there and hears of its end.
//
//   start ── 10.77.1.0/24 ── shoe-a ── 10.77.0.0/24 ── shoe-b ── 10.77.2.0/24 ── start
//
// mpirun reaches a host by ssh: each has an sshd of its own. Where there is no sshd (openssh-server), nsenter stands for both. All of it
// goes when the object does. The hosts share the machine's files.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli_support.h"
#include "link_relay.h"

namespace shoehorn::test_support {

class TwoHosts {
 public:
  // `scratch`: a directory for the hostfile and what starts programs on the hosts.
  explicit TwoHosts(const std::filesystem::path& scratch);
  ~TwoHosts();
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;

  // Why there are no hosts here; empty: there are.
  const std::string& missing() const { return missing_; }

  // A program that runs its words where runs are started: `nsenter`, with the words that stand before.
  std::vector<std::string> words_at_start(const std::vector<std::string>& words) const;
  static constexpr const char* kEnter = "/usr/bin/nsenter";
  std::filesystem::path hostfile() const { return scratch_ / "hosts"; }
  void give_slots(int slots) const;  // to each host, for so many ranks; one unless said
  // The second host's name to mpirun.
  static constexpr const char* kSecond = "10.77.2.2";
  // "ssh" or "nsenter".
  const char* way_to_hosts() const { return has_sshd_ ? "ssh" : "nsenter"; }

  // A program that runs its words on a host, 0 or 1, but with the machine's mounts: `nsenter`, with the words that stand before.
  std::vector<std::string> words_on_host(int64_t host, const std::vector<std::string>& words) const;
  // The addresses of the hosts on the link between them.
  static constexpr const char *kLinkA = "10.77.0.1", *kLinkB = "10.77.0.2";

  // Bytes that have gone from the first host to the second, and back.
  int64_t bytes_on_link() const;
  void cut_link() const;
  // Nobody reaches the second host any more.
  void cut_off_second() const;
  // Either way no more than this from now on, but for kBurstBytes at once (tc's token bucket). Not everywhere: false if there is none.
  bool limit_link(double bits_per_second) const;
  static constexpr int64_t kBurstBytes = 65536;
  // Every packet takes so long from now on, by tc's netem or, where the kernel lacks it, a relay. Empty, or why there is neither.
  std::string delay_link(std::chrono::microseconds delay);

  // To the processes of a program, by its path, on the second host. Whether there were any.
  bool signal_second(const std::string& program, int signal) const;
  // Whether a process of it runs on either host.
  bool runs_program(const std::string& program) const;

 private:
  struct Host {
    pid_t keeper = 0;   // unshare, which holds the namespaces
    pid_t process = 0;  // the first process of the host, as it is seen from outside
  };
  Host make_host(const std::vector<std::string>& flags, const std::string& script) const;
  void connect(const Host& a, const std::string& address_a, const Host& b, const std::string& address_b,
               const std::string& device) const;
  static void set_up(const Host& host, const std::string& address, const std::string& device);
  void write_files() const;
  void start_sshd() const;

  std::filesystem::path scratch_;
  std::string missing_;
  Host start_, a_, b_;
  bool has_sshd_ = false;
  std::unique_ptr<LinkRelay> relay_;  // in the place of the link
};

}  // namespace shoehorn::test_support
