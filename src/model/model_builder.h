// The API in which models are written. Layers are ordinary C++ code that calls ops on symbolic tensors;
// running a model's `forward` once captures its program. Models that ship with Shoehorn and users' own
// (examples/) use the same API.
#pragma once

#include <string>
#include <vector>

#include "model/batch_inputs.h"
#include "model/model.h"
#include "model/tensor.h"
#include "ops/op_builder.h"

namespace shoehorn {

// Options of attention. A is heads, K is key_value_heads, D the head size.
struct AttentionOptions {
  int64_t heads = 1;
  // 0: as many as heads. Otherwise a divisor of heads: heads / key_value_heads neighbouring query heads share
  // each.
  int64_t key_value_heads = 0;
  AttentionMask mask = {};
  float dropout = 0;  // of the probabilities
  float scale = 0;    // of the scores; 0: 1 / √D
  // Where the keys and values of each sequence lie, if neither in the rows of its queries nor in those of its
  // tokens on the keys' axis: cross attention. i32[S].
  Tensor key_start = {};
  Tensor key_length = {};
  int64_t longest_keys = 0;  // cross attention: the most keys of a sequence
  // Added to the scores, the same for all sequences: f32[A, Tq + Tk - 1], where Tq and Tk are the largest
  // numbers of queries and keys of a sequence. Column k - p + Tk - 1 is for key k and a query at position p
  // (base/attention_mask.h).
  Tensor bias = {};
};

class ModelBuilder {
 public:
  // `training` false leaves dropout out. `seed` is the seed of the dropout masks.
  ModelBuilder(Program& program, BatchInputs& batch, const ScalarStorages& scalars, bool training,
               uint64_t seed);
  // The same for micro-batches of `capacity`, no larger than the batch's.
  ModelBuilder(Program& program, BatchInputs& batch, const BatchCapacity& capacity,
               const ScalarStorages& scalars, bool training, uint64_t seed);

  // A column of the micro-batch. Only columns that are asked for get filled. `width`: elements per row.
  Tensor input(BatchColumn column, int64_t width = 1) { return read(batch_.request(column, width)); }
  const BatchCapacity& capacity() const { return capacity_; }
  bool training() const { return training_; }

  // The parameter with this Hugging Face name, float32, created on first use.
  Tensor parameter(const std::string& name, const std::vector<int64_t>& shape,
                   const Initializer& initializer);

  // Sets the layer and component of the ops that follow. Memory and time are reported by them, and recompute
  // and layer-major accumulation work by layer.
  void set_region(int32_t layer, Component component);

