#include "passes/program_family.h"

#include <algorithm>
#include <tuple>

namespace shoehorn {

namespace {

bool has_room_for(const BatchCapacity& capacity, const BatchCapacity& needed) {
  return needed.tokens <= capacity.tokens && needed.sequences <= capacity.sequences &&
         needed.longest_sequence <= capacity.longest_sequence;
}

std::tuple<int64_t, int64_t, int64_t> size_of(const BatchCapacity& capacity) {
  return {capacity.tokens, capacity.longest_sequence, capacity.sequences};
}

}  // namespace

int32_t BatchBuckets::smallest_for(const BatchCapacity& needed) const {
  int32_t smallest = 0;
  for (int32_t bucket = 1; bucket < size(); ++bucket) {
    const BatchCapacity& capacity = (*this)[bucket];
    if (has_room_for(capacity, needed) && size_of(capacity) < size_of((*this)[smallest])) smallest = bucket;
  }
  return smallest;
}

bool ProgramFamily::shards_what_is_trained() const {
  return std::any_of(shards.begin(), shards.end(),
                     [](const ShardedStorage& shard) { return shard.is_trained; });
}

ProgramId ProgramFamily::find(ProgramKind kind, int32_t bucket) const {
  for (size_t i = 0; i < programs.size(); ++i) {
    if (programs[i].kind() == kind && programs[i].bucket() == bucket) return {static_cast<int32_t>(i)};
  }
  return {};
}

std::vector<ProgramId> ProgramFamily::all(ProgramKind kind) const {
  std::vector<ProgramId> found;
  for (int32_t bucket = 0;; ++bucket) {
    const ProgramId id = find(kind, bucket);
    if (!id.valid()) return found;
    found.push_back(id);
  }
}

}  // namespace shoehorn
