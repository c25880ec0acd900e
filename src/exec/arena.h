// A reservation of memory that is resident from the start: touched when made, so that nothing is left to fail
// later.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shoehorn {

class Arena {
 public:
  // Zeroed memory, aligned to 2 MiB, on huge pages where the system gives them. Throws SystemError where it
  // does not fit.
  explicit Arena(int64_t bytes);
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::byte* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Bytes of it that are resident now, as the kernel counts them (mincore), up to whole pages.
  int64_t resident_bytes() const;

 private:
  void touch();

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  std::byte* mapping_ = nullptr;
  int64_t mapping_bytes_ = 0;
};

}  // namespace shoehorn
