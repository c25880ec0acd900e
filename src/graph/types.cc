#include "graph/types.h"

#include <fmt/format.h>

#include "base/error.h"

namespace shoehorn {

int64_t Shape::elements() const {
  int64_t product = 1;
  for (const Dim& dim : dims_) {
    CHECK(dim.maximum >= 0, "negative dimension {}", dim.maximum);
    int64_t next = 0;
    if (__builtin_mul_overflow(product, dim.maximum, &next)) {
      throw user_error(
          "[shape] expected fewer than 2^63 elements, got a product that overflows at dimension {}",
          dim.maximum);
    }
    product = next;
  }
  return product;
}

std::string_view role_name(Role role) {
  switch (role) {
    case Role::kWeight:
      return "weight";
    case Role::kMasterWeight:
      return "master_weight";
    case Role::kGradient:
      return "gradient";
    case Role::kOptimizerState:
      return "optimizer_state";
    case Role::kActivation:
      return "activation";
    case Role::kTemporary:
      return "temporary";
    case Role::kWorkspace:
      return "workspace";
    case Role::kCommunication:
      return "communication";
    case Role::kInput:
      return "input";
    case Role::kScalar:
      return "scalar";
  }
  return "unknown";
}

std::string_view address_space_name(AddressSpace space) {
  switch (space) {
    case AddressSpace::kDevice:
      return "device";
    case AddressSpace::kPinnedHost:
      return "pinned host";
    case AddressSpace::kHost:
      return "pageable host";
    case AddressSpace::kDisk:
      return "disk";
  }
  return "unknown";
}

std::string_view component_name(Component component) {
  switch (component) {
    case Component::kNone:
      return "other";
    case Component::kEmbeddings:
      return "embeddings";
    case Component::kAttention:
      return "attention";
    case Component::kFeedForward:
      return "feed_forward";
    case Component::kHead:
      return "head";
    case Component::kOptimizer:
      return "optimizer";
  }
  return "unknown";
}

std::string_view phase_name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kRecompute:
      return "recompute";
    case Phase::kUpdate:
      return "update";
  }
  return "unknown";
}

std::string region_name(const Region& region) {
  if (region.layer < 0) return std::string(component_name(region.component));
  return fmt::format("layer {} {}", region.layer, component_name(region.component));
}

std::string type_name(const TensorType& type) {
  std::string dims;
  for (const Dim& dim : type.shape.dims()) {
    dims += fmt::format("{}{}{}", dims.empty() ? "" : ", ", dim.maximum, dim.count.valid() ? "*" : "");
  }
  return fmt::format("{}[{}]", dtype_name(type.dtype), dims);
}

}  // namespace shoehorn
