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

int64_t ProgramFamily::runs_in_step(const Program& program, int64_t micro_batches) const {
  if (program.bucket() > 0) return 0;
  switch (program.kind()) {
    case ProgramKind::kTrainStep:
    case ProgramKind::kMicroBatchFirst:
    case ProgramKind::kUpdate:
    case ProgramKind::kReplicate:
      return 1;
    case ProgramKind::kMicroBatchNext:
      return std::max<int64_t>(0, micro_batches - (find(ProgramKind::kMicroBatchLast).valid() ? 2 : 1));
    case ProgramKind::kMicroBatchLast:
      return micro_batches > 1 ? 1 : 0;
    case ProgramKind::kExchange:
      return micro_batches == 1 ? 1 : 0;
    case ProgramKind::kEvaluate:
    case ProgramKind::kAfterLoad:
    case ProgramKind::kOuterUpdate:
      break;
  }
  return 0;
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
