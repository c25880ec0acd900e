// For tests: reads and writes whole storages and values, through the executor's public interface.
#pragma once

#include <vector>

#include "exec/executor.h"

namespace shoehorn::test_support {

template <typename T>
std::vector<T> values_of(const Executor& executor, StorageId storage) {
  std::vector<T> values(static_cast<size_t>(executor.state().storage(storage).type.bytes()) / sizeof(T));
  executor.read(storage, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

template <typename T>
std::vector<T> values_of(const Executor& executor, ProgramId program, ValueId value) {
  std::vector<T> values(static_cast<size_t>(executor.program(program).type(value).bytes()) / sizeof(T));
  executor.read(program, value, 0, std::as_writable_bytes(std::span(values)));
  return values;
}

// Writes the first elements of a storage.
template <typename T>
void set_values(Executor& executor, StorageId storage, const std::vector<T>& values) {
  executor.write(storage, 0, std::as_bytes(std::span(values)));
}

}  // namespace shoehorn::test_support
