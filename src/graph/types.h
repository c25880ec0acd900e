// The type and the meaning of a value: element type, shape with run-time counts, role, region.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "graph/ids.h"

namespace shoehorn {

// A dimension has a static maximum, which plans use, and optionally a run-time count, which kernels use.
struct Dim {
  int64_t maximum = 0;
  CountId count = {};

  Dim() = default;
  Dim(int64_t fixed) : maximum(fixed) {}  // NOLINT(google-explicit-constructor): {2, 3} is a shape
  Dim(int64_t maximum_in, CountId count_in) : maximum(maximum_in), count(count_in) {}
  bool operator==(const Dim&) const = default;
};

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<Dim> dims) : dims_(dims) {}
  explicit Shape(std::vector<Dim> dims) : dims_(std::move(dims)) {}

  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  const Dim& operator[](int64_t axis) const { return dims_[static_cast<size_t>(axis)]; }
  const Dim& back() const { return dims_.back(); }
  const std::vector<Dim>& dims() const { return dims_; }
  // The number of elements with every count at its maximum. A scalar (rank 0) has one.
  int64_t elements() const;
  bool operator==(const Shape&) const = default;

 private:
  std::vector<Dim> dims_;
};

struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;

  int64_t bytes() const { return shape.elements() * dtype_bytes(dtype); }
  bool operator==(const TensorType&) const = default;
};

// What the bytes of a value are for. Memory reports group bytes by role.
enum class Role : uint8_t {
  kWeight,
  kMasterWeight,
  kGradient,
  kOptimizerState,
  kActivation,  // computed in the forward, read in the backward
  kTemporary,
  kWorkspace,
  kCommunication,
  kInput,
  kScalar,
};
std::string_view role_name(Role role);

// The memory that bytes lie in. Kernels work within one space; only copies cross spaces. The device is where
// the backend computes by default; for the CPU that is the host's memory.
enum class AddressSpace : uint8_t { kDevice, kPinnedHost, kHost, kDisk };
inline constexpr size_t kAddressSpaces = 4;
std::string_view address_space_name(AddressSpace space);

enum class Component : uint8_t { kNone, kEmbeddings, kAttention, kFeedForward, kHead, kOptimizer };
std::string_view component_name(Component component);

enum class Phase : uint8_t { kForward, kBackward, kRecompute, kUpdate };
std::string_view phase_name(Phase phase);

// Where in the model and in the step a node belongs. Every pass keeps it.
struct Region {
  int32_t layer = -1;  // -1: outside the stack of layers
  Component component = Component::kNone;
  Phase phase = Phase::kForward;
  int32_t micro_batch = 0;
  int32_t stage = 0;
  bool operator==(const Region&) const = default;
};

// "layer 3 attention", "embeddings", …
std::string region_name(const Region& region);

// "float32[2048*, 1024]": a star marks a dimension with a run-time count.
std::string type_name(const TensorType& type);

}  // namespace shoehorn
