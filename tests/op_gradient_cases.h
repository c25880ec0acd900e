// The cases of op_gradient_test.cc: each op with a gradient, alone or in the smallest chain that makes sense,
// beside its reference.
#pragma once

#include <fmt/format.h>

#include <array>
#include <functional>
#include <type_traits>

#include "exec/executor_testing.h"
#include "op_reference.h"
#include "ops/op_builder.h"
#include "passes/program_family.h"

namespace shoehorn::test_support {

using Inputs = std::vector<Doubles>;

// Builds the op under test: trainable inputs are parameters, integers and scalars are constants.
class Graph {
 public:
  explicit Graph(ProgramFamily& family)
      : family_(family), program_(ProgramKind::kTrainStep, family.state.get()), builder_(program_) {
    Region region;
    region.component = Component::kHead;
    builder_.set_region(region);
  }

  ValueId parameter(const std::vector<int64_t>& shape, bool trainable = true) {
    const StorageId id =
        add({DType::kF32, Shape(std::vector<Dim>(shape.begin(), shape.end()))}, Role::kWeight);
    Parameter parameter;
    parameter.name = family_.state->storage(id).name;
    parameter.shape = shape;
    parameter.storage = id;
    parameter.trainable = trainable;
    family_.state->add_parameter(std::move(parameter));
    (trainable ? parameters_ : frozen_).push_back(id);
    return program_.read_state(id);
  }
  ValueId integers(const std::vector<int32_t>& values) {
    const StorageId id = add({DType::kI32, {Dim(static_cast<int64_t>(values.size()))}}, Role::kInput);
    integers_.emplace_back(id, values);
    return program_.read_state(id);
  }
  ValueId floats(const std::vector<float>& values) {
    const StorageId id = add({DType::kF32, {Dim(static_cast<int64_t>(values.size()))}}, Role::kScalar);
    floats_.emplace_back(id, values);
    return program_.read_state(id);
  }
  ValueId scalar(float value) {
    const StorageId id = add({DType::kF32, {1}}, Role::kScalar);
    scalars_.emplace_back(id, value);
    return program_.read_state(id);
  }
  ValueId op(OpKind kind, std::vector<ValueId> inputs, Attributes attributes = {}, int64_t output = 0) {
    return builder_.value(kind, std::move(inputs), std::move(attributes), "y", output);
  }
  Program& program() { return program_; }
  const std::vector<StorageId>& parameters() const { return parameters_; }
  const std::vector<StorageId>& frozen() const { return frozen_; }
  void write_constants(Executor& executor) const {
    for (const auto& [id, values] : integers_) set_values(executor, id, values);
    for (const auto& [id, values] : floats_) set_values(executor, id, values);
    for (const auto& [id, value] : scalars_) executor.write_scalar(id, value);
  }

 private:
  StorageId add(TensorType type, Role role) {
    Storage storage;
    storage.name = fmt::format("x{}", family_.state->storages().size());
    storage.type = std::move(type);
    storage.role = role;
    return family_.state->add_storage(std::move(storage));
  }

