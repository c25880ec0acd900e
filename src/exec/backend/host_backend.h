// What backends have in common that compute in the host's own memory and are done when a call returns: every
// address space but the disk is memory of this process, streams keep no queue and events are always reached.
#pragma once

#include "exec/backend/backend.h"

namespace shoehorn {

class HostBackend : public Backend {
 public:
  std::unique_ptr<Arena> reserve(AddressSpace space, int64_t bytes) const override;
  std::unique_ptr<Stream> make_stream() const override;
  std::unique_ptr<Event> make_event() const override;
  void copy_to_host(const std::byte* from, std::span<std::byte> to, Stream&) const override;
  void copy_from_host(std::span<const std::byte> from, std::byte* to, Stream&) const override;
  void fill(std::byte* to, int64_t bytes, std::byte value, Stream&) const override;
  int64_t measure_overhead_bytes(AddressSpace) const override { return measure_process_overhead_bytes(); }

  // Resident bytes now, with the team that runs the kernels, and what a run is known to add besides its arenas.
  static int64_t measure_process_overhead_bytes();
};

}  // namespace shoehorn
