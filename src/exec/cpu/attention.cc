#include "exec/cpu/attention.h"

#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/error.h"
#include "exec/cpu/attention_task.h"
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

void check_batch(const AttentionBatch& batch, const void* workspace, int64_t workspace_bytes,
                 int64_t needed_bytes, int threads) {
  check_storage(batch.dtype, "attention");
  CHECK(batch.rows >= 0 && batch.heads > 0 && batch.head_size > 0,
        "[attention] expected positive sizes, got {} × {} × {}", batch.rows, batch.heads, batch.head_size);
  CHECK(threads > 0, "[attention] expected at least one thread, got {}", threads);
  CHECK(batch.dropout.p >= 0.0F && batch.dropout.p < 1.0F,
        "[attention] expected a drop probability in [0, 1), got {}", batch.dropout.p);
  CHECK(workspace_bytes >= needed_bytes, "[attention] expected a workspace of {} bytes, got {}", needed_bytes,
        workspace_bytes);
  CHECK(reinterpret_cast<uintptr_t>(workspace) % 64 == 0,
        "[attention] expected a workspace aligned to 64 bytes");
  int64_t end = 0;
  for (int64_t s = 0; s < batch.sequences; ++s) {
    const int64_t start = batch.sequence_start[s];
    const int64_t length = batch.sequence_length[s];
    CHECK(start >= end && length >= 0 && start + length <= batch.rows,
          "[attention] expected sequence {} within rows [{}, {}), got [{}, {})", s, end, batch.rows, start,
          start + length);
    CHECK(length <= batch.max_sequence_length,
          "[attention] expected at most {} tokens in sequence {}, got {}", batch.max_sequence_length, s,
          length);
    end = start + length;
  }
}

// Rows between the sequences: hole s lies before sequence s, hole S after the last.
struct RowRange {
  int64_t begin;
  int64_t end;
};
RowRange hole(const AttentionBatch& batch, int64_t s) {
  return {s == 0 ? 0 : batch.sequence_start[s - 1] + int64_t{batch.sequence_length[s - 1]},
          s == batch.sequences ? batch.rows : batch.sequence_start[s]};
}

void zero_rows(void* data, int64_t stride_bytes, int64_t row_bytes, RowRange rows) {
  std::byte* base = static_cast<std::byte*>(data);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    std::memset(base + row * stride_bytes, 0, static_cast<size_t>(row_bytes));
  }
}

}  // namespace

ForwardLayout forward_layout(int64_t max_sequence_length, int64_t head_size) {
  const int64_t d = padded_head_size(head_size);
  const int64_t queries = std::min(kForwardQueries, round_up(max_sequence_length, 16));
  const int64_t keys = std::min(kForwardKeys, round_up(max_sequence_length, 64));
  LayoutBuilder builder;
  ForwardLayout layout{};
  layout.strip_stride = strip_stride(keys);
  layout.queries = builder.take(queries * d);
  layout.output = builder.take(queries * d);
  layout.keys = builder.take(head_size * keys);
  layout.values = builder.take(keys * d);
  layout.strip = builder.take(kQueryBlock * layout.strip_stride);
  layout.maximum = builder.take(queries);
  layout.sum = builder.take(queries);
  layout.total = builder.total();
  return layout;
}

BackwardLayout backward_layout(int64_t max_sequence_length, int64_t head_size) {
  const int64_t d = padded_head_size(head_size);
  const int64_t keys = std::min(kBackwardKeys, round_up(max_sequence_length, 64));
  LayoutBuilder builder;
  BackwardLayout layout{};
  layout.strip_stride = strip_stride(keys);
  layout.queries = builder.take(max_sequence_length * d);
  layout.doutput = builder.take(max_sequence_length * d);
  layout.dqueries = builder.take(max_sequence_length * d);
  layout.logsumexp = builder.take(max_sequence_length);
  layout.delta = builder.take(max_sequence_length);
  layout.keys_transposed = builder.take(head_size * keys);
  layout.values_transposed = builder.take(head_size * keys);
  layout.keys = builder.take(keys * d);
  layout.dkeys = builder.take(keys * d);
  layout.dvalues = builder.take(keys * d);
  layout.strip = builder.take(kQueryBlock * layout.strip_stride);
  layout.dstrip = builder.take(kQueryBlock * layout.strip_stride);
  layout.total = builder.total();
  return layout;
}

