#include "exec/cpu/collectives/collective_bind.h"

#include <utility>

#include "exec/cpu/collectives/all_reduce.h"
#include "exec/cpu/kernel_entry.h"

namespace shoehorn::cpu {

bool is_collective(OpKind kind) {
  return kind == OpKind::kAllReduce;
}

PreparedNode bind_collective(const OpContext& node, const NodeBuffers& buffers,
                             std::shared_ptr<Communicator> ranks, HostStream& stream) {
  const auto& attributes = node.attributes<CollectiveAttributes>();
  CHECK(ranks != nullptr && ranks->size() == attributes.ranks, "{} for {} ranks, the backend has {}",
        op_info(node.node.kind).name, attributes.ranks, ranks == nullptr ? 1 : ranks->size());
  const size_t tensors = node.node.inputs.size();
  const int64_t chunk = node.output_type(static_cast<int64_t>(tensors)).shape[1].maximum;
  AllReduce call{.ranks = ranks.get(),
                 .tensors = {},
                 .block_elements = attributes.block_elements,
                 .sent = output<float>(buffers, tensors),
                 .received = output<float>(buffers, tensors) + chunk};
  for (size_t i = 0; i < tensors; ++i)
    call.tensors.push_back(
        {output<float>(buffers, i), node.output_type(static_cast<int64_t>(i)).shape.elements()});
  std::function<void()> work = [call = std::move(call), ranks] { all_reduce(call); };
  if (node.node.lane == 0) return [work = std::move(work)](const int64_t*) { work(); };
  stream.prepare_behind([ranks] { ranks->give_up(); });
  return [work = std::make_shared<const std::function<void()>>(std::move(work)), &stream](const int64_t*) {
    stream.run_behind(*work);
  };
}

}  // namespace shoehorn::cpu
