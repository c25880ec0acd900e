// Products by the library's sgemm, which takes any number of rows or terms at run time: without AVX-512, where the library
// (oneDNN) has no layouts of B that are better than B as stored, and its products of fixed shapes are calls of sgemm, too.
// Private to matmul*.cc.
#pragma once

#include <cstdint>
#include <memory>

#include "exec/cpu/products/matmul.h"

namespace shoehorn::cpu {

// The workspace has B in fp32 and the rows or terms of A that are widened at a
// time, where operands have 16 bits; their C in fp32, where the result has 16 bits; or some terms of B in longer rows, where
// rows of A are few (sgemm_matmul.cc).
std::shared_ptr<const Matmul> make_sgemm_matmul(const MatmulShape& shape);

// The number of rows, and of terms, whose multiples fill what is widened at a time.
int64_t sgemm_rows_of_full_panels(DType operands);

}  // namespace shoehorn::cpu
