// Chains that `fuse` leaves, on programs made for it; what it makes of a model is passes_test.cc's. And the gradients that
// a fused loss computes.
#include "passes/fuse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "model/layers.h"
#include "ops/op_builder.h"
#include "ops/op_info.h"
#include "ops/verify.h"
#include "passes/fuse_added_product.h"
#include "passes/fuse_attention.h"
#include "passes/fuse_vocabulary_gradient.h"
#include "passes/passes_testing.h"
#include "passes/pipeline.h"

namespace shoehorn {
namespace {

using test_support::count;
using test_support::kCapacity;

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

// A product that has its bias already has no place for another.
TEST(FuseChains, AnInputThatTheFusedOpWouldForgetKeepsTheChainApart) {
  ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
    const Tensor weight = builder.parameter("weight", {12, 12}, {});
    const Tensor bias = builder.parameter("bias", {12}, {});
    OpBuilder ops(program);
    const ValueId biased = ops.value(OpKind::kMatmul, {x.id(), weight.id(), bias.id()},
                                     MatmulAttributes{.transpose_b = true}, "biased");
    program.add_result("y", ops.value(OpKind::kBiasAdd, {biased, bias.id()}, {}, "again"));
  });
  fuse_bias(family, {});
  verify(family.programs[0]);
  EXPECT_EQ(count(family.programs[0], OpKind::kBiasAdd), 1);
}

// The loss of `entries` classes for each token, by a weight that `product` multiplies.
int64_t fused_losses(int64_t entries, bool is_result,
                     const std::function<Tensor(ModelBuilder&, Tensor)>& product) {
  ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
    const Tensor logits = product(builder, x);
    EXPECT_EQ(logits.shape()[1].maximum, entries);
    const Tensor loss = builder.cross_entropy(logits, 0.1F);
    const Node& node = program.node(program.value(loss.id()).producer);
    program.add_result("loss", loss.id());
    program.add_result("right", node.outputs[3]);
    if (is_result) program.add_result("logits", logits.id());
  });
  fuse_vocabulary_loss(family, {});
  const Program& program = family.programs[0];
  verify(program);
  const int64_t fused = count(program, OpKind::kLinearCrossEntropy);
  EXPECT_EQ(fused + count(program, OpKind::kCrossEntropy), 1);
  EXPECT_EQ(program.value(program.result("right")).output, 3);
  return fused;
}

// In evaluation too, with the number of right labels; not where others read the logits, or they are fewer than what
// they are made of.
TEST(FuseChains, AVocabularysLossIsOneOpWithItsProduct) {
  const auto linear = [](int64_t entries) {
    return [=](ModelBuilder& builder, Tensor x) {
      return linear_layer_without_bias(builder, "head", x, entries, 0.1F);
    };
  };
  EXPECT_EQ(fused_losses(50, false, linear(50)), 1);
  EXPECT_EQ(fused_losses(50, true, linear(50)), 0);
  EXPECT_EQ(fused_losses(12, false, linear(12)), 0);
  const auto scaled = [](ModelBuilder& builder, Tensor x) {
    const Tensor logits = linear_layer_without_bias(builder, "head", x, 50, 0.1F);
    return builder.activation(logits, Activation::kTanh);
  };
  EXPECT_EQ(fused_losses(50, false, scaled), 0);
  const auto biased = [](ModelBuilder& builder, Tensor x) {
    return linear_layer(builder, "head", x, 50, 0.1F);
  };
  EXPECT_EQ(fused_losses(50, false, biased), 0);
}

// A weight that lies the other way round.
TEST(FuseChains, ATransposedVocabularyKeepsItsProduct) {
  ProgramFamily family = family_of([](ModelBuilder& builder, Program& program, Tensor x) {
    const Tensor logits = linear_layer_without_bias(builder, "head", x, 50, 0.1F);
    Node& node = program.node(program.value(logits.id()).producer);
    node.inputs[1] = builder.parameter("other", {12, 50}, {}).id();
    std::get<MatmulAttributes>(node.attributes).transpose_b = false;
    program.add_result("loss", builder.cross_entropy(logits, 0).id());
  });
  fuse_vocabulary_loss(family, {});
  EXPECT_EQ(count(family.programs[0], OpKind::kLinearCrossEntropy), 0);
}

