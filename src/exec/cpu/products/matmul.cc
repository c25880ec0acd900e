#include "exec/cpu/products/matmul.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "base/rounding.h"
#include "exec/cpu/elementwise/column_blocks.h"
#include "exec/cpu/elementwise/columns.h"
#include "exec/cpu/parallel.h"
#include "exec/cpu/products/matmul_onednn.h"
#include "exec/cpu/products/sgemm_matmul.h"
#include "exec/cpu/products/thin_product.h"
#include "exec/cpu/simd/bf16_dots.h"
#include "exec/cpu/workspace_parts.h"

namespace shoehorn::cpu {

namespace {

// From this many rows of A on, repacking B into the library's blocked layout is worth its cost: each moved element of B
// serves 2·M operations. A B that is stored [N, K] works nearly as well without repacking, unless it is widened on the way.
// Found by experiment on AVX-512.
constexpr int64_t kRowsThatPayForBlocking = 512;
constexpr int64_t kRowsThatPayForBlockingTransposed = 1024;

// Rows of A that are widened to fp32 at a time, so that they are still in cache when the product reads them.
constexpr int64_t kPanelRows = 256;

// Terms of an fp32 sum at a time: as fast as all at once, with a fraction of the workspace for B's blocks.
constexpr int64_t kPanelTerms = 512;

// The largest number of columns of B that are in blocks at a time, if that halves the workspace. The library
// needs a dense C, so a strip of C is then made in the workspace. Where C would not be made there anyway,
// this costs 2% of the product's time for 512 rows (7% for 2048, but there C is too large for anything to be
// halved).
constexpr int64_t kStripColumns = 1024;

// The sizes in which a dimension is processed, largest first. For a run-time count: the largest, then 2^i and
// 3·2^i times the multiple. For a fixed dimension: the largest and the remainder. Fewer sizes mean more calls
// per count, and fewer products in memory: oneDNN 3 keeps a description with each that is larger than its
// code.
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

// The most that a piece's B, moved, and the library may take: what each thread packs, and all operands and the result in
// fp32; operands of 16 bits twice. The null backend, which plans for machines that are not here, counts on it. Where a long
// sum has few results for many threads, the library makes one of each thread: a gigabyte on 96 for a weight of 3072x768.
// (oneDNN 2.6.3 from some 16 threads on: of 16-bit weight gradients with AVX-512, if the terms are a power of two and 2048 or
// more; with AMX of any 16-bit product of more than 1024 terms.)
int64_t most_piece_bytes(const MatmulShape& shape) {
  const int64_t packed = std::max(int64_t{4} << 20, omp_get_max_threads() * (int64_t{288} << 10));
  const int64_t copies = 4 / dtype_bytes(shape.operands);
  return packed + (copies * shape.k * (shape.m + shape.n) + shape.m * shape.n) * 4;
}

// An operand, or a part of it, as it is stored.
struct StoredRows {
  int64_t rows;
  int64_t columns;

  int64_t widened_bytes() const { return rows * columns * 4; }
};

void check_cut(const MatmulShape& shape) {
  CHECK(shape.dynamic != DynamicDimension::kM || !shape.transpose_a,
        "rows of a transposed operand cannot be cut");
  CHECK(shape.dynamic != DynamicDimension::kK || (shape.transpose_a && !shape.transpose_b),
        "the summed dimension cannot be cut");
  CHECK(shape.dynamic != DynamicDimension::kK || (!shape.bias && shape.result == DType::kF32),
        "sums of a run-time length are fp32 and have no bias");
  CHECK(!shape.accumulate || shape.result == DType::kF32, "only fp32 results accumulate");
  CHECK(shape.result == DType::kF32 || shape.result == shape.operands, "no product of {} gives {}",
        dtype_name(shape.operands), dtype_name(shape.result));
}

// One piece of the cut dimension.
struct Piece {
  int64_t size = 0;
  std::shared_ptr<const Move> move;  // of the strip's B; where the sum is cut, of this piece's terms of it
  std::shared_ptr<const Product> first;
  std::shared_ptr<const Product> rest;  // adds to what the pieces before it left

