// Staging memory through which the host reaches memory that it cannot address: a planned storage, from which
// views (exec/host_view.h) take space during their lifetime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/backend/backend.h"
#include "graph/state_table.h"
#include "plan/machine_profile.h"

namespace shoehorn {

// A copy out of it is issued and not waited for: the piece that it reads is handed out again, or filled anew, when the
// copy is done. Nothing allocates.
class HostStaging {
 public:
  HostStaging() = default;  // none: where the host reaches everything
  // `events`: one for each copy that may be under way; the oldest is waited for where there are more.
  explicit HostStaging(std::span<std::byte> memory, std::vector<std::unique_ptr<Event>> events = {});

  int64_t room() const { return static_cast<int64_t>(memory_.size()) - used_; }
  // Aligned to kArenaAlignment; copies that still read it are waited for. InternalError where there is no room.
  std::span<std::byte> take(int64_t bytes);
  // Gives memory back. Last taken, first given back.
  void give_back(std::span<std::byte> taken);
  // A piece for one copy, free again when that is done, and not one that a copy of these still reads, if it can be:
  // they follow one another from the end of the room. Empty where there is no room.
  std::span<std::byte> take_for_copy(int64_t bytes);

  // A copy that reads the piece was issued on the stream, the same for all copies.
  void copy_issued(std::span<const std::byte> piece, Stream& stream);
  // Blocks until no copy reads the piece.
  void wait_for_copies(std::span<const std::byte> piece);

 private:
  struct Copy {
    std::span<const std::byte> piece;
    std::unique_ptr<Event> done;
  };
  // Blocks until the copy of this number is done, and with it all before it.
  void wait_for(int64_t number);
  Copy& copy(int64_t number) { return copies_[static_cast<size_t>(number) % copies_.size()]; }

  std::span<std::byte> memory_;
  int64_t used_ = 0;
  int64_t next_end_ = 0;                   // where the next piece for one copy ends
  std::vector<Copy> copies_;               // a ring
  int64_t first_copy_ = 0, end_copy_ = 0;  // numbers of those that may be under way
};

// Adds a staging storage of `bytes` bytes; invalid on a machine where the host reaches the device's memory.
StorageId add_host_staging(StateTable& state, const MachineProfile& machine, int64_t bytes);

}  // namespace shoehorn
