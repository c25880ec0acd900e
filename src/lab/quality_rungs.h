// The rungs of `bench quality`, as data: single techniques and combinations. Each is a set of flags for
// `shoehorn train`, added to those that all rungs share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/rungs.h"

namespace shoehorn {

// How the numbers of a rung relate to those of another rung with the same seed.
enum class Promise : uint8_t {
  kNothing,   // other maths: optimizer, precision or batch
  kRounding,  // sums may be added in another order
  kEveryBit,
};

struct QualityRung : Rung {
  Promise promise = Promise::kNothing;
  std::string equals = {};  // the other rung's name
};

// The reference's settings, from which other rungs derive theirs.
struct QualityBase {
  int64_t batch_size = 8;  // per_device_train_batch_size, a multiple of 4
  double learning_rate = 5e-5;
};

// "reference" comes first: fp32, AdamW, the given batch. UserError if the batch is no multiple of 4.
std::vector<QualityRung> quality_rungs(const QualityBase& base);

// The named rungs, the reference, and the rungs that these must equal; no names mean all.
std::vector<QualityRung> choose_quality_rungs(const QualityBase& base, const std::vector<std::string>& names);

// Flags that rungs set, besides the base's two. The shared flags must not contain them.
std::vector<std::string> flags_of_quality_rungs();

}  // namespace shoehorn