  int64_t library_bytes() const {
    return std::max({first->workspace_bytes(), rest->workspace_bytes(), move->workspace_bytes()});
  }
};

// Some columns of B and C, and how the cut dimension is served there.
struct Strip {
  int64_t first;
  int64_t columns;
  std::vector<Piece> pieces;
};

// The workspace has: B in the form that the products read; A of a piece in fp32, if it is stored in 16 bits
// and the library multiplies only fp32; C of a piece and strip, if C has 16 bits in that case or there are
// several strips; and what the library asks for. If the library wants column blocks, we repack B, a strip at a
// time. Otherwise the library repacks all of B, and widens it on the way where it can (widens_fast). Else we widen B first,
// into a part of its own.
class PiecewiseMatmul final : public Matmul {
 public:
  PiecewiseMatmul(const MatmulShape& shape, bool widens) : shape_(shape), widens_(widens) {
    cuts_sum_ = shape.dynamic == DynamicDimension::kK;
    stages_ = widens && shape.result != DType::kF32;
    const int64_t columns = strip_columns();
    const std::vector<int64_t> sizes = fitting_sizes(columns);
    for (int64_t first = 0; first < shape.n; first += columns) {
      const int64_t here = std::min(columns, shape.n - first);
      strips_.push_back({first, here, plan_pieces(here, sizes)});
    }
    stages_ = stages_ || strips_.size() > 1;
    int64_t library_bytes = 0;
    for_each_piece([&](const Piece& piece) {
      library_bytes = std::max(library_bytes, piece.library_bytes());
      widens_b_ = widens_b_ || (we_widen_b() && !piece.move->is_column_blocks());
      b_offset_ = std::max(b_offset_, part_bytes(piece.move->moved_bytes()));
    });
    const int64_t largest = strips_.front().pieces.front().size;
    const int64_t terms = cuts_sum_ ? largest : shape.k;
    a_offset_ = b_offset_ + (widens_b_ ? part_bytes(stored_b(terms).widened_bytes()) : 0);
    c_offset_ = a_offset_ + (widens ? part_bytes(stored_a(largest).widened_bytes()) : 0);
    library_offset_ = c_offset_ + (stages_ ? part_bytes(largest * strips_.front().columns * 4) : 0);
    workspace_bytes_ = library_offset_ + library_bytes;
  }

  int64_t workspace_bytes() const override { return workspace_bytes_; }

  void compile() const override {
    for_each_piece([](const Piece& piece) {
      piece.move->compile();
      piece.first->compile();
      piece.rest->compile();
    });
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
    if (cuts_sum_) {
      run_sums(count, a, b, static_cast<float*>(c), scratch);
    } else {
      for (const Strip& strip : strips_) run_rows(strip, count, a, b, bias, c, scratch);
    }
  }

 private:
  // The sizes of the cut dimension's pieces, largest first.
  std::vector<int64_t> sizes() const {
    const int64_t length = cuts_sum_ ? shape_.k : shape_.m;
    int64_t largest = length;
    if (cuts_sum_ && (widens_ || shape_.operands == DType::kF32)) largest = kPanelTerms;
    // Rows of a transposed A do not lie together: it is widened whole.
    if (!cuts_sum_ && widens_ && !shape_.transpose_a) largest = kPanelRows;
    return piece_sizes(length, largest, shape_);
  }

  // Of one piece of the cut dimension and `columns` of B's columns; its C is dense.
  ProductShape product_of(int64_t columns, int64_t size) const {
    const StoredRows a = stored_a(size), b = stored_b(shape_.k);
    return {.m = cuts_sum_ ? shape_.m : size,
            .n = columns,
            .k = cuts_sum_ ? size : shape_.k,
            .row_stride_a = shape_.transpose_a ? 1 : a.columns,
            .column_stride_a = shape_.transpose_a ? a.columns : 1,
            .row_stride_b = shape_.transpose_b ? 1 : b.columns,
            .column_stride_b = shape_.transpose_b ? b.columns : 1,
            .operands = widens_ ? DType::kF32 : shape_.operands,
            .result = widens_ ? DType::kF32 : shape_.result,
            .bias = shape_.bias,
            .accumulate = shape_.accumulate,
            .blocks_for_rows = shape_.m >= rows_that_pay() ? shape_.m : 0};
  }

  // A of `size` of the cut dimension; of a sum that many terms.
  StoredRows stored_a(int64_t size) const {
    if (!shape_.transpose_a) return {size, shape_.k};
    return {cuts_sum_ ? size : shape_.k, shape_.m};
  }

  StoredRows stored_b(int64_t terms) const {
    return shape_.transpose_b ? StoredRows{shape_.n, terms} : StoredRows{terms, shape_.n};
  }

  // And not the library, as it moves B.
  bool we_widen_b() const { return widens_ && !widens_fast(shape_.operands); }

  int64_t rows_that_pay() const {
    const bool is_widened = widens_ && shape_.operands != DType::kF32;
    return shape_.transpose_b && !is_widened ? kRowsThatPayForBlockingTransposed : kRowsThatPayForBlocking;
  }