struct AddedProduct {
  int64_t terms = 4;
  size_t place = 1;  // of the product among the sum's terms
  bool is_result = false;
  bool is_twice = false;  // the sum is that of the product and another such product
};

// Sums that are left of one, with the product that is added in its place.
int64_t sums_left(const AddedProduct& added) {
  constexpr int64_t kColumns = 200;
  ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
    OpBuilder ops(program);
    const auto product = [&](const std::string& name) {
      const Tensor low = linear_layer_without_bias(builder, name + "_low", x, added.terms, 0.1F);
      return linear_layer_without_bias(builder, name, low, kColumns, 0.1F).id();
    };
    const Tensor hidden = linear_layer_without_bias(builder, "hidden", x, 40, 0.1F);
    const Tensor whole = linear_layer_without_bias(builder, "base", hidden, kColumns, 0.1F);
    const ValueId base = added.is_twice ? product("other") : whole.id();
    if (added.is_twice) program.add_result("base", whole.id());
    const ValueId delta = product("delta");
    const ValueId sum = ops.value(
        OpKind::kAdd, added.place == 1 ? std::vector{base, delta} : std::vector{delta, base}, {}, "sum");
    program.add_result("y", sum);
    if (added.is_result) program.add_result("delta", delta);
  });
  Program& program = family.programs[0];
  const int64_t products = count(program, OpKind::kMatmul);
  fuse_added_product(family, {});
  verify(program);
  EXPECT_EQ(count(program, OpKind::kMatmul), products);
  const Value& y = program.value(program.result("y"));
  EXPECT_EQ(y.name, "sum");
  const Node& maker = program.node(y.producer);
  if (maker.kind == OpKind::kMatmul) {
    EXPECT_EQ(maker.inputs.size(), 5U);
    EXPECT_EQ(program.value(maker.inputs[4]).name.find("delta"), std::string::npos)
        << "the base is the addend";
  }
  return count(program, OpKind::kAdd);
}

TEST(FuseAddedProduct, WhereItHasFewTermsAndNothingElseReadsIt) {
  EXPECT_EQ(sums_left({}), 0);
  EXPECT_EQ(sums_left({.place = 0}), 0);
  EXPECT_EQ(sums_left({.is_twice = true}), 0);
  EXPECT_EQ(sums_left({.terms = 17}), 1);
  EXPECT_EQ(sums_left({.is_result = true}), 1);
}

// A gradient is read behind the program by the value that the backward made, which the pass would leave without a producer.
TEST(FuseAddedProduct, ASumThatIsAGradientStays) {
  for (const bool is_gradient : {false, true}) {
    ValueId sum;
    ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
      program.set_kind(ProgramKind::kTrainStep);
      const Tensor base = linear_layer_without_bias(builder, "base", x, 96, 0.1F);
      const Tensor low = linear_layer_without_bias(builder, "low", x, 4, 0.1F);
      sum = builder.add(base, linear_layer_without_bias(builder, "high", low, 96, 0.1F)).id();
      program.add_result("y", sum);
    });
    family.gradients.resize(1);
    if (is_gradient) family.gradients[0].push_back({.storage = {}, .gradient = sum});
    fuse_added_product(family, {});
    Program& program = family.programs[0];
    verify(program);
    EXPECT_EQ(count(program, OpKind::kAdd), is_gradient ? 1 : 0);
    EXPECT_EQ(program.value(sum).producer.valid(), is_gradient);
  }
}

// The sum that became a product is a term of the next, and has an addend already.
TEST(FuseAddedProduct, OfTwoSumsInARow) {
  ProgramFamily family = family_of([](ModelBuilder& builder, Program& program, Tensor x) {
    const Tensor hidden = linear_layer_without_bias(builder, "hidden", x, 40, 0.1F);
    const Tensor base = linear_layer_without_bias(builder, "base", hidden, 96, 0.1F);
    const Tensor other = linear_layer_without_bias(builder, "other", hidden, 96, 0.1F);
    const Tensor low = linear_layer_without_bias(builder, "low", x, 4, 0.1F);
    const Tensor sum = builder.add(base, linear_layer_without_bias(builder, "high", low, 96, 0.1F));
    program.add_result("y", builder.add(other, sum).id());
  });
  fuse_added_product(family, {});
  verify(family.programs[0]);
  EXPECT_EQ(count(family.programs[0], OpKind::kAdd), 1);
}

