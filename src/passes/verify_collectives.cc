#include "passes/verify_collectives.h"

#include <algorithm>
#include <map>
#include <variant>
#include <vector>

#include "base/error.h"
#include "ops/op_info.h"

namespace shoehorn {

namespace {

std::vector<const Node*> collectives_of(const Program& program) {
  std::vector<const Node*> found;
  for (const Node& node : program.nodes()) {
    if (std::holds_alternative<CollectiveAttributes>(node.attributes)) found.push_back(&node);
  }
  return found;
}

bool are_alike(const Program& first, const Node& one, const Program& second, const Node& other) {
  const auto& a = std::get<CollectiveAttributes>(one.attributes);
  const auto& b = std::get<CollectiveAttributes>(other.attributes);
  if (one.kind != other.kind || a.ranks != b.ranks || a.stride != b.stride || a.groups != b.groups ||
      a.chunk_elements != b.chunk_elements || a.segments != b.segments ||
      one.inputs.size() != other.inputs.size())
    return false;
  for (size_t i = 0; i < one.inputs.size(); ++i) {
    if (first.type(one.inputs[i]).dtype != second.type(other.inputs[i]).dtype) return false;
  }
  return true;
}

void expect_alike(const Program& first, const Program& second) {
  const std::vector<const Node*> one = collectives_of(first);
  const std::vector<const Node*> other = collectives_of(second);
  for (size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
    const bool same = i < one.size() && i < other.size() && are_alike(first, *one[i], second, *other[i]);
    CHECK(
        same,
        "programs {} (bucket {}) and {} (bucket {}), which ranks run beside each other, differ in collective {}",
        first.name(), first.bucket(), second.name(), second.bucket(), i);
  }
}

}  // namespace

void verify_collectives(const ProgramFamily& family) {
  std::map<ProgramKind, const Program*> first_of;
  for (const Program& program : family.programs) {
    // The exchange stands for a last micro-batch.
    const ProgramKind kind =
        program.kind() == ProgramKind::kExchange ? ProgramKind::kMicroBatchLast : program.kind();
    const auto [first, is_new] = first_of.try_emplace(kind, &program);
    if (!is_new) expect_alike(*first->second, program);
  }
}

}  // namespace shoehorn
