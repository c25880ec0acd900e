// Staging memory through which the host reaches memory that it cannot address: a planned storage, from which
// views (exec/host_view.h) take space during their lifetime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "graph/state_table.h"
#include "plan/machine_profile.h"

namespace shoehorn {

class HostStaging {
 public:
  HostStaging() = default;  // none: where the host reaches everything
  explicit HostStaging(std::span<std::byte> memory) : memory_(memory) {}

  int64_t room() const { return static_cast<int64_t>(memory_.size()) - used_; }
  // Aligned to kArenaAlignment. InternalError where there is no room.
  std::span<std::byte> take(int64_t bytes);
  // Gives memory back. Last taken, first given back.
  void give_back(std::span<std::byte> taken);

 private:
  std::span<std::byte> memory_;
  int64_t used_ = 0;
};

// Adds a staging storage of `bytes` bytes; invalid on a machine where the host reaches the device's memory.
StorageId add_host_staging(StateTable& state, const MachineProfile& machine, int64_t bytes);

}  // namespace shoehorn
