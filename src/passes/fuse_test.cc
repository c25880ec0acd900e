// Chains that `fuse` leaves, on programs made for it; what it makes of a model is passes_test.cc's.
#include "passes/fuse.h"

#include <gtest/gtest.h>

#include <functional>

#include "model/layers.h"
#include "ops/verify.h"
#include "passes/passes_testing.h"

namespace shoehorn {
namespace {

using testing::count;
using testing::kCapacity;

// One evaluation program of embedded tokens, as `write` goes on with them.
ProgramFamily family_of(const std::function<void(ModelBuilder&, Program&, Tensor)>& write) {
  ProgramFamily family;
  family.scalars = add_scalar_storages(*family.state);
  family.evaluation_batch = BatchInputs(*family.state, kCapacity, 0, "evaluation.");
  family.programs.emplace_back(ProgramKind::kEvaluate, family.state.get());
  Program& program = family.programs[0];
  add_batch_counts(program, kCapacity);
  ModelBuilder builder(program, family.evaluation_batch, family.scalars, false, 1);
  write(builder, program,
        builder.embedding(embedding_table(builder, "table", 50, 12, 0.1F),
                          builder.input(BatchColumn::kInputIds)));
  return family;
}

TEST(FuseChains, AResultIsAReader) {
  for (const bool is_result : {false, true}) {
    ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
      const Tensor inner = linear_layer(builder, "inner", x, 12, 0.1F);
      program.add_result("outer", builder.activation(inner, Activation::kGelu).id());
      if (is_result) program.add_result("inner", inner.id());
    });
    fuse_bias_activation(family, {});
    verify(family.programs[0]);
    EXPECT_EQ(count(family.programs[0], OpKind::kBiasActivation), is_result ? 0 : 1);
  }
}

ProgramFamily attention_family() {
  return family_of([](ModelBuilder& builder, Program& program, Tensor x) {
    const auto part = [&](const char* name) { return linear_layer(builder, name, x, 12, 0.1F); };
    program.add_result("y", builder.attention(part("query"), part("key"), part("value"), 3, 0.0F).id());
  });
}

int64_t attentions(ProgramFamily family) {
  fuse_attention(family, {});
  verify(family.programs[0]);
  return count(family.programs[0], OpKind::kAttention);
}

// One storage has one update: its parameters are trained alike.
TEST(FuseChains, AnAttentionOfPartsThatAreTrainedAlike) {
  EXPECT_EQ(attentions(attention_family()), 1);
  for (const char* name : {"query.weight", "key.weight", "key.bias", "value.weight", "value.bias"}) {
    const auto parameter = [&](ProgramFamily& family) -> Parameter& {
      return family.state->parameter(family.state->find_parameter(name));
    };
    ProgramFamily frozen = attention_family();
    parameter(frozen).trainable = false;
    EXPECT_EQ(attentions(std::move(frozen)), 0) << name;
    ProgramFamily decayed = attention_family();
    parameter(decayed).weight_decay += 0.25F;
    EXPECT_EQ(attentions(std::move(decayed)), 0) << name;
  }
}

}  // namespace
}  // namespace shoehorn