  std::shared_ptr<const Move> move_of(const ProductShape& product) const {
    return plan_move({product, we_widen_b() ? DType::kF32 : shape_.operands});
  }

  // The sizes of pieces that take no more than most_piece_bytes(). They serve any count if the smallest size is one of them.
  std::vector<int64_t> fitting_sizes(int64_t columns) const {
    const std::vector<int64_t> all = sizes();
    if (shape_.dynamic == DynamicDimension::kNone) return all;
    std::vector<int64_t> fitting;
    for (const Piece& piece : plan_pieces(columns, all)) {
      const int64_t bytes = piece.move->moved_bytes() + piece.library_bytes();
      if (bytes <= most_piece_bytes(shape_)) fitting.push_back(piece.size);
    }
    return !fitting.empty() && fitting.back() == all.back() ? fitting : all;
  }

  std::vector<Piece> plan_pieces(int64_t columns, const std::vector<int64_t>& sizes) const {
    std::vector<Piece> pieces;
    for (const int64_t size : sizes) {
      ProductShape product = product_of(columns, size);
      Piece& piece = pieces.emplace_back();
      piece.size = size;
      piece.move = move_of(product);
      piece.first = plan_product(product);
      product.accumulate = true;
      piece.rest = cuts_sum_ ? plan_product(product) : piece.first;
    }
    return pieces;
  }

  // Columns of all strips but the last: whole blocks, about as many in each. A staged C cannot accumulate.
  int64_t strip_columns() const {
    const int64_t rows = sizes().front();
    const int64_t even = ceil_divide(shape_.n, ceil_divide(shape_.n, kStripColumns));
    const int64_t columns = round_up(even, kBlockColumns);
    const int64_t in_strips = (shape_.k + rows) * columns;
    const int64_t whole = (shape_.k + (stages_ ? rows : 0)) * shape_.n;
    const ProductShape product = product_of(std::min(columns, shape_.n), rows);
    if (cuts_sum_ || shape_.accumulate || product.blocks_for_rows == 0 || 2 * in_strips >= whole)
      return shape_.n;
    const ProductShape last = product_of((shape_.n - 1) % columns + 1, rows);
    if (move_of(product)->is_column_blocks() && move_of(last)->is_column_blocks()) return columns;
    release_unused_products();
    return shape_.n;
  }

  template <typename Visit>
  void for_each_piece(Visit visit) const {
    for (const Strip& strip : strips_) {
      for (const Piece& piece : strip.pieces) visit(piece);
    }
  }

  // Calls run(i, done) for piece i of a strip behind `done` of the cut dimension.
  template <typename Run>
  void serve(int64_t count, Run run) const {
    const std::vector<Piece>& pieces = strips_.front().pieces;  // of the same sizes in every strip
    int64_t done = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      for (; count - done >= pieces[i].size; done += pieces[i].size) run(i, done);
    }
    CHECK(done == count, "a count of {} is not a multiple of {} rows", count, pieces.back().size);
  }

  // In one strip.
  void run_sums(int64_t count, const void* a, const void* b, float* c, std::byte* scratch) const {
    const Strip& strip = strips_.front();
    serve(count, [&](size_t i, int64_t done) {
      const Piece& piece = strip.pieces[i];
      const Product& product = done == 0 ? *piece.first : *piece.rest;
      const void* a_piece = widened(element_at(a, done * shape_.m, shape_.operands), piece.size, scratch);
      const void* b_piece =
          moved(strip, piece, piece.size, element_at(b, done * shape_.n, shape_.operands), scratch);
      product.run(a_piece, b_piece, nullptr, c, scratch + library_offset_);
    });
  }

  void run_rows(const Strip& strip, int64_t count, const void* a, const void* b, const float* bias, void* c,
                std::byte* scratch) const {
    const void* moved_b = moved(strip, strip.pieces.front(), shape_.k, b, scratch);
    if (bias != nullptr) bias += strip.first;
    serve(count, [&](size_t i, int64_t done) {
      const Piece& piece = strip.pieces[i];
      const void* a_piece = widened(element_at(a, done * shape_.k, shape_.operands), piece.size, scratch);
      auto* c_rows = const_cast<std::byte*>(element_at(c, done * shape_.n, shape_.result));
      if (!stages_) {
        piece.first->run(a_piece, moved_b, bias, c_rows, scratch + library_offset_);
        return;
      }
      auto* sums = reinterpret_cast<float*>(scratch + c_offset_);
      piece.first->run(a_piece, moved_b, bias, sums, scratch + library_offset_);
      put_columns({.dtype = shape_.result,
                   .rows = piece.size,
                   .columns = shape_.n,
                   .offset = strip.first,
                   .width = strip.columns,
                   .x = sums,
                   .y = c_rows});
    });
  }

