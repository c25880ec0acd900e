#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "analysis/anatomy_page.h"
#include "analysis/memory_chart.h"
#include "train/test_support.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

constexpr MachineLimits kLimits = {1e11, 1e11, 1e10};

SessionOptions options_of(int64_t accumulation = 1) {
  SessionOptions options;
  options.train = {64, 8, 24};
  options.step.gradient_accumulation_steps = accumulation;
  return options;
}

int64_t bytes_of(const MemoryAnatomy& anatomy, const std::string& name) {
  const auto found = std::find_if(anatomy.parts.begin(), anatomy.parts.end(),
                                  [&](const NamedBytes& part) { return part.name == name; });
  return found == anatomy.parts.end() ? 0 : found->bytes;
}

// Whether `value` stands behind `heading` in a text or a page.
bool has_row(const std::string& text, const std::string& heading, const std::string& value) {
  const size_t from = text.find(heading);
  return from != std::string::npos && text.find(value, from) != std::string::npos;
}

std::string page_of(const Session& session, const MemoryAnatomy& memory) {
  return anatomy_page("tiny", "batch 8", memory_chart(session), memory,
                      operation_anatomy(planned_work(session), kLimits), step_traffic(session));
}

// Planned and not compiled, for models that are too large for a test to run.
MemoryAnatomy planned_anatomy(const Model& model, const SessionOptions& options) {
  const Session session(model, options);
  return memory_anatomy(session, forecast_least_memory(session, std::nullopt));
}

MemoryAnatomy of_evaluation(const Model& model, const StepOptions& step) {
  SessionOptions options;
  options.kind = RunKind::kEvaluate;
  options.evaluation = {64, 8, 24};
  options.step = step;
  return planned_anatomy(model, options);
}

int64_t elements_where(const Model& model, const std::function<bool(const Parameter&)>& counts) {
  const Session session(model, options_of());
  int64_t elements = 0;
  for (const Parameter& parameter : session.state().parameters())
    elements += counts(parameter) ? parameter.global_elements() : 0;
  return elements;
}

int64_t parameters_of(const Model& model) {
  return elements_where(model, [](const Parameter&) { return true; });
}
int64_t vector_elements(const Model& model) {
  return elements_where(model, [](const Parameter& parameter) { return parameter.shape.size() == 1; });
}
int64_t table_elements(const Model& model) {
  return elements_where(model, [](const Parameter& parameter) {
    return parameter.name.find("embeddings.weight") != std::string::npos;
  });
}

TEST(MemoryAnatomy, PartsAreTheGuidesAndAddUpToThePeak) {
  const BertForSequenceClassification model(tiny_bert());
  Session session(model, options_of());
  const MemoryForecast forecast = forecast_memory(session, std::nullopt);
  const MemoryAnatomy anatomy = memory_anatomy(session, forecast);
  int64_t sum = 0;
  for (const NamedBytes& part : anatomy.parts) sum += part.bytes;
  EXPECT_EQ(sum, anatomy.total_bytes);
  EXPECT_EQ(anatomy.total_bytes, forecast.process_bytes());
  EXPECT_EQ(bytes_of(anatomy, "weights"), 4 * anatomy.parameters);
  EXPECT_EQ(bytes_of(anatomy, "optimizer states"), 8 * anatomy.parameters);
  EXPECT_GT(bytes_of(anatomy, "activations kept for the backward") + bytes_of(anatomy, "gradients"), 0);

  ASSERT_FALSE(anatomy.timeline.empty());
  EXPECT_EQ(anatomy.timeline.front().name, "forward, embeddings");
  EXPECT_EQ(anatomy.timeline.back().name.rfind("update", 0), 0U);
  int64_t most = 0;
  for (const StepMoment& moment : anatomy.timeline) most = std::max(most, moment.live_bytes);
  int64_t alive = 0;
  for (const NamedBytes& buffer : anatomy.alive_at_peak) alive += buffer.bytes;
  EXPECT_LE(most, session.plan().device().transient_bytes);
  // Lifetimes are packed with rounded sizes: the peak of either sum is within the rounding of the other.
  const auto buffers = static_cast<int64_t>(session.plan().program(session.plan().largest()).buffers.size());
  EXPECT_NEAR(static_cast<double>(alive), static_cast<double>(most),
              static_cast<double>(buffers * kArenaAlignment));
  EXPECT_EQ(to_json(anatomy)["total_bytes"], anatomy.total_bytes);
  EXPECT_NE(format_memory_anatomy(anatomy).find(" peak\n"), std::string::npos);
}

