// What a program of a family is for.
#pragma once

#include <cstdint>
#include <string_view>

namespace shoehorn {

enum class ProgramKind : uint8_t {
  kTrainStep,        // an optimizer step: every micro-batch, and the update
  kMicroBatchFirst,  // forward and backward of a micro-batch, whose gradients begin the sums
  kMicroBatchNext,   // the same, added to them
  kUpdate,           // what follows the last micro-batch
  kEvaluate,         // a forward over a batch, without dropout
};

struct ProgramTraits {
  std::string_view name;     // in dumps, profiles and messages
  bool reads_batch = false;  // runs the model over the tokens of a batch
  bool trains = false;       // with dropout, and backward again
  bool updates = false;      // weights and optimizer states
};

const ProgramTraits& traits_of(ProgramKind kind);

}  // namespace shoehorn
