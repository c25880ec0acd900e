// Toy programs that hold the decisions which later features stand on.
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "conformance_backend.h"
#include "exec/executor_testing.h"
#include "model/layers.h"
#include "ops/op_info.h"
#include "ops/verify.h"
#include "toy_training.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

constexpr int64_t kTiedHidden = 9;

// Predicts a token from a sequence's first one; the head multiplies by `head`, which may be the embedding
// table itself.
Tensor predict_token(ModelBuilder& builder, const std::string& head) {
  builder.set_region(-1, Component::kEmbeddings);
  const Tensor table = embedding_table(builder, "table", kVocabulary, kTiedHidden, 0.2F);
  Tensor x = builder.embedding(table, builder.input(BatchColumn::kInputIds));
  builder.set_region(0, Component::kFeedForward);
  x = builder.activation(linear_layer(builder, "dense", x, kTiedHidden, 0.2F), Activation::kGelu);
  builder.set_region(-1, Component::kHead);
  const Tensor weight = embedding_table(builder, head, kVocabulary, kTiedHidden, 0.2F);
  const Tensor bias = builder.parameter("head.bias", {kVocabulary}, {});
  return builder.linear(builder.first_tokens(x), weight, bias);
}

struct Order {
  std::string name;
  int64_t steps;
  AccumulationOrder order;
};

void PrintTo(const Order& order, std::ostream* out) {
  *out << order.name;
}

class TiedWeights : public testing::TestWithParam<Order> {
 protected:
  static StepOptions step() {
    StepOptions step = gradient_options();
    step.gradient_accumulation_steps = GetParam().steps;
    step.accumulation_order = GetParam().order;
    return step;
  }
  static Split split() { return GetParam().steps == 1 ? Split{{0, 1, 2, 3, 4}} : Split{{0, 1}, {2, 3}, {4}}; }
};

// The model of two tables, both with the tied table's values, has the two terms of the tied gradient.
TEST_P(TiedWeights, TheGradientIsTheSumOfBothUses) {
  const ToyModel tied([](ModelBuilder& builder) { return predict_token(builder, "table"); });
  const ToyModel apart([](ModelBuilder& builder) { return predict_token(builder, "head"); });
  const std::vector<Sample> samples = random_samples(5, 3, 20, kVocabulary);
  const Gradients sum = gradients_of(tied, step(), samples, split());

  TrainingRun run(apart, session_options(step()));
  Weights weights = random_weights(run.session());
  weights["head.weight"] = weights.at("table.weight");
  write_weights(run.session(), weights);
  run.step(samples, split(), 1.0F);
  const Weights after = read_weights(run.session());
  Gradients expected{run.loss(), {}};
  for (const auto& [name, values] : sum.values) {
    for (size_t i = 0; i < values.size(); ++i) {
      double gradient = static_cast<double>(weights.at(name)[i]) - after.at(name)[i];
      if (name == "table.weight")
        gradient += static_cast<double>(weights.at("head.weight")[i]) - after.at("head.weight")[i];
      expected.values[name].push_back(gradient);
    }
  }
  expect_close(sum, expected);
  double head = 0;
  for (size_t i = 0; i < weights.at("head.weight").size(); ++i) {
    head = std::max(head,
                    std::abs(static_cast<double>(weights.at("head.weight")[i]) - after.at("head.weight")[i]));
  }
  EXPECT_GT(head, 0.01) << "the head's term would not be missed";
}

// The second use adds to the gradient of the first where it lies: no other table, no sum of tables.
TEST_P(TiedWeights, OneTableOfGradients) {
  const ToyModel tied([](ModelBuilder& builder) { return predict_token(builder, "table"); });
  const Session session(tied, session_options(step()));
  int64_t gradients_in_place = 0;
  for (const Program& program : session.family().programs) {
    for (const Node& node : program.nodes()) {
      if (node.outputs.empty()) continue;
      const Value& output = program.value(node.outputs[0]);
      if (output.type.shape.elements() != kVocabulary * kTiedHidden || output.role != Role::kGradient)
        continue;
      EXPECT_NE(node.kind, OpKind::kAdd) << program.name();
      if (node.kind == OpKind::kEmbeddingGrad) gradients_in_place += node.inputs.back().valid() ? 1 : 0;
    }
  }
  EXPECT_GT(gradients_in_place, 0);
}

