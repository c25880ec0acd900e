// An arena in the host's memory. It is touched when it is created, so it is resident from the start.
#pragma once

#include "exec/backend/backend.h"

namespace shoehorn {

class HostArena final : public Arena {
 public:
  // Zeroed memory, aligned to 2 MiB, on huge pages if the system gives them. SystemError if it does not fit.
  explicit HostArena(int64_t bytes);
  ~HostArena() override;
  HostArena(const HostArena&) = delete;
  HostArena& operator=(const HostArena&) = delete;

  int64_t bytes() const override { return bytes_; }
  std::byte* address() const override { return data_; }
  std::byte* host() const override { return data_; }
  // As the kernel counts them (mincore).
  int64_t resident_bytes() const override;
  void lock() override;

 private:
  void touch();

  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
  std::byte* mapping_ = nullptr;
  int64_t mapping_bytes_ = 0;
};

}  // namespace shoehorn
