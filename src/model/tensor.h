// Symbolic tensors, in which models are written, and the outputs of a model's forward.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "graph/program.h"

namespace shoehorn {

// A value of the program being built. Cheap to copy; valid while its ModelBuilder lives.
class Tensor {
 public:
  Tensor() = default;
  ValueId id() const { return id_; }
  const TensorType& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }

 private:
  friend class ModelBuilder;
  Tensor(ValueId id, TensorType type) : id_(id), type_(std::move(type)) {}
  ValueId id_;
  TensorType type_;
};

// Output tensors by name. A model whose only output is logits can `return logits;`.
class Outputs {
 public:
  Outputs(Tensor logits) { named_.emplace_back("logits", std::move(logits)); }  // implicit on purpose
  Outputs(std::vector<std::pair<std::string, Tensor>> named) : named_(std::move(named)) {}

  // UserError listing the existing outputs if none has this name.
  Tensor at(const std::string& name) const;

 private:
  std::vector<std::pair<std::string, Tensor>> named_;
};

}  // namespace shoehorn
