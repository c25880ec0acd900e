#include "model/batch_inputs.h"

#include <fmt/format.h>

namespace shoehorn {

void add_batch_counts(Program& program, const BatchCapacity& capacity) {
  program.add_count("tokens", capacity.tokens, kTokenMultiple);
  program.add_count("sequences", capacity.sequences);
}

BatchStorages add_batch_storages(StateTable& state, const BatchCapacity& capacity, int32_t micro_batch,
                                 const std::string& prefix) {
  const BatchCounts counts = batch_counts(micro_batch);
  const auto add = [&](const char* name, int64_t maximum, CountId count) {
    Storage storage;
    storage.name = micro_batch == 0 ? prefix + name : fmt::format("{}{}.{}", prefix, name, micro_batch);
    storage.type = {DType::kI32, {Dim(maximum, count)}};
    storage.role = Role::kInput;
    storage.region.micro_batch = micro_batch;
    return state.add_storage(storage);
  };
  const auto tokens = [&](const char* name) { return add(name, capacity.tokens, counts.tokens); };
  const auto sequences = [&](const char* name) { return add(name, capacity.sequences, counts.sequences); };
  return {tokens("input_ids"),          tokens("token_type_ids"),       tokens("position_ids"),
          tokens("token_sample"),       sequences("sequence_start"),    sequences("sequence_length"),
          sequences("sequence_sample"), sequences("sequence_position"), sequences("labels")};
}

StorageId add_scalar(StateTable& state, const std::string& name, DType dtype) {
  Storage storage;
  storage.name = name;
  storage.type = {dtype, {1}};
  storage.role = Role::kScalar;
  return state.add_storage(std::move(storage));
}

ScalarStorages add_scalar_storages(StateTable& state) {
  return {add_scalar(state, "step", DType::kI32), add_scalar(state, "applied_updates", DType::kI32),
          add_scalar(state, "learning_rate", DType::kF32), add_scalar(state, "target_count", DType::kF32)};
}

}  // namespace shoehorn