  ProgramFamily& family_;
  Program program_;
  OpBuilder builder_;
  std::vector<StorageId> parameters_, frozen_;
  std::vector<std::pair<StorageId, std::vector<int32_t>>> integers_;
  std::vector<std::pair<StorageId, std::vector<float>>> floats_;
  std::vector<std::pair<StorageId, float>> scalars_;
};

inline constexpr int32_t kStep = 7;
inline constexpr int64_t kClasses = 5;

struct OpCase {
  std::string name;
  int64_t rows;  // of y [rows, columns]
  int64_t columns;
  std::vector<std::vector<int64_t>> shapes;  // of the trainable inputs
  std::function<ValueId(Graph&, const std::vector<ValueId>&)> build;
  std::function<Doubles(const Inputs&)> reference;
  double epsilon = 0x1p-23;
  double smoothing = 0;
  int32_t ignored_row = -1;
  OpKind loss = OpKind::kCrossEntropy;  // what the backward begins with
  double z_loss = 0;
  std::vector<float> class_weights = {};  // of the loss; none: all alike
  // Whether the loss multiplies y itself, with the last input; and whether it computes its gradients with it.
  bool makes_logits() const { return loss == OpKind::kLinearCrossEntropy; }
  bool joins_gradients = false;
};

inline void PrintTo(const OpCase& op, std::ostream* out) {
  *out << op.name;
}

inline std::vector<int32_t> row_numbers(int64_t rows, int32_t from, int32_t by) {
  std::vector<int32_t> numbers;
  for (int64_t row = 0; row < rows; ++row) numbers.push_back(from + by * static_cast<int32_t>(row));
  return numbers;
}

// Ids that come several times, in no order.
inline std::vector<int32_t> ids(int64_t rows, int32_t entries) {
  std::vector<int32_t> made;
  for (int64_t row = 0; row < rows; ++row) made.push_back(static_cast<int32_t>(row * 5 + 1) % entries);
  return made;
}

inline void add_movement(std::vector<OpCase>& cases, int64_t rows, int64_t columns, const std::string& size) {
  const auto same = [](const Inputs& x) { return x[0]; };
  cases.push_back({"view" + size,
                   rows,
                   columns,
                   {{columns, rows}},
                   [=](Graph& graph, const auto& x) {
                     return graph.op(OpKind::kView, {x[0]},
                                     ViewAttributes{{DType::kF32, {rows, columns}}, 0});
                   },
                   same});
  cases.push_back({"copy" + size,
                   rows,
                   columns,
                   {{rows, columns}},
                   [](Graph& graph, const auto& x) { return graph.op(OpKind::kCopy, {x[0]}); },
                   same});
  cases.push_back({"cast" + size,
                   rows,
                   columns,
                   {{rows, columns}},
                   [](Graph& graph, const auto& x) {
                     return graph.op(OpKind::kCast,
                                     {graph.op(OpKind::kCast, {x[0]}, CastAttributes{DType::kBF16})},
                                     CastAttributes{DType::kF32});
                   },
                   same,
                   0x1p-9});
  // The row of y that each row of x goes to, or comes from: last first, one row in between each.
  const std::vector<int32_t> index = row_numbers(rows, static_cast<int32_t>(2 * rows) - 2, -2);
  cases.push_back({"gather_rows" + size,
                   rows,
                   columns,
                   {{2 * rows, columns}},
                   [=](Graph& graph, const auto& x) {
                     return graph.op(OpKind::kGatherRows, {x[0], graph.integers(index)});
                   },
                   [=](const Inputs& x) {
                     Doubles y;
                     for (const int32_t row : index)
                       y.insert(y.end(), x[0].begin() + row * columns, x[0].begin() + (row + 1) * columns);
                     return y;
                   }});
  cases.push_back({"scatter_rows" + size,
                   2 * rows,
                   columns,
                   {{rows, columns}},
                   [=](Graph& graph, const auto& x) {
                     return graph.op(OpKind::kScatterRows, {x[0], graph.integers(index)},
                                     ScatterAttributes{Dim(2 * rows)});
                   },
                   [=](const Inputs& x) {
                     Doubles y(static_cast<size_t>(2 * rows * columns), 0);
                     for (size_t i = 0; i < x[0].size(); ++i) {
                       const auto width = static_cast<size_t>(columns);
                       y[static_cast<size_t>(index[i / width]) * width + i % width] = x[0][i];
                     }
                     return y;
                   }});
  for (const bool addend : {false, true}) {
    const std::vector<int32_t> looked_up = ids(rows, 4);
    std::vector<std::vector<int64_t>> shapes = {{4, columns}};
    if (addend) shapes.push_back({rows, columns});
    cases.push_back({(addend ? "embedding_with_addend" : "embedding") + size, rows, columns, shapes,
                     [=](Graph& graph, const auto& x) {
                       return graph.op(OpKind::kEmbedding,
                                       {x[0], graph.integers(looked_up), addend ? x[1] : ValueId{}},
                                       EmbeddingAttributes{});
                     },
                     [=](const Inputs& x) {
                       Doubles y;
                       for (const int32_t id : looked_up)
                         y.insert(y.end(), x[0].begin() + id * columns, x[0].begin() + (id + 1) * columns);
                       return addend ? add_reference(y, x[1]) : y;
                     }});
  }
}

// A norm of a residual sum z: its output alone, the sum alone, and both, as pre-norm blocks read them.
inline void add_residual_norms(std::vector<OpCase>& cases, int64_t rows, int64_t columns,
                               const Dropout& dropout, const std::string& size) {
  enum class Reads : uint8_t { kNorm, kSum, kBoth };
  const std::vector<int64_t> matrix = {rows, columns};
  const std::vector<int32_t> sample = row_numbers(rows, 3, 1);
  const std::vector<int32_t> position = row_numbers(rows, 40, -1);
  const auto read_outputs = [](Graph& graph, ValueId y, Reads reads) {
    if (reads == Reads::kNorm) return y;
    const ValueId z = graph.program().node(graph.program().value(y).producer).outputs[1];
    return reads == Reads::kSum ? z : graph.op(OpKind::kAdd, {y, z});
  };
  const auto outputs_read = [](const Doubles& y, const Doubles& z, Reads reads) {
    if (reads == Reads::kNorm) return y;
    return reads == Reads::kSum ? z : add_reference(y, z);
  };
  for (const Reads reads : {Reads::kNorm, Reads::kSum, Reads::kBoth}) {
    const std::string read = reads == Reads::kNorm ? "" : reads == Reads::kSum ? "_sum_alone" : "_and_sum";
    const bool has_norm = reads != Reads::kSum;
    for (const Dropout& mask : {Dropout{}, dropout}) {
      // Of the sum alone the bias has a path to the loss, and stands for gamma and beta.
      const auto place = [=](size_t i) { return has_norm ? i : std::min<size_t>(i, 2); };
      std::vector<std::vector<int64_t>> shapes = {matrix, matrix, {columns}};
      if (has_norm) shapes.resize(5, {columns});
      cases.push_back(
          {(mask.p > 0 ? "residual_norm_with_dropout" : "residual_norm") + read + size, rows, columns, shapes,
           [=](Graph& graph, const auto& x) {
             std::vector<ValueId> inputs = {x[0], x[2], x[1], x[place(3)], x[place(4)]};
             if (mask.p > 0) {
               inputs.insert(inputs.end(),
                             {graph.integers({kStep}), graph.integers(sample), graph.integers(position)});
             } else {
               inputs.resize(8);
             }
             return read_outputs(graph,
                                 graph.op(OpKind::kBiasDropoutResidualLayerNorm, inputs,
                                          NormalizationAttributes{0.01F, mask}),
                                 reads);
           },
           [=](const Inputs& x) {
             const Doubles z = add_reference(
                 dropout_reference(add_reference(x[0], x[2]), columns, mask, kStep, sample, position), x[1]);
             return outputs_read(layer_norm_reference(z, x[place(3)], x[place(4)], 0.01F), z, reads);
           }});
    }
    for (const int64_t groups : {1, 3}) {
      if (groups > 1 && (!has_norm || columns == 1)) continue;  // the norm of one column is its sign
      const std::vector<int64_t> wide = {rows, groups * columns};
      std::vector<std::vector<int64_t>> shapes = {wide, wide};
      if (has_norm) shapes.push_back({columns});
      cases.push_back({(groups > 1 ? "residual_rms_norm_of_heads" : "residual_rms_norm") + read + size, rows,
                       groups * columns, shapes,
                       [=](Graph& graph, const auto& x) {
                         // Of the sum alone nothing that is trained may be gamma: it would have no path to the loss.
                         const ValueId gamma = has_norm ? x[2] : graph.op(OpKind::kColumnSum, {x[0]});
                         return read_outputs(graph,
                                             graph.op(OpKind::kResidualRmsNorm, {x[0], x[1], gamma},
                                                      NormalizationAttributes{0.01F, {}}),
                                             reads);
                       },
                       [=](const Inputs& x) {
                         const Doubles z = add_reference(x[0], x[1]);
                         return has_norm ? outputs_read(rms_norm_reference(z, x[2], 0.01F), z, reads) : z;
                       }});
    }
  }
}

inline void add_elementwise(std::vector<OpCase>& cases, int64_t rows, int64_t columns,
                            const std::string& size) {
  const std::vector<int64_t> matrix = {rows, columns};
  cases.push_back({"add" + size,
                   rows,
                   columns,
                   {matrix, matrix},
                   [](Graph& graph, const auto& x) { return graph.op(OpKind::kAdd, {x[0], x[1]}); },
                   [](const Inputs& x) { return add_reference(x[0], x[1]); }});
  // The second third of three.
  const auto range = ColumnsAttributes{columns, columns};
  cases.push_back(
      {"add_columns" + size,
       rows,
       3 * columns,
       {{rows, 3 * columns}, matrix},
       [=](Graph& graph, const auto& x) { return graph.op(OpKind::kAddColumns, {x[0], x[1]}, range); },
       [=](const Inputs& x) {
         Doubles y = x[0];
         for (int64_t i = 0; i < rows * columns; ++i)
           y[static_cast<size_t>(i / columns * 3 * columns + columns + i % columns)] +=
               x[1][static_cast<size_t>(i)];
         return y;
       }});
  cases.push_back({"take_columns" + size,
                   rows,
                   columns,
                   {{rows, 3 * columns}},
                   [=](Graph& graph, const auto& x) { return graph.op(OpKind::kTakeColumns, {x[0]}, range); },
                   [=](const Inputs& x) {
                     Doubles y;
                     for (int64_t i = 0; i < rows * columns; ++i)
                       y.push_back(
                           x[0][static_cast<size_t>(i / columns * 3 * columns + columns + i % columns)]);
                     return y;
                   }});
  cases.push_back({"spread_columns" + size,
                   rows,
                   3 * columns,
                   {matrix},
                   [=](Graph& graph, const auto& x) {
                     return graph.op(OpKind::kSpreadColumns, {x[0]},
                                     ColumnsAttributes{columns, columns, 3 * columns});
                   },
                   [=](const Inputs& x) {
                     Doubles y(static_cast<size_t>(rows * 3 * columns), 0);
                     for (int64_t i = 0; i < rows * columns; ++i)
                       y[static_cast<size_t>(i / columns * 3 * columns + columns + i % columns)] =
                           x[0][static_cast<size_t>(i)];
                     return y;
                   }});
  cases.push_back({"multiply" + size,
                   rows,
                   columns,
                   {matrix, matrix},
                   [](Graph& graph, const auto& x) { return graph.op(OpKind::kMultiply, {x[0], x[1]}); },
                   [](const Inputs& x) { return multiply_reference(x[0], x[1]); }});
  cases.push_back({"multiply_by_itself" + size,
                   rows,
                   columns,
                   {matrix},
                   [](Graph& graph, const auto& x) { return graph.op(OpKind::kMultiply, {x[0], x[0]}); },
                   [](const Inputs& x) { return multiply_reference(x[0], x[0]); }});
  cases.push_back(
      {"scale" + size,
       rows,
       columns,
       {matrix},
       [](Graph& graph, const auto& x) { return graph.op(OpKind::kScale, {x[0]}, ScaleAttributes{-1.75F}); },
       [](const Inputs& x) {
         Doubles y = x[0];
         for (double& value : y) value *= -1.75;
         return y;
       }});
  cases.push_back({"add_to_itself" + size,
                   rows,
                   columns,
                   {matrix},
                   [](Graph& graph, const auto& x) { return graph.op(OpKind::kAdd, {x[0], x[0]}); },
                   [](const Inputs& x) { return add_reference(x[0], x[0]); }});
  cases.push_back({"bias_add" + size,
                   rows,
                   columns,
                   {matrix, {columns}},
                   [](Graph& graph, const auto& x) { return graph.op(OpKind::kBiasAdd, {x[0], x[1]}); },
                   [](const Inputs& x) { return add_reference(x[0], x[1]); }});
  for (const Activation kind :
       {Activation::kGelu, Activation::kGeluTanh, Activation::kRelu, Activation::kSilu, Activation::kTanh}) {
    const std::string name(activation_name(kind));
    cases.push_back({name + size,
                     rows,
                     columns,
                     {matrix},
                     [=](Graph& graph, const auto& x) {
                       return graph.op(OpKind::kActivation, {x[0]}, ActivationAttributes{kind});
                     },
                     [=](const Inputs& x) { return activation_reference(x[0], kind); }});
    cases.push_back(
        {"gated_" + name + size,
         rows,
         columns,
         {matrix, matrix},
         [=](Graph& graph, const auto& x) {
           return graph.op(OpKind::kGatedActivation, {x[0], x[1]}, ActivationAttributes{kind});
         },
         [=](const Inputs& x) { return multiply_reference(activation_reference(x[0], kind), x[1]); }});
    cases.push_back({"bias_" + name + size,
                     rows,
                     columns,
                     {matrix, {columns}},
                     [=](Graph& graph, const auto& x) {
                       return graph.op(OpKind::kBiasActivation, {x[0], x[1]}, ActivationAttributes{kind});
                     },
                     [=](const Inputs& x) { return activation_reference(add_reference(x[0], x[1]), kind); }});
  }
  const std::vector<int32_t> sample = row_numbers(rows, 3, 1);
  const std::vector<int32_t> position = row_numbers(rows, 40, -1);
  const Dropout dropout{0.3F, 0x123456789ABCULL, 11};
  cases.push_back(
      {"dropout" + size,
       rows,
       columns,
       {matrix},
       [=](Graph& graph, const auto& x) {
         return graph.op(OpKind::kDropout,
                         {x[0], graph.integers({kStep}), graph.integers(sample), graph.integers(position)},
                         DropoutAttributes{dropout});
       },
       [=](const Inputs& x) { return dropout_reference(x[0], columns, dropout, kStep, sample, position); }});
  // Two sequences, and behind them rows of none.
  const auto half = static_cast<int32_t>((rows + 1) / 2);
  const std::vector<std::array<int32_t, 3>> sequences = {{0, half, 9},
                                                         {half, static_cast<int32_t>(rows / 4), 2}};
  const NoiseAttributes noise{2.5F, 0x123456789ABCULL, 13};
  cases.push_back(
      {"embedding_noise" + size,
       rows,
       columns,
       {matrix},
       [=](Graph& graph, const auto& x) {
         const auto numbers = [&](size_t i) { return graph.integers({sequences[0][i], sequences[1][i]}); };
         return graph.op(OpKind::kEmbeddingNoise,
                         {x[0], graph.integers({kStep}), numbers(0), numbers(1), numbers(2)}, noise);
       },
       [=](const Inputs& x) { return noise_reference(x[0], columns, noise, kStep, sequences); }});
  cases.push_back({"layer_norm" + size,
                   rows,
                   columns,
                   {matrix, {columns}, {columns}},
                   [](Graph& graph, const auto& x) {
                     return graph.op(OpKind::kLayerNorm, {x[0], x[1], x[2]},
                                     NormalizationAttributes{0.01F, {}});
                   },
                   [](const Inputs& x) { return layer_norm_reference(x[0], x[1], x[2], 0.01F); }});
  cases.push_back({"rms_norm" + size,
                   rows,
                   columns,
                   {matrix, {columns}},
                   [](Graph& graph, const auto& x) {
                     return graph.op(OpKind::kRmsNorm, {x[0], x[1]}, NormalizationAttributes{0.01F, {}});
                   },
                   [](const Inputs& x) { return rms_norm_reference(x[0], x[1], 0.01F); }});
  cases.push_back({"rms_norm_of_heads" + size,
                   rows,
                   3 * columns,
                   {{rows, 3 * columns}, {columns}},
                   [](Graph& graph, const auto& x) {
                     return graph.op(OpKind::kRmsNorm, {x[0], x[1]}, NormalizationAttributes{0.01F, {}});
                   },
                   [](const Inputs& x) { return rms_norm_reference(x[0], x[1], 0.01F); }});
  add_residual_norms(cases, rows, columns, dropout, size);
  cases.push_back({"smoothed_loss" + size,
                   rows,
                   columns,
                   {matrix},
                   [](Graph& graph, const auto& x) { return graph.op(OpKind::kCopy, {x[0]}); },
                   [](const Inputs& x) { return x[0]; },
                   0x1p-23,
                   0.125,
                   static_cast<int32_t>(rows) - 1,
                   OpKind::kCrossEntropy,
                   0.0625});
}

// Of all columns of a head or a part, of all heads or some between other columns.
inline void add_rotary(std::vector<OpCase>& cases, int64_t rows, int64_t columns,
                       const RotaryAttributes& heads, int64_t pairs, const std::string& size) {
  RotaryFrequencies rotary{{}, 1.25F};
  for (int64_t i = 0; i < pairs; ++i) rotary.frequencies.push_back(1.0F / static_cast<float>(i + 1));
  const std::vector<int32_t> positions = row_numbers(rows, 40, -1);
  cases.push_back(
      {(heads.inverse ? "rotary_inverse" : "rotary") + size,
       rows,
       columns,
       {{rows, columns}},
       [=](Graph& graph, const auto& x) {
         const ValueId table =
             graph.op(OpKind::kRotaryTable, {graph.integers(positions)}, RotaryTableAttributes{rotary});
         return graph.op(OpKind::kRotary, {x[0], table}, heads);
       },
       [=](const Inputs& x) { return rotary_reference(x[0], columns, heads, rotary, positions); }});
}

// Norms of heads that are turned as wholes.
inline void add_norm_rotary(std::vector<OpCase>& cases, int64_t rows, int64_t heads, int64_t pairs,
                            const std::string& size) {
  RotaryFrequencies rotary{{}, 1.25F};
  for (int64_t i = 0; i < pairs; ++i) rotary.frequencies.push_back(1.0F / static_cast<float>(i + 1));
  const std::vector<int32_t> positions = row_numbers(rows, 40, -1);
  const int64_t columns = heads * 2 * pairs;
  cases.push_back(
      {"rms_norm_rotary" + size,
       rows,
       columns,
       {{rows, columns}, {2 * pairs}},
       [=](Graph& graph, const auto& x) {
         const ValueId table =
             graph.op(OpKind::kRotaryTable, {graph.integers(positions)}, RotaryTableAttributes{rotary});
         return graph.op(OpKind::kRmsNormRotary, {x[0], x[1], table}, NormalizationAttributes{0.01F, {}});
       },
       [=](const Inputs& x) {
         return rotary_reference(rms_norm_reference(x[0], x[1], 0.01F), columns, {0, heads, 2 * pairs, false},
                                 rotary, positions);
       }});
}

inline void add_products(std::vector<OpCase>& cases, int64_t rows, int64_t columns, const std::string& size) {
  const int64_t inner = rows + 4;
  for (const bool ta : {false, true}) {
    for (const bool tb : {false, true}) {
      for (const bool bias : {false, true}) {
        std::vector<std::vector<int64_t>> shapes = {
            ta ? std::vector{inner, rows} : std::vector{rows, inner},
            tb ? std::vector{columns, inner} : std::vector{inner, columns}};
        if (bias) shapes.push_back({columns});
        const std::string name =
            fmt::format("matmul_{}{}{}", ta ? "t" : "n", tb ? "t" : "n", bias ? "_bias" : "");
        cases.push_back({name + size, rows, columns, shapes,
                         [=](Graph& graph, std::vector<ValueId> x) {
                           return graph.op(OpKind::kMatmul, std::move(x),
                                           MatmulAttributes{ta, tb, DType::kF32});
                         },
                         [=](const Inputs& x) {
                           const Doubles product = matmul_reference(x[0], ta, x[1], tb, rows, columns, inner);
                           return bias ? add_reference(product, x[2]) : product;
                         }});
      }
    }
  }
}

// A product of few terms that is added to what is there.
inline void add_added_products(std::vector<OpCase>& cases) {
  constexpr int64_t kRows = 5;
  constexpr int64_t kColumns = 72;
  constexpr int64_t kTerms = 3;
  for (const bool tb : {false, true}) {
    cases.push_back({fmt::format("matmul_n{}_addend", tb ? "t" : "n"),
                     kRows,
                     kColumns,
                     {{kRows, kTerms},
                      tb ? std::vector{kColumns, kTerms} : std::vector{kTerms, kColumns},
                      {kRows, kColumns}},
                     [=](Graph& graph, const std::vector<ValueId>& x) {
                       return graph.op(OpKind::kMatmul, {x[0], x[1], {}, {}, x[2]},
                                       MatmulAttributes{false, tb, DType::kF32});
                     },
                     [=](const Inputs& x) {
                       return add_reference(matmul_reference(x[0], false, x[1], tb, kRows, kColumns, kTerms),
                                            x[2]);
                     }});
  }
}

// One attention, as the unfused chain and as the fused op reads it.
struct AttentionSetup {
  AttentionAttributes attributes;
  Sequences sequences;
  int64_t rows = 0;      // of the queries
  int64_t key_rows = 0;  // of the keys
  bool has_bias = false;

