#include "exec/cpu/losses/vocabulary_loss.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/rounding.h"
#include "exec/cpu/elementwise/elementwise.h"
#include "exec/cpu/losses/loss.h"
#include "exec/cpu/losses/vocabulary_rows.h"
#include "exec/cpu/storage.h"
#include "exec/cpu/workspace_parts.h"

namespace shoehorn::cpu {

namespace {

// Entries of the vocabulary in a chunk: enough for whole rates of products, and few enough that a chunk's logits and
// weights are still in cache when they are read again. Products of 16 bits reach their rate with fewer.
constexpr int64_t kChunkColumns = 2048;
constexpr int64_t kChunkColumnsOf16Bits = 512;
constexpr int64_t kChunkMultiple = 64;
// A chunk of W in float32.
constexpr int64_t kMostWidenedBytes = int64_t{16} << 20;

// Tokens of a block. More would not make products faster, and W is read seldom enough.
constexpr int64_t kMostRows = 1024;
constexpr int64_t kRowMultiple = 32;

// Operations of products in the time in which a byte comes from memory.
constexpr double kFlopsPerByte = 10;
constexpr double kFlopsPerByteOf16Bits = 40;
// Of an element that is read in 16 bits, written and read in float32.
constexpr double kWidenedBytes = 10;

// Of so many tokens, for each block, at most `most`: about as many in each, since few rows make slow products. A number of
// rows that products take in one piece: 2^i or 3 · 2^i times the multiple, or the most.
int64_t even_rows(int64_t tokens, int64_t most) {
  const int64_t wanted = ceil_divide(tokens, std::max(int64_t{1}, ceil_divide(tokens, most)));
  for (int64_t rows = kRowMultiple; rows < most; rows *= 2) {
    if (wanted <= rows) return rows;
    const int64_t between = rows * 3 / 2;
    if (between % kRowMultiple == 0 && wanted <= between) return std::min(between, most);
  }
  return most;
}

}  // namespace

// The gradients of logits are factors of products; in fp16 most of them would be zero.
VocabularyLoss::VocabularyLoss(const VocabularyLossShape& shape)
    : shape_(shape),
      operands_(shape.dtype == DType::kBF16 && has_products_of(shape.dtype) ? shape.dtype : DType::kF32) {
  check_storage(shape.dtype, "linear_cross_entropy");
  CHECK(shape.gives_loss || shape.gives_dx || shape.gives_dweight,
        "a vocabulary's loss of which nothing is computed");
  choose_sizes();
  products_[0] = plan_products(columns_);
  if (shape_.vocabulary % columns_ != 0) products_[1] = plan_products(shape_.vocabulary % columns_);
  parts_ = lay_out(work_, rows_);
  keeps_ = keeps(work_);
  int64_t library_bytes = 0;
  for_each_product(
      [&](const Matmul& product) { library_bytes = std::max(library_bytes, product.workspace_bytes()); });
  workspace_bytes_ = parts_.library + library_bytes;
}

// Chunks of about the same size.
void VocabularyLoss::choose_sizes() {
  int64_t largest = operands_ == DType::kF32 ? kChunkColumns : kChunkColumnsOf16Bits;
  if (operands_ != shape_.dtype) largest = std::min(largest, kMostWidenedBytes / (shape_.hidden * 4));
  largest = std::max(largest / kChunkMultiple, int64_t{1}) * kChunkMultiple;
  const int64_t even = ceil_divide(shape_.vocabulary, ceil_divide(shape_.vocabulary, largest));
  columns_ = std::min(shape_.vocabulary, round_up(even, kChunkMultiple));
  const bool gives_gradients = shape_.gives_dx || shape_.gives_dweight;
  work_ = !gives_gradients ? Work::kLoss : shape_.gives_loss ? Work::kExponentials : Work::kGradients;
  rows_ = most_rows(work_);
  if (!keeps(work_)) return;
  const int64_t rows_of_twice = most_rows(Work::kLossThenGradients);
  if (cost(work_, rows_) <= cost(Work::kLossThenGradients, rows_of_twice)) return;
  work_ = Work::kLossThenGradients;
  rows_ = rows_of_twice;
}

VocabularyLoss::Parts VocabularyLoss::lay_out(Work work, int64_t rows) const {
  Parts parts;
  int64_t end = 0;
  const auto place = [&end](int64_t bytes) {
    const int64_t begin = end;
    end += part_bytes(bytes);
    return begin;
  };
  const bool is_wide = operands_ == DType::kF32;
  const int64_t factor_columns = keeps(work) ? shape_.vocabulary : columns_;
  const int64_t bytes_of_x = rows * shape_.hidden * dtype_bytes(operands_);
  place(rows * static_cast<int64_t>(sizeof(VocabularyRow)));
  parts.x = place(bytes_of_x);
  parts.scaled_x = place(keeps(work) ? bytes_of_x : 0);
  parts.dx = place(shape_.gives_dx ? rows * shape_.hidden * 4 : 0);
  parts.weight = place(operands_ != shape_.dtype ? columns_ * shape_.hidden * 4 : 0);
  parts.logits = place(rows * (is_wide ? factor_columns : columns_) * 4);
  parts.factors = is_wide ? parts.logits
                          : place(work == Work::kLoss ? 0 : rows * factor_columns * dtype_bytes(operands_));
  parts.dweight = place(shape_.gives_dweight ? columns_ * shape_.hidden * 4 : 0);
  parts.maxima = place(keeps(work) ? ceil_divide(shape_.vocabulary, columns_) * rows * 4 : 0);
  parts.weight_sums = place(work == Work::kExponentials && shape_.gives_dx ? shape_.hidden * 4 : 0);
  parts.x_sums = place(keeps(work) ? shape_.hidden * 4 : 0);
  parts.library = end;
  return parts;
}

int64_t VocabularyLoss::most_rows(Work work) const {
  const int64_t wanted = std::min(kMostRows, round_up(std::max(shape_.tokens, int64_t{1}), kRowMultiple));
  int64_t rows = kRowMultiple;
  while (rows < wanted && lay_out(work, rows + kRowMultiple).library <= shape_.most_workspace_bytes)
    rows += kRowMultiple;
  return rows;
}

// Of both gradients, or dW alone, in bytes that could have come from memory meanwhile.
double VocabularyLoss::cost(Work work, int64_t rows) const {
  const int passes = keeps(work) ? 1 : 2;  // over W
  const int products = passes + (shape_.gives_dx ? 1 : 0) + 1;
  const auto tokens = static_cast<double>(shape_.tokens);
  const auto vocabulary = static_cast<double>(shape_.vocabulary);
  const double entries = vocabulary * static_cast<double>(shape_.hidden);
  const double of_weight =
      operands_ == shape_.dtype ? static_cast<double>(dtype_bytes(shape_.dtype)) : kWidenedBytes;
  const auto blocks = static_cast<double>(ceil_divide(shape_.tokens, rows));
  const double kept = keeps(work) ? 2 * tokens * vocabulary * static_cast<double>(dtype_bytes(operands_)) : 0;
  return products * 2 * tokens * entries /
             (operands_ == DType::kF32 ? kFlopsPerByte : kFlopsPerByteOf16Bits) +
         blocks * entries * (passes * of_weight + 8) + kept;
}

VocabularyLoss::ChunkProducts VocabularyLoss::plan_products(int64_t columns) const {
  ChunkProducts products;
  const MatmulShape of_rows{
      .operands = operands_, .dynamic = DynamicDimension::kM, .count_multiple = kRowMultiple};
  MatmulShape logits = of_rows;
  logits.m = rows_;
  logits.n = columns;
  logits.k = shape_.hidden;
  logits.transpose_b = true;
  products.logits = plan_matmul(logits);
  if (shape_.gives_dx) {
    MatmulShape dx = of_rows;
    dx.m = rows_;
    dx.n = shape_.hidden;
    dx.k = columns;
    dx.accumulate = true;
    products.dx = plan_matmul(dx);
  }
  if (shape_.gives_dweight) {
    MatmulShape dweight = of_rows;
    dweight.m = columns;
    dweight.n = shape_.hidden;
    dweight.k = rows_;
    dweight.transpose_a = true;
    dweight.dynamic = DynamicDimension::kK;
    products.dweight = plan_matmul(dweight);
  }
  return products;
}

template <typename Visit>
void VocabularyLoss::for_each_product(const Visit& visit) const {
  for (const ChunkProducts& chunk : products_) {
    for (const auto& product : {chunk.logits, chunk.dx, chunk.dweight}) {
      if (product != nullptr) visit(*product);
    }
  }
}

void VocabularyLoss::compile() const {
  for_each_product([](const Matmul& product) { product.compile(); });
}

// One call.
class VocabularyLoss::Run {
 public:
  Run(const VocabularyLoss& plan, const VocabularyLossCall& call)
      : plan_(plan), shape_(plan.shape_), call_(call), adds_to_dweight_(call.accumulate_dweight) {
    block_.rows = part<VocabularyRow>(0);
    block_.hidden = shape_.hidden;
    block_.vocabulary = shape_.vocabulary;
    block_.label_smoothing = call.label_smoothing;
    block_.z_loss = call.z_loss;
    block_.factor = (call.gradient_scale == nullptr ? 1.0F : *call.gradient_scale) / *call.target_count;
  }

