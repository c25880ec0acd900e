// Toy programs of two address spaces and two lanes: bytes lie where they are said to lie, and nothing is
// taken from a copy that runs beside the computing.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "conformance_backend.h"
#include "exec/executor_testing.h"
#include "exec/host_view.h"
#include "ops/op_builder.h"
#include "ops/verify.h"
#include "plan/memory_plan.h"

namespace shoehorn {
namespace {

using test_support::set_values;
using test_support::values_of;

constexpr int64_t kElements = 48;  // 192 bytes: three units of alignment
constexpr int64_t kBytes = kElements * 4;
const TensorType kVector = {DType::kF32, {kElements}};

class Toy {
 public:
  StorageId storage(const std::string& name, Role role, AddressSpace space) {
    return state_.add_storage({name, kVector, role, {}, {}, space});
  }
  Program& program() { return programs_[0]; }
  ValueId read(StorageId storage) { return program().read_state(storage); }
  ValueId copy(ValueId x, AddressSpace to, int32_t lane, const std::string& name) {
    const NodeId id = builder_.add(OpKind::kCopy, {x}, CopyAttributes{to}, name);
    program().node(id).lane = lane;
    return program().node(id).outputs[0];
  }
  ValueId add(ValueId a, ValueId b, const std::string& name) {
    return builder_.value(OpKind::kAdd, {a, b}, {}, name);
  }
  OpBuilder& builder() { return builder_; }

  MemoryPlan plan() const { return plan_memory(state_, programs_, *backend_); }
  // Poisoned, nodes of all lanes are waited for one by one.
  Executor executor(const MemoryPlan& plan, bool poison = true) const {
    return Executor(state_, programs_, plan, *backend_, {.poison = poison});
  }
  const Buffer& buffer(const MemoryPlan& plan, const std::string& name) const {
    const auto& buffers = plan.programs[0].buffers;
    const auto found =
        std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.name == name; });
    CHECK(found != buffers.end(), "no buffer '{}'", name);
    return *found;
  }

 private:
  StateTable state_;
  std::vector<Program> programs_ = {Program(ProgramKind::kTrainStep, &state_)};
  OpBuilder builder_{programs_[0]};
  std::shared_ptr<const Backend> backend_ = test_support::conformance_backend(1);
};

// 0, 1, 2, … times `scale`.
std::vector<float> counting(float scale) {
  std::vector<float> values;
  for (int64_t i = 0; i < kElements; ++i) values.push_back(scale * static_cast<float>(i));
  return values;
}

// A weight that is kept in host memory: fetched, used, and the sum sent back.
TEST(TwoAddressSpaces, EachHasItsArenas) {
  Toy toy;
  const StorageId weight = toy.storage("weight", Role::kWeight, AddressSpace::kHost);
  const StorageId input = toy.storage("input", Role::kInput, AddressSpace::kDevice);
  const ValueId fetched = toy.copy(toy.read(weight), AddressSpace::kDevice, 0, "fetched");
  const ValueId sum = toy.add(toy.read(input), fetched, "sum");
  const ValueId sent = toy.copy(sum, AddressSpace::kPinnedHost, 0, "sent");
  toy.program().add_result("sent", sent);
  verify(toy.program());

  const MemoryPlan plan = toy.plan();
  EXPECT_EQ(plan.spaces[AddressSpace::kHost].persistent_bytes, kBytes);
  EXPECT_EQ(plan.spaces[AddressSpace::kHost].transient_bytes, 0);
  EXPECT_EQ(plan.device().persistent_bytes, kBytes);
  EXPECT_EQ(plan.device().transient_bytes, kBytes) << "the sum takes over what was fetched";
  EXPECT_EQ(plan.spaces[AddressSpace::kPinnedHost].transient_bytes, kBytes);
  EXPECT_EQ(plan.spaces[AddressSpace::kDisk].bytes(), 0);
  EXPECT_EQ(plan.arena_bytes(), 4 * kBytes);
  EXPECT_EQ(plan.programs[0].values[sent.at()].space, AddressSpace::kPinnedHost);
  int64_t accounted = 0;
  for (const auto& [role, bytes] : bytes_by_role(toy.program().state(), plan)) accounted += bytes;
  EXPECT_EQ(accounted, plan.arena_bytes());

  Executor executor = toy.executor(plan);
  EXPECT_EQ(executor.arena_bytes(), plan.arena_bytes());
  EXPECT_EQ(executor.resident_arena_bytes(), plan.arena_bytes());
  set_values(executor, weight, counting(2));
  set_values(executor, input, counting(1));
  executor.run(ProgramId{0}, {});
  EXPECT_EQ(values_of<float>(executor, ProgramId{0}, sent), counting(3));
}