TEST_P(TiedWeights, OneStorageOneParameterOneUpdate) {
  const ToyModel tied([](ModelBuilder& builder) { return predict_token(builder, "table"); });
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    StepOptions options = step();
    options.precision = precision;
    const Session session(tied, session_options(options));
    int64_t tables = 0;
    for (const Storage& storage : session.state().storages()) {
      const bool is_stored_once = storage.role == Role::kWeight || storage.role == Role::kMasterWeight;
      const bool is_rest_or_cast = storage.type.dtype == DType::kI16 || storage.type.dtype == DType::kF16;
      if (is_stored_once && !is_rest_or_cast && storage.type.shape.elements() == kVocabulary * kTiedHidden)
        ++tables;
    }
    EXPECT_EQ(tables, 1);
    EXPECT_EQ(session.parameter_count(),
              kVocabulary * kTiedHidden + kTiedHidden * kTiedHidden + kTiedHidden + kVocabulary);
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, TiedWeights,
                         testing::Values(Order{"whole", 1, AccumulationOrder::kMicroBatch},
                                         Order{"micro_batch", 3, AccumulationOrder::kMicroBatch},
                                         Order{"layer", 3, AccumulationOrder::kLayer}),
                         [](const auto& info) { return info.param.name; });

// A program of one weight: a view of it, read before and after the update.
Program view_and_update(StateTable& state, bool read_after) {
  const StorageId weight = state.add_storage({"weight", {DType::kF32, {4, 3}}, Role::kWeight, {}, {}});
  const StorageId gradient = state.add_storage({"gradient", {DType::kF32, {4, 3}}, Role::kGradient, {}, {}});
  const StorageId rate = state.add_storage({"rate", {DType::kF32, {1}}, Role::kScalar, {}, {}});
  const StorageId applied = state.add_storage({"applied", {DType::kI32, {1}}, Role::kScalar, {}, {}});
  Program program(ProgramKind::kTrainStep, &state);
  OpBuilder builder(program);
  const ValueId view = builder.value(OpKind::kView, {program.read_state(weight)},
                                     ViewAttributes{{DType::kF32, {6}}, 3}, "window");
  const auto update = [&] {
    builder.add(OpKind::kSgd,
                {program.read_state(rate),
                 program.read_state(applied),
                 {},
                 {},
                 program.read_state(weight),
                 program.read_state(gradient)},
                UpdateAttributes{SgdSettings{}, {0.0F}, {{UpdatedParameter{.rows = 4, .columns = 3}}}, {{}}},
                "update");
  };
  if (read_after) update();
  program.add_result("copy", builder.value(OpKind::kCopy, {view}, {}, "copy"));
  if (!read_after) update();
  return program;
}

TEST(ViewOfAnUpdatedWeight, ReadBeforeTheUpdateSeesTheOldBytes) {
  StateTable state;
  std::vector<Program> programs = {view_and_update(state, false)};
  verify(programs[0]);
  const auto backend = conformance_backend(1);
  const MemoryPlan plan = plan_memory(state, programs, *backend);
  Executor executor(state, programs, plan, *backend, {.poison = true});
  std::vector<float> weight(12);
  std::iota(weight.begin(), weight.end(), 0.0F);
  set_values(executor, StorageId{0}, weight);
  set_values(executor, StorageId{1}, std::vector<float>(12, 1));
  executor.write_scalar(StorageId{2}, 0.5F);
  executor.run(ProgramId{0}, {});
  const auto copy = values_of<float>(executor, ProgramId{0}, programs[0].result("copy"));
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(copy[i], weight[i + 3]);
  const auto after = values_of<float>(executor, StorageId{0});
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(after[i], weight[i] - 0.5F);
}

TEST(ViewOfAnUpdatedWeight, ReadAfterTheUpdateIsRejected) {
  StateTable state;
  const Program program = view_and_update(state, true);
  try {
    verify(program);
    FAIL() << "accepted";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("reads version 0 of 'weight' after version 1"),
              std::string::npos)
        << error.what();
  }
}

