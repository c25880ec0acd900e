// The files that a run's weights came from. They are kept open, because some values are read from them again:
// frozen weights that have fewer bits in memory, and the base under merged adapters. That may be hours later,
// so each tensor is compared with what the run read at its start.
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

  // Reads the next values, in float32. After the last one: SystemError if the tensor has changed.
  void read_next(std::span<float> values);

 private:
  const OriginalWeights& originals_;
  std::string name_;
  Slice slice_;
  int64_t read_ = 0;  // elements
  ContentHash content_;
};

}  // namespace shoehorn
