// Language models through the whole pipeline: the loss of a vocabulary is fused with its product and its gradients, and
// nothing else changes by it.
#include <gtest/gtest.h>

#include <algorithm>

#include "analysis/find_anomaly.h"
#include "base/error_testing.h"
#include "exec/backends.h"
#include "exec/null/null_backend.h"
#include "model/layers.h"
#include "ops/op_info.h"
#include "packed_training.h"
#include "passes/pipeline.h"
#include "program_nodes.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

enum class HeadWeight : uint8_t { kTied, kOwn };

// Two layers of causal attention and feed-forward, with a head of its own or that of the table.
ToyTokenModel language_model(HeadWeight head) {
  return ToyTokenModel(LabelKind::kToken, [head](ModelBuilder& builder) {
    builder.set_region(-1, Component::kEmbeddings);
    const Tensor table = embedding_table(builder, "table", kVocabulary, kHidden, 0.5F);
    Tensor x = builder.embedding(table, builder.input(BatchColumn::kInputIds));
    for (int32_t layer = 0; layer < 2; ++layer) {
      const auto linear = [&](const char* name, Tensor of, int64_t outputs) {
        return linear_layer_without_bias(builder, fmt::format("layer.{}.{}", layer, name), of, outputs, 0.2F);
      };
      builder.set_region(layer, Component::kAttention);
      const Tensor context =
          builder.attention(linear("query", x, kHidden), linear("key", x, kHidden),
                            linear("value", x, kHidden), {.heads = 3, .mask = AttentionMask::causal()});
      x = builder.add(linear("output", context, kHidden), x);
      builder.set_region(layer, Component::kFeedForward);
      x = builder.add(linear("down", builder.activation(linear("up", x, 40), Activation::kSilu), kHidden), x);
    }
    builder.set_region(-1, Component::kHead);
    x = rms_norm_layer(builder, "norm", x, 1e-5F);
    if (head == HeadWeight::kTied) return builder.linear(x, table);
    return linear_layer_without_bias(builder, "head", x, kVocabulary, 0.3F);
  });
}

// Of up to 20 tokens, some of which have no label.
Dataset texts(int64_t count, uint32_t seed = 3) {
  std::mt19937 engine(seed);
  Rows inputs;
  Rows labels;
  for (int64_t i = 0; i < count; ++i) {
    inputs.push_back(random_row(engine, 20));
    labels.push_back(inputs.back());
    std::rotate(labels.back().begin(), labels.back().begin() + 1, labels.back().end());
    labels.back().back() = kIgnoredLabel;
    if (labels.back().size() > 6) labels.back()[3] = kIgnoredLabel;
  }
  return Dataset::from_columns({{"input_ids", inputs}, {"labels", labels}});
}

// Sums of up to 53 terms, some eight ops deep in each of two layers, forward and backward.
constexpr double kLanguageModelRoundings = 4 * 8 * 7.3;

const Node& sole(const Program& program, OpKind kind) {
  EXPECT_EQ(count_nodes(program, kind), 1);
  return *std::ranges::find_if(program.nodes(), [&](const Node& node) { return node.kind == kind; });
}

StepOptions skipping(StepOptions step, const std::string& pass) {
  step.skip_passes.insert(pass);
  return step;
}