// The bytes of weights and states of two parameters after three updates, in one storage or in two, with fp32
// weights or bf16 ones without masters.
std::map<std::string, std::vector<std::byte>> updated(bool joined, const OptimizerSettings& settings,
                                                      DType dtype = DType::kF32) {
  StateTable state;
  const auto add = [&](const std::string& name, int64_t rows) {
    Parameter parameter;
    parameter.name = name;
    parameter.shape = {rows, 5};
    parameter.storage = state.add_storage({name, {dtype, {rows, 5}}, Role::kWeight, {}, {}});
    state.add_parameter(parameter);
    return parameter.storage;
  };
  std::vector<StorageId> weights = {add("a", 65), add("b", 18)};
  if (joined) weights = {state.merge(weights, "ab")};
  const StorageId rate = state.add_storage({"rate", {DType::kF32, {1}}, Role::kScalar, {}, {}});
  const StorageId applied = state.add_storage({"applied", {DType::kI32, {1}}, Role::kScalar, {}, {}});
  std::vector<Program> programs;
  programs.emplace_back(ProgramKind::kTrainStep, &state);
  OpBuilder builder(programs[0]);
  for (const StorageId weight : weights) {
    Storage gradient = state.storage(weight);
    gradient.name += ".gradient";
    gradient.role = Role::kGradient;
    gradient.type.dtype = DType::kF32;
    const ValueId value = programs[0].read_state(state.add_storage(gradient));
    append_update(builder, {settings, 0},
                  {programs[0].read_state(rate), programs[0].read_state(applied), {}, {}, 7}, weight, {},
                  value);
  }
  verify(programs[0]);
  const auto backend = conformance_backend(1);
  const MemoryPlan plan = plan_memory(state, programs, *backend);
  Executor executor(state, programs, plan, *backend, {.poison = true});
  executor.write_scalar(rate, 0.01F);
  std::mt19937 random(3);
  const auto fill = [&](StorageId storage, const Parameter& parameter) {
    std::vector<float> values;
    std::vector<bfloat16> rounded;
    for (int64_t i = 0; i < parameter.local_elements(); ++i) {
      values.push_back(std::ldexp(static_cast<float>(random()), -static_cast<int>(32 + random() % 9)));
      rounded.push_back(to_bfloat16(values.back()));
    }
    const DType type = state.storage(storage).type.dtype;
    executor.write(
        storage, parameter.offset_elements * dtype_bytes(type),
        type == DType::kBF16 ? std::as_bytes(std::span(rounded)) : std::as_bytes(std::span(values)));
  };
  for (const Parameter& parameter : state.parameters()) fill(parameter.storage, parameter);
  for (int32_t step = 0; step < 3; ++step) {
    for (const Parameter& parameter : state.parameters())
      fill(state.find_storage(state.storage(parameter.storage).name + ".gradient"), parameter);
    executor.run(ProgramId{0}, {});
    executor.write_scalar(applied, step + 1);
  }
  std::map<std::string, std::vector<std::byte>> left;
  const auto take = [&](const std::string& name, StorageId storage, int64_t offset, int64_t bytes) {
    left[name].resize(static_cast<size_t>(bytes));
    executor.read(storage, offset, left[name]);
  };
  for (const Parameter& p : state.parameters()) {
    const int64_t weight_width = dtype_bytes(dtype);
    take(p.name, p.storage, p.offset_elements * weight_width, p.local_elements() * weight_width);
    for (const OptimizerState& kept : optimizer_states(settings, p)) {
      const OptimizerStatePlace place = find_optimizer_state(state, settings, p, kept.name);
      const int64_t width = dtype_bytes(kept.dtype);
      take(p.name + "." + kept.name, place.storage, place.offset_elements * width,
           kept.local_elements() * width);
    }
  }
  return left;
}

