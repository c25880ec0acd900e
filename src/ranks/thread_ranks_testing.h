// For tests: ranks that are threads of one process. What is sent is copied, at once. They may send and add, and compute no
// products, whose library serves one run at a time: see process_ranks_testing.h.
#pragma once

#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ranks/communicator.h"

namespace shoehorn::test_support {

// The messages under way between the ranks of a test.
struct ThreadMail {
  std::mutex mutex;
  std::map<std::pair<int32_t, int32_t>, std::deque<std::vector<std::byte>>>
      under_way;                                                      // by sender and receiver
  std::map<int32_t, std::deque<std::pair<int32_t, RankSign>>> signs;  // by receiver
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(RankPlace place, std::shared_ptr<ThreadMail> mail)
      : Communicator(place), mail_(std::move(mail)) {}

 private:
  void begin(int32_t to, std::span<const std::byte> bytes, int32_t from,
             std::span<std::byte> received) override {
    const std::lock_guard lock(mail_->mutex);
    if (!bytes.empty()) mail_->under_way[{rank(), to}].emplace_back(bytes.begin(), bytes.end());
    from_ = from;
    received_ = received;
  }

  bool is_done() override {
    if (received_.empty()) return true;
    const std::lock_guard lock(mail_->mutex);
    auto& waiting = mail_->under_way[{from_, rank()}];
    if (waiting.empty()) return false;
    CHECK(waiting.front().size() == received_.size(), "a message of {} bytes, {} expected",
          waiting.front().size(), received_.size());
    std::memcpy(received_.data(), waiting.front().data(), received_.size());
    waiting.pop_front();
    received_ = {};
    return true;
  }

  bool has_signs() const override { return true; }

  void send_sign(int32_t to, RankSign sign) override {
    const std::lock_guard lock(mail_->mutex);
    mail_->signs[to].emplace_back(rank(), sign);
  }

  std::optional<std::pair<int32_t, RankSign>> next_sign() override {
    const std::lock_guard lock(mail_->mutex);
    auto& arrived = mail_->signs[rank()];
    if (arrived.empty()) return std::nullopt;
    const std::pair<int32_t, RankSign> sign = arrived.front();
    arrived.pop_front();
    return sign;
  }

  std::shared_ptr<ThreadMail> mail_;
  int32_t from_ = 0;
  std::span<std::byte> received_;
};

inline std::vector<std::shared_ptr<Communicator>> thread_ranks(int32_t size) {
  const auto mail = std::make_shared<ThreadMail>();
  std::vector<std::shared_ptr<Communicator>> ranks;
  for (int32_t rank = 0; rank < size; ++rank)
    ranks.push_back(std::make_shared<ThreadRank>(RankPlace{rank, size, size}, mail));
  return ranks;
}

// Calls function(rank) in a thread for each rank, and throws the first error.
inline void run_ranks(const std::vector<std::shared_ptr<Communicator>>& ranks,
                      const std::function<void(Communicator&)>& function) {
  std::vector<std::exception_ptr> failures(ranks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < ranks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        function(*ranks[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace shoehorn::test_support
