#include "tokenize/split_behavior.h"

#include <algorithm>

#include "tokenize/json_node.h"

namespace shoehorn {
namespace {

struct Segment {
  TextRange range;
  bool is_match;
};

std::vector<Segment> segments_of(std::span<const TextRange> matches, TextRange whole, bool invert) {
  std::vector<Segment> segments;
  segments.reserve(2 * matches.size() + 1);
  size_t last = whole.begin;
  for (const TextRange& match : matches) {
    if (last != match.begin) segments.push_back({{last, match.begin}, invert});
    segments.push_back({match, !invert});
    last = match.end;
  }
  if (last != whole.end) segments.push_back({{last, whole.end}, invert});
  return segments;
}

// Whether the segment joins the one before it in the order of the walk.
bool joins(SplitBehavior behavior, bool is_match, bool previous_match) {
  return behavior == SplitBehavior::kContiguous ? is_match == previous_match : is_match && !previous_match;
}

}  // namespace

SplitBehavior read_split_behavior(const JsonNode& node) {
  const std::string& name = node.text();
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  node.fail("one of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
}

void append_split(std::span<const TextRange> matches, TextRange whole, SplitBehavior behavior, bool invert,
                  std::vector<TextRange>& ranges) {
  const std::vector<Segment> segments = segments_of(matches, whole, invert);
  const auto first = static_cast<ptrdiff_t>(ranges.size());
  bool previous_match = false;
  const auto walk = [&](const Segment& segment) {
    const bool is_first = static_cast<ptrdiff_t>(ranges.size()) == first;
    if (!is_first && joins(behavior, segment.is_match, previous_match)) {
      TextRange& last = ranges.back();
      last = {std::min(last.begin, segment.range.begin), std::max(last.end, segment.range.end)};
    } else {
      ranges.push_back(segment.range);
    }
    previous_match = segment.is_match;
  };
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Segment& segment : segments)
        if (!segment.is_match) ranges.push_back(segment.range);
      break;
    case SplitBehavior::kIsolated:
      for (const Segment& segment : segments) ranges.push_back(segment.range);
      break;
    case SplitBehavior::kContiguous:
    case SplitBehavior::kMergedWithPrevious:
      for (const Segment& segment : segments) walk(segment);
      break;
    case SplitBehavior::kMergedWithNext:
      std::for_each(segments.rbegin(), segments.rend(), walk);
      std::reverse(ranges.begin() + first, ranges.end());
      break;
  }
  ranges.erase(std::remove_if(ranges.begin() + first, ranges.end(),
                              [](const TextRange& range) { return range.size() == 0; }),
               ranges.end());
}

}  // namespace shoehorn
