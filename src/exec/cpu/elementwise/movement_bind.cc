#include "exec/cpu/elementwise/embedding.h"
#include "exec/cpu/kernel_entry.h"

namespace shoehorn::cpu {

namespace {

PreparedNode bind_cast(const OpContext& node, const NodeBuffers& buffers, int) {
  Cast call{.count = 0,
            .from_dtype = node.type(0).dtype,
            .from = buffers.inputs[0],
            .to_dtype = node.output_type(0).dtype,
            .to = buffers.outputs[0]};
  return
      [call, rows = rows(node.type(0)), width = row_elements(node.type(0))](const int64_t* counts) mutable {
        call.count = rows(counts) * width;
        cast(call);
      };
}

PreparedNode bind_copy(const OpContext& node, const NodeBuffers& buffers, int) {
  const int64_t row_bytes = row_elements(node.type(0)) * dtype_bytes(node.type(0).dtype);
  return [from = buffers.inputs[0], to = buffers.outputs[0], rows = rows(node.type(0)),
          row_bytes](const int64_t* counts) {
    if (from != to) copy(from, rows(counts) * row_bytes, to);
  };
}

PreparedNode bind_gather(const OpContext& node, const NodeBuffers& buffers, int) {
  GatherRows call{.dtype = node.type(0).dtype,
                  .rows = 0,
                  .selected = 0,
                  .hidden = row_elements(node.type(0)),
                  .x = buffers.inputs[0],
                  .index = input<const int32_t>(buffers, 1),
                  .y = buffers.outputs[0]};
  return [call, rows = rows(node.type(0)), selected = rows(node.type(1))](const int64_t* counts) mutable {
    call.rows = rows(counts);
    call.selected = selected(counts);
    gather_rows(call);
  };
}

PreparedNode bind_scatter(const OpContext& node, const NodeBuffers& buffers, int) {
  ScatterRows call{.dtype = node.type(0).dtype,
                   .rows = 0,
                   .selected = 0,
                   .hidden = row_elements(node.type(0)),
                   .x = buffers.inputs[0],
                   .index = input<const int32_t>(buffers, 1),
                   .y = buffers.outputs[0]};
  return
      [call, rows = rows(node.output_type(0)), selected = rows(node.type(1))](const int64_t* counts) mutable {
        call.rows = rows(counts);
        call.selected = selected(counts);
        scatter_rows(call);
      };
}

PreparedNode bind_last_rows(const OpContext& node, const NodeBuffers& buffers, int) {
  LastRows call{.sequences = 0,
                .start = input<const int32_t>(buffers, 0),
                .length = input<const int32_t>(buffers, 1),
                .last = output<int32_t>(buffers, 0)};
  if (node.has(2)) {
    call.ids = input<const int32_t>(buffers, 2);
    call.padding_index = node.attributes<EmbeddingAttributes>().padding_index;
  }
  return [call, sequences = rows(node.type(0))](const int64_t* counts) mutable {
    call.sequences = sequences(counts);
    last_rows(call);
  };
}

}  // namespace

std::vector<KernelEntry> movement_kernels() {
  const auto bind_nothing = [](const OpContext&, const NodeBuffers&, int) {
    return PreparedNode([](const int64_t*) {});
  };
  return {
      {OpKind::kView, nullptr, bind_nothing},       {OpKind::kWait, nullptr, bind_nothing},
      {OpKind::kCast, nullptr, bind_cast},          {OpKind::kCopy, nullptr, bind_copy},
      {OpKind::kGatherRows, nullptr, bind_gather},  {OpKind::kScatterRows, nullptr, bind_scatter},
      {OpKind::kLastRows, nullptr, bind_last_rows},
  };
}

}  // namespace shoehorn::cpu
