// The op table, and the type errors that a user's model can run into: each names the op, the value and what
// was expected.
#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ops/dump.h"
#include "ops/op_builder.h"
#include "ops/op_info.h"

namespace shoehorn {
namespace {

TEST(OpTable, EveryOpIsDefinedUnderANameOfItsOwn) {
  std::set<std::string_view> names;
  for (int kind = 0; kind < static_cast<int>(OpKind::kOpKindCount); ++kind) {
    const OpInfo& info = op_info(static_cast<OpKind>(kind));
    EXPECT_EQ(static_cast<int>(info.kind), kind);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_NE(info.infer, nullptr) << info.name;
    EXPECT_NE(info.cost, nullptr) << info.name;
    EXPECT_GE(info.min_inputs, 1) << info.name;
    for (const OpInfo::Accumulator& slot : info.accumulators) {
      EXPECT_GE(slot.input, info.min_inputs) << info.name << ": an accumulator is optional";
      EXPECT_LT(slot.input, info.max_inputs) << info.name;
    }
  }
}

class TypeErrors : public testing::Test {
 protected:
  ValueId read(const std::string& name, Shape shape, DType dtype = DType::kF32) {
    return program_.read_state(state_.add_storage({name, {dtype, std::move(shape)}, Role::kWeight, {}, {}}));
  }
  void expect_error(OpKind kind, std::vector<ValueId> inputs, Attributes attributes,
                    const std::vector<std::string>& parts) {
    Region region;
    region.layer = 2;
    region.component = Component::kAttention;
    builder_.set_region(region);
    try {
      builder_.add(kind, std::move(inputs), std::move(attributes), "y");
      FAIL() << op_info(kind).name << " accepted";
    } catch (const UserError& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find(fmt::format("[{} in layer 2 attention]", op_info(kind).name)), std::string::npos)
          << message;
      for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }

