#include "exec/cpu/attention/attention.h"

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "exec/cpu/attention/attention_task.h"
#include "exec/cpu/storage.h"

namespace shoehorn::cpu {
namespace {

// Hands out scratch in whole cache lines.
class LayoutBuilder {
 public:
  int64_t take(int64_t floats) {
    const int64_t offset = total_;
    total_ += round_up(floats, 16);
    return offset;
  }
  int64_t total() const { return total_; }

 private:
  int64_t total_ = 0;
};

// A row stride that is no power of two, so that a column of the strip doesn't fall into one set of the cache.
int64_t strip_stride(int64_t keys) {
  return keys + 16;
}

// That sequences stand in order within `rows`, none longer than `longest`.
void check_sequences(const char* what, const int32_t* starts, const int32_t* lengths, int64_t sequences,
                     int64_t rows, int64_t longest) {
  int64_t end = 0;
  for (int64_t s = 0; s < sequences; ++s) {
    const int64_t start = starts[s];
    const int64_t length = lengths[s];
    CHECK(start >= end && length >= 0 && start + length <= rows,
          "[attention] expected the {} of sequence {} within rows [{}, {}), got [{}, {})", what, s, end, rows,
          start, start + length);
    CHECK(length <= longest, "[attention] expected at most {} {} in sequence {}, got {}", longest, what, s,
          length);
    end = start + length;
  }
}

void check_batch(const AttentionBatch& batch, const void* workspace, int64_t workspace_bytes,
                 int64_t needed_bytes, int threads) {
  check_storage(batch.dtype, "attention");
  CHECK(batch.query_rows >= 0 && batch.key_rows >= 0 && batch.heads > 0 && batch.head_size > 0,
        "[attention] expected positive sizes, got {} and {} rows, {} heads of {}", batch.query_rows,
        batch.key_rows, batch.heads, batch.head_size);
  CHECK(batch.key_value_heads > 0 && batch.heads % batch.key_value_heads == 0,
        "[attention] expected key/value heads that divide {} heads, got {}", batch.heads,
        batch.key_value_heads);
  CHECK(batch.mask.kind != AttentionMask::Kind::kWindow || batch.mask.window > 0,
        "[attention] expected a window of at least one key, got {}", batch.mask.window);
  CHECK(threads > 0, "[attention] expected at least one thread, got {}", threads);
  CHECK(batch.dropout.p >= 0.0F && batch.dropout.p < 1.0F,
        "[attention] expected a drop probability in [0, 1), got {}", batch.dropout.p);
  CHECK(workspace_bytes >= needed_bytes, "[attention] expected a workspace of {} bytes, got {}", needed_bytes,
        workspace_bytes);
  CHECK(reinterpret_cast<uintptr_t>(workspace) % 64 == 0,
        "[attention] expected a workspace aligned to 64 bytes");
  check_sequences("queries", batch.query_start, batch.query_length, batch.sequences, batch.query_rows,
                  batch.max_query_length);
  check_sequences("keys", batch.key_start, batch.key_length, batch.sequences, batch.key_rows,
                  batch.max_key_length);
}

// That rows are as wide as the heads in them.
void check_strides(const AttentionBatch& batch, int64_t q, int64_t k, int64_t v) {
  CHECK(q >= batch.query_columns() && k >= batch.key_columns() && v >= batch.key_columns(),
        "[attention] expected strides of at least {} and {}, got {}, {} and {}", batch.query_columns(),
        batch.key_columns(), q, k, v);
}

// Rows between the sequences: hole s lies before sequence s, hole S after the last.
RowRange hole(const int32_t* starts, const int32_t* lengths, int64_t sequences, int64_t rows, int64_t s) {
  return {s == 0 ? 0 : starts[s - 1] + int64_t{lengths[s - 1]}, s == sequences ? rows : starts[s]};
}
RowRange query_hole(const AttentionBatch& batch, int64_t s) {
  return hole(batch.query_start, batch.query_length, batch.sequences, batch.query_rows, s);
}
RowRange key_hole(const AttentionBatch& batch, int64_t s) {
  return hole(batch.key_start, batch.key_length, batch.sequences, batch.key_rows, s);
}

void zero_rows(DType dtype, void* data, int64_t stride, int64_t columns, RowRange rows) {
  std::byte* base = static_cast<std::byte*>(data);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    std::memset(base + row * stride * dtype_bytes(dtype), 0,
                static_cast<size_t>(columns * dtype_bytes(dtype)));
  }
}

// Floats of the bias gradient of one sequence.
int64_t bias_elements(const AttentionBatch& batch) {
  return batch.heads * batch.bias_columns();
}

// dbias = the sequences' own gradients, added up in their order.
void add_bias_gradients(const AttentionBatch& batch, const float* of_sequences, float* dbias) {
  constexpr int64_t kElements = 1024;
  const int64_t elements = bias_elements(batch);
#pragma omp for schedule(static)
  for (int64_t begin = 0; begin < elements; begin += kElements) {
    const int64_t end = std::min(begin + kElements, elements);
    std::fill(dbias + begin, dbias + end, 0.0F);
    for (int64_t s = 0; s < batch.sequences; ++s) {
      for (int64_t i = begin; i < end; ++i) dbias[i] += of_sequences[s * elements + i];
    }
  }
}

}  // namespace

