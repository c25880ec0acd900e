#include "exec/backend/host_stream.h"

#include "base/error.h"
#include "base/now_seconds.h"

namespace shoehorn {

void HostEvent::wait() const {
  std::unique_lock lock(mutex_);
  reached_.wait(lock, [this] { return !is_pending_; });
  if (failure_) std::rethrow_exception(failure_);
}

HostStream::~HostStream() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    quits_ = true;
    if (is_working_) cancel_();
  }
  changed_.notify_all();
  thread_.join();
}

void HostStream::record(Event& event) {
  if (!thread_.joinable()) return;  // what was issued is done
  auto& recorded = static_cast<HostEvent&>(event);
  {
    const std::lock_guard lock(recorded.mutex_);
    recorded.is_pending_ = true;
    recorded.failure_ = nullptr;
  }
  push({.event = &recorded});
}

void HostStream::mark(double& seconds) {
  if (thread_.joinable()) {
    push({.time = &seconds});
  } else {
    seconds = now_seconds();
  }
}

void HostStream::prepare_behind(const std::function<void()>& cancel) {
  const std::lock_guard lock(mutex_);
  CHECK(pending_ == 0, "a stream gets more room while it works");
  queue_.resize(queue_.size() + 4);  // it, marks around it, and an event behind it
  if (thread_.joinable()) return;
  queue_.resize(queue_.size() + 1);  // an event that the host waits for
  cancel_ = cancel;
  thread_ = std::thread([this] { this->work(); });
}

void HostStream::run_behind(const std::function<void()>& work) {
  push({.work = &work});
}

void HostStream::push(Entry entry) {
  {
    const std::lock_guard lock(mutex_);
    CHECK(pending_ < queue_.size(), "{} pieces of work behind, for {} there is room", pending_ + 1,
          queue_.size());
    queue_[(first_ + pending_) % queue_.size()] = entry;
    ++pending_;
  }
  changed_.notify_all();
}

void HostStream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return quits_ || pending_ > 0; });
    if (quits_) return;
    const Entry entry = queue_[first_];
    first_ = (first_ + 1) % queue_.size();
    --pending_;
    if (entry.work != nullptr) {
      if (failure_) continue;
      is_working_ = true;
      lock.unlock();
      std::exception_ptr failure;
      try {
        (*entry.work)();
      } catch (...) {
        failure = std::current_exception();
      }
      lock.lock();
      is_working_ = false;
      failure_ = failure;
      continue;
    }
    if (entry.time != nullptr) {
      *entry.time = now_seconds();
      continue;
    }
    const std::lock_guard event_lock(entry.event->mutex_);
    entry.event->is_pending_ = false;
    entry.event->failure_ = failure_;
    entry.event->reached_.notify_all();
  }
}

}  // namespace shoehorn