TEST(TwoAddressSpaces, WhatWasIssuedReadsWhatWasThere) {
  Toy toy;
  const StorageId weight = toy.storage("weight", Role::kWeight, AddressSpace::kHost);
  const ValueId fetched = toy.copy(toy.read(weight), AddressSpace::kDevice, 0, "fetched");
  toy.program().add_result("fetched", fetched);
  const MemoryPlan plan = toy.plan();
  Executor executor = toy.executor(plan, false);
  set_values(executor, weight, counting(1));
  executor.run(ProgramId{0}, {});
  WriteView next(executor, weight, 0, kBytes);
  std::ranges::fill(next.as<float>(), 7.0F);
  next.send();
  EXPECT_EQ(values_of<float>(executor, ProgramId{0}, fetched), counting(1));
  executor.run(ProgramId{0}, {});
  EXPECT_EQ(values_of<float>(executor, ProgramId{0}, fetched), std::vector<float>(kElements, 7));
}

TEST(TwoAddressSpaces, AKernelDoesNotReachIntoAnother) {
  Toy toy;
  const ValueId weight = toy.read(toy.storage("weight", Role::kWeight, AddressSpace::kHost));
  const ValueId input = toy.read(toy.storage("input", Role::kInput, AddressSpace::kDevice));
  toy.program().add_result("sum", toy.add(input, weight, "sum"));
  try {
    verify(toy.program());
    FAIL() << "accepted";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("reads 'weight' in pageable host memory and works in device"),
              std::string::npos)
        << error.what();
  }
}

TEST(TwoAddressSpaces, NoExecutorReachesADisk) {
  Toy toy;
  const ValueId weight = toy.read(toy.storage("weight", Role::kWeight, AddressSpace::kDisk));
  toy.program().add_result("fetched", toy.copy(weight, AddressSpace::kDevice, 0, "fetched"));
  const MemoryPlan plan = toy.plan();
  EXPECT_EQ(plan.spaces[AddressSpace::kDisk].persistent_bytes, kBytes);
  EXPECT_THROW(toy.executor(plan), InternalError);
}

// x is sent away on `lane` while two further values are made; then what was sent is read.
MemoryPlan plan_of_sending(int32_t lane) {
  Toy toy;
  const StorageId input = toy.storage("input", Role::kInput, AddressSpace::kDevice);
  const ValueId x = toy.add(toy.read(input), toy.read(input), "x");
  const ValueId sent = toy.copy(x, AddressSpace::kDevice, lane, "sent");
  const ValueId y = toy.add(toy.read(input), toy.read(input), "y");
  const ValueId z = toy.add(y, toy.read(input), "z");
  const ValueId sum = toy.add(z, sent, "sum");
  toy.program().add_result("sum", sum);
  verify(toy.program());
  MemoryPlan plan = toy.plan();

  for (const bool poison : {false, true}) {
    Executor executor = toy.executor(plan, poison);
    set_values(executor, input, counting(1));
    for (int run = 0; run < 2; ++run) {
      executor.run(ProgramId{0}, {});
      EXPECT_EQ(values_of<float>(executor, ProgramId{0}, sum), counting(5));
    }
  }
  return plan;
}