  int64_t query_columns() const { return attributes.heads * attributes.head_size; }
  int64_t key_columns() const { return attributes.key_value_heads * attributes.head_size; }
  int64_t bias_columns() const { return attributes.max_query_length + attributes.max_key_length - 1; }
};

// Appends to an attention op's inputs those that may be absent.
inline void add_optional_inputs(Graph& graph, const AttentionSetup& setup, size_t key_start,
                                std::vector<ValueId>& inputs) {
  if (setup.sequences.key_start.empty()) return;
  inputs.resize(key_start);
  inputs.push_back(graph.integers(setup.sequences.key_start));
  inputs.push_back(graph.integers(setup.sequences.key_length));
}

inline ValueId unfused_attention(Graph& graph, const AttentionSetup& setup, const std::vector<ValueId>& x) {
  const ValueId start = graph.integers(setup.sequences.start);
  const ValueId length = graph.integers(setup.sequences.length);
  std::vector<ValueId> inputs = {x[0], x[1], start, length};
  add_optional_inputs(graph, setup, 4, inputs);
  if (setup.has_bias) {
    inputs.resize(6);
    inputs.push_back(x[3]);
  }
  const ValueId scores = graph.op(OpKind::kAttentionScores, inputs, setup.attributes);
  inputs = {scores, start, length, graph.integers(setup.sequences.sample), graph.integers({kStep})};
  add_optional_inputs(graph, setup, 5, inputs);
  const ValueId dropped = graph.op(OpKind::kAttentionSoftmax, inputs, setup.attributes);
  inputs = {dropped, x[2], start, length};
  add_optional_inputs(graph, setup, 4, inputs);
  return graph.op(OpKind::kAttentionContext, inputs, setup.attributes);
}

// `values`: those that hold q, k and v; an invalid one is beside the one before.
inline ValueId fused_attention(Graph& graph, const AttentionSetup& setup,
                               const AttentionAttributes& attributes, const std::array<ValueId, 3>& values,
                               ValueId bias) {
  std::vector<ValueId> inputs = {values[0], graph.integers(setup.sequences.start),
                                 graph.integers(setup.sequences.length),
                                 graph.integers(setup.sequences.sample), graph.integers({kStep})};
  if (values[1].valid()) inputs.insert(inputs.end(), {values[1], values[2]});
  add_optional_inputs(graph, setup, 7, inputs);
  if (bias.valid()) {
    inputs.resize(9);
    inputs.push_back(bias);
  }
  return graph.op(OpKind::kAttention, inputs, attributes);
}

// Columns [from, from + width) of rows of `columns`.
inline Doubles columns_of(const Doubles& x, int64_t columns, int64_t from, int64_t width) {
  Doubles part;
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t column = static_cast<int64_t>(i) % columns;
    if (column >= from && column < from + width) part.push_back(x[i]);
  }
  return part;
}

