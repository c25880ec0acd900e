// The files that a run's weights came from, kept for what is read from them again: values of frozen weights that have
// fewer bits here, and the base under adapters that are merged. Hours lie in between, so that each tensor is held
// against what it was when the run read it.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "base/content_hash.h"
#include "io/safetensors.h"

namespace shoehorn {

struct OriginalWeights {
  SafetensorsModel files;                            // kept open
  std::map<std::string, std::string> contents = {};  // by tensor: ContentHash of its values in float32
};

// One tensor from its beginning to its end, a range after the other. `originals` outlives it.
class OriginalTensor {
 public:
  // `name` is one of the contents.
  OriginalTensor(const OriginalWeights& originals, const std::string& name);

  // The next values, in float32. SystemError behind the last ones if the tensor is not what it was.
  void read_next(std::span<float> values);

 private:
  const OriginalWeights& originals_;
  std::string name_;
  int64_t read_ = 0;  // elements
  ContentHash content_;
};

}  // namespace shoehorn
