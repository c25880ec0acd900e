// An array of plain values that is never there twice while it grows.
//
// A vector that grows has its old block beside the new one until all is copied, so that data of more than half of the memory
// cannot be read into one. Here realloc() grows the block: glibc gives a large one pages of its own and moves the pages
// (mremap, since M_MMAP_THRESHOLD is at most 32 MiB), and what was never written of it takes no memory. The block doubles up
// to 16 MiB and grows by an eighth from there, or where that much address space is not left, by what is asked for.
//
// As of a vector: references are valid until it grows; std::bad_alloc.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace shoehorn {

template <typename T>
  requires std::is_trivially_copyable_v<T>
class GrowingArray {
 public:
  using value_type = T;

  GrowingArray() = default;
  GrowingArray(std::initializer_list<T> values) { append(std::span<const T>(values.begin(), values.size())); }
  GrowingArray(const GrowingArray& other) { append(other); }
  GrowingArray(GrowingArray&& other) noexcept { swap(other); }
  GrowingArray& operator=(GrowingArray other) noexcept {
    swap(other);
    return *this;
  }
  ~GrowingArray() = default;

  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  bool empty() const { return size_ == 0; }
  T* data() { return block_.get(); }
  const T* data() const { return block_.get(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t at) { return block_[at]; }
  const T& operator[](size_t at) const { return block_[at]; }
  const T& back() const { return block_[size_ - 1]; }

  void reserve(size_t count) {
    if (count > capacity_ && !change_block(count)) throw std::bad_alloc();
  }
  void push_back(T value) {
    make_room(size_ + 1);
    block_[size_++] = value;
  }
  // `values` are not its own.
  void append(std::span<const T> values) {
    make_room(size_ + values.size());
    std::ranges::copy(values, end());
    size_ += values.size();
  }
  // What is added is T().
  void resize(size_t count) {
    make_room(count);
    if (count > size_) std::fill(end(), data() + count, T());
    size_ = count;
  }
  void clear() { size_ = 0; }
  void shrink_to_fit() {
    if (size_ == 0) {
      *this = {};
    } else if (size_ < capacity_) {
      change_block(size_);
    }
  }

  friend bool operator==(const GrowingArray& a, std::span<const T> b) { return std::ranges::equal(a, b); }

 private:
  struct Free {
    void operator()(T* block) const { std::free(block); }
  };

  static constexpr size_t kDoubledBytes = size_t{16} << 20;

  void make_room(size_t count) {
    if (count <= capacity_) return;
    const size_t more = capacity_ * sizeof(T) < kDoubledBytes ? capacity_ : capacity_ / 8;
    if (!change_block(std::max(count, capacity_ + more))) reserve(count);
  }
  // False, and nothing is changed, where the system gives no block of that size.
  bool change_block(size_t count) {
    if (count > SIZE_MAX / sizeof(T)) return false;
    void* const block = std::realloc(static_cast<void*>(block_.get()), count * sizeof(T));
    if (block == nullptr) return false;
    static_cast<void>(block_.release());  // realloc() took it
    block_.reset(static_cast<T*>(block));
    capacity_ = count;
    return true;
  }
  void swap(GrowingArray& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }

  std::unique_ptr<T[], Free> block_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace shoehorn