// Forward and gradients of a LoRA step.
TEST(FuseAddedProduct, OfAnAdapterForwardAndBackward) {
  ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
    program.set_kind(ProgramKind::kTrainStep);
    const Tensor wide = linear_layer_without_bias(builder, "widening", x, 96, 0.1F);
    OpBuilder ops(program);
    const Tensor base = linear_layer_without_bias(builder, "base", wide, 96, 0.1F);
    const Tensor low = linear_layer_without_bias(builder, "low", wide, 4, 0.1F);
    const Tensor delta = linear_layer_without_bias(builder, "high", low, 96, 0.1F);
    const Tensor sum = builder.add(base, delta);
    program.add_result("loss", builder.cross_entropy(linear_layer(builder, "head", sum, 3, 0.1F), 0).id());
  });
  Program& program = family.programs[0];
  family.gradients = {append_backward(program, program.result("loss"), {})};
  EXPECT_EQ(count(program, OpKind::kAdd, Phase::kForward), 1);
  EXPECT_EQ(count(program, OpKind::kAdd, Phase::kBackward), 1);
  const size_t gradients = family.gradients[0].size();
  fuse_added_product(family, {});
  verify(program);
  EXPECT_EQ(count(program, OpKind::kAdd), 0);
  EXPECT_EQ(family.gradients[0].size(), gradients);
  for (const ParameterGradient& gradient : family.gradients[0])
    EXPECT_TRUE(program.value(gradient.gradient).producer.valid());
}

// A loss whose gradient is computed keeps its nodes: it is known too late. So does a weight of two losses.
TEST(FuseVocabularyGradient, OnlyWhereTheLossHasAllThatTheGradientsNeed) {
  const auto joined = [](bool is_scaled, bool is_twice) {
    ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
      program.set_kind(ProgramKind::kTrainStep);
      const auto loss_of = [&](Tensor of) {
        return builder.cross_entropy(linear_layer_without_bias(builder, "head", of, 50, 0.1F), 0);
      };
      Tensor loss = loss_of(x);
      if (is_twice) loss = builder.add(loss, loss_of(builder.activation(x, Activation::kTanh)));
      OpBuilder ops(program);
      const ValueId scaled =
          is_scaled ? ops.value(OpKind::kScale, {loss.id()}, ScaleAttributes{2.0F}, "scaled") : loss.id();
      program.add_result("loss", scaled);
    });
    fuse_vocabulary_loss(family, {});
    Program& program = family.programs[0];
    const StorageId seed = add_scalar(*family.state, "seed", DType::kF32);
    family.gradients = {append_backward(program, program.result("loss"), program.read_state(seed))};
    fuse_vocabulary_gradient(family, {});
    verify(program);
    const int64_t with_grad = count(program, OpKind::kLinearCrossEntropyWithGrad);
    EXPECT_EQ(with_grad + count(program, OpKind::kLinearCrossEntropyGrad), is_twice ? 2 : 1);
    EXPECT_EQ(with_grad + count(program, OpKind::kLinearCrossEntropy), is_twice ? 2 : 1);
    EXPECT_EQ(family.gradients[0].size(), 2U);
    for (const ParameterGradient& gradient : family.gradients[0])
      EXPECT_TRUE(program.value(gradient.gradient).producer.valid());
    return with_grad;
  };
  EXPECT_EQ(joined(false, false), 1);
  EXPECT_EQ(joined(true, false), 0);
  EXPECT_EQ(joined(false, true), 1) << "the other adds to its gradient of the weight";
}

