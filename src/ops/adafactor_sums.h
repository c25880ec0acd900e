// The sums over a whole parameter that an update of Adafactor reads, where processes have parts of it: each adds up what
// it has (op adafactor_sums), an all_reduce adds the processes' sums, and the update of each part reads those. In double,
// one parameter of a storage behind the other; of a parameter:
//
//   [M, 2C + 1]  of each of its matrices: of each column the sum of s, of each column the sum of g^2 / row, and the sum of
//                the row moments (exec/cpu/optimizers/adafactor.h has the letters); or
//   [1]          of a vector: the sum of u^2
//   [1]          with scale_parameter: the sum of w^2
#pragma once

#include <cstdint>

#include "graph/attributes.h"

namespace shoehorn {

struct AdafactorSums {
  int64_t matrices = 0;  // 0: a vector
  int64_t columns = 0;
  bool of_weights = false;  // scale_parameter

  int64_t of_matrix() const { return 2 * columns + 1; }
  int64_t weight_squares() const { return matrices == 0 ? 1 : matrices * of_matrix(); }  // where w^2 is
  int64_t size() const { return weight_squares() + (of_weights ? 1 : 0); }
};

inline AdafactorSums adafactor_sums_of(const ParameterMatrices& whole, bool is_factored,
                                       const AdafactorSettings& settings) {
  return {is_factored ? whole.matrices : 0, whole.columns, settings.scale_parameter};
}

}  // namespace shoehorn
