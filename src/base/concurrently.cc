#include "base/concurrently.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace shoehorn {

namespace {

class Pieces {
 public:
  Pieces(size_t count, const std::function<void(size_t)>& work) : count_(count), work_(work) {}

  void run() {
    for (;;) {
      const size_t piece = next_++;
      if (piece >= count_) return;
      try {
        work_(piece);
      } catch (...) {
        next_ = count_;
        keep(piece, std::current_exception());
      }
    }
  }

  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void keep(size_t piece, std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (error_ && failed_ < piece) return;
    error_ = std::move(error);
    failed_ = piece;
  }

  const size_t count_;
  const std::function<void(size_t)>& work_;
  std::atomic<size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
  size_t failed_ = 0;  // the piece of the error
};

}  // namespace

void run_concurrently(size_t count, size_t threads, const std::function<void(size_t)>& work,
                      const std::function<void()>& on_thread) {
  Pieces pieces(count, work);
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < std::min(threads, count); ++i) {
      others.emplace_back([&] {
        if (on_thread) on_thread();
        pieces.run();
      });
    }
    pieces.run();
  }
  pieces.rethrow();
}

}  // namespace shoehorn