// Where q, k and v share a storage, blocks of states begin and end with each of them.
TEST(JoinedParameters, StatesIn8BitsAreThoseOfEachAlone) {
  const EightBitStates all{.least_elements = 1};
  for (const OptimizerSettings& settings : {OptimizerSettings(AdamW8bitSettings{.states = all}),
                                            OptimizerSettings(Lion8bitSettings{.states = all})}) {
    const auto alone = updated(false, settings);
    EXPECT_TRUE(alone.contains("b.absmax1"));
    EXPECT_EQ(updated(true, settings), alone);
  }
}

// Random bits go by the parameter and its own elements, not by where it lies.
TEST(JoinedParameters, WithoutMastersRoundAsEachAlone) {
  const EightBitStates all{.least_elements = 1};
  for (const OptimizerSettings& settings :
       {OptimizerSettings(AdamWSettings{}), OptimizerSettings(SgdSettings{.momentum = 0.9}),
        OptimizerSettings(LionSettings{}), OptimizerSettings(AdafactorSettings{}),
        OptimizerSettings(AdamW8bitSettings{.states = all}),
        OptimizerSettings(Lion8bitSettings{.states = all})}) {
    const auto alone = updated(false, settings, DType::kBF16);
    EXPECT_EQ(alone.at("b").size(), 2U * 18 * 5);
    EXPECT_EQ(updated(true, settings, DType::kBF16), alone);
  }
}

const BertForSequenceClassification& dropless() {
  static const BertForSequenceClassification model(small_bert(0));
  return model;
}

StepOptions accumulating(AccumulationOrder order) {
  StepOptions step = gradient_options();
  step.gradient_accumulation_steps = 3;
  step.accumulation_order = order;
  return step;
}

// An epoch's last window may have fewer micro-batches than the others: programs planned for three serve one
// or two.
TEST(ShortLastWindow, EqualsTheSameSamplesAtOnce) {
  const std::vector<Sample> samples = random_samples(5, 11);
  const Gradients whole = gradients_of(dropless(), gradient_options(), samples, {{0, 1, 2, 3, 4}});
  for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
    for (const Split& split :
         {Split{{0, 1, 2, 3, 4}}, Split{{0, 1}, {2, 3, 4}}, Split{{0, 1, 2}, {3}, {4}}}) {
      SCOPED_TRACE(split.size());
      expect_close(gradients_of(dropless(), accumulating(order), samples, split), whole);
    }
  }
}

// The window after a short one starts afresh: what the absent micro-batches left behind is gone.
TEST(ShortLastWindow, LeavesNothingForTheNextWindow) {
  const std::vector<Sample> samples = random_samples(6, 12);
  for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
    TrainingRun run(dropless(), session_options(accumulating(order)));
    const Weights weights = read_weights(run.session());
    run.step(samples, {{0, 1}, {2, 3}, {4, 5}}, 0.0F);
    run.step(samples, {{5}}, 0.0F);
    EXPECT_EQ(read_weights(run.session()), weights);
    const float loss = run.step(samples, {{0, 1}, {2, 3}, {4, 5}}, 1.0F);
    const Gradients fresh = gradients_of(dropless(), accumulating(order), samples, {{0, 1}, {2, 3}, {4, 5}});
    EXPECT_EQ(loss, fresh.loss);
    Weights expected = weights;
    for (auto& [name, values] : expected) {
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>(values[i] - fresh.values.at(name)[i]);
    }
    EXPECT_EQ(read_weights(run.session()), expected);
  }
}

TEST(SkippedUpdate, GradientsThatAreNeverAppliedChangeNothing) {
  const std::vector<Sample> samples = random_samples(6, 13);
  StepOptions step;
  step.gradient_accumulation_steps = 2;
  TrainingRun run(dropless(), session_options(step));
  const Weights weights = read_weights(run.session());
  run.accumulate(samples, {{0, 1, 2}, {3, 4, 5}}, 1.0F);
  EXPECT_EQ(read_weights(run.session()), weights);
  for (const Storage& storage : run.session().state().storages()) {
    if (storage.role != Role::kOptimizerState) continue;
    const auto values = values_of<float>(run.executor(), run.session().state().find_storage(storage.name));
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return v == 0; })) << storage.name;
  }
  // The next window overwrites what was not applied.
  run.accumulate(samples, {{0, 1, 2}}, 1.0F);
  TrainingRun fresh(dropless(), session_options(step));
  fresh.accumulate(samples, {{0, 1, 2}}, 1.0F);
  EXPECT_EQ(run.loss(), fresh.loss());
}

