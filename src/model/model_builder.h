// Defining models: layers are ordinary C++ that call ops on symbolic tensors; running a model's `forward`
// once is the capture of its program. The same API serves the architectures shipped here and users' own
// (examples/).
#pragma once

#include <string>
#include <vector>

#include "model/batch_inputs.h"
#include "model/model.h"
#include "model/tensor.h"
#include "ops/op_builder.h"

namespace shoehorn {

// How queries meet keys. A is heads, K is key_value_heads.
struct AttentionOptions {
  int64_t heads = 1;
  // 0: as many as heads. Fewer, a divisor of heads: that many query heads side by side share each.
  int64_t key_value_heads = 0;
  AttentionMask mask = {};
  float dropout = 0;  // of the probabilities
  float scale = 0;    // of the scores; 0: 1 / √D
  // Where the keys and values of each sequence lie, if neither in the rows of its queries nor in those of its tokens on
  // the keys' axis: cross attention. i32[S].
  Tensor key_start = {};
  Tensor key_length = {};
  int64_t longest_keys = 0;  // then: the most that a sequence has
  // Added to the scores: f32[A, Tq + Tk - 1], where Tq and Tk are the most queries and keys of a sequence and
  // column k - p + Tk - 1 is for a query at place p and key k (base/attention_mask.h). One for all sequences.
  Tensor bias = {};
};

class ModelBuilder {
 public:
  // `training` false leaves dropout out. `seed` is that of the dropout masks.
  ModelBuilder(Program& program, BatchInputs& batch, const ScalarStorages& scalars, bool training,
               uint64_t seed);

  // A column of the micro-batch, which is filled because it is asked for; `width`: elements of its rows.
  Tensor input(BatchColumn column, int64_t width = 1) { return read(batch_.ask(column, width)); }
  const BatchCapacity& capacity() const { return batch_.capacity(); }
  bool training() const { return training_; }

  // The parameter with this Hugging Face name, made on first use. float32.
  Tensor parameter(const std::string& name, const std::vector<int64_t>& shape,
                   const Initializer& initializer);

  // Where the following ops stand in the model: bytes and time are reported by layer and component.
  void set_region(int32_t layer, Component component);

  // Ops. Shapes: N tokens, or M of a decoder beside an encoder, S sequences, R any rows, H columns. An op of tokens reads
  // the columns of the axis that its rows are on.
  // [V, H], [R] -> [R, H]; rows of `padding_index` are not trained.
  Tensor embedding(Tensor table, Tensor ids, int64_t padding_index = -1);
  Tensor add_embedding(Tensor addend, Tensor table, Tensor ids);  // addend + embedding
  Tensor linear(Tensor x, Tensor weight);                         // [R, K], [N, K] -> [R, N]
  Tensor linear(Tensor x, Tensor weight, Tensor bias);            // [R, K], [N, K], [N] -> [R, N]
  Tensor add(Tensor a, Tensor b);
  Tensor activation(Tensor x, Activation kind);
  Tensor layer_norm(Tensor x, Tensor gamma, Tensor beta, float epsilon);
  Tensor rms_norm(Tensor x, Tensor gamma, float epsilon);
  // Of tokens [N, H] or [M, H], and of the rows that stand for sequences [S, H].
  Tensor token_dropout(Tensor x, float p);
  Tensor sequence_dropout(Tensor x, float p);
  // Scaled dot-product attention of each sequence to itself, to its tokens on the other axis (cross attention: a
  // decoder's queries [M, …] and an encoder's keys [N, …]), or to keys of its own: q [N, A · D], k and v
  // [N of the keys, K · D] -> [N, A · D]. UserError: widths, heads or a mask that do not go together.
  Tensor attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options);
  Tensor first_tokens(Tensor x);  // [N, H] -> [S, H]
  // Mean over the effective batch's targets of the cross-entropy of logits with the labels of their rows: [S, C] with
  // those of samples, [N, C] or [M, C] with those of tokens.
  Tensor cross_entropy(Tensor logits, float label_smoothing);
  // The same of the squared error, and of the binary cross-entropy with logits, to rows of values [S, C]: the
  // mean over a row's.
  Tensor mean_squared_error(Tensor predictions);
  Tensor binary_cross_entropy(Tensor logits);

 private:
  Tensor wrap(ValueId id) const { return {id, program_.type(id)}; }
  Tensor op(OpKind kind, std::vector<ValueId> inputs, Attributes attributes, const std::string& name,
            int64_t output = 0) {
    return wrap(builder_.value(kind, std::move(inputs), std::move(attributes), name, output));
  }
  static BatchAxis axis_of_rows(Tensor x);
  static BatchAxis token_axis_of(Tensor x);
  Tensor dropout(Tensor x, float p, BatchColumn sample, BatchColumn position);
  Tensor value_loss(OpKind kind, Tensor logits);
  void mark_embedding(Tensor table);
  Tensor read(StorageId storage) { return wrap(program_.read_state(storage)); }
  uint32_t next_stream() { return next_stream_++; }

  Program& program_;
  OpBuilder builder_;
  BatchInputs& batch_;
  const ScalarStorages& scalars_;
  bool training_;
  uint64_t seed_;
  uint32_t next_stream_ = 0;
};

}  // namespace shoehorn
