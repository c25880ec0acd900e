// Liveness and placement of small programs, worked out by hand; whole models are
// tests/memory_promise_test.cc's.
#include "plan/memory_plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "ops/op_builder.h"
#include "plan/memory_timeline.h"

namespace shoehorn {
namespace {

// A machine whose products want a fixed workspace.
class ToyTarget final : public PlanTarget {
 public:
  int64_t workspace_bytes(const Program&, const Node& node) const override {
    return node.kind == OpKind::kMatmul ? 1000 : 0;
  }
};

constexpr int64_t kRows = 16;
constexpr int64_t kBytes = kRows * kRows * 4;

class MemoryPlanTest : public testing::Test {
 protected:
  ValueId op(OpKind kind, std::vector<ValueId> inputs, Attributes attributes, const std::string& name) {
    return builder_.value(kind, std::move(inputs), std::move(attributes), name);
  }
  ValueId copy(ValueId x, const std::string& name) { return op(OpKind::kCopy, {x}, {}, name); }
  MemoryPlan plan() const { return plan_memory(state_, {program_}, ToyTarget()); }
  static const Buffer& find(const MemoryPlan& plan, const std::string& name) {
    for (const Buffer& buffer : plan.programs[0].buffers) {
      if (buffer.name == name) return buffer;
    }
    throw InternalError("no buffer " + name);
  }
  static int64_t sum(const std::map<std::string, int64_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.end(), int64_t{0},
                           [](int64_t a, const auto& b) { return a + b.second; });
  }

