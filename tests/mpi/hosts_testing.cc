#include "hosts_testing.h"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

#include "beside_program.h"

namespace shoehorn::test_support {

namespace {

namespace fs = std::filesystem;

constexpr const char *kLink = "link0", *kLinkToB = "start_b";
constexpr const char *kStartA = "10.77.1.1", *kStartB = "10.77.2.1";
constexpr const char *kHostA = "10.77.1.2", *kHostB = TwoHosts::kSecond;
constexpr const char* kSshd = "/usr/sbin/sshd";

struct Said {
  int status = -1;
  std::string text;  // output and errors
};

Said say(const std::string& command) {
  Said said;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return said;
  std::array<char, 4096> buffer;
  for (size_t count; (count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
    said.text.append(buffer.data(), count);
  said.status = pclose(pipe);
  return said;
}

void must(const std::string& command) {
  const Said said = say(command);
  if (said.status != 0) throw std::runtime_error(command + ": " + said.text);
}

// The first child of a process, once there is one.
pid_t child_of(pid_t process) {
  const std::string file = fmt::format("/proc/{}/task/{}/children", process, process);
  for (int i = 0; i < 400; ++i) {
    std::ifstream children(file);
    if (pid_t child = 0; children >> child) return child;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  throw std::runtime_error("unshare has started nothing");
}

void end(pid_t process) {
  if (process <= 0) return;
  kill(process, SIGKILL);
  waitpid(process, nullptr, 0);
}

}  // namespace

TwoHosts::TwoHosts(const fs::path& scratch) : scratch_(scratch) {
  for (const char* tool : {"unshare", "nsenter", "ip"}) {
    if (say(fmt::format("command -v {}", tool)).status == 0) continue;
    missing_ = fmt::format("no {} (util-linux and iproute2 have it)", tool);
    return;
  }
  const Said may = say(
      "unshare --net --mount --uts --ipc --pid --fork --mount-proc ip link add name link0 type veth peer name link1");
  if (may.status != 0) {
    missing_ = "no namespaces joined by veth here: " + may.text;
    return;
  }
  for (const char* name : {"shoe-a", "shoe-b", "start"}) fs::remove(scratch_ / name);
  const std::vector<std::string> all = {"--net", "--mount", "--uts",        "--ipc",
                                        "--pid", "--fork",  "--kill-child", "--mount-proc"};
  const auto host = [&](const char* name) {
    return make_host(
        // UCX finds network cards in /sys, which a container may keep from being mounted anew.
        all,
        fmt::format(
            "mount -t tmpfs shm /dev/shm && {{ mount -t sysfs sysfs /sys 2> /dev/null || true; }} && hostname {} && "
            "ip link set lo up && : > {} && exec sleep 100000",
            name, (scratch_ / name).string()));
  };
  a_ = host("shoe-a");
  b_ = host("shoe-b");
  start_ = make_host(
      {"--net", "--fork", "--kill-child"},
      fmt::format("ip link set lo up && : > {} && exec sleep 100000", (scratch_ / "start").string()));
  for (const char* name : {"shoe-a", "shoe-b", "start"}) {
    for (int i = 0; !fs::exists(scratch_ / name); ++i) {
      if (i == 400) throw std::runtime_error(fmt::format("host {} does not come up", name));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  connect(a_, kLinkA, b_, kLinkB, kLink);
  connect(start_, kStartA, a_, kHostA, "start_a");
  connect(start_, kStartB, b_, kHostB, kLinkToB);
  // MPICH's mpiexec has one address for both.
  must(fmt::format("nsenter -t {} -n ip route add {} via {}", b_.process, kStartA, kStartB));
  has_sshd_ = fs::exists(kSshd) && say("command -v ssh ssh-keygen").status == 0;
  write_files();
  if (has_sshd_) start_sshd();
}

TwoHosts::~TwoHosts() {
  for (const Host& host : {start_, a_, b_}) end(host.keeper);
}

TwoHosts::Host TwoHosts::make_host(const std::vector<std::string>& flags, const std::string& script) const {
  std::vector<std::string> words = {"unshare"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"sh", "-c", script});
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  Host host;
  host.keeper = fork();
  if (host.keeper == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  host.process = child_of(host.keeper);
  return host;
}

void TwoHosts::connect(const Host& a, const std::string& address_a, const Host& b,
                       const std::string& address_b, const std::string& device) const {
  must(fmt::format("ip link add name {0} netns {1} type veth peer name {0} netns {2}", device, a.process,
                   b.process));
  set_up(a, address_a, device);
  set_up(b, address_b, device);
  // UCX takes no card whose link is not up yet, which may be a second later.
  for (const Host& host : {a, b}) {
    const std::string look = fmt::format("nsenter -t {} -n ip -brief link show dev {}", host.process, device);
    for (int i = 0; i < 300 && say(look).text.find(" UP ") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

void TwoHosts::set_up(const Host& host, const std::string& address, const std::string& device) {
  must(fmt::format("nsenter -t {} -n ip address add {}/24 dev {}", host.process, address, device));
  must(fmt::format("nsenter -t {} -n ip link set {} up", host.process, device));
}

void TwoHosts::write_files() const {
  const std::string by_ssh = fmt::format(
      "exec ssh -F none -i {} -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null "
      "-o LogLevel=ERROR \"$@\"\n",
      (scratch_ / "key").string());
  const std::string by_nsenter = fmt::format(
      "case $1 in {}) host={} ;; {}) host={} ;; *) echo \"no host $1\" >&2; exit 1 ;; esac\n"
      "nsenter -t $host -n ip -brief address show up | grep -q \"$1/\" || {{ echo \"no route to $1\" >&2; exit 255; }}\n"
      "shift\n"
      "exec nsenter -t $host -n -m -u -i -p -- sh -c \"$*\"\n",
      kHostA, a_.process, kHostB, b_.process);
  const fs::path agent = scratch_ / "reach";
  std::ofstream(agent) << "#!/bin/sh\n" << (has_sshd_ ? by_ssh : by_nsenter);
  fs::permissions(agent, fs::perms::owner_all);
  give_slots(1);
}

void TwoHosts::give_slots(int slots) const {
  std::ofstream(hostfile()) << fmt::format("{} slots={}\n{} slots={}\n", kHostA, slots, kHostB, slots);
}

// A daemon a host, which ends with the host's processes. One key is the hosts' and the user's.
void TwoHosts::start_sshd() const {
  fs::create_directories("/run/sshd");  // where it gives up its rights
  const fs::path key = scratch_ / "key";
  for (const char* end : {"", ".pub"}) fs::remove(key.string() + end);
  must(fmt::format("ssh-keygen -q -t ed25519 -N '' -f {}", key.string()));
  const fs::path settings = scratch_ / "sshd_config";
  std::ofstream(settings) << fmt::format(
      "HostKey {0}\nAuthorizedKeysFile {0}.pub\nPermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\n",
      key.string());
  for (const Host& host : {a_, b_})
    must(fmt::format("nsenter -t {} -n -m -u -i -p -- {} -f {}", host.process, kSshd, settings.string()));
}

std::vector<std::string> TwoHosts::words_at_start(const std::vector<std::string>& words) const {
  // The names of both Open MPIs, 4 and 5, and of MPICH. Messages between ranks take the link between the hosts.
  std::vector<std::string> all = {"-t", std::to_string(start_.process), "-n", "--", "env"};
  const std::string agent = (scratch_ / "reach").string();
  std::vector<std::string> variables = {"OMPI_MCA_plm_rsh_agent=" + agent, "PRTE_MCA_plm_ssh_agent=" + agent,
                                        "OMPI_MCA_btl_tcp_if_include=10.77.0.0/24",
                                        "OMPI_MCA_plm_rsh_no_tree_spawn=1"};
  if (is_of_mpich()) {
    variables = {"HYDRA_LAUNCHER=rsh", "HYDRA_LAUNCHER_EXEC=" + agent, "HYDRA_IFACE=start_a",
                 "UCX_TLS=tcp,self", std::string("UCX_NET_DEVICES=") + kLink};
  }
  all.insert(all.end(), variables.begin(), variables.end());
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

std::vector<std::string> TwoHosts::words_on_host(int64_t host, const std::vector<std::string>& words) const {
  std::vector<std::string> all = {"-t", std::to_string((host == 0 ? a_ : b_).process), "-n", "-u", "-i", "-p",
                                  "--"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

int64_t TwoHosts::bytes_on_link() const {
  const Said said =
      say(fmt::format("nsenter -t {} -n ip -json -statistics link show dev {}", a_.process, kLink));
  const nlohmann::json counted = nlohmann::json::parse(said.text).at(0).at("stats64");
  return counted.at("tx").at("bytes").get<int64_t>() + counted.at("rx").at("bytes").get<int64_t>();
}

void TwoHosts::cut_link() const {
  must(fmt::format("nsenter -t {} -n ip link set {} down", a_.process, kLink));
}

void TwoHosts::cut_off_second() const {
  for (const char* link : {kLink, kLinkToB})
    must(fmt::format("nsenter -t {} -n ip link set {} down", b_.process, link));
}

bool TwoHosts::limit_link(double bits_per_second) const {
  for (const Host& host : {a_, b_}) {
    const std::string limit =
        fmt::format("nsenter -t {} -n tc qdisc replace dev {} root tbf rate {:.0f}bit burst {} latency 400ms",
                    host.process, kLink, bits_per_second, kBurstBytes);
    if (say(limit).status != 0) return false;
  }
  return true;
}

std::string TwoHosts::delay_link(std::chrono::microseconds delay) {
  bool has_netem = true;
  for (const Host& host : {a_, b_}) {
    const std::string late = fmt::format("nsenter -t {} -n tc qdisc replace dev {} root netem delay {}us",
                                         host.process, kLink, delay.count());
    has_netem = has_netem && say(late).status == 0;
  }
  if (has_netem) return {};
  must(fmt::format("nsenter -t {} -n ip link delete {}", a_.process, kLink));
  try {
    relay_ = std::make_unique<LinkRelay>(a_.process, b_.process, kLink, delay);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  set_up(a_, kLinkA, kLink);
  set_up(b_, kLinkB, kLink);
  return {};
}

bool TwoHosts::signal_second(const std::string& program, int signal) const {
  const Said said = say(fmt::format(
      "nsenter -t {} -m -p -- sh -c 'for p in /proc/[0-9]*; do if [ \"$(readlink $p/exe)\" = {} ]; "
      "then kill -{} ${{p#/proc/}} && echo signalled; fi; done'",
      b_.process, program, signal));
  return said.text.find("signalled") != std::string::npos;
}

bool TwoHosts::runs_program(const std::string& program) const {
  for (const Host& host : {a_, b_}) {
    const std::string found = fmt::format(
        "nsenter -t {} -m -p -- sh -c 'readlink /proc/[0-9]*/exe' | grep -qx {}", host.process, program);
    if (say(found).status == 0) return true;
  }
  return false;
}

}  // namespace shoehorn::test_support