TEST(MemoryAnatomy, ComponentsAddUpToThePeakAndAreShown) {
  const BertForSequenceClassification model(tiny_bert());
  Session session(model, options_of());
  const MemoryAnatomy anatomy = memory_anatomy(session, forecast_memory(session, std::nullopt));
  int64_t sum = 0;
  for (const NamedBytes& component : anatomy.components_of_all_layers) {
    sum += component.bytes;
    EXPECT_FALSE(component.name.starts_with("layer ")) << component.name << ": a row a kind, not a layer";
  }
  EXPECT_EQ(sum, anatomy.total_bytes);
  int64_t resident = 0;
  for (const NamedBytes& one : anatomy.residents) resident += one.bytes;
  EXPECT_EQ(resident, anatomy.total_bytes);
  EXPECT_TRUE(std::ranges::is_sorted(anatomy.residents, std::ranges::greater{}, &NamedBytes::bytes));
  for (const char* name : {"weight of embeddings", "optimizer_state of attention", "the process besides"}) {
    EXPECT_TRUE(std::ranges::any_of(anatomy.residents, [&](const auto& one) { return one.name == name; }))
        << name;
  }
  EXPECT_EQ(anatomy.run_phase, "train");
  EXPECT_EQ(of_evaluation(model, {}).run_phase, "evaluate");
  const std::string text = format_memory_anatomy(anatomy);
  const std::string page = page_of(session, anatomy);
  for (const char* name :
       {"embeddings", "attention (all layers)", "feed_forward (all layers)", "optimizer"}) {
    EXPECT_TRUE(has_row(text, "By component", name)) << text;
    EXPECT_TRUE(has_row(page, "By component", name)) << name;
  }
}

TEST(MemoryAnatomy, SaysWhatTheMeasuredPeakHasBeyondTheAccount) {
  const BertForSequenceClassification model(tiny_bert());
  Session session(model, options_of());
  MemoryAnatomy anatomy = memory_anatomy(session, forecast_memory(session, std::nullopt));
  EXPECT_EQ(format_memory_anatomy(anatomy).find("not accounted for"), std::string::npos);
  EXPECT_EQ(page_of(session, anatomy).find("not accounted for"), std::string::npos);
  EXPECT_FALSE(to_json(anatomy).contains("unexplained_bytes"));
  anatomy.total_bytes = int64_t{99} << 20;
  anatomy.measured_bytes = int64_t{100} << 20;
  for (const std::string& shown : {format_memory_anatomy(anatomy), page_of(session, anatomy)}) {
    EXPECT_TRUE(has_row(shown, "measured peak of the process", "100.00 MiB")) << shown;
    EXPECT_TRUE(has_row(shown, "not accounted for", "1.00 MiB")) << shown;
    EXPECT_NE(shown.find("1.00 %"), std::string::npos) << shown;
  }
  EXPECT_EQ(to_json(anatomy)["unexplained_bytes"], 1 << 20);
  anatomy.total_bytes = int64_t{102} << 20;
  EXPECT_EQ(unexplained_text(anatomy).bytes, "-2.00 MiB");
  EXPECT_EQ(unexplained_text(anatomy).share, "-2.00 %");
}

TEST(MemoryAnatomy, InferenceHasNoOptimizerAndNoGradients) {
  const BertForSequenceClassification model(tiny_bert());
  const MemoryAnatomy anatomy = of_evaluation(model, {});
  EXPECT_EQ(bytes_of(anatomy, "weights"), 4 * anatomy.parameters);
  EXPECT_EQ(bytes_of(anatomy, "optimizer states"), 0);
  EXPECT_EQ(bytes_of(anatomy, "gradients"), 0);
  EXPECT_EQ(bytes_of(anatomy, "activations kept for the backward"), 0);
}

// The guides: "2 bytes a parameter in half precision". Vectors (biases, norms) stay fp32.
TEST(MemoryAnatomy, InferenceInHalfPrecisionTakesTwoBytesAParameter) {
  const BertForSequenceClassification model(BertConfig::bert_base());
  for (const Precision half : {Precision::kBfloat16, Precision::kFloat16}) {
    StepOptions step;
    step.evaluation_precision = half;  // --bf16_full_eval, --fp16_full_eval
    const MemoryAnatomy anatomy = of_evaluation(model, step);
    EXPECT_EQ(bytes_of(anatomy, "weights"), 2 * anatomy.parameters + 2 * vector_elements(model));
    EXPECT_LT(vector_elements(model), anatomy.parameters / 500);
  }
}