  // `k` rows of B, from b on, as the piece's product takes the strip's columns of them.
  const void* moved(const Strip& strip, const Piece& piece, int64_t k, const void* b,
                    std::byte* scratch) const {
    if (piece.move->is_column_blocks()) {
      const int64_t row_stride = shape_.transpose_b ? shape_.k : shape_.n;
      make_column_blocks(
          {.dtype = shape_.operands,
           .k = k,
           .n = strip.columns,
           .transposed = shape_.transpose_b,
           .row_stride = row_stride,
           .b = element_at(b, strip.first * (shape_.transpose_b ? row_stride : 1), shape_.operands),
           .blocks = reinterpret_cast<float*>(scratch)});
      return scratch;
    }
    if (widens_b_) {
      widen(b, stored_b(k), scratch + b_offset_);
      b = scratch + b_offset_;
    }
    if (piece.move->is_idle()) return b;
    if (piece.move->is_column_pair_blocks()) {
      make_column_pair_blocks({.k = k,
                               .n = strip.columns,
                               .transposed = shape_.transpose_b,
                               .row_stride = shape_.transpose_b ? shape_.k : shape_.n,
                               .b = static_cast<const uint16_t*>(b),
                               .blocks = reinterpret_cast<uint16_t*>(scratch)});
      return scratch;
    }
    piece.move->run(b, scratch, scratch + library_offset_);
    return scratch;
  }

  // A from there on, of a piece of that size.
  const void* widened(const void* a, int64_t size, std::byte* scratch) const {
    if (!widens_) return a;
    widen(a, stored_a(size), scratch + a_offset_);
    return scratch + a_offset_;
  }

  void widen(const void* from, const StoredRows& stored, std::byte* to) const {
    widen_rows({.dtype = shape_.operands,
                .rows = stored.rows,
                .columns = stored.columns,
                .stride = stored.columns,
                .x = from,
                .y = reinterpret_cast<float*>(to)});
  }

  MatmulShape shape_;
  bool widens_;
  bool cuts_sum_ = false;
  bool stages_ = false;  // C of a piece is made in the workspace
  bool widens_b_ = false;
  std::vector<Strip> strips_;  // where there are several, all take B in column blocks and C is staged
  int64_t b_offset_ = 0;
  int64_t a_offset_ = 0;
  int64_t c_offset_ = 0;
  int64_t library_offset_ = 0;
  int64_t workspace_bytes_ = 0;
};

// Plans may be made by several threads. Held while a product is made or released, and with it what it is made of.
std::mutex& mutex_of_known() {
  static std::mutex mutex;
  return mutex;
}

std::map<MatmulShape, std::shared_ptr<const Matmul>>& known_matmuls() {
  static std::map<MatmulShape, std::shared_ptr<const Matmul>> known;
  return known;
}

}  // namespace

std::shared_ptr<const Matmul> plan_matmul(const MatmulShape& shape) {
  const std::lock_guard lock(mutex_of_known());
  std::shared_ptr<const Matmul>& matmul = known_matmuls()[shape];
  if (matmul == nullptr) {
    if (thin_form(shape)) {
      matmul = make_thin_product(shape, has_fast_bf16_dots() && has_products_of(DType::kBF16));
    } else {
      check_cut(shape);
      if (has_blocked_layouts()) {
        matmul = std::make_shared<const PiecewiseMatmul>(shape, !has_products_of(shape.operands));
      } else {
        matmul = make_sgemm_matmul(shape);
      }
    }
  }
  return matmul;
}

std::shared_ptr<const Matmul> prepare_matmul(const MatmulShape& shape) {
  auto matmul = plan_matmul(shape);
  matmul->compile();
  return matmul;
}

void release_unused_matmuls() {
  const std::lock_guard lock(mutex_of_known());
  std::erase_if(known_matmuls(), [](const auto& entry) { return entry.second.use_count() == 1; });
  release_unused_products();
}

int64_t rows_of_full_panels(DType operands) {
  if (!has_blocked_layouts()) return sgemm_rows_of_full_panels(operands);
  if (!has_products_of(operands)) return std::lcm(kPanelRows, kPanelTerms);
  return operands == DType::kF32 ? kPanelTerms : 1;  // products of 16 bits have no panels
}

}  // namespace shoehorn::cpu
