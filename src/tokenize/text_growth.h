// How much longer a tokenizer may make a text. A file of a few lines can describe a chain that makes a text a billion
// times as long ("a" becomes "aa", thirty times); no memory would hold it.
#pragma once

#include <cstddef>

namespace shoehorn {

// For a chain of parts, after each. UserError where `after` bytes are more than 1 MiB and a thousand times `before`.
void check_chain_growth(size_t before, size_t after);

// For one replacement, before it is made. UserError where `after` bytes are more than 16 MiB and four times `before`.
void check_replaced_size(size_t before, size_t after);

}  // namespace shoehorn
