#include "io/concurrent_hash.h"

#include <system_error>

namespace shoehorn {

namespace {

// Handing over fewer bytes than this takes as long as hashing them (XXH3: 16 microseconds for this many).
constexpr size_t kFewestBytesForThread = size_t{1} << 18;

}  // namespace

ConcurrentHash::~ConcurrentHash() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

ConcurrentHash::Pending ConcurrentHash::begin(std::span<const std::byte> bytes) {
  if (bytes.size() < kFewestBytesForThread || !has_thread()) {
    hash_.add(bytes);
  } else {
    {
      const std::lock_guard lock(mutex_);
      bytes_ = bytes;
    }
    changed_.notify_all();
  }
  return Pending(this);
}

std::string ConcurrentHash::hex() const {
  return hash_.hex();
}

bool ConcurrentHash::has_thread() {
  if (thread_state_ == ThreadState::kNotTried) {
    thread_state_ = ThreadState::kNotToBeHad;
    if (std::thread::hardware_concurrency() == 1) return false;
    try {
      thread_ = std::thread([this] { work(); });
      thread_state_ = ThreadState::kRuns;
    } catch (const std::system_error&) {
      // A limit on threads: the hash is made without one.
    }
  }
  return thread_state_ == ThreadState::kRuns;
}

void ConcurrentHash::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return bytes_.empty(); });
}

void ConcurrentHash::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !bytes_.empty(); });
    if (bytes_.empty()) return;
    const std::span<const std::byte> bytes = bytes_;
    lock.unlock();
    hash_.add(bytes);
    lock.lock();
    bytes_ = {};
    changed_.notify_all();
  }
}

}  // namespace shoehorn
