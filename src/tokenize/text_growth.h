// Limits on how much longer a tokenizer may make a text. A file of a few lines can describe a chain that
// makes a text a billion times as long (replace "a" by "aa", thirty times); no memory would hold the result.
#pragma once

#include <cstddef>

namespace shoehorn {

// Called after each part of a chain. UserError if `after` bytes exceed both 1 MiB and a thousand times
// `before`.
void check_chain_growth(size_t before, size_t after);

// Called before each replacement. UserError if `after` bytes exceed both 16 MiB and four times `before`.
void check_replaced_size(size_t before, size_t after);

}  // namespace shoehorn
