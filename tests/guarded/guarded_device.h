// A device for tests: the CPU's kernels in memory that the host cannot touch. It shows that all access to the
// memory of a device goes through the backend's interface, and that all waiting for its work does.
//
// Arenas of the device's memory are PROT_NONE, except while one of its own kernels or copies runs: any other
// access faults. The host's spaces are the host's.
//
// Streams show each wait that is missing. Lazy ones do nothing until somebody waits: work runs when an event behind
// it is waited for. Of eager ones all but the first made run what they are given at once, before what the first,
// a lazy one, still has to do.
#pragma once

#include "exec/backend/backend.h"

namespace shoehorn::test_support {

enum class GuardedStreams : uint8_t { kLazy, kEager };

class GuardedDevice final : public Backend {
 public:
  explicit GuardedDevice(int threads, GuardedStreams streams = GuardedStreams::kLazy);
  ~GuardedDevice() override;

  // The arenas of the device's memory that live now.
  std::vector<const Arena*> device_arenas() const;

  const MachineProfile& machine() const override { return machine_; }
  int64_t workspace_bytes(const Program& program, const Node& node) const override;
  std::unique_ptr<Arena> reserve(AddressSpace space, int64_t bytes) const override;
  std::unique_ptr<Stream> make_stream() const override;
  std::unique_ptr<Event> make_event() const override;
  void copy_to_host(const std::byte* from, std::span<std::byte> to, Stream& stream) const override;
  void copy_from_host(std::span<const std::byte> from, std::byte* to, Stream& stream) const override;
  void fill(std::byte* to, int64_t bytes, std::byte value, Stream& stream) const override;
  void compile(const Program& program, const Node& node) const override;
  void release_unused_code() const override;
  PreparedNode prepare(const Program& program, const Node& node, const NodeBuffers& buffers,
                       Stream& stream) const override;
  int64_t measure_overhead_bytes(AddressSpace space) const override;
  MachineLimits measure_limits() const override;
  std::vector<ArithmeticPeak> measure_arithmetic_peaks() const override;
  int64_t rows_of_full_tiles(DType operands) const override;

 private:
  class Guard;

  std::unique_ptr<Backend> cpu_;
  std::unique_ptr<Stream> cpu_stream_;
  MachineProfile machine_;
  GuardedStreams streams_;
  mutable bool has_first_stream_ = false;
  std::unique_ptr<Guard> guard_;
};

}  // namespace shoehorn::test_support
