#pragma once

namespace shoehorn {

// Owns a file descriptor; -1 means none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int descriptor) : descriptor_(descriptor) {}
  FileDescriptor(FileDescriptor&& other) noexcept;
  FileDescriptor& operator=(FileDescriptor&& other) noexcept;
  ~FileDescriptor();

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  // Closes it; returns 0 or errno. On network file systems only close() reports a lost write.
  int close();

 private:
  int descriptor_ = -1;
};

}  // namespace shoehorn
