#include "ops/ring.h"

#include "base/error.h"
#include "base/rounding.h"

namespace shoehorn {

RingSegment ring_segment(int64_t elements, int64_t ranks, int64_t multiple) {
  return {elements, round_up(ceil_divide(elements, ranks), multiple)};
}

int64_t stored_elements(const std::vector<RingSegment>& segments) {
  int64_t elements = 0;
  for (const RingSegment& segment : segments) elements += segment.piece;
  return elements;
}

ElementRange part_of(const RingSegment& segment, int64_t part) {
  return {std::min(part * segment.piece, segment.elements),
          std::min((part + 1) * segment.piece, segment.elements)};
}

Ring::Ring(std::vector<RingSegment> segments, int64_t chunk_elements, int64_t ranks)
    : segments_(std::move(segments)), ranks_(ranks) {
  for (const RingSegment& segment : segments_) {
    CHECK(segment.piece * ranks >= segment.elements, "parts of {} of {} elements on {} ranks", segment.piece,
          segment.elements, ranks);
    elements_ += segment.elements;
  }
  stored_elements_ = shoehorn::stored_elements(segments_);
  CHECK(elements_ > 0 && ranks > 0, "a ring of {} ranks for {} elements", ranks, elements_);
  chunk_elements_ = chunk_elements > 0 ? chunk_elements : stored_elements_;
}

int64_t Ring::blocks() const {
  return ceil_divide(stored_elements_, chunk_elements_);
}

int64_t Ring::part_elements(int64_t part) const {
  int64_t elements = 0;
  for (const RingSegment& segment : segments_) elements += part_of(segment, around(part)).size();
  return elements;
}

int64_t Ring::chunk_elements(int64_t block, int64_t part) const {
  int64_t elements = 0;
  for_each_piece(block, part, [&](size_t, const ElementRange& range, int64_t) { elements += range.size(); });
  return elements;
}

bool is_chain(OpKind kind) {
  return kind == OpKind::kBroadcast || kind == OpKind::kReduce;
}

Ring ring_of(const CollectiveAttributes& attributes) {
  std::vector<RingSegment> all;
  for (const std::vector<RingSegment>& of_tensor : attributes.segments)
    all.insert(all.end(), of_tensor.begin(), of_tensor.end());
  return {std::move(all), attributes.chunk_elements, attributes.ranks};
}

int64_t place_in_group(const CollectiveAttributes& attributes, int64_t rank) {
  return rank / attributes.stride % attributes.ranks;
}

int64_t rank_at_place(const CollectiveAttributes& attributes, int64_t rank, int64_t place) {
  return rank + (place - place_in_group(attributes, rank)) * attributes.stride;
}

std::optional<int64_t> receiver_of(OpKind kind, const CollectiveAttributes& attributes, int64_t rank) {
  const int64_t place = place_in_group(attributes, rank);
  if (!is_chain(kind)) return rank_at_place(attributes, rank, (place + 1) % attributes.ranks);
  const int64_t next = kind == OpKind::kBroadcast ? place + 1 : place - 1;
  if (next < 0 || next == attributes.ranks) return std::nullopt;
  return rank_at_place(attributes, rank, next);
}

}  // namespace shoehorn
