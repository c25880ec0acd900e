#include "exec/host_view.h"

namespace shoehorn {

ReadView::ReadView(const Executor& executor, const Executor::Place& place, int64_t bytes)
    : executor_(executor) {
  if (place.host == nullptr) staged_ = executor.staging_.take(bytes);
  bytes_ = place.host == nullptr ? std::span<const std::byte>(staged_)
                                 : std::span<const std::byte>(place.host, static_cast<size_t>(bytes));
  if (place.host == nullptr) executor.backend_.copy_to_host(place.address, staged_, executor.computing());
  executor.wait_for_work();
}

ReadView::ReadView(const Executor& executor, StorageId storage, int64_t offset_bytes, int64_t bytes)
    : ReadView(executor, executor.place_of(storage, offset_bytes, bytes), bytes) {}

ReadView::ReadView(const Executor& executor, ProgramId program, ValueId value, int64_t offset_bytes,
                   int64_t bytes)
    : ReadView(executor, executor.place_of(program, value, offset_bytes, bytes), bytes) {}

ReadView::~ReadView() {
  if (!staged_.empty()) executor_.staging_.give_back(staged_);
}

WriteView::WriteView(Executor& executor, StorageId storage, int64_t offset_bytes, int64_t bytes)
    : executor_(executor) {
  const Executor::Place place = executor.place_of(storage, offset_bytes, bytes);
  address_ = place.address;
  if (place.host == nullptr) {
    bytes_ = staged_ = executor.staging_.take(bytes);
  } else {
    bytes_ = {place.host, static_cast<size_t>(bytes)};
    wait_until_free();
  }
}

WriteView::~WriteView() {
  if (!staged_.empty()) executor_.staging_.give_back(staged_);
}

void WriteView::send() {
  if (!staged_.empty()) executor_.copy_in(staged_, address_);
}

void WriteView::wait_until_free() {
  if (staged_.empty())
    executor_.wait_for_work();  // which may still read what is overwritten
  else
    executor_.staging_.wait_for_copies(staged_);
}

}  // namespace shoehorn
