#include "ranks/awaited_work.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "ranks/agreement.h"

namespace shoehorn {

namespace {

// The thread that says that this rank is at work.
class WordsOfWork {
 public:
  explicit WordsOfWork(Communicator& ranks)
      : ranks_(ranks),
        pause_(std::min(kSecondsBetweenWords, ranks.timeout_seconds() / 10)),
        thread_([this] { speak(); }) {}

  // The work has failed, if it was not said to be done.
  ~WordsOfWork() {
    if (!thread_.joinable()) return;
    ranks_.give_up();
    end();
  }
  WordsOfWork(const WordsOfWork&) = delete;
  WordsOfWork& operator=(const WordsOfWork&) = delete;

  // No word is said any more.
  void finish() {
    end();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void end() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_one();
    thread_.join();
  }

  void speak() {
    try {
      std::unique_lock lock(mutex_);
      while (!over_.wait_for(lock, pause_, [this] { return is_over_; })) {
        lock.unlock();
        gather_values(ranks_, false);
        lock.lock();
      }
    } catch (...) {
      failure_ = std::current_exception();
    }
  }

  Communicator& ranks_;
  std::chrono::duration<double> pause_;
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace

void await_work(Communicator& ranks, bool works, const std::function<void()>& work) {
  if (works) {
    WordsOfWork words(ranks);
    work();
    words.finish();
  }
  const auto all_are_done = [&] {
    const std::vector<bool> done = gather_values(ranks, true);
    return std::ranges::all_of(done, [](bool one) { return one; });
  };
  while (!all_are_done()) {
  }
}

}  // namespace shoehorn
