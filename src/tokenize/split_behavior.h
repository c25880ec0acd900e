// What happens to the matches at which a text is split, named as in `tokenizers`. "the-final--countdown" at
// "-":
//
//   Removed             the final countdown
//   Isolated            the - final - - countdown
//   MergedWithPrevious  the- final- - countdown
//   MergedWithNext      the -final - -countdown
//   Contiguous          the - final -- countdown
#pragma once

#include <span>
#include <vector>

#include "tokenize/text_range.h"

namespace shoehorn {

class JsonNode;

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// UserError: another name.
SplitBehavior read_split_behavior(const JsonNode& node);

// Appends the ranges that `whole` is split into at `matches`, which lie in it, in order and without overlap.
// With `invert` the text between the matches counts as the matches, and the reverse. No range is empty.
void append_split(std::span<const TextRange> matches, TextRange whole, SplitBehavior behavior, bool invert,
                  std::vector<TextRange>& ranges);

}  // namespace shoehorn