TEST(TwoLanes, WhatACopyReadsAndWritesIsItsOwnUntilItIsWaitedFor) {
  const auto find = [](const MemoryPlan& plan, const std::string& name) {
    const auto& buffers = plan.programs[0].buffers;
    return *std::find_if(buffers.begin(), buffers.end(), [&](const Buffer& b) { return b.name == name; });
  };
  const MemoryPlan one = plan_of_sending(0);
  EXPECT_EQ(find(one, "x").last, 1);
  EXPECT_EQ(one.device().transient_bytes, 2 * kBytes) << "y lies where x was";

  const MemoryPlan two = plan_of_sending(1);
  EXPECT_EQ(find(two, "x").last, 3) << "the copy may run until node 4 waits for it";
  EXPECT_EQ(find(two, "sent").first, 1);
  EXPECT_EQ(find(two, "sent").last, 4);
  EXPECT_EQ(two.device().transient_bytes, 3 * kBytes) << "x, what is sent, and y";
}

// Waiting for a lane's second node is waiting for its first; what nothing waits for runs until the end.
TEST(TwoLanes, ALaneKeepsItsOrder) {
  Toy toy;
  const StorageId input = toy.storage("input", Role::kInput, AddressSpace::kDevice);
  const ValueId x = toy.add(toy.read(input), toy.read(input), "x");
  const ValueId first = toy.copy(x, AddressSpace::kHost, 1, "first");
  const ValueId second = toy.copy(toy.read(input), AddressSpace::kDevice, 1, "second");
  const ValueId apart = toy.copy(toy.read(input), AddressSpace::kHost, 2, "apart");
  const ValueId view = toy.builder().value(OpKind::kView, {second}, ViewAttributes{kVector, 0}, "view");
  const ValueId y = toy.add(toy.read(input), toy.read(input), "y");
  const ValueId sum = toy.add(y, view, "sum");
  toy.program().add_result("sum", sum);
  EXPECT_EQ(toy.program().last_running(), (std::vector<int64_t>{0, 5, 5, 6, 4, 5, 6}));
  verify(toy.program());

  const MemoryPlan plan = toy.plan();
  Executor executor = toy.executor(plan, false);
  set_values(executor, input, counting(1));
  executor.run(ProgramId{0}, {});
  EXPECT_EQ(values_of<float>(executor, ProgramId{0}, sum), counting(3)) << "the second copy through its view";
  EXPECT_EQ(values_of<float>(executor, ProgramId{0}, first), counting(2));
  EXPECT_EQ(values_of<float>(executor, ProgramId{0}, apart), counting(1)) << "the end of the program waits";
}

// A lane that reads what another one made waits for it.
TEST(TwoLanes, ALaneWaitsForAnother) {
  Toy toy;
  const StorageId input = toy.storage("input", Role::kInput, AddressSpace::kDevice);
  const ValueId x = toy.add(toy.read(input), toy.read(input), "x");
  const ValueId there = toy.copy(x, AddressSpace::kHost, 1, "there");
  const ValueId back = toy.copy(there, AddressSpace::kDevice, 2, "back");
  const ValueId sum = toy.add(back, toy.read(input), "sum");
  toy.program().add_result("sum", sum);
  toy.program().add_result("there", there);
  verify(toy.program());
  const MemoryPlan plan = toy.plan();
  Executor executor = toy.executor(plan, false);
  set_values(executor, input, counting(1));
  executor.run(ProgramId{0}, {});
  EXPECT_EQ(values_of<float>(executor, ProgramId{0}, sum), counting(3));
}

TEST(TwoLanes, AStateIsNotOverwrittenUnderACopy) {
  for (const bool waits : {false, true}) {
    Toy toy;
    const StorageId weight = toy.storage("weight", Role::kWeight, AddressSpace::kDevice);
    const StorageId input = toy.storage("input", Role::kInput, AddressSpace::kDevice);
    const ValueId sent = toy.copy(toy.read(weight), AddressSpace::kDevice, 1, "sent");
    if (waits) toy.program().add_result("sum", toy.add(sent, toy.read(input), "sum"));
    const ValueId next = toy.add(toy.read(input), toy.read(input), "next");
    toy.builder().bind_output(next, weight);
    if (waits) {
      verify(toy.program());
      continue;
    }
    try {
      verify(toy.program());
      FAIL() << "accepted";
    } catch (const InternalError& error) {
      EXPECT_NE(std::string(error.what()).find("overwrites 'weight', which lane 1 may still read"),
                std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace shoehorn