// The guides: "6 bytes a parameter in mixed precision", an fp32 weight and its half. An evaluation-only run
// has no use for the fp32 weight of which products read the half: it keeps that alone, and tables in fp32.
TEST(MemoryAnatomy, InferenceInMixedPrecisionKeepsNoMasters) {
  const BertForSequenceClassification model(BertConfig::bert_base());
  for (const Precision half : {Precision::kBfloat16, Precision::kFloat16}) {
    StepOptions step;
    step.precision = half;  // --bf16, --fp16
    const MemoryAnatomy anatomy = of_evaluation(model, step);
    EXPECT_EQ(bytes_of(anatomy, "weights"),
              2 * anatomy.parameters + 2 * vector_elements(model) + 2 * table_elements(model));
  }
}

// Beside training, the guides' 6 bytes are our most. In bf16 the half is the upper half of the split master,
// and 4 are all. fp16 has no such half: a matrix has a cast as long as the step needs it, which is all the
// time where micro-batches share it.
TEST(MemoryAnatomy, TrainingInMixedPrecisionWithEvaluationTakesAtMostSixBytesAParameter) {
  const BertForSequenceClassification model(BertConfig::bert_base());
  const int64_t parameters = parameters_of(model);
  const int64_t matrices = parameters - vector_elements(model) - table_elements(model);
  SessionOptions options;
  options.train = options.evaluation = {512, 8, 64};
  const auto weights = [&] { return bytes_of(planned_anatomy(model, options), "weights"); };
  options.step.precision = Precision::kBfloat16;
  EXPECT_EQ(weights(), 4 * parameters);
  options.step.precision = Precision::kFloat16;
  EXPECT_GE(weights(), 4 * parameters);
  EXPECT_LE(weights(), 4 * parameters + 2 * matrices);
  options.step.gradient_accumulation_steps = 2;
  EXPECT_EQ(weights(), 4 * parameters + 2 * matrices);
}

TEST(OperationAnatomy, CountsTheWholeStepAndTheClasses) {
  const BertForSequenceClassification model(tiny_bert());
  const Session session(model, options_of());
  const OperationAnatomy anatomy = operation_anatomy(planned_work(session), kLimits);
  EXPECT_FALSE(anatomy.is_measured);
  double flops = 0;
  for (const ClassWork& work : anatomy.classes) {
    flops += work.flops;
    EXPECT_GE(work.floor_seconds, work.bytes / kLimits.bytes_per_second * (1 - 1e-9));
  }
  EXPECT_NEAR(flops, session.step_flops(), 1e-9 * flops);
  EXPECT_EQ(anatomy.classes.front().op_class, OpClass::kContraction);
  EXPECT_EQ(anatomy.classes.back().op_class, OpClass::kUpdate);
  // Attention's backward makes its probabilities again; linear layers are at 2.
  EXPECT_GE(anatomy.backward.flops, 1.99 * anatomy.forward.flops);
  EXPECT_LE(anatomy.backward.flops, 2.5 * anatomy.forward.flops);
}

// Where bytes cost nothing, the floor of the products is their flops at the rate of their operands.
TEST(OperationAnatomy, AProductIsHeldToTheRateOfItsOperands) {
  constexpr double kFp32 = 1e11;
  constexpr double kBf16 = 4e11;
  constexpr double kFreeBytes = 1e30;
  const BertForSequenceClassification model(tiny_bert());
  const auto rate = [&](Precision precision, const MachineLimits& limits) {
    SessionOptions options = options_of();
    options.step.precision = precision;
    const OperationAnatomy anatomy = operation_anatomy(planned_work(Session(model, options)), limits);
    const ClassWork& products = anatomy.classes.front();
    EXPECT_EQ(products.op_class, OpClass::kContraction);
    return products.flops / products.floor_seconds;
  };
  const MachineLimits native = {kFp32, kBf16, kFreeBytes};
  EXPECT_NEAR(rate(Precision::kFloat32, native), kFp32, 1e-9 * kFp32);
  EXPECT_NEAR(rate(Precision::kBfloat16, native), kBf16, 1e-9 * kBf16);
  EXPECT_NEAR(rate(Precision::kFloat16, native), kFp32, 1e-9 * kFp32) << "multiplied as fp32";
  const MachineLimits widening = {kBf16, kFp32, kFreeBytes};
  EXPECT_NEAR(rate(Precision::kBfloat16, widening), kBf16, 1e-9 * kBf16) << "widened, it is fp32's product";
}

