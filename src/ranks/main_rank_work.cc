#include "ranks/main_rank_work.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "ranks/agreement.h"

namespace shoehorn {

namespace {

// The thread that says that the first rank is at work.
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

  void say_that_it_is_done() {
    end();
    if (failure_) std::rethrow_exception(failure_);
    gather_values(ranks_, true);
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

void work_on_main_rank(Communicator& ranks, const std::function<void()>& work) {
  if (!ranks.is_main()) {
    while (!gather_values(ranks, false)[0]) {
    }
    return;
  }
  WordsOfWork words(ranks);
  work();
  words.say_that_it_is_done();
}

}  // namespace shoehorn