TEST(FusedChains, AreWellFormedAndEachOfAPassOfTheList) {
  int64_t chains = 0;
  for (size_t i = 0; i < static_cast<size_t>(OpKind::kOpKindCount); ++i) {
    const OpInfo& fused = op_info(static_cast<OpKind>(i));
    for (const FusedChain& chain : fused.fuses) {
      ++chains;
      SCOPED_TRACE(std::string(fused.name) + ": " + std::string(chain.name));
      EXPECT_TRUE(std::any_of(pass_list().begin(), pass_list().end(), [&](const Pass& pass) {
        return pass.name == chain.pass && pass.group == "fuse";
      })) << chain.pass;
      ASSERT_GE(chain.links.size(), 2U);
      EXPECT_FALSE(chain.links.front().is_optional || chain.links.back().is_optional);
      for (const FusedChain::Link& link : chain.links)
        EXPECT_TRUE(link.becomes < 0 || (&link == &chain.links.end()[-2] && !link.is_optional));
      EXPECT_GE(chain.outputs, 1U);
      EXPECT_GE(std::ssize(chain.inputs), fused.min_inputs);
      EXPECT_LE(std::ssize(chain.inputs), fused.max_inputs);
      for (const auto& [link, input] : chain.inputs) {
        ASSERT_LT(link, chain.links.size());
        EXPECT_LT(input, op_info(chain.links[link].kind).max_inputs);
        EXPECT_FALSE(link > 0 && input == chain.links[link].input) << "made inside of the chain";
      }
    }
  }
  EXPECT_GT(chains, 0);
}

// Attention over products of x, which `options` and `layer` tell.
ProgramFamily attention_family(const AttentionOptions& options = {.heads = 3}, int64_t key_columns = 12,
                               decltype(&linear_layer) layer = &linear_layer) {
  return family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
    const auto part = [&](const char* name, int64_t columns) {
      return layer(builder, name, x, columns, 0.1F);
    };
    program.add_result(
        "y",
        builder.attention(part("query", 12), part("key", key_columns), part("value", key_columns), options)
            .id());
  });
}

const Node& sole_attention(const ProgramFamily& family) {
  const Program& program = family.programs[0];
  verify(program);
  EXPECT_EQ(count(program, OpKind::kAttention), 1);
  EXPECT_EQ(count(program, OpKind::kAttentionScores), 0);
  return *std::find_if(program.nodes().begin(), program.nodes().end(),
                       [](const Node& node) { return node.kind == OpKind::kAttention; });
}

// One storage has one update: its parameters are trained alike. Others keep their products, and attention is
// fused all the same.
TEST(FuseChains, ProductsOfPartsThatAreTrainedAlikeBecomeOne) {
  const auto products = [](ProgramFamily family) {
    fuse_attention(family, {});
    sole_attention(family);
    return count(family.programs[0], OpKind::kMatmul);
  };
  EXPECT_EQ(products(attention_family()), 1);
  for (const std::string name :
       {"query.weight", "query.bias", "key.weight", "key.bias", "value.weight", "value.bias"}) {
    const auto parameter = [&](ProgramFamily& family) -> Parameter& {
      return family.state->parameter(family.state->find_parameter(name));
    };
    // Key and value go together without the query.
    const int64_t expected = name.starts_with("query") ? 2 : 3;
    ProgramFamily frozen = attention_family();
    parameter(frozen).trainable = false;
    EXPECT_EQ(products(std::move(frozen)), expected) << name;
    ProgramFamily decayed = attention_family();
    parameter(decayed).weight_decay += 0.25F;
    EXPECT_EQ(products(std::move(decayed)), expected) << name;
  }
}

// With fewer heads of keys only the query may be large enough for 8-bit states; one storage has states of one kind.
TEST(FuseChains, ProductsOfPartsWithOtherStatesStayApart) {
  const auto products = [](int64_t least_elements) {
    StepOptions options;
    AdamW8bitSettings settings;
    settings.states.least_elements = least_elements;
    options.optimizer.settings = settings;
    ProgramFamily family = attention_family({.heads = 6, .key_value_heads = 2}, 4, linear_layer_without_bias);
    fuse_attention(family, options);
    sole_attention(family);
    return count(family.programs[0], OpKind::kMatmul);
  };
  EXPECT_EQ(products(12 * 4), 1) << "all in 8 bits";
  EXPECT_EQ(products(12 * 12), 2) << "the query's alone";
  EXPECT_EQ(products(12 * 12 + 1), 1) << "none";
}

