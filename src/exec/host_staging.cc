#include "exec/host_staging.h"

#include "base/error.h"
#include "base/rounding.h"
#include "plan/plan_target.h"

namespace shoehorn {

namespace {

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

}  // namespace

HostStaging::HostStaging(std::span<std::byte> memory, std::vector<std::unique_ptr<Event>> events)
    : memory_(memory), next_end_(static_cast<int64_t>(memory.size())) {
  for (std::unique_ptr<Event>& event : events) copies_.push_back({{}, std::move(event)});
}

std::span<std::byte> HostStaging::take(int64_t bytes) {
  CHECK(round_up(bytes, kArenaAlignment) <= room(), "{} bytes of host staging wanted, {} left of {}", bytes,
        room(), memory_.size());
  const std::span<std::byte> taken = memory_.subspan(static_cast<size_t>(used_), static_cast<size_t>(bytes));
  used_ += round_up(bytes, kArenaAlignment);
  wait_for_copies(taken);
  return taken;
}

std::span<std::byte> HostStaging::take_for_copy(int64_t bytes) {
  const int64_t taken = round_up(bytes, kArenaAlignment);
  if (taken > room()) return {};
  if (next_end_ - taken < used_)
    next_end_ = static_cast<int64_t>(memory_.size()) / kArenaAlignment * kArenaAlignment;
  if (next_end_ - taken < used_) return {};
  next_end_ -= taken;
  const std::span<std::byte> piece =
      memory_.subspan(static_cast<size_t>(next_end_), static_cast<size_t>(bytes));
  wait_for_copies(piece);
  return piece;
}

void HostStaging::give_back(std::span<std::byte> taken) {
  const int64_t begin = taken.data() - memory_.data();
  // Out of its turn: it is free when those before it are.
  if (begin + round_up(static_cast<int64_t>(taken.size()), kArenaAlignment) == used_) used_ = begin;
}

void HostStaging::copy_issued(std::span<const std::byte> piece, Stream& stream) {
  CHECK(!copies_.empty(), "a copy out of a staging that has no events");
  if (end_copy_ - first_copy_ == std::ssize(copies_)) wait_for(first_copy_);
  Copy& issued = copy(end_copy_++);
  issued.piece = piece;
  stream.record(*issued.done);
}

void HostStaging::wait_for_copies(std::span<const std::byte> piece) {
  for (int64_t number = end_copy_; number-- > first_copy_;) {
    if (overlap(copy(number).piece, piece)) wait_for(number);
  }
}

void HostStaging::wait_for(int64_t number) {
  copy(number).done->wait();
  first_copy_ = number + 1;
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
