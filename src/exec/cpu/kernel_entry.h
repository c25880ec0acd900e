// Binds kernels to nodes. Each family of ops has one file of entries (*_bind.cc); cpu_backend.cc collects
// them.
#pragma once

#include <vector>

#include "exec/backend/backend.h"
#include "exec/cpu/elementwise/elementwise.h"
#include "ops/op_info.h"

namespace shoehorn::cpu {

struct KernelEntry {
  OpKind kind;
  // Size of the workspace with every count at its maximum; null: none. `threads` is the size of the OpenMP
  // team.
  int64_t (*workspace)(const OpContext& node, int threads);
  PreparedNode (*bind)(const OpContext& node, const NodeBuffers& buffers, int threads);
  // Makes the code that `bind` needs, for kernels with code generated at run time; null: there is none.
  void (*compile)(const OpContext& node) = nullptr;
};

std::vector<KernelEntry> movement_kernels();
std::vector<KernelEntry> rowwise_kernels();
std::vector<KernelEntry> column_kernels();
std::vector<KernelEntry> rotary_kernels();
std::vector<KernelEntry> matmul_kernels();
std::vector<KernelEntry> attention_kernels();
std::vector<KernelEntry> loss_kernels();
std::vector<KernelEntry> vocabulary_loss_kernels();
std::vector<KernelEntry> update_kernels();
std::vector<KernelEntry> outer_update_kernels();

// The size of a dimension, which may depend on a run-time count.
struct RuntimeDim {
  int64_t maximum = 0;
  int32_t count = -1;
  RuntimeDim() = default;
  explicit RuntimeDim(const Dim& dim) : maximum(dim.maximum), count(dim.count.index) {}
  int64_t operator()(const int64_t* counts) const { return count < 0 ? maximum : counts[count]; }
};

// The rows of a value are its first dimension; row_elements is the product of the others.
inline RuntimeDim rows(const TensorType& type) {
  return RuntimeDim(type.shape[0]);
}
inline int64_t row_elements(const TensorType& type) {
  return type.shape[0].maximum == 0 ? 0 : type.shape.elements() / type.shape[0].maximum;
}

// A node whose call lacks only the number of rows.
template <auto kKernel, typename Call>
PreparedNode run_by_rows(Call call, RuntimeDim rows) {
  return [call, rows](const int64_t* counts) mutable {
    call.rows = rows(counts);
    kKernel(call);
  };
}

// Input i as a pointer; null if absent.
template <typename T>
T* input(const NodeBuffers& buffers, size_t i) {
  return i < buffers.inputs.size() ? reinterpret_cast<T*>(buffers.inputs[i]) : nullptr;
}
template <typename T>
T* output(const NodeBuffers& buffers, size_t i) {
  return reinterpret_cast<T*>(buffers.outputs[i]);
}

// The kernels' dropout arguments. Inputs `first`, `first` + 1 and `first` + 2 are step, sample and position.
Dropout bind_dropout(const shoehorn::Dropout& dropout, const NodeBuffers& buffers, size_t first);

}  // namespace shoehorn::cpu