TEST(VocabularyLoss, OneNodeComputesLossAndGradients) {
  const auto programs = [](const StepOptions& step) {
    const BatchCapacity capacity{160, 8, 20};
    return build_programs(language_model(HeadWeight::kTied), RunKind::kTrain, capacity, capacity, step);
  };
  const ProgramFamily fused = programs({});
  const Program& train = fused.programs[0];
  EXPECT_EQ(count_nodes(train, OpKind::kLinearCrossEntropyWithGrad), 1);
  EXPECT_EQ(count_nodes(train, OpKind::kLinearCrossEntropy), 0);
  EXPECT_EQ(count_nodes(train, OpKind::kLinearCrossEntropyGrad), 0);
  EXPECT_EQ(count_nodes(train, OpKind::kCrossEntropy), 0);
  // The embedding adds to the table's gradient from the head, in its bytes.
  const Node& loss = sole(train, OpKind::kLinearCrossEntropyWithGrad);
  const Node& embedding = sole(train, OpKind::kEmbeddingGrad);
  EXPECT_NE(std::ranges::find(embedding.inputs, loss.outputs[5]), embedding.inputs.end());
  // The evaluation's result is the logits.
  const Program& evaluate = fused.program(fused.find(ProgramKind::kEvaluate));
  EXPECT_EQ(count_nodes(evaluate, OpKind::kCrossEntropy), 1);

  const ProgramFamily apart = programs(skipping({}, "fuse_vocabulary_gradient"));
  EXPECT_EQ(count_nodes(apart.programs[0], OpKind::kLinearCrossEntropy), 1);
  EXPECT_EQ(count_nodes(apart.programs[0], OpKind::kLinearCrossEntropyGrad), 1);
  for (const char* pass : {"fuse", "fuse_vocabulary_loss"}) {
    const ProgramFamily unfused = programs(skipping({}, pass));
    EXPECT_EQ(count_nodes(unfused.programs[0], OpKind::kCrossEntropy), 1) << pass;
    EXPECT_EQ(count_nodes(unfused.programs[0], OpKind::kLinearCrossEntropyWithGrad), 0) << pass;
  }
}

// Fused or not, the head trained, frozen or the table, whole or in parts: one function and its gradients.
TEST(VocabularyLoss, EveryArrangementHasTheSameGradients) {
  const Dataset dataset = texts(6);
  for (const HeadWeight head : {HeadWeight::kTied, HeadWeight::kOwn}) {
    const ToyTokenModel model = language_model(head);
    for (const char* trained : {"all", "adapters", "without head", "head alone"}) {
      if (head == HeadWeight::kTied && std::string(trained).find("head") != std::string::npos) continue;
      SCOPED_TRACE(fmt::format("{} head, training {}", head == HeadWeight::kTied ? "tied" : "own", trained));
      StepOptions step = gradient_options();
      step.label_smoothing = 0.1F;
      step.z_loss = 0.01F;
      if (std::string(trained) == "adapters")
        step.lora = {.rank = 4, .targets = {"all-linear"}, .modules_to_save = {"none"}};
      if (std::string(trained) == "without head") step.freeze = {"head"};
      if (std::string(trained) == "head alone") step.freeze = {"layer", "norm", "table"};
      const Gradients expected =
          gradients_of(model, dataset, skipping(step, "fuse_vocabulary_loss"), packing_of(6), kSixSamples);
      expect_close(gradients_of(model, dataset, step, packing_of(6), kSixSamples), expected,
                   kLanguageModelRoundings);
      for (const char* pass : {"fuse", "fuse_vocabulary_gradient", "rematerialize", "gather_early"}) {
        SCOPED_TRACE(fmt::format("without {}", pass));
        expect_close(gradients_of(model, dataset, skipping(step, pass), packing_of(6), kSixSamples), expected,
                     kLanguageModelRoundings);
      }
      for (const AccumulationOrder order : {AccumulationOrder::kMicroBatch, AccumulationOrder::kLayer}) {
        for (const char* pass : {"", "fuse_vocabulary_gradient"}) {
          SCOPED_TRACE(fmt::format("accumulated in order {}, without {}", static_cast<int>(order), pass));
          StepOptions split = *pass == 0 ? step : skipping(step, pass);
          split.gradient_accumulation_steps = 3;
          split.accumulation_order = order;
          const auto gradients = [&](const Samples& samples) {
            return gradients_of(model, dataset, split, packing_of(4), samples);
          };
          expect_close(gradients({{0, 1, 2, 3}, {4}, {5}}), expected, kLanguageModelRoundings);
          expect_close(gradients({{0, 1, 2, 3}, {4, 5}}), expected, kLanguageModelRoundings);
        }
      }
    }
  }
}