ForwardLayout forward_layout(const AttentionBatch& batch) {
  const int64_t d = padded_head_size(batch.head_size);
  const int64_t queries = std::min(kForwardQueries, round_up(batch.max_query_length, 16));
  const int64_t keys = std::min(kForwardKeys, round_up(batch.max_key_length, 64));
  LayoutBuilder builder;
  ForwardLayout layout{};
  layout.strip_stride = strip_stride(keys);
  layout.queries = builder.take(queries * d);
  layout.output = builder.take(queries * d);
  layout.keys = builder.take(batch.head_size * keys);
  layout.values = builder.take(keys * d);
  layout.strip = builder.take(kQueryBlock * layout.strip_stride);
  layout.maximum = builder.take(queries);
  layout.sum = builder.take(queries);
  layout.total = builder.total();
  return layout;
}

BackwardLayout backward_layout(const AttentionBatch& batch) {
  const int64_t d = padded_head_size(batch.head_size);
  const int64_t keys = std::min(kBackwardKeys, round_up(batch.max_key_length, 64));
  const int64_t summed_keys = batch.group() == 1 ? keys : batch.max_key_length;
  LayoutBuilder builder;
  BackwardLayout layout{};
  layout.strip_stride = strip_stride(keys);
  const int64_t query_pairs = ceil_divide(batch.max_query_length, 2);
  layout.queries = builder.take(2 * query_pairs * d);
  layout.doutput = builder.take(2 * query_pairs * d);
  layout.right_form = query_pairs * d;
  layout.dqueries = builder.take(batch.max_query_length * d);
  layout.logsumexp = builder.take(batch.max_query_length);
  layout.delta = builder.take(batch.max_query_length);
  layout.keys_transposed = builder.take(batch.head_size * keys);
  layout.values_transposed = builder.take(batch.head_size * keys);
  layout.keys = builder.take(keys * d);
  layout.dkeys = builder.take(summed_keys * d);
  layout.dvalues = builder.take(summed_keys * d);
  layout.strip = builder.take(kQueryBlock * layout.strip_stride);
  layout.dstrip = builder.take(kQueryBlock * layout.strip_stride);
  layout.total = builder.total();
  return layout;
}

int64_t attention_forward_workspace_bytes(const AttentionBatch& batch, int threads) {
  return forward_layout(batch).total * int64_t{sizeof(float)} * threads;
}

int64_t attention_backward_workspace_bytes(const AttentionBatch& batch, int threads) {
  const int64_t of_bias = !batch.trains_bias ? 0 : batch.max_sequences * bias_elements(batch);
  return (backward_layout(batch).total * threads + of_bias) * int64_t{sizeof(float)};
}

