#include "exec/host_staging.h"

#include "base/error.h"
#include "base/rounding.h"
#include "plan/plan_target.h"

namespace shoehorn {

std::span<std::byte> HostStaging::take(int64_t bytes) {
  CHECK(round_up(bytes, kArenaAlignment) <= room(), "{} bytes of host staging wanted, {} left of {}", bytes,
        room(), memory_.size());
  const std::span<std::byte> taken = memory_.subspan(static_cast<size_t>(used_), static_cast<size_t>(bytes));
  used_ += round_up(bytes, kArenaAlignment);
  return taken;
}

void HostStaging::give_back(std::span<std::byte> taken) {
  const int64_t begin = taken.data() - memory_.data();
  // Out of its turn: it is free when those before it are.
  if (begin + round_up(static_cast<int64_t>(taken.size()), kArenaAlignment) == used_) used_ = begin;
}

StorageId add_host_staging(StateTable& state, const MachineProfile& machine, int64_t bytes) {
  if (machine.device_is_host || bytes == 0) return {};
  Storage storage;
  storage.name = "host_staging";
  storage.type = {DType::kU8, {bytes}};
  storage.role = Role::kCommunication;
  storage.space = AddressSpace::kPinnedHost;
  return state.add_storage(std::move(storage));
}

}  // namespace shoehorn