// found_inf decides inside the program: every optimizer's node leaves weight and states as they are, bit for
// bit, or moves both.
TEST(SkippedUpdate, APredicateInsideTheProgram) {
  const std::vector<std::pair<OpKind, OptimizerSettings>> optimizers = {
      {OpKind::kAdamW, AdamWSettings{}},
      {OpKind::kSgd, SgdSettings{.momentum = 0.9}},
      {OpKind::kAdagrad, AdagradSettings{}},
      {OpKind::kRmsProp, RmsPropSettings{.momentum = 0.9, .centered = true}},
      {OpKind::kLion, LionSettings{}},
      {OpKind::kAdafactor, AdafactorSettings{.beta1 = 0.9}}};
  for (const auto& [kind, settings] : optimizers) {
    StateTable state;
    const auto add = [&](const char* name, DType dtype, Shape shape, Role role) {
      return state.add_storage({name, {dtype, std::move(shape)}, role, {}, {}});
    };
    const StorageId weight = add("weight", DType::kF32, {4, 3}, Role::kWeight);
    const StorageId gradient = add("gradient", DType::kF32, {4, 3}, Role::kGradient);
    const StorageId rate = add("rate", DType::kF32, {1}, Role::kScalar);
    const StorageId applied = add("applied", DType::kI32, {1}, Role::kScalar);
    const StorageId squares = add("squares", DType::kF64, {1}, Role::kScalar);
    Parameter parameter;
    parameter.name = "weight";
    parameter.shape = {4, 3};
    parameter.storage = weight;
    state.add_parameter(parameter);
    Program program(ProgramKind::kTrainStep, &state);
    OpBuilder builder(program);
    const ValueId found_inf =
        builder.value(OpKind::kFoundInf, {program.read_state(squares)}, {}, "found_inf");
    const NodeId update = append_update(
        builder, {settings, 0.01F}, {program.read_state(rate), program.read_state(applied), {}, found_inf},
        weight, {}, program.read_state(gradient));
    EXPECT_EQ(program.node(update).kind, kind);
    const std::vector<Program> programs = {std::move(program)};
    verify(programs[0]);
    const auto backend = conformance_backend(1);
    const MemoryPlan plan = plan_memory(state, programs, *backend);
    Executor executor(state, programs, plan, *backend, {.poison = true});
    const auto bytes_of_states = [&] {
      std::vector<float> bytes;
      for (const Storage& storage : state.storages()) {
        if (storage.role != Role::kWeight && storage.role != Role::kOptimizerState) continue;
        const auto values = values_of<float>(executor, state.find_storage(storage.name));
        bytes.insert(bytes.end(), values.begin(), values.end());
      }
      return bytes;
    };
    for (const Storage& storage : state.storages()) {
      if (storage.type.dtype != DType::kF32) continue;
      std::vector<float> values;
      for (int64_t i = 0; i < storage.type.shape.elements(); ++i)
        values.push_back(0.5F + 0.125F * static_cast<float>(i));
      set_values(executor, state.find_storage(storage.name), values);
    }
    const std::vector<float> before = bytes_of_states();
    executor.write_scalar<double>(squares, INFINITY);
    executor.run(ProgramId{0}, {});
    EXPECT_EQ(bytes_of_states(), before) << op_info(kind).name;
    executor.write_scalar<double>(squares, 4);
    executor.run(ProgramId{0}, {});
    EXPECT_NE(bytes_of_states(), before) << op_info(kind).name;
  }
}