void attention_forward(const AttentionForward& arguments) {
  const AttentionBatch& batch = arguments.batch;
  check_batch(batch, arguments.workspace, arguments.workspace_bytes,
              attention_forward_workspace_bytes(batch, arguments.threads), arguments.threads);
  check_strides(batch, arguments.q.stride, arguments.k.stride, arguments.v.stride);
  const ForwardTask run_task = select_forward_task(batch);

  const ForwardLayout layout = forward_layout(batch);
  const int64_t columns = batch.query_columns();
  const int64_t chunks = ceil_divide(batch.max_query_length, kForwardQueries);
  const int64_t tasks = batch.sequences * batch.heads * chunks;
#pragma omp parallel num_threads(arguments.threads)
  {
    float* workspace = static_cast<float*>(arguments.workspace) + omp_get_thread_num() * layout.total;
#pragma omp for schedule(dynamic) nowait
    for (int64_t s = 0; s <= batch.sequences; ++s) {
      const RowRange rows = query_hole(batch, s);
      zero_rows(batch.dtype, arguments.context, columns, columns, rows);
      for (int64_t head = 0; head < batch.heads; ++head) {
        std::fill(arguments.logsumexp + head * batch.query_rows + rows.begin,
                  arguments.logsumexp + head * batch.query_rows + rows.end, 0.0F);
      }
    }
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < tasks; ++task) {
      const int64_t first_query = task % chunks * kForwardQueries;
      const int64_t head = task / chunks % batch.heads;
      const int64_t sequence = task / chunks / batch.heads;
      if (first_query < batch.query_length[sequence]) {
        run_task(arguments, layout, sequence, head, first_query, workspace);
      }
    }
  }
}

void attention_backward(const AttentionBackward& arguments) {
  const AttentionBatch& batch = arguments.batch;
  check_batch(batch, arguments.workspace, arguments.workspace_bytes,
              attention_backward_workspace_bytes(batch, arguments.threads), arguments.threads);
  check_strides(batch, arguments.q.stride, arguments.k.stride, arguments.v.stride);
  check_strides(batch, arguments.dq.stride, arguments.dk.stride, arguments.dv.stride);
  CHECK(!batch.trains_bias || batch.has_bias, "[attention] expected a bias with its gradient, got none");
  CHECK(!batch.trains_bias || batch.sequences <= batch.max_sequences,
        "[attention] expected at most {} sequences, got {}", batch.max_sequences, batch.sequences);
  const BackwardTask run_task = select_backward_task(batch);

  const BackwardLayout layout = backward_layout(batch);
  const int64_t tasks = batch.sequences * batch.key_value_heads;
  float* workspaces = static_cast<float*>(arguments.workspace);
  float* dbias = batch.trains_bias ? workspaces + arguments.threads * layout.total : nullptr;
#pragma omp parallel num_threads(arguments.threads)
  {
    float* workspace = workspaces + omp_get_thread_num() * layout.total;
#pragma omp for schedule(dynamic) nowait
    for (int64_t s = 0; s <= batch.sequences; ++s) {
      zero_rows(batch.dtype, arguments.dq.data, arguments.dq.stride, batch.query_columns(),
                query_hole(batch, s));
      for (const HeadRows& gradient : {arguments.dk, arguments.dv})
        zero_rows(batch.dtype, gradient.data, gradient.stride, batch.key_columns(), key_hole(batch, s));
    }
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < tasks; ++task) {
      const int64_t sequence = task / batch.key_value_heads;
      run_task(arguments, layout, sequence, task % batch.key_value_heads, workspace,
               dbias == nullptr ? nullptr : dbias + sequence * bias_elements(batch));
    }
    if (dbias != nullptr) add_bias_gradients(batch, dbias, arguments.dbias);
  }
}

}  // namespace shoehorn::cpu
