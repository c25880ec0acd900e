#include "train/step_share.h"

#include <algorithm>

#include "ops/op_info.h"

namespace shoehorn {

StepShare::StepShare(const std::vector<Program>& programs) {
  for (const Program& program : programs) {
    Work work{.kind = program.kind(),
              .is_of_step = program.traits().trains || program.traits().updates,
              .before = {}};
    double flops = 0;
    for (const Node& node : program.nodes()) {
      work.before.push_back(flops);
      flops += op_info(node.kind).cost({program, node}).flops;
    }
    work.before.push_back(flops);
    programs_.push_back(std::move(work));
  }
}

void StepShare::begin_step(int64_t micro_batches) {
  of_step_ = finished_ = 0;
  running_.reset();
  std::vector<ProgramKind> counted;  // smaller buckets of a kind do less; the first stands for all
  for (const Work& work : programs_) {
    if (!work.is_of_step || std::ranges::find(counted, work.kind) != counted.end()) continue;
    counted.push_back(work.kind);
    const bool is_repeated = work.kind == ProgramKind::kMicroBatchNext;
    of_step_ += work.before.back() * static_cast<double>(is_repeated ? micro_batches - 1 : 1);
  }
}

std::optional<double> StepShare::before(ProgramId program, size_t node) {
  const Work& work = programs_[program.at()];
  if (!work.is_of_step || of_step_ <= 0) return std::nullopt;
  if (node == 0) {
    if (running_) finished_ += programs_[*running_].before.back();
    running_ = program.at();
  }
  return std::clamp((finished_ + work.before[node]) / of_step_, 0.0, 1.0);
}

}  // namespace shoehorn