int64_t attention_forward_workspace_bytes(int64_t max_sequence_length, int64_t /*heads*/, int64_t head_size,
                                          int threads) {
  return forward_layout(max_sequence_length, head_size).total * int64_t{sizeof(float)} * threads;
}

int64_t attention_backward_workspace_bytes(int64_t max_sequence_length, int64_t /*heads*/, int64_t head_size,
                                           int threads) {
  return backward_layout(max_sequence_length, head_size).total * int64_t{sizeof(float)} * threads;
}

void attention_forward(const AttentionForward& arguments) {
  const AttentionBatch& batch = arguments.batch;
  const int64_t hidden = batch.heads * batch.head_size;
  check_batch(batch, arguments.workspace, arguments.workspace_bytes,
              attention_forward_workspace_bytes(batch.max_sequence_length, batch.heads, batch.head_size,
                                                arguments.threads),
              arguments.threads);
  CHECK(arguments.qkv_stride >= 3 * hidden, "[attention] expected a stride of at least {}, got {}",
        3 * hidden, arguments.qkv_stride);
  const ForwardTask run_task = select_forward_task(batch);

  const ForwardLayout layout = forward_layout(batch.max_sequence_length, batch.head_size);
  const int64_t context_row_bytes = hidden * dtype_bytes(batch.dtype);
  const int64_t chunks = (batch.max_sequence_length + kForwardQueries - 1) / kForwardQueries;
  const int64_t tasks = batch.sequences * batch.heads * chunks;
#pragma omp parallel num_threads(arguments.threads)
  {
    float* workspace = static_cast<float*>(arguments.workspace) + omp_get_thread_num() * layout.total;
#pragma omp for schedule(dynamic) nowait
    for (int64_t s = 0; s <= batch.sequences; ++s) {
      const RowRange rows = hole(batch, s);
      zero_rows(arguments.context, context_row_bytes, context_row_bytes, rows);
      for (int64_t head = 0; head < batch.heads; ++head) {
        std::fill(arguments.logsumexp + head * batch.rows + rows.begin,
                  arguments.logsumexp + head * batch.rows + rows.end, 0.0F);
      }
    }
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < tasks; ++task) {
      const int64_t first_query = task % chunks * kForwardQueries;
      const int64_t head = task / chunks % batch.heads;
      const int64_t sequence = task / chunks / batch.heads;
      if (first_query < batch.sequence_length[sequence]) {
        run_task(arguments, layout, sequence, head, first_query, workspace);
      }
    }
  }
}

void attention_backward(const AttentionBackward& arguments) {
  const AttentionBatch& batch = arguments.batch;
  const int64_t hidden = batch.heads * batch.head_size;
  check_batch(batch, arguments.workspace, arguments.workspace_bytes,
              attention_backward_workspace_bytes(batch.max_sequence_length, batch.heads, batch.head_size,
                                                 arguments.threads),
              arguments.threads);
  CHECK(arguments.qkv_stride >= 3 * hidden && arguments.dqkv_stride >= 3 * hidden,
        "[attention] expected strides of at least {}, got {} and {}", 3 * hidden, arguments.qkv_stride,
        arguments.dqkv_stride);
  const BackwardTask run_task = select_backward_task(batch);

  const BackwardLayout layout = backward_layout(batch.max_sequence_length, batch.head_size);
  const int64_t element_bytes = dtype_bytes(batch.dtype);
  const int64_t tasks = batch.sequences * batch.heads;
#pragma omp parallel num_threads(arguments.threads)
  {
    float* workspace = static_cast<float*>(arguments.workspace) + omp_get_thread_num() * layout.total;
#pragma omp for schedule(dynamic) nowait
    for (int64_t s = 0; s <= batch.sequences; ++s) {
      zero_rows(arguments.dqkv, arguments.dqkv_stride * element_bytes, 3 * hidden * element_bytes,
                hole(batch, s));
    }
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < tasks; ++task) {
      const int64_t sequence = task / batch.heads;
      if (batch.sequence_length[sequence] > 0) {
        run_task(arguments, layout, sequence, task % batch.heads, workspace);
      }
    }
  }
}

}  // namespace shoehorn::cpu