// With fewer heads of keys the parts are of different widths.
TEST(FuseChains, GroupedHeadsAndNoBiases) {
  for (const auto layer : {&linear_layer, &linear_layer_without_bias}) {
    ProgramFamily family = attention_family(
        {.heads = 6, .key_value_heads = 2, .mask = AttentionMask::sliding_window(3)}, 4, layer);
    fuse_attention(family, {});
    const Node& attention = sole_attention(family);
    const auto& attributes = std::get<AttentionAttributes>(attention.attributes);
    EXPECT_EQ(attention.inputs.size(), 5U);
    EXPECT_EQ(family.programs[0].type(attention.inputs[0]).shape[1], Dim(12 + 4 + 4));
    EXPECT_EQ(attributes.query_column, 0);
    EXPECT_EQ(attributes.key_column, 12);
    EXPECT_EQ(attributes.value_column, 16);
    EXPECT_EQ(attributes.mask, AttentionMask::sliding_window(3));
    const Parameter& value = family.state->parameter(family.state->find_parameter("value.weight"));
    EXPECT_EQ(value.offset_elements, 16 * 12);
    EXPECT_EQ(family.state->storage(value.storage).type.shape, (Shape{20, 12}));
  }
}

// A weight that lies the other way round, as GPT-2 has it, is no row of another.
TEST(FuseChains, WeightsOfOtherLayoutsAreNotMerged) {
  ProgramFamily family = attention_family();
  Program& program = family.programs[0];
  for (Node& node : program.nodes()) {
    if (node.kind == OpKind::kMatmul) std::get<MatmulAttributes>(node.attributes).transpose_b = false;
  }
  fuse_attention(family, {});
  sole_attention(family);
  EXPECT_EQ(count(program, OpKind::kMatmul), 3);
}

// Query and key side by side in one product are turned in one go; the value beside them is not.
TEST(FuseChains, TurnedQueriesAndKeysAreOneRange) {
  for (const bool has_own_table : {false, true}) {
    ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
      const Tensor table = builder.rotary_table({{1.0F, 0.5F}, 1});
      const Tensor other = has_own_table ? builder.rotary_table({{2.0F, 0.5F}, 1}) : table;
      const auto part = [&](const char* name, int64_t columns) {
        return linear_layer(builder, name, x, columns, 0.1F);
      };
      program.add_result("y", builder
                                  .attention(builder.rotate(part("query", 16), table, 4),
                                             builder.rotate(part("key", 8), other, 2), part("value", 8),
                                             {.heads = 4, .key_value_heads = 2})
                                  .id());
    });
    fuse_attention(family, {});
    const Program& program = family.programs[0];
    const Node& attention = sole_attention(family);
    EXPECT_EQ(count(program, OpKind::kMatmul), 1);
    EXPECT_EQ(count(program, OpKind::kRotary), has_own_table ? 2 : 1);
    EXPECT_EQ(attention.inputs.size(), 5U);
    const Node& last = program.node(program.value(attention.inputs[0]).producer);
    ASSERT_EQ(last.kind, OpKind::kRotary);
    const auto& heads = std::get<RotaryAttributes>(last.attributes);
    EXPECT_EQ(heads.first_column, has_own_table ? 16 : 0);
    EXPECT_EQ(heads.heads, has_own_table ? 2 : 6);
    EXPECT_EQ(heads.head_size, 4);
    const auto& attributes = std::get<AttentionAttributes>(attention.attributes);
    EXPECT_EQ(attributes.key_column, 16);
    EXPECT_EQ(attributes.value_column, 24);
  }
}

