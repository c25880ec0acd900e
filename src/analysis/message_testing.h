// A program of small nodes over two ranks, for tests of messages beside the computation.
#pragma once

#include <gtest/gtest.h>

#include "ops/op_builder.h"
#include "ops/ring.h"
#include "passes/collective_nodes.h"

namespace shoehorn::test_support {

inline constexpr int64_t kTwoRanks = 2;

class MessageProgram : public testing::Test {
 protected:
  MessageProgram() {
    Storage storage;
    storage.name = "x";
    storage.type = {DType::kF32, {4}};
    storage.role = Role::kGradient;
    x_ = state_.add_storage(storage);
  }

  ValueId squares() {
    return builder_.value(OpKind::kSumOfSquares, {program_.read_state(x_)}, {}, "squares");
  }
  // Of one element: a message each way.
  ValueId sum(ValueId value, bool is_beside) {
    const NodeId node =
        append_collective(builder_, OpKind::kAllReduce, {{value, {ring_segment(1, kTwoRanks)}}}, 1,
                          {.world_size = kTwoRanks}, RingOf::kAll, is_beside, "sum");
    return program_.node(node).outputs[0];
  }
  void read(ValueId value) { builder_.value(OpKind::kFoundInf, {value}, {}, "found_inf"); }

  StateTable state_;
  Program program_{ProgramKind::kUpdate, &state_};
  OpBuilder builder_{program_};
  StorageId x_;
};

}  // namespace shoehorn::test_support