// A whole step whose gradients overflow, in each arrangement: nothing moves but the loss scale, and the next
// step is as if it had never been.
TEST(SkippedUpdate, AnOverflowChangesNothingButTheScale) {
  const std::vector<Sample> samples = random_samples(6, 16);
  for (const auto& [steps, order] :
       {std::pair{1, AccumulationOrder::kMicroBatch}, std::pair{2, AccumulationOrder::kMicroBatch},
        std::pair{2, AccumulationOrder::kLayer}}) {
    for (const float max_grad_norm : {1.0F, 0.0F}) {
      StepOptions step;
      step.precision = Precision::kFloat16;
      step.gradient_accumulation_steps = steps;
      step.accumulation_order = order;
      step.max_grad_norm = max_grad_norm;
      step.loss_scale.initial = 0x1p40F;
      const Split split = steps == 1 ? Split{{0, 1, 2, 3, 4, 5}} : Split{{0, 1, 2}, {3, 4, 5}};
      TrainingRun run(dropless(), session_options(step));
      const LossScaleStorages& scale = run.session().family().loss_scale;
      const Weights weights = read_weights(run.session());
      run.step(samples, split, 1e-2F);
      EXPECT_TRUE(was_skipped(run.executor(), scale));
      EXPECT_EQ(read_weights(run.session()), weights);
      EXPECT_EQ(run.executor().read_scalar<float>(scale.scale), 0x1p39F);
      EXPECT_EQ(run.executor().read_scalar<int32_t>(run.session().family().scalars.applied_updates), 0);
      run.executor().write_scalar(scale.scale, 256.0F);
      run.step(samples, split, 1e-2F);
      EXPECT_FALSE(was_skipped(run.executor(), scale));

      step.loss_scale.initial = 256;
      TrainingRun fresh(dropless(), session_options(step));
      fresh.step(samples, split, 1e-2F);
      EXPECT_EQ(read_weights(run.session()), read_weights(fresh.session()));
      EXPECT_NE(read_weights(run.session()), weights);
    }
  }
}

// The gradients of a float16 step are those of an fp32 step to float16's rounding, whatever the scale.
TEST(LossScale, IsTakenOutOfTheGradients) {
  const std::vector<Sample> samples = random_samples(6, 16);
  const Split split = {{0, 1, 2, 3, 4, 5}};
  const Gradients exact = gradients_of(dropless(), gradient_options(), samples, split);
  for (const float scale : {64.0F, 1000.0F, 4096.0F}) {
    StepOptions step = gradient_options();
    step.precision = Precision::kFloat16;
    step.loss_scale.fixed = scale;
    expect_close(gradients_of(dropless(), step, samples, split), exact, 64 * 0x1p13);
  }
}

TEST(TwoPrograms, EvaluationSeesTheUpdatedWeights) {
  const std::vector<Sample> samples = random_samples(6, 14);
  const std::vector<int32_t> all = {0, 1, 2, 3, 4, 5};
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    StepOptions step;
    step.precision = precision;
    step.loss_scale.initial = 256;
    TrainingRun trained(dropless(), session_options(step));
    const auto before = trained.evaluate(samples, all, 3);
    for (int i = 0; i < 2; ++i) trained.step(samples, {all}, 1e-2F);
    const auto after = trained.evaluate(samples, all, 3);
    EXPECT_NE(after, before);

    SessionOptions options = session_options(step);
    options.kind = RunKind::kEvaluate;
    TrainingRun loaded(dropless(), options);
    write_weights(loaded.session(), read_weights(trained.session()));
    EXPECT_EQ(loaded.evaluate(samples, all, 3), after);
    // And the evaluation, in the same bytes as the step's temporaries, leaves training as it was.
    TrainingRun plain(dropless(), session_options(step));
    for (int i = 0; i < 2; ++i) plain.step(samples, {all}, 1e-2F);
    EXPECT_EQ(trained.step(samples, {all}, 1e-2F), plain.step(samples, {all}, 1e-2F));
    EXPECT_EQ(read_weights(trained.session()), read_weights(plain.session()));
  }
}

TEST(TwoPrograms, LieInOneTransientArena) {
  const Session session(dropless(), session_options(StepOptions{}));
  const MemoryPlan& plan = session.plan();
  ASSERT_EQ(plan.programs.size(), 2U);
  EXPECT_GT(plan.programs[1].device().bytes, 0);
  EXPECT_EQ(plan.device().transient_bytes,
            std::max(plan.programs[0].device().bytes, plan.programs[1].device().bytes));
}