TEST(OperationAnatomy, AMicroBatchIsCountedAsOftenAsItRuns) {
  const BertForSequenceClassification model(tiny_bert());
  const Session once(model, options_of(1));
  const Session often(model, options_of(3));
  const OperationAnatomy one = operation_anatomy(planned_work(once), kLimits);
  const OperationAnatomy three = operation_anatomy(planned_work(often), kLimits);
  EXPECT_NEAR(three.forward.flops, 3 * one.forward.flops, 1e-9 * three.forward.flops);
}

TEST(OperationAnatomy, SaysNothingOfTheFloorWithoutLimits) {
  const BertForSequenceClassification model(tiny_bert());
  const Session session(model, options_of());
  const OperationAnatomy with = operation_anatomy(planned_work(session), kLimits);
  const OperationAnatomy without = operation_anatomy(planned_work(session), std::nullopt);
  EXPECT_EQ(total_of(without).flops, total_of(with).flops);
  EXPECT_TRUE(to_json(with)["total"].contains("floor_seconds"));
  EXPECT_FALSE(to_json(without)["total"].contains("floor_seconds"));
  EXPECT_NE(format_operation_anatomy(with).find("at least"), std::string::npos);
  EXPECT_EQ(format_operation_anatomy(without).find("at least"), std::string::npos);
}

TEST(OperationAnatomy, IsMeasuredFromAProfile) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = quiet_arguments();
  args.max_steps = 4;
  args.profile = 3;
  Trainer trainer(model, args, tiny_samples(16, 1), {}, {.write_profile = false});
  trainer.train();
  const OperationAnatomy anatomy = operation_anatomy(measured_work(*trainer.profile()), kLimits);
  EXPECT_TRUE(anatomy.is_measured);
  double seconds = 0;
  for (const ClassWork& work : anatomy.classes) {
    EXPECT_GT(work.seconds, 0) << op_class_name(work.op_class);
    seconds += work.seconds;
  }
  EXPECT_LE(seconds, trainer.profile()->recorded_seconds() / 3 * (1 + 1e-9));
  const MemoryAnatomy memory = memory_anatomy(trainer.session(), trainer.forecast());
  const std::string page =
      anatomy_page("tiny", "batch 4", memory_chart(trainer.session()), memory, anatomy, {});
  EXPECT_NE(page.find("<td>tensor contractions</td>"), std::string::npos) << "the operations are a table";
  EXPECT_EQ(page.find("<pre>"), std::string::npos);
}

TEST(OperationAnatomy, EvaluationIsMeasuredToo) {
  const BertForSequenceClassification model(tiny_bert());
  TrainingArguments args = quiet_arguments();
  args.per_device_eval_batch_size = 4;
  Trainer plain(model, args, {}, tiny_samples(16, 1));
  args.profile = 10;
  Trainer trainer(model, args, {}, tiny_samples(16, 1));
  EXPECT_EQ(trainer.evaluate().at("eval_loss"), plain.evaluate().at("eval_loss"));
  EXPECT_EQ(trainer.profile()->recorded_steps(), 3) << "four batches, the first is not timed";
  const OperationAnatomy measured = operation_anatomy(measured_work(*trainer.profile()), kLimits);
  const OperationAnatomy planned = operation_anatomy(planned_work(trainer.session()), kLimits);
  EXPECT_TRUE(measured.is_measured);
  EXPECT_EQ(measured.backward.flops, 0);
  ASSERT_EQ(measured.classes.size(), planned.classes.size());
  for (size_t i = 0; i < measured.classes.size(); ++i) {
    EXPECT_GT(measured.classes[i].seconds, 0) << op_class_name(measured.classes[i].op_class);
    EXPECT_NEAR(measured.classes[i].nodes, planned.classes[i].nodes, 1e-9 * planned.classes[i].nodes);
    EXPECT_LE(measured.classes[i].flops, planned.classes[i].flops * (1 + 1e-9)) << "shorter sequences";
  }
}

}  // namespace
}  // namespace shoehorn