// The unfused chain, and the fused op on three values, on one of the queries and one of the rest, and, where
// queries and keys are the same rows, on one of all three with a column that nobody reads.
inline void add_attention_case(std::vector<OpCase>& cases, const AttentionSetup& setup,
                               const std::string& name) {
  const int64_t queries = setup.query_columns();
  const int64_t keys = setup.key_columns();
  const auto bias_of = [=](const auto& x) {
    return setup.has_bias ? x.back() : std::decay_t<decltype(x[0])>{};
  };
  const auto reference = [=](const Doubles& q, const Doubles& k, const Doubles& v, const Doubles& bias) {
    return attention_reference(q, k, v, bias, setup.attributes, setup.sequences, kStep);
  };
  const auto add = [&](const std::string& kind, std::vector<std::vector<int64_t>> shapes, auto build,
                       auto computed) {
    if (setup.has_bias) shapes.push_back({setup.attributes.heads, setup.bias_columns()});
    cases.push_back({kind + name, setup.rows, queries, std::move(shapes), build, computed});
  };
  const std::vector<int64_t> q_shape = {setup.rows, queries};
  const std::vector<int64_t> k_shape = {setup.key_rows, keys};
  const auto of_three = [=](const Inputs& x) { return reference(x[0], x[1], x[2], bias_of(x)); };
  add(
      "attention_unfused", {q_shape, k_shape, k_shape},
      [=](Graph& graph, const auto& x) { return unfused_attention(graph, setup, x); }, of_three);
  add(
      "attention_of_three", {q_shape, k_shape, k_shape},
      [=](Graph& graph, const auto& x) {
        return fused_attention(graph, setup, setup.attributes, {x[0], x[1], x[2]}, bias_of(x));
      },
      of_three);
  add(
      "attention_of_two", {q_shape, {setup.key_rows, 2 * keys}},
      [=](Graph& graph, const auto& x) {
        AttentionAttributes attributes = setup.attributes;
        attributes.value_column = keys;
        return fused_attention(graph, setup, attributes, {x[0], x[1], {}}, bias_of(x));
      },
      [=](const Inputs& x) {
        return reference(x[0], columns_of(x[1], 2 * keys, 0, keys), columns_of(x[1], 2 * keys, keys, keys),
                         bias_of(x));
      });
  if (!setup.sequences.key_start.empty()) return;
  const int64_t all = queries + 2 * keys + 1;
  add(
      "attention", {{setup.rows, all}},
      [=](Graph& graph, const auto& x) {
        AttentionAttributes attributes = setup.attributes;
        attributes.key_column = queries;
        attributes.value_column = queries + keys + 1;
        return fused_attention(graph, setup, attributes, {x[0], {}, {}}, bias_of(x));
      },
      [=](const Inputs& x) {
        return reference(columns_of(x[0], all, 0, queries), columns_of(x[0], all, queries, keys),
                         columns_of(x[0], all, queries + keys + 1, keys), bias_of(x));
      });
}

