// Matrix products on the CPU: C[M, N] = op(A)·op(B) (+ bias[N]), row-major, fp32 accumulation.
//
// A product is planned once for its largest shape, and run with a run-time count of rows (M) or of the summed
// dimension (K). Without AVX-512 the library's sgemm takes any count (sgemm_matmul.h). With it the library's products have fixed
// shapes: a full count runs as one product; any other is cut into pieces of 2^i or 3·2^i times the count's multiple, largest
// first. Sizes for which the library wants a result of each of many threads, and too much memory for them, are left out; a
// full count may then be cut, too.
// plan_matmul() tells the workspace, for the threads of the OpenMP team at that time; compile() makes the machine
// code of every piece; run() allocates nothing of size.
//
// Operands are fp32, bf16 or fp16, both of the same type; C is of that type or fp32. If the library has no
// fast product of a type for this machine (bf16 without AVX-512 BF16 or AMX, or without AMX on an Intel processor that has
// AVX-512 FP16; fp16 without AMX for fp16, or before oneDNN 3), the operands are widened to fp32 in panels: the products are
// exact, and only the order of the sums differs. has_products_of() tells which types are multiplied as they are.
//
// Products with one thin dimension are our own (thin_product.h). Another library of products could be added behind this
// header: only matmul_onednn.cc knows oneDNN.
#pragma once

#include <cstdint>
#include <memory>

#include "base/dtype.h"

namespace shoehorn::cpu {

enum class DynamicDimension : uint8_t { kNone, kM, kK };

struct MatmulShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;  // A is stored [K, M]
  bool transpose_b = false;  // B is stored [N, K]
  DType operands = DType::kF32;
  DType result = DType::kF32;
  bool bias = false;        // fp32 [N]
  bool accumulate = false;  // C += …; fp32 results, or few terms (thin_product.h)
  DynamicDimension dynamic = DynamicDimension::kNone;
  int64_t count_multiple = 1;  // every run-time count is a multiple of this
  auto operator<=>(const MatmulShape&) const = default;
};

class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual int64_t workspace_bytes() const = 0;
  // Call it before run(), from one thread only. Repeated calls do nothing.
  virtual void compile() const = 0;
  // `count` is M or K at run time if that dimension is dynamic, and ignored otherwise. `workspace` is 64-byte
  // aligned.
  virtual void run(int64_t count, const void* a, const void* b, const float* bias, void* c,
                   void* workspace) const = 0;
};

// Products are shared: the same shape gives the same object. Call it from one thread only.
std::shared_ptr<const Matmul> plan_matmul(const MatmulShape& shape);

// plan_matmul() and compile().
std::shared_ptr<const Matmul> prepare_matmul(const MatmulShape& shape);

// Frees the products that nobody holds, and their code.
void release_unused_matmuls();

// True if the library multiplies operands of this type natively on this machine, and faster than fp32.
bool has_products_of(DType operands);

// The number of rows (tokens of a micro-batch) whose multiples fill the panels of products. Gradients of
// weights sum over tokens, and operands that are widened to fp32 are cut into panels of rows.
int64_t rows_of_full_panels(DType operands);

// What the library takes at most while a product runs, besides the workspace. Nothing with AVX-512; else its copies of
// operands, which `threads` threads allocate for each product and free again.
int64_t bytes_while_running(int threads);

// "oneDNN 2.6.3".
const char* matmul_library();

}  // namespace shoehorn::cpu
