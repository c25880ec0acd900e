#include "exec/cpu/cpu_backend.h"

#include <array>
#include <utility>

#include "exec/backend/host_backend.h"
#include "exec/backend/thread_count.h"
#include "exec/cpu/arithmetic_peak.h"
#include "exec/cpu/collectives/collective_bind.h"
#include "exec/cpu/kernel_entry.h"
#include "exec/cpu/machine_limits.h"
#include "exec/cpu/products/matmul.h"

namespace shoehorn {

namespace cpu {

Dropout bind_dropout(const shoehorn::Dropout& dropout, const NodeBuffers& buffers, size_t first) {
  return {dropout.p,
          dropout.seed,
          dropout.stream_id,
          input<const uint32_t>(buffers, first),
          input<const int32_t>(buffers, first + 1),
          input<const int32_t>(buffers, first + 2)};
}

namespace {

class CpuBackend final : public HostBackend {
 public:
  CpuBackend(int threads, std::shared_ptr<Communicator> ranks)
      : threads_((threads > 0 ? use_threads(threads) : thread_count()).threads), ranks_(std::move(ranks)) {
    machine_ = machine_profile(threads_);
    for (const auto& family : {movement_kernels(), rowwise_kernels(), column_kernels(), rotary_kernels(),
                               matmul_kernels(), attention_kernels(), loss_kernels(),
                               vocabulary_loss_kernels(), update_kernels(), outer_update_kernels()}) {
      for (const KernelEntry& entry : family) entries_[static_cast<size_t>(entry.kind)] = entry;
    }
  }

  const MachineProfile& machine() const override { return machine_; }

  int64_t workspace_bytes(const Program& program, const Node& node) const override {
    if (is_collective(node.kind)) return 0;
    const KernelEntry& kernel = entry(node);
    return kernel.workspace == nullptr ? 0 : kernel.workspace({program, node}, threads_);
  }

  void compile(const Program& program, const Node& node) const override {
    if (is_collective(node.kind)) return;
    const KernelEntry& kernel = entry(node);
    if (kernel.compile != nullptr) kernel.compile({program, node});
  }

  int64_t measure_overhead_bytes(AddressSpace space) const override {
    return HostBackend::measure_overhead_bytes(space) + bytes_while_running(threads_);
  }

  void release_unused_code() const override { release_unused_matmuls(); }

  PreparedNode prepare(const Program& program, const Node& node, const NodeBuffers& buffers,
                       Stream& stream) const override {
    if (is_collective(node.kind)) {
      auto& host_stream = static_cast<HostStream&>(stream);
      return bind_collective({program, node}, buffers, ranks_, host_stream);
    }
    return entry(node).bind({program, node}, buffers, threads_);
  }

  MachineLimits measure_limits() const override { return measure_machine_limits(); }
  std::vector<ArithmeticPeak> measure_arithmetic_peaks() const override {
    return cpu::measure_arithmetic_peaks();
  }
  int64_t rows_of_full_tiles(DType operands) const override { return rows_of_full_panels(operands); }

 private:
  const KernelEntry& entry(const Node& node) const {
    const KernelEntry& found = entries_[static_cast<size_t>(node.kind)];
    CHECK(found.bind != nullptr, "the CPU has no kernel for {}", op_info(node.kind).name);
    return found;
  }

  int threads_;
  MachineProfile machine_;
  std::shared_ptr<Communicator> ranks_;
  std::array<KernelEntry, static_cast<size_t>(OpKind::kOpKindCount)> entries_{};
};

}  // namespace

}  // namespace cpu

std::unique_ptr<Backend> make_cpu_backend(int threads, std::shared_ptr<Communicator> ranks) {
  return std::make_unique<cpu::CpuBackend>(threads, std::move(ranks));
}

}  // namespace shoehorn
