#include "exec/cpu/elementwise/rotary.h"
#include "exec/cpu/kernel_entry.h"

namespace shoehorn::cpu {

namespace {

PreparedNode bind_rotary_table(const OpContext& node, const NodeBuffers& buffers, int) {
  const RotaryFrequencies& rotary = node.attributes<RotaryTableAttributes>().rotary;
  RotaryTable call{.rows = 0,
                   .pairs = std::ssize(rotary.frequencies),
                   .attention_factor = rotary.attention_factor,
                   .frequencies = nullptr,
                   .positions = input<const int32_t>(buffers, 0),
                   .table = output<float>(buffers, 0)};
  return [call, rows = rows(node.type(0)), frequencies = rotary.frequencies](const int64_t* counts) mutable {
    call.rows = rows(counts);
    call.frequencies = frequencies.data();
    rotary_table(call);
  };
}

PreparedNode bind_rotary(const OpContext& node, const NodeBuffers& buffers, int) {
  const auto& heads = node.attributes<RotaryAttributes>();
  Rotary call{.dtype = node.type(0).dtype,
              .rows = 0,
              .columns = row_elements(node.type(0)),
              .first_column = heads.first_column,
              .heads = heads.heads,
              .head_size = heads.head_size,
              .pairs = row_elements(node.type(1)) / 2,
              .inverse = heads.inverse,
              .table = input<const float>(buffers, 1),
              .x = buffers.inputs[0],
              .y = buffers.outputs[0]};
  return run_by_rows<rotary>(call, rows(node.type(0)));
}

}  // namespace

std::vector<KernelEntry> rotary_kernels() {
  return {{OpKind::kRotaryTable, nullptr, bind_rotary_table}, {OpKind::kRotary, nullptr, bind_rotary}};
}

}  // namespace shoehorn::cpu