inline void add_attention(std::vector<OpCase>& cases, int64_t rows, int64_t heads, int64_t key_value_heads,
                          int64_t head_size, const std::string& size) {
  AttentionSetup setup;
  setup.rows = setup.key_rows = rows;
  // Two sequences of different lengths, a hole between them and one behind, where there is room.
  setup.sequences = {{0}, {static_cast<int32_t>(rows)}, {4}, {}, {}};
  if (rows > 8) setup.sequences = {{0, 7}, {6, static_cast<int32_t>(rows) - 9}, {4, 2}, {}, {}};
  setup.attributes.heads = heads;
  setup.attributes.key_value_heads = key_value_heads;
  setup.attributes.head_size = head_size;
  setup.attributes.max_query_length = setup.attributes.max_key_length = rows;
  setup.attributes.scale = 0.7F;
  for (const AttentionMask& mask :
       {AttentionMask::full(), AttentionMask::causal(), AttentionMask::sliding_window(3)}) {
    for (const float p : {0.0F, 0.25F}) {
      setup.attributes.mask = mask;
      setup.attributes.dropout = {p, 0xFEDCBA987654ULL, 3};
      const char* kind = mask.kind == AttentionMask::Kind::kFull     ? ""
                         : mask.kind == AttentionMask::Kind::kCausal ? "_causal"
                                                                     : "_window";
      add_attention_case(cases, setup, fmt::format("{}{}{}", kind, p > 0 ? "_dropout" : "", size));
    }
  }
}

// Of the case's own input.
inline void add_losses(std::vector<OpCase>& cases, int64_t rows, int64_t columns, const std::string& size) {
  const auto doubled = [](Graph& graph, const auto& x) {
    return graph.op(OpKind::kScale, {x[0]}, ScaleAttributes{2.0F});
  };
  const auto doubled_reference = [](const Inputs& x) {
    Doubles y = x[0];
    for (double& value : y) value *= 2;
    return y;
  };
  const std::vector<float> weights = {0.5F, 3, 0, 1, 1.75F};
  struct Loss {
    const char* name;
    OpKind kind;
    std::vector<float> class_weights = {};
    double smoothing = 0;
  };
  for (const Loss& loss : {Loss{"mean_squared_error", OpKind::kMeanSquaredError},
                           {"binary_cross_entropy", OpKind::kBinaryCrossEntropy},
                           {"binary_cross_entropy_weighted", OpKind::kBinaryCrossEntropy, weights},
                           {"cross_entropy_weighted", OpKind::kCrossEntropy, weights},
                           {"cross_entropy_weighted_smoothed", OpKind::kCrossEntropy, weights, 0.125}}) {
    cases.push_back({.name = loss.name + size,
                     .rows = rows,
                     .columns = columns,
                     .shapes = {{rows, columns}},
                     .build = doubled,
                     .reference = doubled_reference,
                     .smoothing = loss.smoothing,
                     .loss = loss.kind,
                     .class_weights = loss.class_weights});
  }
  for (const bool joins : {false, true}) {
    for (const double smoothing : {0.0, 0.125}) {
      cases.push_back({.name = fmt::format("linear_cross_entropy{}{}{}", joins ? "_with_grad" : "",
                                           smoothing > 0 ? "_smoothed" : "", size),
                       .rows = rows,
                       .columns = columns,
                       .shapes = {{rows, columns}, {kClasses, columns}},
                       .build = [](Graph& graph, const auto& x) { return graph.op(OpKind::kCopy, {x[0]}); },
                       .reference = [](const Inputs& x) { return x[0]; },
                       .smoothing = smoothing,
                       .ignored_row = smoothing > 0 ? static_cast<int32_t>(rows) - 1 : -1,
                       .loss = OpKind::kLinearCrossEntropy,
                       .z_loss = smoothing / 4,
                       .joins_gradients = joins});
    }
  }
}

// Keys in rows of their own, more and fewer than the queries, and a bias.
inline void add_cross_attention(std::vector<OpCase>& cases) {
  AttentionSetup setup;
  setup.rows = 9;
  setup.key_rows = 13;
  setup.sequences = {{1, 5}, {4, 3}, {4, 2}, {0, 3}, {3, 8}};
  setup.attributes.heads = 4;
  setup.attributes.key_value_heads = 2;
  setup.attributes.head_size = 3;
  setup.attributes.max_query_length = 4;
  setup.attributes.max_key_length = 8;
  setup.attributes.scale = 0.7F;
  setup.attributes.dropout = {0.25F, 0xFEDCBA987654ULL, 3};
  for (const bool has_bias : {false, true}) {
    setup.has_bias = has_bias;
    const char* biased = has_bias ? "_bias" : "";
    setup.attributes.mask = AttentionMask::full();
    add_attention_case(cases, setup, fmt::format("_own_keys{}", biased));
    setup.attributes.mask = AttentionMask::causal();
    add_attention_case(cases, setup, fmt::format("_own_keys_causal{}", biased));
    setup.attributes.mask = AttentionMask::sliding_window(3);
    add_attention_case(cases, setup, fmt::format("_own_keys_window{}", biased));
  }
  setup.key_rows = setup.rows;
  setup.sequences = {{1, 5}, {4, 3}, {4, 2}, {}, {}};
  setup.attributes.max_key_length = 4;
  add_attention_case(cases, setup, "_window_bias");
}

inline std::vector<OpCase> op_cases() {
  std::vector<OpCase> cases;
  for (const int64_t rows : {1, 3, 17}) {
    for (const int64_t columns : {1, 5, 33}) {
      const std::string size = fmt::format("_{}x{}", rows, columns);
      add_movement(cases, rows, columns, size);
      add_elementwise(cases, rows, columns, size);
      add_products(cases, rows, columns, size);
      add_losses(cases, rows, columns, size);
    }
  }
  add_added_products(cases);
  add_norm_rotary(cases, 1, 1, 1, "_1x1x2");
  add_norm_rotary(cases, 17, 4, 5, "_17x4x10");
  add_norm_rotary(cases, 70, 2, 17, "_70x2x34");
  add_rotary(cases, 1, 2, {0, 1, 2, false}, 1, "_1x1x2");
  add_rotary(cases, 17, 40, {0, 4, 10, false}, 5, "_17x4x10");
  add_rotary(cases, 17, 40, {0, 4, 10, true}, 5, "_17x4x10");
  add_rotary(cases, 3, 40, {0, 4, 10, false}, 2, "_3x4x10_partial");
  add_rotary(cases, 17, 40, {7, 2, 14, false}, 7, "_17x2x14_between");
  add_attention(cases, 1, 1, 1, 1, "_1x1x1");
  add_attention(cases, 3, 1, 1, 5, "_3x1x5");
  add_attention(cases, 17, 3, 3, 7, "_17x3x7");
  add_attention(cases, 17, 6, 2, 3, "_17x6of2x3");
  add_cross_attention(cases);
  return cases;
}

}  // namespace shoehorn::test_support
