// Toy programs of two address spaces and two lanes: bytes lie where they are said to lie, and nothing is
// taken from a copy that runs beside the computing.
#include <gtest/gtest.h>

#include "base/error.h"
#include "exec/cpu/cpu_backend.h"
#include "exec/executor.h"
#include "ops/op_builder.h"
#include "ops/verify.h"
#include "plan/memory_plan.h"

namespace shoehorn {
namespace {

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
  Executor executor(const MemoryPlan& plan) const {
    return Executor(state_, programs_, plan, *backend_, {.poison = true});
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
  std::unique_ptr<Backend> backend_ = make_cpu_backend(1);
};

void fill(float* values, float scale) {
  for (int64_t i = 0; i < kElements; ++i) values[i] = scale * static_cast<float>(i);
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
  fill(executor.storage_as<float>(weight), 2);
  fill(executor.storage_as<float>(input), 1);
  executor.run(ProgramId{0}, {});
  const auto* result = reinterpret_cast<const float*>(executor.value(ProgramId{0}, sent));
  for (int64_t i = 0; i < kElements; ++i) EXPECT_EQ(result[i], 3 * static_cast<float>(i));
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

  Executor executor = toy.executor(plan);
  fill(executor.storage_as<float>(input), 1);
  executor.run(ProgramId{0}, {});
  const auto* result = reinterpret_cast<const float*>(executor.value(ProgramId{0}, sum));
  for (int64_t i = 0; i < kElements; ++i) EXPECT_EQ(result[i], 5 * static_cast<float>(i));
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
  toy.copy(x, AddressSpace::kHost, 1, "first");
  const ValueId second = toy.copy(toy.read(input), AddressSpace::kDevice, 1, "second");
  toy.copy(toy.read(input), AddressSpace::kHost, 2, "apart");
  const ValueId view = toy.builder().value(OpKind::kView, {second}, ViewAttributes{kVector, 0}, "view");
  const ValueId y = toy.add(toy.read(input), toy.read(input), "y");
  toy.program().add_result("sum", toy.add(y, view, "sum"));
  EXPECT_EQ(toy.program().last_running(), (std::vector<int64_t>{0, 5, 5, 6, 4, 5, 6}));
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
