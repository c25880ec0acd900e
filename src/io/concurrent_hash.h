// The hash of a file under construction, computed by a thread of its own while the caller writes the bytes.
//
//   ConcurrentHash hash;
//   {
//     const auto pending = hash.begin(bytes);
//     write(bytes);
//   }  // waits: from here on the bytes may change
//   hash.hex();
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "base/content_hash.h"

namespace shoehorn {

// Not thread-safe: one caller at a time.
class ConcurrentHash {
 public:
  // Its destructor waits until the bytes are in the hash. With a null pointer it waits for nothing.
  class [[nodiscard]] Pending {
   public:
    explicit Pending(ConcurrentHash* hash) : hash_(hash) {}
    ~Pending() {
      if (hash_ != nullptr) hash_->wait();
    }
    Pending(const Pending&) = delete;
    Pending& operator=(const Pending&) = delete;

   private:
    ConcurrentHash* hash_;
  };

  ConcurrentHash() = default;
  ~ConcurrentHash();
  ConcurrentHash(const ConcurrentHash&) = delete;
  ConcurrentHash& operator=(const ConcurrentHash&) = delete;

  // Adds the bytes to the hash. They must not change until the returned object is destroyed. Small pieces are
  // added at once; the first large one starts the thread. Where no thread can be started, all bytes are added
  // at once.
  Pending begin(std::span<const std::byte> bytes);

  // The hash of all bytes so far. Call it while nothing is pending.
  std::string hex() const;

 private:
  enum class ThreadState { kNotTried, kRuns, kNotToBeHad };

  bool has_thread();
  void wait();
  void work();

  ContentHash hash_;
  ThreadState thread_state_ = ThreadState::kNotTried;
  std::thread thread_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::span<const std::byte> bytes_;  // to be added; empty once they are
  bool ends_ = false;
};

}  // namespace shoehorn
