#include "exec/executor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/stop_request.h"
#include "exec/backend/host_backend.h"
#include "exec/cpu/cpu_backend.h"
#include "exec/executor_testing.h"
#include "exec/host_view.h"
#include "ops/op_builder.h"

namespace shoehorn {
namespace {

using test_support::set_values;
using test_support::values_of;

// A backend whose copies can be made to err: to read behind what they copy, to write more of it.
class FaultyBackend final : public HostBackend {
 public:
  int64_t write_beyond = 0;
  int64_t read_beyond = 0;
  const MachineProfile& machine() const override { return profile_; }
  MachineLimits measure_limits() const override { return {}; }
  std::vector<ArithmeticPeak> measure_arithmetic_peaks() const override { return {}; }
  int64_t rows_of_full_tiles(DType) const override { return 1; }
  int64_t workspace_bytes(const Program&, const Node&) const override { return 0; }
  PreparedNode prepare(const Program& program, const Node& node, const NodeBuffers& buffers,
                       Stream&) const override {
    const int64_t bytes = program.type(node.outputs[0]).bytes() + write_beyond;
    return [=, shift = read_beyond, from = buffers.inputs[0], to = buffers.outputs[0]](const int64_t*) {
      std::memset(to, 1, static_cast<size_t>(bytes));
      std::memcpy(to, from + shift, 4);
    };
  }

 private:
  MachineProfile profile_;
};

class ExecutorTest : public testing::Test {
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
  std::vector<float> x(10);
  std::iota(x.begin(), x.end(), 0.0F);
  set_values(executor, storage_, x);
  std::vector<size_t> seen;
  executor.set_observer([&](ProgramId ran, size_t node, std::span<const int64_t>) {
    EXPECT_EQ(ran, ProgramId{0});
    seen.push_back(node);
  });
  executor.run(ProgramId{0}, {});
  EXPECT_EQ(seen, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(values_of<float>(executor, ProgramId{0}, program().result("y")), x);
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

// The third copy reads behind the second one's 40 bytes, where nothing ever lives.
TEST_F(ExecutorTest, PoisonFillsWhatIsDead) {
  FaultyBackend backend;
  backend.read_beyond = 40;
  const MemoryPlan plan = plan_memory(state_, programs_, backend);
  for (const bool poison : {false, true}) {
    Executor executor(state_, programs_, plan, backend, {.poison = poison});
    executor.run(ProgramId{0}, {});
    const std::vector<float> y = values_of<float>(executor, ProgramId{0}, program().result("y"));
    EXPECT_EQ(std::isnan(y[0]), poison);
  }
}

TEST_F(ExecutorTest, ViewsAreTheMemoryItselfWhereTheHostReachesIt) {
  const auto backend = make_cpu_backend(1);
  const MemoryPlan plan = plan_memory(state_, programs_, *backend);
  Executor executor(state_, programs_, plan, *backend);
  WriteView all(executor, storage_, 0, 40);
  all.as<float>()[3] = 7;
  all.send();
  const ReadView part(executor, storage_, 8, 12);
  EXPECT_EQ(part.bytes().data(), all.bytes().data() + 8);
  EXPECT_EQ(part.as<float>()[1], 7.0F);
  EXPECT_EQ(executor.host_storage(storage_).data(), all.bytes().data());
  EXPECT_EQ(values_of<float>(executor, storage_)[3], 7.0F);
  for (const auto& [offset, bytes] : {std::pair{-4, 8}, std::pair{36, 8}, std::pair{0, 41}})
    EXPECT_THROW(ReadView(executor, storage_, offset, bytes), InternalError) << offset;
  EXPECT_THROW(WriteView(executor, storage_, 40, 1), InternalError);
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

// A step: two copies, the second into a storage that is only written (as the loss is), the update of a weight, and a
// copy behind it.
class StoppedExecutorTest : public testing::Test {
 protected:
  StoppedExecutorTest() {
    const auto read = [&](const char* name, TensorType type, Role role) {
      return program().read_state(state_.add_storage({name, std::move(type), role, {}, {}}));
    };
    OpBuilder builder(program());
    const ValueId x = read("x", {DType::kF32, {4}}, Role::kInput);
    const ValueId gradient = builder.value(OpKind::kCopy, {x}, {}, "gradient");
    const StorageId loss = state_.add_storage({"loss", {DType::kF32, {4}}, Role::kScalar, {}, {}});
    builder.bind_output(builder.value(OpKind::kCopy, {gradient}, {}, "loss"), loss);
    const NodeId update = builder.add(
        OpKind::kSgd,
        {read("rate", {DType::kF32, {1}}, Role::kScalar),
         read("applied", {DType::kI32, {1}}, Role::kScalar),
         {},
         {},
         read("weight", {DType::kF32, {4}}, Role::kWeight),
         gradient},
        UpdateAttributes{SgdSettings{}, {0.0F}, {{UpdatedParameter{.rows = 1, .columns = 4}}}, {{}}},
        "updated");
    const ValueId after = builder.value(OpKind::kCopy, {program().node(update).outputs[0]}, {}, "after");
    program().add_result("after", after);
  }
  ~StoppedExecutorTest() override { clear_stop_request(); }
  Program& program() { return programs_[0]; }

  // The nodes that run if the stop is requested after node `after`; the last one of a program that ends is 3.
  int64_t last_node(ProgramKind kind, size_t after) {
    program().set_kind(kind);
    const auto backend = make_cpu_backend(1);
    const MemoryPlan plan = plan_memory(state_, programs_, *backend);
    Executor executor(state_, programs_, plan, *backend);
    int64_t last = -1;
    executor.set_observer([&](ProgramId, size_t node, std::span<const int64_t>) {
      last = static_cast<int64_t>(node);
      if (node == after) request_stop(SIGINT);
    });
    try {
      executor.run(ProgramId{0}, {});
    } catch (const Stopped& stop) {
      EXPECT_EQ(stop.signal(), SIGINT);
      EXPECT_LT(last, 3);
    }
    clear_stop_request();
    return last;
  }

  StateTable state_;
  std::vector<Program> programs_ = {Program(ProgramKind::kTrainStep, &state_)};
};

TEST_F(StoppedExecutorTest, AStepIsGivenUpUntilItUpdatesState) {
  EXPECT_EQ(last_node(ProgramKind::kTrainStep, 0), 0);
  EXPECT_EQ(last_node(ProgramKind::kTrainStep, 1), 1);
  EXPECT_EQ(last_node(ProgramKind::kTrainStep, 2), 3) << "the weight is updated: the step must end";
}

// Sums of gradients that a micro-batch began are begun anew.
TEST_F(StoppedExecutorTest, AProgramThatUpdatesNothingIsGivenUpAnywhere) {
  for (const size_t after : {0, 1, 2}) {
    EXPECT_EQ(last_node(ProgramKind::kMicroBatchNext, after), static_cast<int64_t>(after));
    EXPECT_EQ(last_node(ProgramKind::kEvaluate, after), static_cast<int64_t>(after));
  }
}

TEST_F(ExecutorTest, APlanOfAnotherFamilyIsRejected) {
  const auto backend = make_cpu_backend(1);
  const MemoryPlan plan = plan_memory(state_, {}, *backend);
  EXPECT_THROW(Executor(state_, programs_, plan, *backend), InternalError);
}

}  // namespace
}  // namespace shoehorn
