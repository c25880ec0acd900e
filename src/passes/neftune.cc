#include "passes/neftune.h"

#include <cmath>

#include "base/error.h"
#include "ops/op_builder.h"
#include "passes/place_nodes.h"

namespace shoehorn {

namespace {

// Above the streams of the models' dropouts, which count from 0, and of the adapters' (passes/lora.cc).
constexpr uint32_t kNoiseStream = 1U << 24;

// The lookups of input_ids.
std::vector<NodeId> lookups_of(const Program& program, StorageId input_ids) {
  std::vector<NodeId> lookups;
  for (size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.kind == OpKind::kEmbedding && program.value(node.inputs[1]).storage == input_ids)
      lookups.push_back(NodeId{static_cast<int32_t>(i)});
  }
  return lookups;
}

void add_noise(Program& program, ProgramFamily& family, const StepOptions& options) {
  BatchInputs& batch = family.train_batches[0];
  const size_t nodes = program.nodes().size();
  const StorageId input_ids = batch.find(BatchColumn::kInputIds);
  const std::vector<NodeId> lookups =
      input_ids.valid() ? lookups_of(program, input_ids) : std::vector<NodeId>{};
  if (lookups.empty()) {
    throw user_error(
        "[--neftune_noise_alpha] expected a model that looks input_ids up in a table, got one that does not: "
        "there is nothing to add noise to");
  }
  const auto input = [&](BatchColumn column) { return program.read_state(batch.request(column)); };
  NewNodes behind;
  uint32_t stream = kNoiseStream;
  for (const NodeId lookup : lookups) {
    const ValueId x = program.node(lookup).outputs[0];
    OpBuilder builder(program);
    builder.set_region(program.node(lookup).region);
    const NodeId noise =
        builder.add(OpKind::kEmbeddingNoise,
                    {x, program.read_state(family.scalars.step), input(BatchColumn::kSequenceStart),
                     input(BatchColumn::kSequenceLength), input(BatchColumn::kSequenceSample)},
                    NoiseAttributes{options.neftune_noise_alpha, options.seed, stream++}, "neftune");
    program.replace_uses(x, program.node(noise).outputs[0]);
    program.node(noise).inputs[0] = x;
    behind[lookup].push_back(noise);
  }
  place_behind(program, nodes, behind);
}

}  // namespace

void neftune(ProgramFamily& family, const StepOptions& options) {
  const float alpha = options.neftune_noise_alpha;
  if (!(alpha >= 0) || !std::isfinite(alpha))
    throw user_error("[--neftune_noise_alpha] expected a finite number of 0 or more, got {}", alpha);
  if (alpha == 0) return;
  for (Program& program : family.programs) {
    if (program.traits().trains) add_noise(program, family, options);
  }
}

}  // namespace shoehorn
