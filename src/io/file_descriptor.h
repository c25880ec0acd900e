#pragma once

namespace shoehorn {

// Owns one descriptor of an open file; -1 is none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  // Closes and returns 0 or errno: on network file systems a lost write is reported only here.
  int close();

 private:
  int descriptor_ = -1;
};

}  // namespace shoehorn
