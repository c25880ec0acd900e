// What becomes of the matches that a text is cut at, as `tokenizers` names it. "the-final--countdown" at "-":
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

// Appends what `whole` becomes, cut at `matches`, which are in it, in order, and do not overlap. With `invert` the
// text between the matches counts as matched, and the matches as what is between. No range is empty.
void append_split(std::span<const TextRange> matches, TextRange whole, SplitBehavior behavior, bool invert,
                  std::vector<TextRange>& ranges);

}  // namespace shoehorn