TEST(Regions, EveryNodeKeepsItsOwnThroughAllPasses) {
  for (const auto& [steps, order] :
       {std::pair{1, AccumulationOrder::kMicroBatch}, std::pair{3, AccumulationOrder::kMicroBatch},
        std::pair{3, AccumulationOrder::kLayer}}) {
    StepOptions step;
    step.gradient_accumulation_steps = steps;
    step.accumulation_order = order;
    step.recompute_every_n_layers = 1;
    const Session session(BertForSequenceClassification(small_bert()), session_options(step));
    for (const Program& program : session.family().programs) {
      std::set<int32_t> layers, micro_batches;
      for (const Node& node : program.nodes()) {
        EXPECT_NE(node.region.component, Component::kNone)
            << program.name() << ": " << program.value(node.outputs[0]).name;
        layers.insert(node.region.layer);
        micro_batches.insert(node.region.micro_batch);
      }
      if (!program.traits().reads_batch) continue;
      EXPECT_EQ(layers, (std::set<int32_t>{-1, 0, 1, 2})) << program.name();
      const bool unrolled = order == AccumulationOrder::kLayer && program.kind() == ProgramKind::kTrainStep;
      EXPECT_EQ(micro_batches.size(), unrolled ? 3U : 1U) << program.name();
    }
  }
}

// Masks belong to samples, positions and features: not to a micro-batch, a row or an order.
TEST(DropoutMasks, DoNotDependOnSplitPackingOrOrder) {
  const BertForSequenceClassification model(small_bert(0.3F));
  const std::vector<Sample> samples = random_samples(6, 15);
  for (const std::set<std::string>& skipped : {std::set<std::string>{}, std::set<std::string>{"fuse"}}) {
    StepOptions step = gradient_options();
    step.skip_passes = skipped;
    const Gradients whole = gradients_of(model, step, samples, {{0, 1, 2, 3, 4, 5}});
    const Gradients dropless_gradients = gradients_of(dropless(), step, samples, {{0, 1, 2, 3, 4, 5}});
    EXPECT_GT(std::abs(whole.loss - dropless_gradients.loss), 1e-3) << "dropout is on";
    expect_close(gradients_of(model, step, samples, {{5, 3, 1, 0, 2, 4}}), whole);
    for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
      StepOptions split = accumulating(order);
      split.skip_passes = skipped;
      expect_close(gradients_of(model, split, samples, {{0, 1, 2}, {3, 4, 5}}), whole);
      expect_close(gradients_of(model, split, samples, {{4, 1}, {0, 3}, {5, 2}}), whole);
      split.recompute_every_n_layers = 1;
      expect_close(gradients_of(model, split, samples, {{4, 1}, {0, 3}, {5, 2}}), whole);
    }
  }
}

// As dropout's: of seed, step, sample, position and feature alone.
TEST(NoisyEmbeddings, DoNotDependOnSplitPackingOrOrder) {
  const BertForSequenceClassification model = dropless();
  const std::vector<Sample> samples = random_samples(6, 15);
  StepOptions step = gradient_options();
  const Gradients without = gradients_of(model, step, samples, {{0, 1, 2, 3, 4, 5}});
  step.neftune_noise_alpha = 5;
  const Gradients whole = gradients_of(model, step, samples, {{0, 1, 2, 3, 4, 5}});
  EXPECT_GT(std::abs(whole.loss - without.loss), 1e-3) << "there is noise";
  expect_close(gradients_of(model, step, samples, {{5, 3, 1, 0, 2, 4}}), whole);
  for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
    StepOptions split = accumulating(order);
    split.neftune_noise_alpha = 5;
    expect_close(gradients_of(model, split, samples, {{4, 1}, {0, 3}, {5, 2}}), whole);
    split.recompute_every_n_layers = 1;
    expect_close(gradients_of(model, split, samples, {{4, 1}, {0, 3}, {5, 2}}), whole);
  }
  // Evaluation has none.
  const auto evaluated = [&](const StepOptions& options) {
    return TrainingRun(model, session_options(options)).evaluate(samples, {0, 1, 2}, 3);
  };
  EXPECT_EQ(evaluated(step), evaluated(gradient_options()));
}

}  // namespace
}  // namespace shoehorn
