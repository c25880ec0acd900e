// The streams of backends that compute in the host's memory. Their calls return when the work is done, so a stream has no
// queue; but for work that mostly waits (messages between ranks), which a thread of the stream's own does beside the
// computing. That thread never enters OpenMP.
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "exec/backend/backend.h"

namespace shoehorn {

class HostEvent final : public Event {
 public:
  // Throws what the work in front of the event threw.
  void wait() const override;

 private:
  friend class HostStream;
  mutable std::mutex mutex_;
  mutable std::condition_variable reached_;
  bool is_pending_ = false;
  std::exception_ptr failure_;
};

class HostStream final : public Stream {
 public:
  HostStream() = default;
  // Cancels work that is under way.
  ~HostStream() override;

  void record(Event& event) override;
  void wait(const Event& event) override { event.wait(); }
  void mark(double& seconds) override;

  // Makes room for one more piece of work in the queue, and a thread that does such work. `cancel` makes work that is
  // under way give up soon; it is called from another thread. Call it once for each node, before the first run.
  void prepare_behind(const std::function<void()>& cancel);
  // Issues `work`, which stays until it is done. Allocates nothing. Work behind work that threw is not done.
  void run_behind(const std::function<void()>& work);

 private:
  // Work; or an event that is reached, or a time that is taken, when the work before it is done.
  struct Entry {
    const std::function<void()>* work = nullptr;
    HostEvent* event = nullptr;
    double* time = nullptr;
  };

  void push(Entry entry);
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Entry> queue_;  // a ring
  size_t first_ = 0, pending_ = 0;
  bool is_working_ = false, quits_ = false;
  std::exception_ptr failure_;
  std::function<void()> cancel_;
  std::thread thread_;
};

}  // namespace shoehorn
