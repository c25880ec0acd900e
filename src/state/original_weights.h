// The files that a run's weights came from, kept for what is read from them again: values of frozen weights that have
// fewer bits here, and the base under adapters that are merged. Hours lie in between, so that each tensor is held
// against what it was when the run read it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/content_hash.h"
#include "io/tensor_files.h"

namespace shoehorn {

struct OriginalWeights {
  TensorFiles files;  // kept open
  std::map<std::string, std::string> contents =
      {};  // by tensor: ContentHash of what was read of it, in float32
};

// The elements of a slice of one tensor from the first to the last, a range after the other. `originals` outlives it.
class OriginalTensor {
 public:
  // `name` is one of the contents, and the slice what was read of it.
  OriginalTensor(const OriginalWeights& originals, const std::string& name, const Slice& slice);

  // The next values, in float32. SystemError behind the last ones if the tensor is not what it was.
  void read_next(std::span<float> values);

 private:
  const OriginalWeights& originals_;
  std::string name_;
  Slice slice_;
  int64_t read_ = 0;  // elements
  ContentHash content_;
};

}  // namespace shoehorn