// In 16 bits the gradient of the logits is rounded once, as it is where the logits are there as a whole.
TEST(VocabularyLoss, HalfPrecisionHasTheSameGradients) {
  const Dataset dataset = texts(6);
  for (const Precision precision : {Precision::kBfloat16, Precision::kFloat16}) {
    for (const HeadWeight head : {HeadWeight::kTied, HeadWeight::kOwn}) {
      SCOPED_TRACE(fmt::format("{}, {}", static_cast<int>(precision), static_cast<int>(head)));
      StepOptions step = gradient_options();
      step.precision = precision;
      step.loss_scale.fixed = 1024;
      const auto gradients = [&](const char* pass) {
        return gradients_of(language_model(head), dataset, skipping(step, pass), packing_of(6), kSixSamples);
      };
      const Gradients expected = gradients("fuse_vocabulary_loss");
      const double epsilon = precision == Precision::kBfloat16 ? 0x1p-8 : 0x1p-11;
      // Activations and their gradients are stored in 16 bits some 20 times on the longest way.
      const double roundings = 4 * std::sqrt(20.0) * epsilon / 0x1p-24;
      expect_close(gradients("fuse_update"), expected, roundings);
      expect_close(gradients("fuse_vocabulary_gradient"), expected, roundings);
    }
  }
}

TEST(VocabularyLoss, ExactPassesChangeNoBit) {
  const Dataset dataset = texts(6);
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    for (const HeadWeight head : {HeadWeight::kTied, HeadWeight::kOwn}) {
      StepOptions step;
      step.precision = precision;
      step.loss_scale.fixed = 256;
      step.max_grad_norm = 0;
      const auto losses = [&](const StepOptions& options) {
        PackedRun run(language_model(head), dataset, options, packing_of(6));
        std::vector<float> all;
        for (int i = 0; i < 3; ++i) all.push_back(run.step(kSixSamples, 1e-2F));
        return all;
      };
      const std::vector<float> kept = losses(step);
      EXPECT_LT(kept.back(), kept.front());
      StepOptions recomputed = step;
      recomputed.recompute_every_n_layers = 1;
      EXPECT_EQ(losses(recomputed), kept);
      StepOptions updated = step;
      updated.update_in_backward = true;
      EXPECT_EQ(losses(updated), kept);
      EXPECT_EQ(losses(skipping(step, "rematerialize")), kept);
    }
  }
}

// The node is named. Under a dynamic loss scale its gradients may overflow, and its loss may not.
TEST(VocabularyLoss, AnomaliesAreFound) {
  StepOptions step = gradient_options();
  step.precision = Precision::kFloat16;
  step.loss_scale.fixed = 0x1p26F;
  for (const bool forward_only : {false, true}) {
    PackedRun run(language_model(HeadWeight::kOwn), texts(6), step, packing_of(6));
    watch_for_anomaly(run.session().executor(), forward_only);
    const auto found = [&] { return message_of<SystemError>([&] { run.step(kSixSamples, 0); }); };
    if (forward_only) {
      EXPECT_GT(run.step(kSixSamples, 0), 0.0F);
    } else {
      EXPECT_TRUE(contains(found(), "linear_cross_entropy_with_grad"));
    }
    Weights weights = read_weights(run.session());
    weights.at("head.weight")[5] = NAN;
    write_weights(run.session(), weights);
    EXPECT_TRUE(contains(found(), "nan from op cast")) << "the weight's";
  }
}

constexpr int64_t kWidth = 64;
constexpr int64_t kWorkspace = int64_t{128} << 20;  // the most

// A language model of one table, tied or with a head of its own.
ToyTokenModel table_model(int64_t entries, int64_t width, HeadWeight head_weight) {
  return {LabelKind::kToken, [=](ModelBuilder& builder) {
            builder.set_region(-1, Component::kEmbeddings);
            const Tensor table = embedding_table(builder, "table", entries, width, 0.5F);
            const Tensor x = builder.embedding(table, builder.input(BatchColumn::kInputIds));
            builder.set_region(-1, Component::kHead);
            if (head_weight == HeadWeight::kTied) return builder.linear(x, table);
            return builder.linear(x, embedding_table(builder, "head", entries, width, 0.5F));
          }};
}

