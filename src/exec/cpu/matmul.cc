#include "exec/cpu/matmul.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "exec/cpu/column_blocks.h"
#include "exec/cpu/elementwise.h"
#include "exec/cpu/matmul_onednn.h"

namespace shoehorn::cpu {

namespace {

int64_t align(int64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// From this many rows of A on, turning B into the library's blocked layout first costs less than it gains:
// each element of B that is moved once serves 2·M operations. An fp32 B that is stored [N, K] serves the
// library as it is nearly as well. Measured on AVX-512 (docs/measurements.md).
constexpr int64_t kRowsThatPayForBlocking = 512;
constexpr int64_t kRowsThatPayForBlockingTransposed = 1024;

// Rows of A that are widened to fp32 at a time, so that they are still in cache when the product reads them.
constexpr int64_t kPanelRows = 256;

// Terms of an fp32 sum at a time: as fast as all at once, with a fraction of the workspace for B's blocks.
constexpr int64_t kPanelTerms = 512;

// The sizes that a dimension is served in, largest first. Of a run-time count: the largest, then 2^i and
// 3·2^i times the multiple. Of a fixed one: the largest and the rest.
std::vector<int64_t> piece_sizes(int64_t maximum, int64_t largest, const MatmulShape& shape) {
  if (shape.dynamic == DynamicDimension::kNone) {
    std::vector<int64_t> sizes = {std::min(largest, maximum)};
    if (maximum % sizes[0] != 0) sizes.push_back(maximum % sizes[0]);
    return sizes;
  }
  const int64_t multiple = shape.count_multiple;
  std::vector<int64_t> sizes = {std::min(maximum, std::max(multiple, largest / multiple * multiple))};
  for (int64_t size = multiple; size < sizes[0]; size *= 2) {
    sizes.push_back(size);
    if (size > multiple && size * 3 / 2 < sizes[0]) sizes.push_back(size * 3 / 2);
  }
  std::sort(sizes.begin() + 1, sizes.end(), std::greater<>());
  return sizes;
}

ProductShape product_shape(const MatmulShape& shape, DType operands, DType result, int64_t blocks_for_rows) {
  return {.m = shape.m,
          .n = shape.n,
          .k = shape.k,
          .row_stride_a = shape.transpose_a ? 1 : shape.k,
          .column_stride_a = shape.transpose_a ? shape.m : 1,
          .row_stride_b = shape.transpose_b ? 1 : shape.n,
          .column_stride_b = shape.transpose_b ? shape.k : 1,
          .row_stride_c = shape.n,
          .operands = operands,
          .result = result,
          .bias = shape.bias,
          .accumulate = shape.accumulate,
          .blocks_for_rows = blocks_for_rows};
}

const std::byte* at(const void* base, int64_t elements, DType dtype) {
  return static_cast<const std::byte*>(base) + elements * dtype_bytes(dtype);
}

void check_cut(const MatmulShape& shape) {
  CHECK(shape.dynamic != DynamicDimension::kM || !shape.transpose_a,
        "rows of a transposed operand cannot be cut");
  CHECK(shape.dynamic != DynamicDimension::kK || (shape.transpose_a && !shape.transpose_b),
        "the summed dimension cannot be cut");
  CHECK(shape.dynamic != DynamicDimension::kK || (!shape.bias && shape.result == DType::kF32),
        "sums of a run-time length are fp32 and have no bias");
  CHECK(!shape.accumulate || shape.result == DType::kF32, "only fp32 results accumulate");
}

// One piece of the cut dimension.
struct Piece {
  int64_t size;
  std::shared_ptr<const Move> move;  // of this piece's B where the sum is cut, else of the whole B
  std::shared_ptr<const Product> first;
  std::shared_ptr<const Product> rest;  // adds to what the pieces before it left
};

// Workspace: B as the products take it, A and C of a piece in fp32 where they are stored in 16 bits and the
// library multiplies fp32 only, what the library asks for. B is moved by us where the library wants column
// blocks, else by the library, which widens bf16 meanwhile; its fp16 would go element by element, so that an
// fp16 B is widened by us then, into a part of its own.
class PiecewiseMatmul final : public Matmul {
 public:
  PiecewiseMatmul(const MatmulShape& shape, bool widens) : shape_(shape), widens_(widens) {
    check_cut(shape);
    cuts_sum_ = shape.dynamic == DynamicDimension::kK;
    narrows_ = widens && shape.result != DType::kF32;
    const int64_t length = cuts_sum_ ? shape.k : shape.m;
    const DType operands = widens ? DType::kF32 : shape.operands;
    const DType result = widens ? DType::kF32 : shape.result;
    // Rows of a transposed A do not lie together: it is widened whole.
    int64_t largest_piece = length;
    if (cuts_sum_ && operands == DType::kF32) largest_piece = kPanelTerms;
    if (!cuts_sum_ && widens && !shape.transpose_a) largest_piece = kPanelRows;
    const int64_t rows_that_pay = shape.transpose_b && shape.operands == DType::kF32
                                      ? kRowsThatPayForBlockingTransposed
                                      : kRowsThatPayForBlocking;
    const int64_t blocks_for_rows = shape.m >= rows_that_pay ? shape.m : 0;
    const bool is_half = shape.operands == DType::kF16;
    int64_t library_bytes = 0;
    for (const int64_t size : piece_sizes(length, largest_piece, shape)) {
      MatmulShape cut = shape;
      (cuts_sum_ ? cut.k : cut.m) = size;
      ProductShape product = product_shape(cut, operands, result, blocks_for_rows);
      Piece piece{.size = size,
                  .move = plan_move({product, is_half ? DType::kF32 : shape.operands}),
                  .first = plan_product(product),
                  .rest = {}};
      product.accumulate = true;
      piece.rest = cuts_sum_ ? plan_product(product) : piece.first;
      library_bytes =
          std::max({library_bytes, piece.first->workspace_bytes(), piece.rest->workspace_bytes()});
      if (!piece.move->is_column_blocks()) {
        library_bytes = std::max(library_bytes, piece.move->workspace_bytes());
        widens_b_ = is_half;
      }
      b_offset_ = std::max(b_offset_, align(piece.move->moved_bytes()));
      pieces_.push_back(std::move(piece));
    }
    const int64_t largest = pieces_.front().size;
    a_offset_ = b_offset_ + (widens_b_ ? align((cuts_sum_ ? largest : shape.k) * shape.n * 4) : 0);
    c_offset_ = a_offset_ + (widens ? align(largest * a_row() * 4) : 0);
    library_offset_ = c_offset_ + (narrows_ ? align(largest * shape.n * 4) : 0);
    workspace_bytes_ = library_offset_ + library_bytes;
  }

  int64_t workspace_bytes() const override { return workspace_bytes_; }

  void compile() const override {
    for (const Piece& piece : pieces_) {
      if (!piece.move->is_column_blocks()) piece.move->compile();
      piece.first->compile();
      piece.rest->compile();
    }
  }

  void run(int64_t count, const void* a, const void* b, const float* bias, void* c,
           void* workspace) const override {
    if (shape_.dynamic == DynamicDimension::kNone) count = shape_.m;
    auto* scratch = static_cast<std::byte*>(workspace);
    if (count == 0) {
      // An empty sum is zero; no rows are no work.
      if (cuts_sum_ && !shape_.accumulate) std::memset(c, 0, static_cast<size_t>(shape_.m * shape_.n) * 4);
      return;
    }
    const void* moved_b = cuts_sum_ ? nullptr : moved(pieces_.front(), b, scratch);
    int64_t done = 0;
    for (const Piece& piece : pieces_) {
      for (; count - done >= piece.size; done += piece.size) {
        const void* a_piece = widened(at(a, done * a_row(), shape_.operands), piece.size, scratch);
        if (cuts_sum_) {
          const Product& product = done == 0 ? *piece.first : *piece.rest;
          product.run(a_piece, moved(piece, at(b, done * shape_.n, shape_.operands), scratch), bias, c,
                      scratch + library_offset_);
        } else {
          auto* c_piece = const_cast<std::byte*>(at(c, done * shape_.n, shape_.result));
          piece.first->run(a_piece, moved_b, bias, narrows_ ? scratch + c_offset_ : c_piece,
                           scratch + library_offset_);
          if (narrows_) narrow(scratch + c_offset_, piece.size * shape_.n, c_piece);
        }
      }
    }
    CHECK(done == count, "a count of {} is not a multiple of {} rows", count, pieces_.back().size);
  }

 private:
  // Elements between the starts of two steps along the cut dimension of A.
  int64_t a_row() const { return cuts_sum_ ? shape_.m : shape_.k; }

  const void* moved(const Piece& piece, const void* b, std::byte* scratch) const {
    if (piece.move->is_column_blocks()) {
      make_column_blocks({.dtype = shape_.operands,
                          .k = cuts_sum_ ? piece.size : shape_.k,
                          .n = shape_.n,
                          .transposed = shape_.transpose_b,
                          .b = b,
                          .blocks = reinterpret_cast<float*>(scratch)});
      return scratch;
    }
    if (widens_b_) {
      const int64_t count = (cuts_sum_ ? piece.size : shape_.k) * shape_.n;
      widen(b, count, scratch + b_offset_);
      b = scratch + b_offset_;
    }
    if (piece.move->is_idle()) return b;
    piece.move->run(b, scratch, scratch + library_offset_);
    return scratch;
  }

  const void* widened(const void* a, int64_t rows, std::byte* scratch) const {
    if (!widens_) return a;
    widen(a, rows * a_row(), scratch + a_offset_);
    return scratch + a_offset_;
  }

  void widen(const void* from, int64_t count, void* to) const {
    cast({.count = count, .from_dtype = shape_.operands, .from = from, .to_dtype = DType::kF32, .to = to});
  }
  void narrow(const void* from, int64_t count, void* to) const {
    cast({.count = count, .from_dtype = DType::kF32, .from = from, .to_dtype = shape_.result, .to = to});
  }

  MatmulShape shape_;
  bool widens_;
  bool cuts_sum_ = false;
  bool narrows_ = false;
  bool widens_b_ = false;
  std::vector<Piece> pieces_;
  int64_t b_offset_ = 0;
  int64_t a_offset_ = 0;
  int64_t c_offset_ = 0;
  int64_t library_offset_ = 0;
  int64_t workspace_bytes_ = 0;
};

// Whether operands of this type are multiplied as fp32.
bool widens(DType operands) {
  return operands == DType::kF16 || (operands == DType::kBF16 && !has_bf16_products());
}

std::map<MatmulShape, std::shared_ptr<const Matmul>>& known_matmuls() {
  static std::map<MatmulShape, std::shared_ptr<const Matmul>> known;
  return known;
}

}  // namespace

std::shared_ptr<const Matmul> plan_matmul(const MatmulShape& shape) {
  std::shared_ptr<const Matmul>& matmul = known_matmuls()[shape];
  if (matmul == nullptr) {
    matmul = std::make_shared<const PiecewiseMatmul>(shape, widens(shape.operands));
  }
  return matmul;
}

std::shared_ptr<const Matmul> prepare_matmul(const MatmulShape& shape) {
  auto matmul = plan_matmul(shape);
  matmul->compile();
  return matmul;
}

void release_unused_matmuls() {
  std::erase_if(known_matmuls(), [](const auto& entry) { return entry.second.use_count() == 1; });
  release_unused_products();
}

int64_t rows_of_full_panels(DType operands) {
  if (operands == DType::kBF16 && has_bf16_products()) return 1;  // such products are cut nowhere
  return widens(operands) ? std::lcm(kPanelRows, kPanelTerms) : kPanelTerms;
}

}  // namespace shoehorn::cpu