  StateTable state_;
  StorageId weight_ = state_.add_storage({"weight", {DType::kF32, {kRows, kRows}}, Role::kWeight, {}, {}});
  StorageId scalar_ = state_.add_storage({"scalar", {DType::kF32, {1}}, Role::kScalar, {}, {}});
  Program program_{ProgramKind::kTrainStep, &state_};
  OpBuilder builder_{program_};
  ValueId w_ = program_.read_state(weight_);
};

TEST_F(MemoryPlanTest, StoragesLieOneBehindTheOtherAligned) {
  const MemoryPlan made = plan();
  EXPECT_EQ(made.storage_offset, (std::vector<int64_t>{0, kBytes}));
  EXPECT_EQ(made.device().persistent_bytes, kBytes + kArenaAlignment);
  EXPECT_EQ(made.device().transient_bytes, 0);
}

TEST_F(MemoryPlanTest, ABufferLivesFromItsProducerToItsLastReader) {
  const ValueId a = copy(w_, "a");
  const ValueId b = copy(a, "b");
  copy(w_, "dead");
  program_.add_result("y", op(OpKind::kMatmul, {b, a}, MatmulAttributes{}, "y"));
  const MemoryPlan made = plan();
  EXPECT_EQ(find(made, "a").first, 0);
  EXPECT_EQ(find(made, "a").last, 3);
  EXPECT_EQ(find(made, "dead").first, 2);
  EXPECT_EQ(find(made, "dead").last, 2) << "what nobody reads lives while it is written";
  EXPECT_EQ(find(made, "y").last, 3);
  EXPECT_EQ(find(made, "matmul workspace").role, Role::kWorkspace);
  EXPECT_EQ(made.programs[0].device().lower_bound_bytes, 3 * kBytes + 1024)
      << "a, b, y and the product's workspace";
  EXPECT_EQ(made.device().transient_bytes, 3 * kBytes + 1024);
  EXPECT_EQ(made.programs[0].device().peak_position, 3);
  EXPECT_EQ(made.programs[0].workspace_bytes, (std::vector<int64_t>{0, 0, 0, 1000}));
}

TEST_F(MemoryPlanTest, ViewsShareTheirSourceAndKeepItAlive) {
  const ValueId a = copy(w_, "a");
  const ValueId view = op(OpKind::kView, {a}, ViewAttributes{{DType::kF32, {kRows}}, 2 * kRows}, "row");
  const ValueId again = op(OpKind::kView, {view}, ViewAttributes{{DType::kF32, {4}}, 4}, "part");
  copy(w_, "other");
  program_.add_result("y", copy(again, "y"));
  const MemoryPlan made = plan();
  const auto& values = made.programs[0].values;
  EXPECT_EQ(values[view.at()].offset - values[a.at()].offset, 2 * kRows * 4);
  EXPECT_EQ(values[again.at()].offset - values[a.at()].offset, (2 * kRows + 4) * 4);
  EXPECT_EQ(find(made, "a").last, 4);
  EXPECT_EQ(made.programs[0].buffers.size(), 3U);
}

TEST_F(MemoryPlanTest, AViewOfStateLiesInTheState) {
  const ValueId view = op(OpKind::kView, {w_}, ViewAttributes{{DType::kF32, {kRows}}, 3}, "row");
  copy(view, "y");
  const Location location = plan().programs[0].values[view.at()];
  EXPECT_EQ(location.arena, ArenaKind::kPersistent);
  EXPECT_EQ(location.offset, 12);
}

TEST_F(MemoryPlanTest, OutputsTakeOverWhatDies) {
  const ValueId a = copy(w_, "a");
  const ValueId b = op(OpKind::kActivation, {a}, ActivationAttributes{}, "b");
  const ValueId c = op(OpKind::kActivation, {b}, ActivationAttributes{}, "c");
  program_.add_result("y", op(OpKind::kAdd, {b, c}, {}, "y"));
  const MemoryPlan made = plan();
  const auto& values = made.programs[0].values;
  EXPECT_EQ(values[a.at()].offset, values[b.at()].offset) << "a dies where b is made";
  EXPECT_NE(values[b.at()].offset, values[c.at()].offset) << "b is read again";
  EXPECT_EQ(made.programs[0].buffers.size(), 2U);
  EXPECT_EQ(made.device().transient_bytes, 2 * kBytes);
}

TEST_F(MemoryPlanTest, WhatAViewStillReadsIsNotTakenOver) {
  const ValueId a = copy(w_, "a");
  const ValueId view = op(OpKind::kView, {a}, ViewAttributes{{DType::kF32, {kRows}}, 0}, "row");
  const ValueId b = op(OpKind::kActivation, {a}, ActivationAttributes{}, "b");
  program_.add_result("row", copy(view, "y"));
  program_.add_result("b", b);
  const auto values = plan().programs[0].values;
  EXPECT_NE(values[a.at()].offset, values[b.at()].offset);
}

// The rest of the buffer would live on with the part.
TEST_F(MemoryPlanTest, APartOfABufferIsNotTakenOver) {
  const ValueId a = copy(w_, "a");
  const ValueId view = op(OpKind::kView, {a}, ViewAttributes{{DType::kF32, {kRows}}, 0}, "row");
  program_.add_result("b", op(OpKind::kActivation, {view}, ActivationAttributes{}, "b"));
  const MemoryPlan made = plan();
  EXPECT_EQ(find(made, "b").bytes, kRows * 4);
  EXPECT_EQ(find(made, "a").last, 2);
}

TEST_F(MemoryPlanTest, TheAccountIsOfWhatLivesAtThePeak) {
  const ValueId early = op(OpKind::kColumnSum, {w_}, {}, "early");
  program_.add_result("first", copy(early, "first"));
  const ValueId a = copy(w_, "a");
  const ValueId b = copy(a, "b");
  program_.add_result("y", op(OpKind::kAdd, {a, b}, {}, "y"));
  const MemoryPlan made = plan();
  const auto peak = made.programs[0].device().peak_position;
  EXPECT_LT(find(made, "early").last, peak);
  EXPECT_EQ(bytes_by_role(state_, made).at("temporary"), 2 * kBytes + kRows * 4) << "first, a and b";
}

// A copy of another lane that nobody waits for runs until the program ends, and so does what it works in.
TEST_F(MemoryPlanTest, AWorkspaceLivesAsLongAsItsNodeRuns) {
  const NodeId product = builder_.add(OpKind::kMatmul, {w_, w_}, MatmulAttributes{}, "product");
  program_.node(product).lane = 1;
  copy(w_, "beside");
  program_.add_result("y", copy(w_, "y"));
  const MemoryPlan made = plan();
  EXPECT_EQ(find(made, "product").last, 2);
  EXPECT_EQ(find(made, "matmul workspace").last, 2);
}

TEST_F(MemoryPlanTest, StatesAndResultsAreNotTakenOver) {
  const ValueId a = op(OpKind::kActivation, {w_}, ActivationAttributes{}, "a");
  program_.add_result("a", a);
  const ValueId b = op(OpKind::kActivation, {a}, ActivationAttributes{}, "b");
  program_.add_result("b", b);
  const auto values = plan().programs[0].values;
  EXPECT_EQ(values[a.at()].arena, ArenaKind::kTransient);
  EXPECT_NE(values[a.at()].offset, values[b.at()].offset);
}

TEST_F(MemoryPlanTest, SumsGrowInOneBuffer) {
  const ValueId a = copy(w_, "a");
  const ValueId first = op(OpKind::kColumnSum, {a}, {}, "first");
  const ValueId second = op(OpKind::kColumnSum, {a, first}, {}, "second");
  program_.add_result("sum", second);
  const auto values = plan().programs[0].values;
  EXPECT_EQ(values[first.at()].offset, values[second.at()].offset);
}

TEST_F(MemoryPlanTest, ProgramsShareTheTransientArena) {
  program_.add_result("y", copy(w_, "y"));
  Program larger(ProgramKind::kEvaluate, &state_);
  OpBuilder builder(larger);
  const ValueId a = builder.value(OpKind::kCopy, {larger.read_state(weight_)}, {}, "a");
  larger.add_result("a", a);
  larger.add_result("b", builder.value(OpKind::kCopy, {a}, {}, "b"));
  const MemoryPlan made = plan_memory(state_, {program_, larger}, ToyTarget());
  EXPECT_EQ(made.device().transient_bytes, 2 * kBytes);
  EXPECT_EQ(made.largest(), ProgramId{1});
  EXPECT_EQ(made.arena_bytes(), made.device().persistent_bytes + 2 * kBytes);
}

TEST_F(MemoryPlanTest, EveryByteIsOfARoleAndOfAComponent) {
  Region region;
  region.component = Component::kHead;
  builder_.set_region(region);
  const ValueId a = copy(w_, "a");
  program_.add_result("y", op(OpKind::kMatmul, {a, a}, MatmulAttributes{}, "y"));
  const MemoryPlan made = plan();
  const auto roles = bytes_by_role(state_, made);
  EXPECT_EQ(roles.at("weight"), kBytes);
  EXPECT_EQ(roles.at("scalar"), 4);
  EXPECT_EQ(roles.at("temporary"), 2 * kBytes);
  EXPECT_EQ(roles.at("workspace"), 1000);
  EXPECT_EQ(roles.at("slack"), 60 + 24) << "alignment of the scalar and of the workspace";
  EXPECT_EQ(sum(roles), made.arena_bytes());
  const auto components = bytes_by_component(state_, made);
  EXPECT_EQ(components.at("head"), 2 * kBytes + 1000);
  EXPECT_EQ(sum(components), made.arena_bytes());
}

TEST_F(MemoryPlanTest, AComponentOfAllLayersIsOneKind) {
  Region region;
  region.component = Component::kAttention;
  region.layer = 11;
  builder_.set_region(region);
  const ValueId a = copy(w_, "a");
  region.layer = 2;
  builder_.set_region(region);
  const ValueId b = op(OpKind::kAdd, {w_, a}, {}, "b");
  region.layer = -1;
  builder_.set_region(region);
  program_.add_result("y", op(OpKind::kMatmul, {a, b}, MatmulAttributes{}, "y"));
  const MemoryPlan made = plan();
  const auto kinds = bytes_by_component_kind(state_, made);
  EXPECT_EQ(kinds.at("attention (all layers)"), 2 * kBytes);
  EXPECT_EQ(kinds.at("attention"), kBytes + 1000) << "outside the stack of layers";
  EXPECT_EQ(sum(kinds), made.arena_bytes());
}

TEST_F(MemoryPlanTest, TheTimelineHasEveryLiveByteAtItsNode) {
  const ValueId product = op(OpKind::kMatmul, {w_, w_}, MatmulAttributes{}, "product");
  const ValueId first = copy(product, "first");
  const ValueId second = op(OpKind::kAdd, {first, product}, {}, "second");
  program_.add_result("y", copy(second, "y"));
  const MemoryPlan made = plan();
  const MemoryTimeline timeline = memory_timeline(state_, made.programs[0]);
  const size_t nodes = program_.nodes().size();
  for (size_t at = 0; at < nodes; ++at) {
    int64_t live = 0;
    for (const Buffer& buffer : made.programs[0].buffers) {
      const auto position = static_cast<int64_t>(at);
      if (buffer.first <= position && position <= buffer.last) live += buffer.bytes;
    }
    int64_t said = 0;
    for (const auto& [role, bytes] : timeline.bytes) {
      ASSERT_EQ(bytes.size(), nodes);
      said += bytes[at];
    }
    EXPECT_EQ(said, live + kBytes + 4) << "node " << at;
    EXPECT_LE(said, timeline.peak_bytes);
    if (static_cast<int64_t>(at) == timeline.peak_position) {
      EXPECT_EQ(said, timeline.peak_bytes);
    }
  }
  EXPECT_EQ(timeline.bytes.at(Role::kWeight), std::vector<int64_t>(nodes, kBytes));
  EXPECT_EQ(timeline.bytes.at(Role::kWorkspace)[0], 1000);
  EXPECT_EQ(timeline.bytes.at(Role::kWorkspace)[1], 0);
  EXPECT_TRUE(memory_timeline(state_, made.programs[0], AddressSpace::kDisk).bytes.empty());
}

TEST_F(MemoryPlanTest, WhatTheBackwardReadsIsAnActivation) {
  const ValueId a = copy(w_, "a");
  const ValueId b = copy(w_, "b");
  op(OpKind::kAdd, {b, b}, {}, "sum");
  const ValueId in_place = op(OpKind::kActivation, {copy(w_, "c")}, ActivationAttributes{}, "in place of c");
  Region region;
  region.phase = Phase::kBackward;
  builder_.set_region(region);
  op(OpKind::kActivationGrad, {a, in_place}, ActivationAttributes{}, "gradient");
  const MemoryPlan made = plan();
  EXPECT_EQ(find(made, "c").role, Role::kActivation);
  EXPECT_EQ(find(made, "a").role, Role::kActivation);
  EXPECT_EQ(find(made, "b").role, Role::kTemporary);
}

}  // namespace
}  // namespace shoehorn
