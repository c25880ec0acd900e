// A communicator: how the processes of a run (its ranks) send each other bytes. Everything above it is made of one call:
// send to one rank and receive from another at the same time. Rings of such calls are the collectives.
//
// There is no communicator in a run of one rank. Who implements it: MPI (open_ranks.h), threads or
// processes in tests (*_ranks_testing.h).
//
// Waiting sleeps and does not spin: ranks may share processors. What does not come in time is a SystemError that names the
// ranks that give no sign of life, with their hosts: all ranks behind a silent one wait for each other, so each asks the
// others before its time is up, and those that wait answer. So is, at once, a rank of this host whose process is gone; and a message of another
// host's that does not come although a stop was requested (base/stop_request.h), by which a launcher ends the ranks that are
// left.
//
// A rank that fails, by an error of its own or because another's process is gone, tells the others (may_say_its_failure). They
// wait for their end, so that the run ends with one error.
//
// One thread at a time uses a communicator; give_up() may be called beside it.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace shoehorn {

// How long a rank waits for one on another host behind a request to stop, before it takes it for gone.
inline constexpr double kStopPatienceSeconds = 5;

// At most so long, and at most a tenth of the timeout, a rank waits for the others' signs of life.
inline constexpr double kLongestRollCallSeconds = 1;

// How long a rank waits for its end behind another's failure, for which a launcher ends all.
inline constexpr double kFailurePatienceSeconds = 15;

// What ranks tell each other beside the messages of exchange().
enum class RankSign : uint8_t {
  kAsk,     // who waits in an exchange is to answer
  kAlive,   // the answer
  kOver,    // this rank's time is up: it fails, and with it the run
  kFailed,  // this rank fails, and will say why unless another does
  kHeard,  // the answer to kFailed, of who waits in an exchange or has failed: no other error comes from here
  kSays,   // this rank fails, and says why
};

// A link that messages take as long over as they would: how slow links are tried on one host (`launch --link_bandwidth`).
struct LinkPace {
  double latency_seconds = 0;
  double bytes_per_second = 0;

  double seconds_of(int64_t bytes) const;
};

struct RankPlace {
  int32_t rank = 0;
  int32_t size = 1;
  int32_t local_size = 1;  // ranks on this host
};

class Communicator {
 public:
  explicit Communicator(RankPlace place) : place_(place) {}
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int32_t rank() const { return place_.rank; }
  int32_t size() const { return place_.size; }
  int32_t local_size() const { return place_.local_size; }
  bool is_main() const { return rank() == 0; }
  int32_t next() const { return (rank() + 1) % size(); }
  int32_t before() const { return (rank() + size() - 1) % size(); }

  // Sends `bytes` to one rank while it receives from another, and returns when both are done. The other ranks' calls must
  // match: messages between two ranks arrive in their order, and each is received into a span of its size. Either
  // may be empty; then nothing is sent or received there. SystemError: see above.
  void exchange(int32_t to, std::span<const std::byte> bytes, int32_t from, std::span<std::byte> received);

  // Of a rank that ends with an error: tells the others, and listens for up to `seconds`, the first rank not at all, and none once
  // all others wait in an exchange or have failed. True if this error is the one to say; false where another rank says one, or
  // one of lower number fails, too. Then it returns when a stop is requested, or behind kFailurePatienceSeconds.
  bool may_say_its_failure(double seconds);

  // Ends an exchange that another thread waits in, with an error, and all that follow: this rank has failed.
  void give_up() { has_given_up_ = true; }

  // Seconds that exchange() waits for the other ranks.
  void set_timeout_seconds(double seconds) { timeout_seconds_ = seconds; }
  double timeout_seconds() const { return timeout_seconds_; }
  // From now on exchange() takes as long as the message that it sends over such a link, at least.
  void set_pace(const LinkPace& pace) { pace_ = pace; }
  bool is_paced() const { return pace_.has_value(); }
  // For messages: "rank 1 on host-a".
  std::string name_of(int32_t rank) const;
  void set_hosts(std::vector<std::string> hosts) { hosts_ = std::move(hosts); }
  // The processes of this host's ranks, by rank; 0: a rank of another host.
  void set_local_processes(std::vector<pid_t> processes) { processes_ = std::move(processes); }

  int64_t sent_bytes() const { return sent_bytes_; }
  double waited_seconds() const { return waited_seconds_; }

  // All ranks have done their work and end. A communicator that is destroyed without it belongs to a rank that failed.
  virtual void finish() {}

 protected:
  // Issues both; the spans stay until is_done(), which lets the messages proceed.
  virtual void begin(int32_t to, std::span<const std::byte> bytes, int32_t from,
                     std::span<std::byte> received) = 0;
  virtual bool is_done() = 0;

  // Whether ranks can tell each other signs; what is not sent or does not arrive is no error.
  virtual bool has_signs() const { return false; }
  virtual void send_sign(int32_t /*to*/, RankSign /*sign*/) {}
  // A sign that has arrived, and from whom.
  virtual std::optional<std::pair<int32_t, RankSign>> next_sign() { return std::nullopt; }

 private:
  class RollCall;

  void wait(int32_t from);
  [[noreturn]] void fail_in_time(int32_t from, RollCall& call);
  [[noreturn]] void fail_with(int32_t failed, RollCall& call);
  void wait_for_end(RollCall& call);
  void check_goes_on(int32_t from, double stopping_seconds) const;

  RankPlace place_;
  double timeout_seconds_ = 1800;
  std::optional<LinkPace> pace_;
  std::vector<std::string> hosts_;
  std::vector<pid_t> processes_;
  std::atomic<bool> has_given_up_ = false;
  bool leaves_word_to_another_ = false;  // of the run's failure
  int64_t sent_bytes_ = 0;
  double waited_seconds_ = 0;
};

}  // namespace shoehorn
