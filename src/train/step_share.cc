#include "train/step_share.h"

#include <algorithm>

#include "ops/op_info.h"

namespace shoehorn {

StepShare::StepShare(const ProgramFamily& family) : family_(family) {
  for (const Program& program : family.programs) {
    Work work{.is_of_step = program.traits().trains || program.traits().updates, .before = {}};
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
  for (size_t i = 0; i < programs_.size(); ++i) {
    // Smaller buckets of a kind do less; the first stands for all.
    if (programs_[i].is_of_step)
      of_step_ += programs_[i].before.back() *
                  static_cast<double>(family_.runs_in_step(family_.programs[i], micro_batches));
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
