// Common base of backends that compute in the host's memory and whose calls return when the work is done.
// Every address space except the disk is memory of this process; streams have no queue but for collectives
// (host_stream.h).
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

  // Resident bytes of the process now, including the OpenMP team, plus what a run is known to add besides its
  // arenas.
  static int64_t measure_process_overhead_bytes();
};

}  // namespace shoehorn
