// Products with one thin dimension, as those with the two factors of a low-rank adapter: r is the thin dimension, at most
// kMostFewTerms, and the others are much wider (ops/added_product.h).
//
//   kColumns   C[M, r] = A[M, K]·op(B)                        each element of A meets r of B
//   kTerms     C[M, N] = A[M, r]·op(B), or C += A·op(B)       each element of C is a sum of r terms
//   kSums      C[r, N] or C[M, r] = Aᵀ·B (+ C), sums over K   gradients of the two factors
//
// The wide operand goes past once, and is widened to fp32 on the way (of fast bfloat16 dots as it is: thin_product_dots.h);
// products are exact and sums are fp32. A library's product repacks operands and fills its tiles with so few columns or terms
// badly: it takes several times as long. Which products these are follows from their shape alone. Threads share rows, or
// columns of the sums, and each element is summed in order: bits depend on neither the number of threads nor the other rows.
#pragma once

#include <memory>
#include <optional>

#include "exec/cpu/products/matmul.h"
#include "ops/added_product.h"

namespace shoehorn::cpu {

enum class ThinForm : uint8_t { kColumns, kTerms, kSums };

// The form of such a product; none: it is not thin, has a bias, or has a result of a type that its form does not make.
// kColumns and kTerms make the operands' type, kSums makes fp32.
std::optional<ThinForm> thin_form(const MatmulShape& shape);

// Of a shape that has a form. The workspace has the operand or the result that is stored the other way round, transposed.
// `dots`: bfloat16 in dot products of pairs (thin_product_dots.h), where has_fast_bf16_dots().
std::shared_ptr<const Matmul> make_thin_product(const MatmulShape& shape, bool dots);

}  // namespace shoehorn::cpu