// Of key and value of another value, the key alone is turned; the query keeps its own turn.
TEST(FuseChains, ATurnedKeyOfAnotherValueIsTurnedBesideTheValue) {
  ProgramFamily family = family_of([](ModelBuilder& builder, Program& program, Tensor x) {
    const Tensor table = builder.rotary_table({{1.0F, 0.5F}, 1});
    const Tensor other = builder.activation(x, Activation::kRelu);
    const auto part = [&](const char* name, Tensor of) {
      return linear_layer_without_bias(builder, name, of, 12, 0.1F);
    };
    program.add_result(
        "y", builder
                 .attention(builder.rotate(part("query", x), table, 3),
                            builder.rotate(part("key", other), table, 3), part("value", other), {.heads = 3})
                 .id());
  });
  fuse_attention(family, {});
  const Program& program = family.programs[0];
  const Node& attention = sole_attention(family);
  EXPECT_EQ(count(program, OpKind::kMatmul), 2);
  EXPECT_EQ(count(program, OpKind::kRotary), 2);
  const Node& key = program.node(program.value(attention.inputs[5]).producer);
  ASSERT_EQ(key.kind, OpKind::kRotary);
  EXPECT_EQ(program.type(key.outputs[0]).shape[1], Dim(24));
  EXPECT_EQ(std::get<RotaryAttributes>(key.attributes).heads, 3);
}

// A norm of each head between product and turn: products stay apart.
TEST(FuseChains, NormedHeadsKeepTheirProducts) {
  ProgramFamily family = family_of([](ModelBuilder& builder, Program& program, Tensor x) {
    const Tensor table = builder.rotary_table({{1.0F, 0.5F}, 1});
    const Tensor gamma = builder.parameter("gamma", {4}, {});
    const auto part = [&](const char* name) { return linear_layer_without_bias(builder, name, x, 12, 0.1F); };
    const auto turned = [&](const char* name) {
      return builder.rotate(builder.rms_norm(part(name), gamma, 1e-6F), table, 3);
    };
    const Tensor q = turned("query");
    const Tensor k = turned("key");
    program.add_result("y", builder.attention(q, k, part("value"), {.heads = 3}).id());
  });
  fuse_attention(family, {});
  const Program& program = family.programs[0];
  EXPECT_EQ(sole_attention(family).inputs.size(), 7U);
  EXPECT_EQ(count(program, OpKind::kMatmul), 3);
  EXPECT_EQ(count(program, OpKind::kRotary), 2);
  EXPECT_EQ(count(program, OpKind::kRmsNorm), 2);
  fuse_norm_rotary(family, {});
  EXPECT_EQ(count(program, OpKind::kRotary), 0) << "norm and turn are one op";
  EXPECT_EQ(count(program, OpKind::kRmsNorm), 0);
  EXPECT_EQ(count(program, OpKind::kRmsNormRotary), 2);
}

// A norm that others read too stays, and so does one of which a part of the columns turns.
TEST(FuseChains, NormsThatAreReadOrTurnedInPartStayApart) {
  for (const bool is_read : {false, true}) {
    ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
      const Tensor table =
          is_read ? builder.rotary_table({{1.0F, 0.5F}, 1}) : builder.rotary_table({{1.0F}, 1});
      const Tensor gamma = builder.parameter("gamma", {4}, {});
      const Tensor normed =
          builder.rms_norm(linear_layer_without_bias(builder, "query", x, 12, 0.1F), gamma, 1e-6F);
      Tensor turned = builder.rotate(normed, table, 3);
      if (is_read) turned = builder.add(turned, normed);
      program.add_result("y", turned.id());
    });
    fuse_norm_rotary(family, {});
    EXPECT_EQ(count(family.programs[0], OpKind::kRmsNormRotary), 0) << is_read;
  }
}

// Columns of one product are read where they are, turned or not; columns that overlap are taken apart.
TEST(FuseChains, ColumnsOfOneValueAreNotCopied) {
  for (const bool turns : {false, true}) {
    for (const bool overlap : {false, true}) {
      ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
        const Tensor all = conv1d_layer(builder, "c_attn", x, 36, 0.1F);
        const Tensor table = builder.rotary_table({{1.0F, 0.5F}, 1});
        const auto part = [&](int64_t first, bool is_turned) {
          const Tensor taken = builder.columns(all, first, 12);
          return is_turned ? builder.rotate(taken, table, 3) : taken;
        };
        const Tensor q = part(0, turns);
        const Tensor k = part(overlap ? 6 : 12, turns);
        program.add_result("y", builder.attention(q, k, part(24, false), {.heads = 3}).id());
      });
      fuse_attention(family, {});
      const Program& program = family.programs[0];
      const Node& attention = sole_attention(family);
      const auto& attributes = std::get<AttentionAttributes>(attention.attributes);
      // With an overlap the key and the value are still columns of one value.
      EXPECT_EQ(count(program, OpKind::kTakeColumns), overlap ? 1 : 0);
      EXPECT_EQ(count(program, OpKind::kRotary), turns ? (overlap ? 2 : 1) : 0);
      EXPECT_EQ(attributes.query_column, 0);
      EXPECT_EQ(attributes.key_column, overlap ? 6 : 12);
      EXPECT_EQ(attributes.value_column, 24);
    }
  }
}

