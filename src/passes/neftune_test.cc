// Where the pass `neftune` puts its noise.
#include "passes/neftune.h"

#include <gtest/gtest.h>

#include <limits>

#include "base/error_testing.h"
#include "model/layers.h"
#include "passes/passes_testing.h"
#include "tasks/single_label_classification.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

StepOptions with_noise(float alpha) {
  StepOptions options;
  options.neftune_noise_alpha = alpha;
  return options;
}

TEST(Neftune, StandsBehindTheLookupOfTokensInTrainingAlone) {
  const ProgramFamily family = build(with_noise(5));
  const Program& step = family.program(family.find(ProgramKind::kTrainStep));
  EXPECT_EQ(count(step, OpKind::kEmbeddingNoise, Phase::kForward), 1);
  EXPECT_EQ(count(family.program(family.find(ProgramKind::kEvaluate)), OpKind::kEmbeddingNoise), 0);
  const StorageId input_ids = family.train_batches[0].find(BatchColumn::kInputIds);
  for (const Node& noise : step.nodes()) {
    if (noise.kind != OpKind::kEmbeddingNoise || noise.region.phase != Phase::kForward) continue;
    const Node& lookup = step.node(step.value(noise.inputs[0]).producer);
    EXPECT_EQ(lookup.kind, OpKind::kEmbedding);
    EXPECT_EQ(step.value(lookup.inputs[1]).storage, input_ids);
    EXPECT_EQ(noise.region.component, Component::kEmbeddings);
    EXPECT_EQ(noise.pass, "neftune");
    for (const Node& reader : step.nodes()) {
      if (&reader == &noise || reader.region.phase != Phase::kForward) continue;
      for (const ValueId input : reader.inputs)
        EXPECT_NE(input, lookup.outputs[0]) << "reads tokens without noise";
    }
  }
}

TEST(Neftune, IsOffAtZero) {
  EXPECT_EQ(count(build(with_noise(0)).programs[0], OpKind::kEmbeddingNoise), 0);
}

TEST(Neftune, StandsInOtherArchitecturesToo) {
  const ProgramFamily family = test_support::build(*test_support::small_distilbert(), with_noise(5));
  EXPECT_EQ(count(family.programs[0], OpKind::kEmbeddingNoise, Phase::kForward), 1);
}

// Sees types, and no tokens.
class TypesAlone final : public Model {
 public:
  Outputs forward(ModelBuilder& builder) const override {
    const Tensor x = builder.embedding(embedding_table(builder, "types", 2, 8, 0.1F),
                                       builder.input(BatchColumn::kTokenTypeIds));
    return linear_layer(builder, "head", builder.first_tokens(x), 2, 0.1F);
  }
  const Task& task() const override { return task_; }
  int64_t max_positions() const override { return 16; }
  int64_t vocab_size() const override { return 50; }

 private:
  SingleLabelClassification task_{2};
};

TEST(Neftune, RefusesWhatIsNoAmountOfNoise) {
  for (const float alpha : {-1.0F, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    EXPECT_NE(refusal_of([&] {
                build(with_noise(alpha));
              }).find("[--neftune_noise_alpha] expected a finite number"),
              std::string::npos)
        << alpha;
  }
  EXPECT_NE(refusal_of([] {
              test_support::build(TypesAlone(), with_noise(5));
            }).find("expected a model that looks input_ids up"),
            std::string::npos);
  test_support::build(TypesAlone(), with_noise(0));
}

}  // namespace
}  // namespace shoehorn
