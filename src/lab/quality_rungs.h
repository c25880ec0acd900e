// The rungs of `bench quality`, as data: techniques one by one and together, each a set of flags that
// `shoehorn train` takes as they stand, behind those that all rungs share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/rungs.h"

namespace shoehorn {

// What the numbers of a rung have to do with those of another one, run with the same seed.
enum class Promise : uint8_t {
  kNothing,   // other maths: another optimizer, precision or batch
  kRounding,  // sums are taken in another order
  kEveryBit,
};

struct QualityRung : Rung {
  Promise promise = Promise::kNothing;
  std::string equals = {};  // the other rung's name
};

// What the reference trains with; other rungs divide, multiply and accumulate it.
struct QualityBase {
  int64_t batch_size = 8;  // per_device_train_batch_size, a multiple of 4
  double learning_rate = 5e-5;
};

// "reference" first: fp32, AdamW, the batch as it is. UserError for a batch that is not a multiple of 4.
std::vector<QualityRung> quality_rungs(const QualityBase& base);

// Those that are named, the reference, and those that a chosen one equals; no names are all of them.
std::vector<QualityRung> choose_quality_rungs(const QualityBase& base, const std::vector<std::string>& names);

// Flags that rungs set, other than the base's two: what all rungs share must leave them alone.
std::vector<std::string> flags_of_quality_rungs();

}  // namespace shoehorn