// Sums of a stack of pre-norm blocks: each is normed, and goes on.
enum class OtherReader : uint8_t { kNone, kBehind, kInFront, kNorm, kResult };

ProgramFamily pre_norm_family(bool is_rms, OtherReader other, bool branch_is_first) {
  return family_of([=](ModelBuilder& builder, Program& program, Tensor x) {
    const auto norm = [&](const char* name, Tensor of) {
      return is_rms ? rms_norm_layer(builder, name, of, 1e-5F) : layer_norm_layer(builder, name, of, 1e-5F);
    };
    builder.set_region(0, Component::kFeedForward);
    const Tensor branch = linear_layer(builder, "branch", x, 12, 0.1F);
    const Tensor sum = branch_is_first ? builder.add(branch, x) : builder.add(x, branch);
    Tensor in_front = sum;
    if (other == OtherReader::kInFront) in_front = builder.activation(sum, Activation::kRelu);
    builder.set_region(1, Component::kAttention);
    Tensor y = norm("norm", sum);
    if (other == OtherReader::kInFront) y = builder.add(y, in_front);
    if (other == OtherReader::kBehind) y = builder.add(y, sum);
    if (other == OtherReader::kNorm) y = builder.add(y, norm("other_norm", sum));
    if (other == OtherReader::kResult) program.add_result("sum", sum.id());
    program.add_result("y", y.id());
  });
}

TEST(FuseChains, ASumThatGoesOnIsAnOutputOfItsNorm) {
  for (const bool is_rms : {false, true}) {
    for (const bool branch_is_first : {false, true}) {
      for (const OtherReader other : {OtherReader::kNone, OtherReader::kBehind, OtherReader::kInFront,
                                      OtherReader::kNorm, OtherReader::kResult}) {
        SCOPED_TRACE(fmt::format("rms {}, branch first {}, other reader {}", is_rms, branch_is_first,
                                 static_cast<int>(other)));
        ProgramFamily family = pre_norm_family(is_rms, other, branch_is_first);
        fuse_residual_norm(family, {});
        const Program& program = family.programs[0];
        verify(program);
        const OpKind fused = is_rms ? OpKind::kResidualRmsNorm : OpKind::kBiasDropoutResidualLayerNorm;
        // What reads the sum in front of the norm would read it before it is made.
        const bool is_fused = other != OtherReader::kInFront;
        EXPECT_EQ(count(program, fused), is_fused ? 1 : 0);
        EXPECT_EQ(count(program, is_rms ? OpKind::kRmsNorm : OpKind::kLayerNorm),
                  (is_fused ? 0 : 1) + (other == OtherReader::kNorm ? 1 : 0));
        if (!is_fused) continue;
        const Node& node = *std::find_if(program.nodes().begin(), program.nodes().end(),
                                         [&](const Node& each) { return each.kind == fused; });
        // Recompute and layer-major order go by regions: the sum is its layer's.
        EXPECT_EQ(node.region.layer, 0);
        if (other == OtherReader::kResult) {
          EXPECT_EQ(program.result("sum"), node.outputs[1]);
        }
        const auto readers = program.readers();
        const bool goes_on = other == OtherReader::kBehind || other == OtherReader::kNorm;
        EXPECT_EQ(readers[node.outputs[1].at()].size(), goes_on ? 1U : 0U);
      }
    }
  }
}

