// Matrix products on the CPU: C[M, N] = op(A)·op(B) (+ bias[N]), row-major, fp32 accumulation.
//
// A product is planned once for its largest shape, and run for a run-time count of rows (M) or of the summed
// dimension (K). Library products have fixed shapes, so a count is served in pieces: the whole where it is
// full, else two or three times powers of two of the count's multiple, largest first. Planning a product says
// what workspace it takes; compile() makes the machine code of every piece; run() allocates nothing of size.
//
// Operands are fp32, bf16 or fp16, all of one type; C is of that type or fp32. Where the library has no
// product of a type for this machine (bf16 without AVX-512 BF16 or AMX; fp16 without AVX-512 FP16, or before
// oneDNN 3), its operands are multiplied as fp32 in panels: the same products, exactly, and the same sums up to
// their order. has_products_of() says which.
//
// This is the seam for other providers of products: only matmul_onednn.cc knows oneDNN.
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
  bool accumulate = false;  // C += …; fp32 results only
  DynamicDimension dynamic = DynamicDimension::kNone;
  int64_t count_multiple = 1;  // every run-time count is a multiple of it
  auto operator<=>(const MatmulShape&) const = default;
};

class Matmul {
 public:
  virtual ~Matmul() = default;
  virtual int64_t workspace_bytes() const = 0;
  // Once before run(), from one thread only; again is nothing.
  virtual void compile() const = 0;
  // `count` is M or K at run time where that dimension is dynamic; ignored otherwise. `workspace` is aligned
  // to 64 bytes.
  virtual void run(int64_t count, const void* a, const void* b, const float* bias, void* c,
                   void* workspace) const = 0;
};

// Products are shared: asking twice for a shape gives the same object. Call from one thread only.
std::shared_ptr<const Matmul> plan_matmul(const MatmulShape& shape);

// plan_matmul, compiled.
std::shared_ptr<const Matmul> prepare_matmul(const MatmulShape& shape);

// Gives back the products that nobody holds, and their code.
void release_unused_matmuls();

// Whether products of operands of this type run as such on this machine, with this library.
bool has_products_of(DType operands);

// Rows (tokens of a micro-batch) come in multiples of this where panels of the products are full: those of
// the weights' gradients sum over tokens, those of operands that are widened to fp32 are cut from rows.
int64_t rows_of_full_panels(DType operands);

// "oneDNN 2.6.3".
const char* matmul_library();

}  // namespace shoehorn::cpu
