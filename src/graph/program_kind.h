// What a program of a family is for.
#pragma once

#include <cstdint>
#include <string_view>

namespace shoehorn {

enum class ProgramKind : uint8_t {
  kTrainStep,        // an optimizer step: every micro-batch, and the update
  kMicroBatchFirst,  // forward and backward of the first micro-batch; its gradients start the sums
  kMicroBatchNext,   // the same for a later micro-batch; its gradients are added
  kMicroBatchLast,  // of data-parallel ranks: as kMicroBatchNext, and gradients go around as they are complete
  kExchange,        // in its place behind a first micro-batch that is the only one: what goes around in it
  kUpdate,          // everything after the last micro-batch
  kEvaluate,        // a forward over one batch, without dropout
  kReplicate,       // DataParallel, in front of every forward: the first rank's weights go to the others
  kAfterLoad,       // what follows from weights that were loaded: whole ones of what each rank has of them
  kOuterUpdate,     // the average over ranks that have trained alone for some steps
};

struct ProgramTraits {
  std::string_view name;     // in dumps, profiles and messages
  bool reads_batch = false;  // runs the model on a batch
  bool trains = false;       // with dropout, and with a backward
  bool updates = false;      // changes weights and optimizer states, once a step
};

const ProgramTraits& traits_of(ProgramKind kind);

}  // namespace shoehorn