  StateTable state_;
  Program program_{ProgramKind::kTrainStep, &state_};
  OpBuilder builder_{program_};
  ValueId x_ = read("x", {3, 5});
};

TEST_F(TypeErrors, NameTheOpTheRegionAndTheValues) {
  expect_error(OpKind::kMatmul, {x_, read("W", {4, 7})}, MatmulAttributes{},
               {"inner dimension is 5", "float32[4, 7]", "W"});
  expect_error(OpKind::kMatmul, {x_, read("W2", {5, 7}), read("b", {6})}, MatmulAttributes{},
               {"a bias of 7 elements", "b float32[6]"});
  expect_error(OpKind::kMatmul, {x_, read("W3", {5, 7}, DType::kBF16)}, MatmulAttributes{},
               {"float32", "W3"});
  // An addend is of the result's type, and beside nothing else that is added to a product of few terms.
  const ValueId few = read("few", {3, 8}), wide = read("wide", {8, 64}), sum = read("sum", {3, 64});
  expect_error(OpKind::kMatmul, {few, wide, {}, {}, read("rows", {4, 64})}, MatmulAttributes{},
               {"float32[3, 64]", "rows float32[4, 64]"});
  expect_error(OpKind::kMatmul, {few, wide, read("c", {64}), {}, sum}, MatmulAttributes{}, {"few terms"});
  expect_error(OpKind::kMatmul, {read("many", {3, 17}), read("W4", {17, 200}), {}, {}, read("s", {3, 200})},
               MatmulAttributes{}, {"few terms", "many float32[3, 17]"});
  expect_error(OpKind::kMatmul, {few, read("narrow", {8, 63}), {}, {}, read("t", {3, 63})},
               MatmulAttributes{}, {"few terms"});
  expect_error(OpKind::kAdd, {x_, read("y", {5, 3})}, {}, {"float32[3, 5]", "float32[5, 3]"});
  expect_error(OpKind::kBiasAdd, {x_, read("bias", {3})}, {}, {"a vector of 5 elements", "bias"});
  expect_error(OpKind::kLayerNorm, {x_, read("gamma", {5}), read("beta", {4})}, NormalizationAttributes{},
               {"vector of 5", "beta"});
  expect_error(OpKind::kEmbedding, {x_, read("ids", {3})}, EmbeddingAttributes{}, {"int32", "ids"});
  expect_error(OpKind::kGatherRows, {x_, read("rows", {3, 1}, DType::kI32)}, {}, {"rank 1"});
  expect_error(OpKind::kView, {x_}, ViewAttributes{{DType::kF32, {16}}, 0}, {"large enough"});
  expect_error(OpKind::kView, {x_}, ViewAttributes{{DType::kF32, {8}}, 8}, {"at element 8"});
  expect_error(OpKind::kCast, {read("numbers", {3}, DType::kI32)}, CastAttributes{}, {"floating-point"});
  expect_error(OpKind::kSumOfSquares, {read("half", {3}, DType::kBF16)}, {}, {"float32", "half"});
}

TEST_F(TypeErrors, Attention) {
  const ValueId three = read("three", {3}, DType::kI32), four = read("four", {4}, DType::kI32);
  const ValueId step = read("step", {1}, DType::kI32);
  const ValueId q = read("q", {8, 12}), k = read("k", {8, 6}), qkv = read("qkv", {8, 24});
  AttentionAttributes attention;
  attention.heads = 4;
  attention.key_value_heads = 2;
  attention.head_size = 3;
  attention.max_query_length = attention.max_key_length = 5;
  const auto refuse = [&](OpKind kind, std::vector<ValueId> inputs, const std::vector<std::string>& parts) {
    expect_error(kind, std::move(inputs), attention, parts);
  };
  // The chain.
  refuse(OpKind::kAttentionScores, {x_, k, three, three}, {"4 heads of 3 columns", "x float32[3, 5]"});
  refuse(OpKind::kAttentionScores, {q, q, three, three}, {"2 heads of 3 columns", "q float32[8, 12]"});
  refuse(OpKind::kAttentionScores, {q, read("half", {8, 6}, DType::kBF16), three, three},
         {"float32", "half"});
  refuse(OpKind::kAttentionScores, {q, k, three, four}, {"one number for each sequence", "four"});
  refuse(OpKind::kAttentionScores, {q, k, three, three, three, {}}, {"starts and lengths of the keys"});
  refuse(OpKind::kAttentionScores, {q, k, three, three, {}, {}, read("bias", {4, 8})},
         {"float32[4, 9]", "bias float32[4, 8]"});
  refuse(OpKind::kAttentionSoftmax, {read("scores", {4, 8, 6}), three, three, three, step},
         {"float32[4, 8, 5]", "scores"});
  refuse(OpKind::kAttentionContext, {read("probabilities", {2, 8, 5}), k, three, three},
         {"float32[4, 8, 5]", "probabilities"});
  // Columns of values.
  attention.key_column = 12;
  attention.value_column = 19;
  refuse(OpKind::kAttention, {qkv, three, three, three, step}, {"columns 19 to 25", "qkv"});
  attention.value_column = 17;
  refuse(OpKind::kAttention, {qkv, three, three, three, step}, {"separate columns for q, k and v"});
  attention.key_column = attention.value_column = 0;
  refuse(OpKind::kAttention, {q, three, three, three, step, k}, {"separate columns for q, k and v"});
  refuse(OpKind::kAttention, {q, three, three, three, step, k, read("v", {7, 6})}, {"as many rows", "v"});
  // Heads and masks.
  attention.mask = AttentionMask::sliding_window(0);
  refuse(OpKind::kAttention, {q, three, three, three, step, k, k}, {"a window of 1 key or more, got 0"});
  attention.key_value_heads = 3;
  refuse(OpKind::kAttention, {q, three, three, three, step, k, k}, {"divide the query heads, got 3 of 4"});
}

TEST_F(TypeErrors, Loss) {
  const ValueId three = read("three", {3}, DType::kI32);
  const ValueId one = read("one", {1});
  expect_error(OpKind::kCrossEntropy, {x_, read("labels", {4}, DType::kI32), one}, LossAttributes{},
               {"one label for each row", "labels"});
  expect_error(OpKind::kCrossEntropy, {x_, read("float_labels", {3}), one}, LossAttributes{},
               {"int32", "float_labels"});
  const ValueId table = read("table", {7, 5});
  expect_error(OpKind::kLinearCrossEntropy, {x_, read("wide", {7, 6}), three, one}, LossAttributes{},
               {"a matrix with 5 columns", "wide"});
  expect_error(OpKind::kLinearCrossEntropy, {x_, table, read("four", {4}, DType::kI32), one},
               LossAttributes{}, {"one label for each row", "four"});
  expect_error(OpKind::kLinearCrossEntropyWithGrad, {x_, read("halves", {7, 5}, DType::kBF16), three, one},
               LinearLossGradAttributes{}, {"float32", "halves"});
  expect_error(OpKind::kDropout, {x_, one, read("sample", {4}, DType::kI32), three}, DropoutAttributes{},
               {"one number for each row"});
}

TEST_F(TypeErrors, UpdatesTakeGradientsAndStatesOfTheirTensors) {
  const ValueId applied = read("applied", {1}, DType::kI32);
  const ValueId gradient = read("whole_gradient", {3, 5});
  const std::vector<TensorType> states = {{DType::kU8, {3, 5}}, {DType::kF32, {1}}};
  const ValueId codes = read("codes", {3, 5}, DType::kU8), scales = read("scales", {1});
  const auto update = [&](std::vector<ValueId> kept, const std::vector<std::string>& parts) {
    kept.insert(kept.begin(), {read("rate", {1}), applied, {}, {}, x_, gradient});
    expect_error(OpKind::kSgd, std::move(kept), UpdateAttributes{SgdSettings{}, {0.0F}, {{}}, {states}},
                 parts);
  };
  update({read("floats", {3, 5}), scales}, {"uint8[3, 5]", "floats"});
  update({codes, read("too_many", {2})}, {"float32[1]", "too_many"});
  expect_error(OpKind::kSgd, {read("rate", {1}), applied, {}, {}, x_, read("gradient", {3, 4})},
               UpdateAttributes{SgdSettings{}, {0.0F}, {{}}, {{}}}, {"as large as its weight", "gradient"});
}

TEST_F(TypeErrors, MisuseIsABugOfOurs) {
  EXPECT_THROW(builder_.add(OpKind::kAdd, {x_}, {}, "y"), InternalError) << "arity";
  EXPECT_THROW(builder_.add(OpKind::kAdd, {x_, ValueId{}}, {}, "y"), InternalError)
      << "an input that is not optional";
  EXPECT_THROW(builder_.add(OpKind::kMatmul, {x_, x_}, CastAttributes{}, "y"), InternalError) << "attributes";
}

TEST_F(TypeErrors, CountsGoThroughTheShapeRules) {
  const CountId tokens = program_.add_count("tokens", 32, 16);
  const ValueId x = read("packed", {Dim(32, tokens), Dim(5)});
  const ValueId y = builder_.value(OpKind::kMatmul, {x, read("weight", {7, 5})},
                                   MatmulAttributes{.transpose_b = true}, "y");
  EXPECT_EQ(type_name(program_.type(y)), "float32[32*, 7]");
  const ValueId g = builder_.value(OpKind::kMatmul, {y, x}, MatmulAttributes{.transpose_a = true}, "g");
  EXPECT_EQ(type_name(program_.type(g)), "float32[7, 5]");
}

TEST_F(TypeErrors, AProductCostsTwoFlopsATerm) {
  const ValueId weight = read("weight", {7, 5});
  const NodeId id = builder_.add(OpKind::kMatmul, {x_, weight}, MatmulAttributes{.transpose_b = true}, "y");
  const Cost cost = op_info(OpKind::kMatmul).cost({program_, program_.node(id)});
  EXPECT_EQ(cost.flops, 2 * 3 * 7 * 5);
  EXPECT_EQ(cost.bytes_read, (15 + 35) * 4);
  EXPECT_EQ(cost.bytes_written, 21 * 4);
}

TEST_F(TypeErrors, ADumpHasALineForEachNode) {
  builder_.value(OpKind::kAdd, {x_, x_}, {}, "twice");
  program_.add_result("y", program_.nodes()[0].outputs[0]);
  EXPECT_EQ(
      dump(program_),
      "program train_step: 1 nodes\n  %1 twice float32[3, 5] = add(x@0, x@0) {other, forward}\n  result y = %1\n");
}

}  // namespace
}  // namespace shoehorn
