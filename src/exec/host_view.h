// Views: the one way for code outside of exec/ to the bytes of a program. A view is a range of bytes in host
// memory, valid during the view's lifetime.
//
//   const ReadView weights(executor, storage, 0, bytes);     what was computed so far
//   use(weights.as<float>());
//
//   WriteView column(executor, storage, 0, bytes);           to be overwritten as a whole
//   fill(column.as<int32_t>());
//   column.send();                                           and only then there for programs
//   column.wait_until_free();                                before it is filled anew
//
// Where the host reaches the memory a view is that memory: nothing is copied. Elsewhere it is a piece of the
// executor's staging, copied from the device when a ReadView is made and to it by send(), which does not wait: the
// copy stands before whatever is issued later, and the piece is given to another view when the copy is done.
// Views are given back in the reverse order in which they were made, as blocks of code do it. They allocate
// nothing. Single values are simpler through Executor::read_scalar and write_scalar.
//
// The executor must outlive its views; they cannot be moved. InternalError for a range outside of the
// storage, or if the staging has no room: Executor::largest_view_bytes() is its limit.
#pragma once

#include <cstddef>
#include <span>

#include "exec/executor.h"

namespace shoehorn {

class ReadView {
 public:
  ReadView(const Executor& executor, StorageId storage, int64_t offset_bytes, int64_t bytes);
  // For a value while it is alive; a result is alive until the next run.
  ReadView(const Executor& executor, ProgramId program, ValueId value, int64_t offset_bytes, int64_t bytes);
  ~ReadView();
  ReadView(const ReadView&) = delete;
  ReadView& operator=(const ReadView&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }
  template <typename T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  ReadView(const Executor& executor, const Executor::Place& place, int64_t bytes);

  const Executor& executor_;
  std::span<std::byte> staged_;  // empty if the view is the memory itself
  std::span<const std::byte> bytes_;
};

class WriteView {
 public:
  WriteView(Executor& executor, StorageId storage, int64_t offset_bytes, int64_t bytes);
  ~WriteView();
  WriteView(const WriteView&) = delete;
  WriteView& operator=(const WriteView&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  template <typename T>
  std::span<T> as() const {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  // As often as it was filled anew. What was filled stays readable.
  void send();
  // Blocks until what was sent may be overwritten: the copy is done, or, in place, the programs that read it.
  void wait_until_free();

 private:
  Executor& executor_;
  std::byte* address_;
  std::span<std::byte> staged_;  // empty if the view is the memory itself
  std::span<std::byte> bytes_;
};

}  // namespace shoehorn