  void run() {
    const int64_t labels =
        call_.tokens - std::count(call_.labels, call_.labels + call_.tokens, kIgnoredLabel);
    rows_ = even_rows(labels, plan_.rows_);
    for (int64_t first = 0; first < call_.tokens;) {
      const int64_t last = take_block(first);
      if (shape_.gives_dx)
        clear_ignored_rows(call_.labels, first, last, shape_.hidden, shape_.dtype, call_.dx);
      if (block_.count > 0) {
        run_block();
        adds_to_dweight_ = true;
      }
      first = last;
    }
    if (shape_.gives_dweight && !adds_to_dweight_)
      std::memset(call_.dweight, 0, static_cast<size_t>(shape_.vocabulary * shape_.hidden) * 4);
    if (has_x_sums_) subtract_even_share(block_, x_sums(), call_.dweight);
    if (!shape_.gives_loss) return;
    const auto mean = static_cast<float>(loss_ / static_cast<double>(*call_.target_count));
    *call_.loss = call_.accumulate_loss ? *call_.loss + mean : mean;
    *call_.right = static_cast<float>(right_);
  }

 private:
  template <typename T>
  T* part(int64_t offset) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(call_.workspace) + offset);
  }

  // Tokens with a label from `first` on, as many as a block has; returns the token behind them.
  int64_t take_block(int64_t first) {
    block_.count = 0;
    int64_t token = first;
    for (; token < call_.tokens && block_.count < rows_; ++token) {
      const int32_t label = call_.labels[token];
      if (label != kIgnoredLabel) {
        VocabularyRow& row = block_.rows[block_.count++];
        row = {.token = static_cast<int32_t>(token), .label = label, .maximum = -HUGE_VALF};
        if (shape_.gives_loss) continue;
        row.maximum = call_.row_maximum[token];
        row.sum = call_.row_sum[token];
      } else if (shape_.gives_loss) {
        call_.row_maximum[token] = 0;
        call_.row_sum[token] = 1;
      }
    }
    block_.padded = round_up(block_.count, kRowMultiple);
    return token;
  }

  void run_block() {
    gather_block(block_, shape_.dtype, call_.x, plan_.operands_, rows_of_x());
    if (shape_.gives_dx)
      std::memset(sums_of_dx(), 0, static_cast<size_t>(block_.padded * shape_.hidden) * sizeof(float));
    if (plan_.work_ == Work::kExponentials) {
      run_with_exponentials();
      return;
    }
    if (shape_.gives_loss) {
      for_each_chunk([&](const VocabularyChunk& chunk) {
        make_logits(chunk, weight_of(chunk));
        add_statistics(block_, chunk);
      });
      finish_loss();
    }
    if (plan_.work_ == Work::kLoss) return;
    for_each_chunk([&](const VocabularyChunk& chunk) { add_gradients(chunk); });
    if (shape_.gives_dx) store_block(block_, sums_of_dx(), shape_.dtype, call_.dx);
  }

  template <typename Visit>
  void for_each_chunk(const Visit& visit) const {
    for (int64_t first = 0; first < shape_.vocabulary; first += plan_.columns_) {
      VocabularyChunk chunk{.first = first, .columns = std::min(plan_.columns_, shape_.vocabulary - first)};
      chunk.logits = plan_.operands_ == DType::kF32 ? static_cast<float*>(factors_of(chunk))
                                                    : part<float>(plan_.parts_.logits);
      visit(chunk);
    }
  }

  void add_gradients(const VocabularyChunk& chunk) const {
    const void* weight = weight_of(chunk);
    make_logits(chunk, weight);
    make_logit_gradients(block_, chunk, plan_.operands_, factors_of(chunk));
    if (shape_.gives_dx) add_to_dx(chunk, weight);
    if (shape_.gives_dweight) add_to_dweight(chunk, rows_of_x());
  }

  void run_with_exponentials() {
    const bool is_smoothed = call_.label_smoothing != 0.0F;
    const bool needs_sums = is_smoothed && shape_.gives_dx && !has_weight_sums_;
    if (needs_sums) clear_sums(weight_sums());
    for_each_chunk([&](const VocabularyChunk& chunk) {
      const void* weight = weight_of(chunk);
      make_logits(chunk, weight);
      make_exponentials(block_, chunk, plan_.operands_, factors_of(chunk),
                        shape_.gives_dx ? sums_of_dx() : nullptr, plan_.keeps_ ? maxima_of(chunk) : nullptr);
      if (shape_.gives_dx) add_to_dx(chunk, weight);
      if (needs_sums) add_column_sums(plan_.operands_, chunk.columns, shape_.hidden, weight, weight_sums());
    });
    has_weight_sums_ = has_weight_sums_ || needs_sums;
    finish_loss();
    if (shape_.gives_dx)
      store_block_of_exponentials(block_, sums_of_dx(), call_.weight, weight_sums(), shape_.dtype, call_.dx);
    if (plan_.keeps_) add_dweight_of_exponentials();
  }

  void add_dweight_of_exponentials() {
    const float* maxima_before = nullptr;
    for_each_chunk([&](const VocabularyChunk& chunk) {
      clear_labels(block_, chunk, plan_.operands_, factors_of(chunk));
      scale_rows(block_, maxima_of(chunk), maxima_before, plan_.operands_, rows_of_x(), rows_of_scaled_x());
      maxima_before = maxima_of(chunk);
      add_to_dweight(chunk, rows_of_scaled_x());
      add_label_gradients(block_, chunk, plan_.operands_, rows_of_x(), dweight_of(chunk));
    });
    if (call_.label_smoothing == 0.0F) return;
    if (!has_x_sums_) clear_sums(x_sums());
    has_x_sums_ = true;
    add_column_sums(plan_.operands_, block_.count, shape_.hidden, rows_of_x(), x_sums());
  }

  // In the tokens' order.
  void finish_loss() {
    for (int64_t i = 0; i < block_.count; ++i) {
      const VocabularyRow& row = block_.rows[i];
      call_.row_maximum[row.token] = row.maximum;
      call_.row_sum[row.token] = row.sum;
      loss_ += static_cast<double>(loss_of_row(block_, row));
      right_ += row.is_first && row.label_logit == row.maximum ? 1 : 0;
    }
  }

  const ChunkProducts& products_of(const VocabularyChunk& chunk) const {
    return plan_.products_[chunk.columns == plan_.columns_ ? 0 : 1];
  }
  void make_logits(const VocabularyChunk& chunk, const void* weight) const {
    products_of(chunk).logits->run(block_.padded, rows_of_x(), weight, nullptr, chunk.logits, library());
  }
  void add_to_dx(const VocabularyChunk& chunk, const void* weight) const {
    products_of(chunk).dx->run(block_.padded, factors_of(chunk), weight, nullptr, sums_of_dx(), library());
  }
  void add_to_dweight(const VocabularyChunk& chunk, const void* rows) const {
    float* dweight = dweight_of(chunk);
    float* made = adds_to_dweight_ ? part<float>(plan_.parts_.dweight) : dweight;
    products_of(chunk).dweight->run(block_.padded, factors_of(chunk), rows, nullptr, made, library());
    if (!adds_to_dweight_) return;
    add({.dtype = DType::kF32,
         .count = chunk.columns * shape_.hidden,
         .a = dweight,
         .b = made,
         .sum = dweight});
  }

  // A chunk of W as the products read it.
  const void* weight_of(const VocabularyChunk& chunk) const {
    const int64_t before = chunk.first * shape_.hidden;
    const auto* weight = static_cast<const std::byte*>(call_.weight) + before * dtype_bytes(shape_.dtype);
    if (plan_.operands_ == shape_.dtype) return weight;
    auto* widened = part<std::byte>(plan_.parts_.weight);
    cast({.count = chunk.columns * shape_.hidden,
          .from_dtype = shape_.dtype,
          .from = weight,
          .to_dtype = plan_.operands_,
          .to = widened});
    return widened;
  }

  // What was made of a chunk's logits for the products. Where it is kept, chunk lies behind chunk.
  void* factors_of(const VocabularyChunk& chunk) const {
    const int64_t before = plan_.keeps_ ? block_.padded * chunk.first * dtype_bytes(plan_.operands_) : 0;
    return part<std::byte>(plan_.parts_.factors + before);
  }
  float* maxima_of(const VocabularyChunk& chunk) const {
    return part<float>(plan_.parts_.maxima) + chunk.first / plan_.columns_ * block_.padded;
  }
  float* dweight_of(const VocabularyChunk& chunk) const {
    return call_.dweight + chunk.first * shape_.hidden;
  }
  void clear_sums(float* sums) const {
    std::memset(sums, 0, static_cast<size_t>(shape_.hidden) * sizeof(float));
  }
  std::byte* rows_of_x() const { return part<std::byte>(plan_.parts_.x); }
  std::byte* rows_of_scaled_x() const { return part<std::byte>(plan_.parts_.scaled_x); }
  float* sums_of_dx() const { return part<float>(plan_.parts_.dx); }
  float* weight_sums() const { return part<float>(plan_.parts_.weight_sums); }
  float* x_sums() const { return part<float>(plan_.parts_.x_sums); }
  std::byte* library() const { return part<std::byte>(plan_.parts_.library); }

  const VocabularyLoss& plan_;
  const VocabularyLossShape& shape_;
  const VocabularyLossCall& call_;
  VocabularyBlock block_;
  int64_t rows_ = 0;  // of a block
  bool adds_to_dweight_;
  bool has_weight_sums_ = false;
  bool has_x_sums_ = false;
  double loss_ = 0;
  int64_t right_ = 0;
};

void VocabularyLoss::run(const VocabularyLossCall& call) const {
  CHECK(call.tokens <= shape_.tokens, "{} tokens where {} were planned for", call.tokens, shape_.tokens);
  check_labels(call.labels, call.tokens, shape_.vocabulary);
  Run(*this, call).run();
}

}  // namespace shoehorn::cpu
