// Products of few terms, whose result is added to what is there, as that of a low-rank adapter to its layer's product. Such a
// product costs little beside reading and writing C once, so that one kernel makes it and the sum. Where there are more
// terms, the library's product and a sum behind it are faster.
#pragma once

#include "ops/op_info.h"

namespace shoehorn {

inline constexpr int64_t kMostFewTerms = 16;

inline bool has_few_terms(int64_t terms, int64_t columns) {
  return terms <= kMostFewTerms && columns >= 64 && columns >= 8 * terms;
}

// Whether a matmul may have an addend: few terms, rows of A as they lie, a result of the operands' type, nothing else that is
// added.
bool takes_addend(const OpContext& product);

}  // namespace shoehorn