  // Ops. Shapes: N tokens, or M of a decoder beside an encoder, S sequences, R any rows, H columns. An op of
  // tokens reads the columns of the axis that its rows are on. [V, H], [R] -> [R, H]; rows of `padding_index`
  // are not trained.
  Tensor embedding(Tensor table, Tensor ids, int64_t padding_index = -1);
  Tensor add_embedding(Tensor addend, Tensor table, Tensor ids);  // addend + embedding
  Tensor linear(Tensor x, Tensor weight);                         // [R, K], [N, K] -> [R, N]
  Tensor linear(Tensor x, Tensor weight, Tensor bias);            // [R, K], [N, K], [N] -> [R, N]
  Tensor linear_transposed(Tensor x, Tensor weight,
                           Tensor bias);  // [R, K], [K, N], [N] -> [R, N]: GPT-2's Conv1D
  Tensor add(Tensor a, Tensor b);
  Tensor multiply(Tensor a, Tensor b);  // element by element; activation(gate) · up becomes one op
  Tensor activation(Tensor x, Activation kind);
  Tensor layer_norm(Tensor x, Tensor gamma, Tensor beta, float epsilon);
  // [R, H] with gamma [H], or [R, A · D] with gamma [D]: each of A heads by itself.
  Tensor rms_norm(Tensor x, Tensor gamma, float epsilon);
  // Columns [first, first + width) of x [R, H] -> [R, width]. Attention reads query, key and value in the value that
  // they are columns of; nothing is copied.
  Tensor columns(Tensor x, int64_t first, int64_t width);
  // Cosines and sines of the positions of an axis's tokens, for rotate(): make it once, before the layers.
  // UserError: no frequencies, or numbers that are not finite.
  Tensor rotary_table(const RotaryFrequencies& rotary, BatchAxis axis = BatchAxis::kTokens);
  // Rotary position embedding of x [N, heads · D]: columns (i, i + P) of each head are turned by the token's angle i
  // (Hugging Face's rotate_half), those from 2·P on stay. UserError: heads that do not divide the columns, or have
  // fewer than 2·P.
  Tensor rotate(Tensor x, Tensor table, int64_t heads);
  // Of tokens [N, H] or [M, H], and of the rows that stand for sequences [S, H].
  Tensor token_dropout(Tensor x, float p);
  Tensor sequence_dropout(Tensor x, float p);
  // Scaled dot-product attention of each sequence to itself, to its tokens on the other axis (cross attention: a
  // decoder's queries [M, …] and an encoder's keys [N, …]), or to keys of its own: q [N, A · D], k and v
  // [N of the keys, K · D] -> [N, A · D]. UserError: widths, heads or a mask that do not go together.
  Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options);
  // The first and the last token of each sequence: [N, H] -> [S, H]. Padding is no token. With a `padding_token` the last
  // one that has another id, and the first where none has, as transformers' decoders classify.
  Tensor first_tokens(Tensor x);
  Tensor last_tokens(Tensor x, int64_t padding_token = -1);
  // Mean over the effective batch's targets of the cross-entropy of logits with the labels of their rows: [S, C] with
  // those of samples, [N, C] or [M, C] with those of tokens. `class_weights` f32[C], or none, and `z_loss`: see
  // LossOptions.
  Tensor cross_entropy(Tensor logits, float label_smoothing, Tensor class_weights = {}, float z_loss = 0);
  // The same for squared error, and for binary cross-entropy with logits, with the batch's value labels
  // [S, C]. The loss of a row is the mean over its C values. `positive_weights` f32[C], or none: factors of the loss
  // where a label is 1.
  Tensor mean_squared_error(Tensor predictions);
  Tensor binary_cross_entropy(Tensor logits, Tensor positive_weights = {});
  // Of a loss that cross_entropy() made: f32[1], how many targets have the first of the largest logits.
  Tensor right_targets(Tensor loss) const;
  // The weights of the run's classes, f32[C]; a tensor that is none if it has none.
  Tensor class_weights() { return scalars_.class_weights.valid() ? read(scalars_.class_weights) : Tensor(); }

 private:
  Tensor wrap(ValueId id) const { return {id, program_.type(id)}; }
  Tensor op(OpKind kind, std::vector<ValueId> inputs, Attributes attributes, const std::string& name,
            int64_t output = 0) {
    return wrap(builder_.value(kind, std::move(inputs), std::move(attributes), name, output));
  }
  static BatchAxis axis_of_rows(Tensor x);
  static BatchAxis token_axis_of(Tensor x);
  Tensor dropout(Tensor x, float p, BatchColumn sample, BatchColumn position);
  Tensor value_loss(OpKind kind, Tensor logits, Tensor positive_weights = {});
  // Of the parameters in the storage of a weight.
  void mark(Tensor weight, bool Parameter::* fact);
  Tensor read(StorageId storage) { return wrap(program_.read_state(storage)); }
  uint32_t next_stream() { return next_stream_++; }

  Program& program_;
  OpBuilder builder_;
  BatchInputs& batch_;
  BatchCapacity capacity_;
  const ScalarStorages& scalars_;
  bool training_;
  uint64_t seed_;
  uint32_t next_stream_ = 0;
};

}  // namespace shoehorn
