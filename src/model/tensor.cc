#include "model/tensor.h"

#include "base/error.h"

namespace shoehorn {

Tensor Outputs::at(const std::string& name) const {
  std::vector<std::string> known;
  for (const auto& [known_name, tensor] : named_) {
    if (known_name == name) return tensor;
    known.push_back(known_name);
  }
  throw user_error("[Model: forward] expected an output '{}', which the task reads, got {}", name,
                   fmt::join(known, ", "));
}

}  // namespace shoehorn
