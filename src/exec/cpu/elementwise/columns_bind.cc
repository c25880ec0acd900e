#include "exec/cpu/elementwise/columns.h"
#include "exec/cpu/kernel_entry.h"

namespace shoehorn::cpu {

namespace {

PreparedNode bind_add_columns(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& range = node.attributes<ColumnsAttributes>();
  AddColumns call{.dtype = node.type(0).dtype,
                  .rows = 0,
                  .columns = row_elements(node.type(0)),
                  .offset = range.offset,
                  .width = range.width,
                  .x = buffers.inputs[0],
                  .addend = buffers.inputs[1],
                  .y = buffers.outputs[0]};
  return run_by_rows<add_columns>(call, rows(node.type(0)));
}

PreparedNode bind_take_columns(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& range = node.attributes<ColumnsAttributes>();
  TakeColumns call{.dtype = node.type(0).dtype,
                   .rows = 0,
                   .columns = row_elements(node.type(0)),
                   .offset = range.offset,
                   .width = range.width,
                   .x = buffers.inputs[0],
                   .y = buffers.outputs[0]};
  return run_by_rows<take_columns>(call, rows(node.type(0)));
}

PreparedNode bind_spread_columns(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& range = node.attributes<ColumnsAttributes>();
  SpreadColumns call{.dtype = node.type(0).dtype,
                     .rows = 0,
                     .columns = range.columns,
                     .offset = range.offset,
                     .width = range.width,
                     .x = buffers.inputs[0],
                     .y = buffers.outputs[0]};
  return run_by_rows<spread_columns>(call, rows(node.type(0)));
}

PreparedNode bind_scale(const OpContext& node, const NodeBuffers& buffers, int) {
  Scale call{.dtype = node.type(0).dtype,
             .count = 0,
             .x = buffers.inputs[0],
             .factor = nullptr,
             .y = buffers.outputs[0]};
  return [call, rows = rows(node.type(0)), width = row_elements(node.type(0)),
          factor = node.attributes<ScaleAttributes>().factor](const int64_t* counts) mutable {
    call.count = rows(counts) * width;
    call.factor = &factor;
    scale(call);
  };
}

}  // namespace

std::vector<KernelEntry> column_kernels() {
  return {{OpKind::kAddColumns, nullptr, bind_add_columns},
          {OpKind::kTakeColumns, nullptr, bind_take_columns},
          {OpKind::kSpreadColumns, nullptr, bind_spread_columns},
          {OpKind::kScale, nullptr, bind_scale}};
}

}  // namespace shoehorn::cpu
