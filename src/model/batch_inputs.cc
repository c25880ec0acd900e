#include "model/batch_inputs.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"

namespace shoehorn {

BatchInputs::BatchInputs(StateTable& state, const BatchCapacity& capacity, int32_t micro_batch,
                         std::string prefix)
    : state_(&state), capacity_(capacity), micro_batch_(micro_batch), prefix_(std::move(prefix)) {}

StorageId BatchInputs::request(BatchColumn column, int64_t width) {
  StorageId& known = storages_[static_cast<size_t>(column)];
  int64_t& known_width = widths_[static_cast<size_t>(column)];
  const BatchColumnInfo& info = batch_column_info(column);
  CHECK(width >= 1 && (info.has_rows || width == 1), "column {} in rows of {}", info.name, width);
  CHECK(!known.valid() || known_width == width, "column {} in rows of {} and of {}", info.name, known_width,
        width);
  if (known.valid()) return known;
  CHECK(state_ != nullptr, "a column of no micro-batch");
  if (capacity_.of(info.axis) == 0) {
    throw user_error(
        "[{}] expected samples with tokens of a decoder, which the model reads, got samples without; give "
        "decoder_input_ids",
        info.name);
  }
  known_width = width;
  Storage storage;
  storage.name = fmt::format("{}{}", prefix_, info.name);
  if (micro_batch_ > 0) storage.name += fmt::format(".{}", micro_batch_);
  const Dim count(capacity_.of(info.axis), batch_count(micro_batch_, info.axis));
  storage.type = {info.dtype, info.has_rows ? Shape{count, Dim(width)} : Shape{count}};
  storage.role = Role::kInput;
  storage.region.micro_batch = micro_batch_;
  return known = state_->add_storage(std::move(storage));
}

BatchColumn BatchInputs::column_of(StorageId storage) const {
  for (const BatchColumn column : batch_columns()) {
    if (find(column) == storage) return column;
  }
  CHECK(false, "the input '{}' is no column of micro-batch {}", state_->storage(storage).name, micro_batch_);
}

void add_batch_counts(Program& program, const BatchCapacity& capacity) {
  for (const BatchAxis axis : kBatchAxes) {
    const int64_t multiple = counts_tokens(axis) ? kTokenMultiple : 1;
    program.add_count(std::string(batch_axis_name(axis)), capacity.of(axis), multiple);
  }
}

StorageId add_scalar(StateTable& state, const std::string& name, DType dtype) {
  Storage storage;
  storage.name = name;
  storage.type = {dtype, {1}};
  storage.role = Role::kScalar;
  return state.add_storage(std::move(storage));
}

ScalarStorages add_scalar_storages(StateTable& state) {
  return {add_scalar(state, "step", DType::kI32),
          add_scalar(state, "applied_updates", DType::kI32),
          add_scalar(state, "learning_rate", DType::kF32),
          add_scalar(state, "target_count", DType::kF32),
          {}};
}

}  // namespace shoehorn
