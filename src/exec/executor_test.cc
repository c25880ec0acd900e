#include "exec/executor.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "exec/cpu/cpu_backend.h"
#include "ops/op_builder.h"

namespace shoehorn {
namespace {

TEST(ArenaTest, IsZeroedAlignedAndResidentFromTheStart) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  for (const int64_t bytes :
       {int64_t{1}, page - 1, page, page + 1, int64_t{2} << 20, (int64_t{5} << 20) + 123}) {
    const Arena arena(bytes);
    EXPECT_EQ(arena.bytes(), bytes);
    EXPECT_EQ(arena.resident_bytes(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.data()) % (size_t{2} << 20), 0U);
    EXPECT_TRUE(
        std::all_of(arena.data(), arena.data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(Arena(0).resident_bytes(), 0);
}

TEST(ArenaTest, MovesItsReservation) {
  Arena from(100);
  std::byte* data = from.data();
  const Arena to(std::move(from));
  EXPECT_EQ(to.data(), data);
  EXPECT_EQ(to.resident_bytes(), 100);
}

TEST(ArenaTest, AReservationThatTheSystemRefusesIsASystemError) {
  EXPECT_THROW(Arena(int64_t{1} << 55), SystemError);
}

// A backend whose copies can be made to err: read a byte too early, write one too many.
class FaultyBackend final : public Backend {
 public:
  int64_t write_beyond = 0;
  std::string name() const override { return "faulty"; }
  int64_t workspace_bytes(const Program&, const Node&) const override { return 0; }
  PreparedNode prepare(const Program& program, const Node& node, const NodeBuffers& buffers) const override {
    const int64_t bytes = program.type(node.outputs[0]).bytes() + write_beyond;
    return [=, from = buffers.inputs[0], to = buffers.outputs[0]](const int64_t*) {
      std::memset(to, 1, static_cast<size_t>(bytes));
      std::memcpy(to, from, 4);
    };
  }
};

class ExecutorTest : public ::testing::Test {
 protected:
  ValueId copy(Program& program, ValueId x) {
    return OpBuilder(program).value(OpKind::kCopy, {x}, {}, "copy");
  }
  ExecutorTest() {
    // Three copies in a row: the first one is dead when the third is made. 40 bytes leave room behind each.
    ValueId x = program().read_state(storage_);
    for (int i = 0; i < 3; ++i) x = copy(program(), x);
    program().add_result("y", x);
  }
  Program& program() { return programs_[0]; }

  StateTable state_;
  StorageId storage_ = state_.add_storage({"x", {DType::kF32, {10}}, Role::kInput, {}, {}});
  std::vector<Program> programs_ = {Program(ProgramKind::kTrainStep, &state_)};
};

TEST_F(ExecutorTest, RunsNodesInOrderAndTellsItsObserver) {
  const auto backend = make_cpu_backend(1);
  const MemoryPlan plan = plan_memory(state_, programs_, *backend);
  Executor executor(state_, programs_, plan, *backend, {.poison = true});
  EXPECT_EQ(executor.arena_bytes(), plan.arena_bytes());
  EXPECT_EQ(executor.resident_arena_bytes(), plan.arena_bytes());
  for (int i = 0; i < 10; ++i) executor.storage_as<float>(storage_)[i] = static_cast<float>(i);
  std::vector<size_t> seen;
  executor.set_observer([&](ProgramId ran, size_t node, std::span<const int64_t>) {
    EXPECT_EQ(ran, ProgramId{0});
    seen.push_back(node);
  });
  executor.run(ProgramId{0}, {});
  EXPECT_EQ(seen, (std::vector<size_t>{0, 1, 2}));
  const auto* y = reinterpret_cast<const float*>(executor.value(ProgramId{0}, program().result("y")));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(y[i], static_cast<float>(i));
}

TEST_F(ExecutorTest, PoisonFindsAWriteOutsideTheBuffers) {
  for (const int64_t beyond : {0, 1}) {
    FaultyBackend backend;
    backend.write_beyond = beyond;
    const MemoryPlan plan = plan_memory(state_, programs_, backend);
    Executor quiet(state_, programs_, plan, backend);
    quiet.run(ProgramId{0}, {});
    Executor executor(state_, programs_, plan, backend, {.poison = true});
    if (beyond == 0) {
      executor.run(ProgramId{0}, {});
    } else {
      EXPECT_THROW(executor.run(ProgramId{0}, {}), InternalError);
    }
  }
}

TEST_F(ExecutorTest, PoisonFillsWhatIsDead) {
  const auto backend = make_cpu_backend(1);
  const MemoryPlan plan = plan_memory(state_, programs_, *backend);
  Executor executor(state_, programs_, plan, *backend, {.poison = true});
  executor.run(ProgramId{0}, {});
  const ValueId first = program().node(NodeId{0}).outputs[0];
  const ValueId last = program().result("y");
  ASSERT_EQ(executor.value(ProgramId{0}, first), executor.value(ProgramId{0}, last))
      << "the third copy lies where the first one was";
  const ValueId second = program().node(NodeId{1}).outputs[0];
  float value = 0;
  std::memcpy(&value, executor.value(ProgramId{0}, second) + 40, 4);
  EXPECT_TRUE(std::isnan(value)) << "behind the second buffer nothing ever lives";
}

TEST_F(ExecutorTest, CountsStayWithinTheirPlan) {
  program().add_count("rows", 32, 16);
  const auto backend = make_cpu_backend(1);
  const MemoryPlan plan = plan_memory(state_, programs_, *backend);
  Executor executor(state_, programs_, plan, *backend);
  for (const int64_t count : {0, 16, 32}) executor.run(ProgramId{0}, std::vector{count});
  for (const int64_t count : {-16, 8, 48})
    EXPECT_THROW(executor.run(ProgramId{0}, std::vector{count}), InternalError) << count;
  EXPECT_THROW(executor.run(ProgramId{0}, {}), InternalError);
  EXPECT_THROW(executor.run(ProgramId{}, std::vector{int64_t{16}}), InternalError);
}

TEST_F(ExecutorTest, APlanOfAnotherFamilyIsRejected) {
  const auto backend = make_cpu_backend(1);
  const MemoryPlan plan = plan_memory(state_, {}, *backend);
  EXPECT_THROW(Executor(state_, programs_, plan, *backend), InternalError);
}

}  // namespace
}  // namespace shoehorn