// The gate may be either factor, and its bias is its product's.
TEST(FuseChains, AGateAndWhatItGatesAreOneOp) {
  for (const bool gate_is_first : {false, true}) {
    for (const bool is_result : {false, true}) {
      ProgramFamily family = family_of([&](ModelBuilder& builder, Program& program, Tensor x) {
        const Tensor gate = builder.activation(linear_layer(builder, "gate", x, 12, 0.1F), Activation::kSilu);
        const Tensor up = linear_layer_without_bias(builder, "up", x, 12, 0.1F);
        program.add_result("y",
                           (gate_is_first ? builder.multiply(gate, up) : builder.multiply(up, gate)).id());
        if (is_result) program.add_result("gate", gate.id());
      });
      fuse_gated_activation(family, {});
      fuse_bias_activation(family, {});
      verify(family.programs[0]);
      EXPECT_EQ(count(family.programs[0], OpKind::kGatedActivation), is_result ? 0 : 1);
      EXPECT_EQ(count(family.programs[0], OpKind::kBiasActivation), is_result ? 1 : 0);
      if (is_result) continue;
      for (const Node& node : family.programs[0].nodes()) {
        if (node.kind != OpKind::kGatedActivation) continue;
        EXPECT_EQ(family.programs[0].node(family.programs[0].value(node.inputs[0]).producer).kind,
                  OpKind::kBiasAdd);
      }
    }
  }
}

// Cross attention: keys and values of another value, in rows of their own, and a bias.
TEST(FuseChains, KeyAndValueOfAnotherValueBecomeOneProduct) {
  ProgramFamily family = family_of([](ModelBuilder& builder, Program& program, Tensor x) {
    const Tensor other = builder.activation(x, Activation::kRelu);
    AttentionOptions options{.heads = 3, .key_value_heads = 1, .longest_keys = 9};
    options.key_start = builder.input(BatchColumn::kSequenceStart);
    options.key_length = builder.input(BatchColumn::kSequenceLength);
    options.bias = builder.parameter("distances", {3, kCapacity.longest_sequence + 9 - 1}, {});
    program.add_result("y", builder
                                .attention(linear_layer(builder, "query", x, 12, 0.1F),
                                           linear_layer(builder, "key", other, 4, 0.1F),
                                           linear_layer(builder, "value", other, 4, 0.1F), options)
                                .id());
  });
  fuse_attention(family, {});
  const Program& program = family.programs[0];
  const Node& attention = sole_attention(family);
  EXPECT_EQ(count(program, OpKind::kMatmul), 2) << "of the query; of key and value";
  EXPECT_EQ(count(program, OpKind::kBiasAdd), 1);
  ASSERT_EQ(attention.inputs.size(), 10U);
  EXPECT_EQ(program.type(attention.inputs[5]).shape[1], Dim(8));
  EXPECT_FALSE(attention.inputs[6].valid());
  EXPECT_EQ(program.value(attention.inputs[7]).name, "evaluation.sequence_start");
  EXPECT_EQ(program.value(attention.inputs[8]).name, "evaluation.sequence_length");
  EXPECT_EQ(program.value(attention.inputs[9]).name, "distances");
  const auto& attributes = std::get<AttentionAttributes>(attention.attributes);
  EXPECT_EQ(attributes.max_key_length, 9);
  EXPECT_EQ(attributes.key_column, 0);
  EXPECT_EQ(attributes.value_column, 4);
}

// A layer that serves for self and for cross attention: key and value are of one value in both, the query in one.
TEST(FuseChains, ALayerThatIsUsedInTwoWaysMergesWhatBothAllow) {
  ProgramFamily family = family_of([](ModelBuilder& builder, Program& program, Tensor x) {
    const auto attend = [&](Tensor from, Tensor to) {
      const auto part = [&](const char* name, Tensor of) {
        return linear_layer(builder, name, of, 12, 0.1F);
      };
      return builder.attention(part("query", from), part("key", to), part("value", to), {.heads = 3});
    };
    program.add_result("y", attend(attend(x, x), x).id());
  });
  fuse_attention(family, {});
  const Program& program = family.programs[0];
  verify(program);
  EXPECT_EQ(count(program, OpKind::kAttention), 2);
  EXPECT_EQ(count(program, OpKind::kMatmul), 4);
  EXPECT_FALSE(family.state->find_storage("query.weight.qkv").valid());
  EXPECT_TRUE(family.state->find_storage("key.weight.kv").valid());
}

}  // namespace
}  // namespace shoehorn