int64_t transient_bytes(const ToyTokenModel& model, int64_t tokens, const StepOptions& step = {}) {
  SessionOptions options;
  options.step = step;
  options.train = {tokens, 8, tokens};
  options.backend = make_backend(kDefaultBackend, 2);
  const Session session(model, options);
  return session.plan().device().transient_bytes;
}

// The step's memory does not grow with N · V: the logits of 2,048 tokens of 49,152 entries are 384 MiB.
TEST(VocabularyLoss, ThePlanHasNoLogits) {
  constexpr int64_t kEntries = 49'152;
  const ToyTokenModel model = table_model(kEntries, kWidth, HeadWeight::kTied);
  constexpr int64_t kTable = kEntries * kWidth * 4;
  const int64_t fused = transient_bytes(model, 2048);
  // Besides: the gradient of the table, and the tokens' rows and their gradients.
  EXPECT_LE(fused, kWorkspace + kTable + 2 * 2048 * kWidth * 4 + 2048 * 64);
  EXPECT_GT(transient_bytes(model, 2048, skipping({}, "fuse_vocabulary_loss")), 2048 * kEntries * 4);
  // More tokens take their rows, and 16 bytes each.
  EXPECT_LE(transient_bytes(model, 8192) - fused, 6144 * (2 * kWidth * 4 + 16) + 4096);
}

// From 32k to 256k entries: what fills the workspace depends on them, its bound does not.
TEST(VocabularyLoss, EveryVocabularyHasTheSameBound) {
  constexpr int64_t kModelWidth = 896;
  const auto backend = make_backend(kDefaultBackend, 2);
  const auto workspace = [&](int64_t entries, bool frozen_head, Precision precision) {
    StepOptions step;
    step.precision = precision;
    if (frozen_head) step.freeze = {"head"};
    const HeadWeight head = frozen_head ? HeadWeight::kOwn : HeadWeight::kTied;
    const BatchCapacity capacity{2048, 8, 2048};
    const ProgramFamily family =
        build_programs(table_model(entries, kModelWidth, head), RunKind::kTrain, capacity, {}, step);
    int64_t bytes = -1;
    for (const Node& node : family.programs[0].nodes()) {
      if (std::string_view(op_info(node.kind).name).starts_with("linear_cross_entropy"))
        bytes = std::max(bytes, backend->workspace_bytes(family.programs[0], node));
    }
    return bytes;
  };
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16}) {
    for (const bool frozen_head : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, {}", precision == Precision::kFloat32 ? "fp32" : "bf16",
                               frozen_head ? "frozen head" : "trained table"));
      for (const int64_t entries : {32'768, 65'536, 151'936, 262'144}) {
        const int64_t bytes = workspace(entries, frozen_head, precision);
        EXPECT_GT(bytes, 0) << entries;
        EXPECT_LE(bytes, kWorkspace) << entries;
      }
    }
  }
}

// What is planned for a machine that is not here is enough for this one.
TEST(VocabularyLoss, TheBoundOfAbsentMachinesHolds) {
  const auto cpu = make_backend(kDefaultBackend, 2);
  OtherMachine machine{.profile = this_machine(),
                       .limits = {1e12, 2e12, 1e11},
                       .available_memory_bytes = int64_t{1} << 40,
                       .process_overhead_bytes = int64_t{100} << 20};
  const auto bound = make_null_backend(machine);
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kFloat16}) {
    for (const int64_t tokens : {16, 512, 4096}) {
      for (const char* pass : {"fuse_update", "fuse_vocabulary_gradient"}) {
        StepOptions step = skipping({}, pass);
        step.precision = precision;
        const BatchCapacity capacity{tokens, 4, 20};
        const ProgramFamily family =
            build_programs(language_model(HeadWeight::kOwn), RunKind::kTrain, capacity, {}, step);
        for (const Node& node : family.programs[0].nodes()) {
          EXPECT_LE(cpu->workspace_bytes(family.programs[0], node),
                    bound->workspace_bytes(family.programs[0], node))
              << op_info(node.kind).name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoehorn
