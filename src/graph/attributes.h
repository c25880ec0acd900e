// The static attributes of nodes: one struct per family of ops.
#pragma once

#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/attention_mask.h"
#include "graph/optimizer_settings.h"
#include "graph/types.h"

namespace shoehorn {

enum class Activation : uint8_t { kGelu, kGeluTanh, kRelu, kSilu, kTanh };
std::string_view activation_name(Activation activation);

// A dropout mask, as base/philox.h defines it. p = 0 means no dropout.
struct Dropout {
  float p = 0;
  uint64_t seed = 0;
  uint32_t stream_id = 0;
  bool operator==(const Dropout&) const = default;
};

struct MatmulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  DType output = DType::kF32;
};

struct NormalizationAttributes {
  float epsilon = 1e-12F;
  Dropout dropout;  // fused residual form only
};

struct ActivationAttributes {
  Activation kind = Activation::kGelu;
};

struct DropoutAttributes {
  Dropout dropout;
};

struct AttentionAttributes {
  int64_t heads = 1;            // of the queries
  int64_t key_value_heads = 1;  // divides heads; heads / key_value_heads neighbouring query heads share each
  int64_t head_size = 0;
  int64_t max_query_length = 0;  // of a sequence
  int64_t max_key_length = 0;
  float scale = 1;
  AttentionMask mask;
  // The first columns of q, k and v in the values that the fused op reads. Unfused ops read whole values.
  int64_t query_column = 0;
  int64_t key_column = 0;
  int64_t value_column = 0;
  bool trains_bias = false;  // gradient ops with a bias: whether to compute the bias's gradient too
  Dropout dropout;           // of the probabilities
};

struct LossAttributes {
  float label_smoothing = 0;
  float z_loss = 0;  // cross-entropies: times the square of the log-sum-exp
};

// Of the ops that compute gradients of linear_cross_entropy: which of them.
struct LinearLossGradAttributes {
  LossAttributes loss;
  bool trains_input = true;
  bool trains_weight = true;
};

// The output is a view of the input: `type`, starting `offset_elements` into the innermost dimension.
struct ViewAttributes {
  TensorType type;
  int64_t offset_elements = 0;
};

struct CopyAttributes {
  AddressSpace to = AddressSpace::kDevice;
};

struct CastAttributes {
  DType to = DType::kF32;
};

struct ScaleAttributes {
  float factor = 1;
};

// Columns [offset, offset + width) of the innermost dimension.
struct ColumnsAttributes {
  int64_t offset = 0;
  int64_t width = 0;
  int64_t columns = 0;  // spread_columns: of the output
};

// Rotary position embedding of P pairs: pair i of a token at position p is turned by the angle p · frequencies[i].
struct RotaryFrequencies {
  std::vector<float> frequencies;  // P, in radians a position
  float attention_factor = 1;      // of cosines and sines
};

struct RotaryTableAttributes {
  RotaryFrequencies rotary;
};

// Heads side by side, the first from `first_column` on; other columns stay as they are.
struct RotaryAttributes {
  int64_t first_column = 0;
  int64_t heads = 1;
  int64_t head_size = 0;
  bool inverse = false;  // turns by the negative angles
};

struct EmbeddingAttributes {
  int64_t rows = 0;            // of the table: the gradient's first dimension
  int64_t padding_index = -1;  // this id gets no gradient
  DType output = DType::kF32;
};

// Of embedding_noise. `alpha` scales it; `stream_id` is no dropout's of the program.
struct NoiseAttributes {
  float alpha = 0;
  uint64_t seed = 0;
  uint32_t stream_id = 0;
};

struct ScatterAttributes {
  Dim rows;  // of the output
};

struct ClipAttributes {
  float max_norm = 1;
};

// How a dynamic loss scale changes: see ops/loss_scale_ops.cc.
struct LossScaleAttributes {
  float growth_factor = 2;
  float backoff_factor = 0.5F;
  int32_t growth_interval = 2000;  // applied steps in a row before the scale grows
  int32_t hysteresis = 1;          // overflows before the scale shrinks
  float minimum = 1;
};

// The matrices of a parameter's last two dimensions; a vector is one row.
struct ParameterMatrices {
  int64_t matrices = 1;
  int64_t rows = 0;
  int64_t columns = 0;
};

// One parameter as an optimizer sees it: matrices of its last two dimensions. A vector is one row, and so are the
// elements of a shard; but rows of a shard are rows where the update reads sums over the whole parameter.
struct UpdatedParameter {
  int64_t matrices = 1;
  int64_t rows = 0;
  int64_t columns = 0;
  uint32_t stream_id = 0;        // of the random bits that round it
  int64_t first_element = 0;     // number of its first element in the whole parameter
  int64_t padding = 0;           // elements behind these that are not updated
  ParameterMatrices whole = {};  // where the update reads sums over all of it; else empty
  int64_t elements() const { return matrices * rows * columns; }
};

// How an updated weight is stored.
enum class WeightForm : uint8_t {
  kFloat32,
  kSplit,     // a bf16 high half and a 16-bit rest
  kBfloat16,  // bf16 without a master: updates round stochastically
};

// Attributes of a node that updates one or more tensors. Vectors have one element per tensor.
struct UpdateAttributes {
  OptimizerSettings settings;
  std::vector<float> weight_decay;
  // Per tensor: the parameters that lie in it, one behind the other.
  std::vector<std::vector<UpdatedParameter>> parameters;
  // Per tensor: the types of its inputs behind the gradient. All tensors have the same number of them.
  std::vector<std::vector<TensorType>> states;
  WeightForm form = WeightForm::kFloat32;
  uint64_t seed = 0;  // of the random bits
  // After clipping by the norm, gradient elements are clamped to ± this.
  float max_gradient = std::numeric_limits<float>::infinity();
  // Per tensor there is an input of sums over whole parameters, of which this process has parts (adafactor_sums).
  bool reads_sums = false;
};

// Of adafactor_sums: what the update of the same tensor has, and whether its second moments are of rows and columns.
struct AdafactorSumsAttributes {
  AdafactorSettings settings;
  std::vector<UpdatedParameter> parameters;
  WeightForm form = WeightForm::kFloat32;
  float max_gradient = std::numeric_limits<float>::infinity();
  bool is_factored = false;
};

// Of the outer update of local SGD: see ops/outer_update_ops.cc.
struct OuterUpdateAttributes {
  int64_t ranks = 1;  // whose outer gradients were added up
  float learning_rate = 1;
  float momentum = 0;
};

// How ranks share a row of elements: part r of it is elements [r * piece, (r + 1) * piece), as far as there are so many.
// Where a rank stores its part it has `piece` elements, of which those behind the last are padding.
struct RingSegment {
  int64_t elements = 0;
  int64_t piece = 0;
  bool operator==(const RingSegment&) const = default;
};

// Of an op that all ranks of a run issue together, in groups that know nothing of each other: ranks in a row, or those
// `stride` apart. Nothing in it differs between ranks.
struct CollectiveAttributes {
  int64_t ranks = 1;           // of a group
  int64_t chunk_elements = 0;  // of a part that go around the ring at a time, at most (ops/ring.h)
  std::vector<std::vector<RingSegment>> segments;  // of each tensor, end to end
  std::vector<TensorType> wholes = {};             // all_gather: the types of its outputs
  int64_t stride = 1;                              // from a rank of a group to its next one
  int64_t groups = 1;                              // of all ranks
};

using AnyAttributes =
    std::variant<std::monostate, MatmulAttributes, NormalizationAttributes, ActivationAttributes,
                 DropoutAttributes, AttentionAttributes, LossAttributes, LinearLossGradAttributes,
                 ViewAttributes, CastAttributes, EmbeddingAttributes, ScatterAttributes, ClipAttributes,
                 LossScaleAttributes, UpdateAttributes, AdafactorSumsAttributes, CopyAttributes,
                 ScaleAttributes, ColumnsAttributes, NoiseAttributes, RotaryTableAttributes, RotaryAttributes,
                 CollectiveAttributes, OuterUpdateAttributes>;

// The variant itself, to std::get and its like. What copies it is compiled once: nearly every file that includes
// programs copies nodes.
struct Attributes : AnyAttributes {
  Attributes();
  Attributes(const Attributes& other);
  Attributes(Attributes&& other) noexcept;
  Attributes& operator=(const Attributes& other);
  Attributes& operator=(Attributes&& other) noexcept;
  ~Attributes();

  template <typename Alternative>
    requires std::is_constructible_v<AnyAttributes, Alternative> &&
             (!std::is_base_of_v<AnyAttributes, std::remove_cvref_t<Alternative>>)
  Attributes(Alternative&& alternative)  // NOLINT(google-explicit-constructor): as a variant's own
      : AnyAttributes(std::forward<Alternative>(alternative)) {}
};

// Moves the counts of the dimensions that attributes hold by so many places in a program's table of counts.
void shift_counts(Attributes& attributes, int32_t by);

}  // namespace shoehorn
