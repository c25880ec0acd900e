// Reads tensors and verifies the checksum of their file on the way, if the manifest of its directory has one.
// Every byte is read once, and damage is found before the weights are used.
//
//   VerifiedTensors tensors(file);
//   load_verified(tensors, [&] {
//     for (name, destination in the order of the file) tensors.read_into(name, destination);
//   });
//
// Bytes between the requested tensors are read for the checksum only. Reading a range that lies before an
// earlier one works, but does not verify it again. Not thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "io/manifest.h"
#include "io/safetensors.h"

namespace shoehorn {

class VerifiedTensors {
 public:
  // `file` must outlive this object. DamagedFile if the manifest is malformed or lists another size.
  explicit VerifiedTensors(const SafetensorsFile& file);

  const SafetensorsFile& file() const { return file_; }

  // As in SafetensorsFile.
  const TensorEntry& tensor(std::string_view name) const { return file_.tensor(name); }
  void read_into(std::string_view name, std::span<std::byte> destination);
  void read_range(std::string_view name, int64_t offset, std::span<std::byte> destination);

  // Reads what nobody asked for. DamagedFile if the file differs from the one that was written.
  void finish();

 private:
  void verify_up_to(int64_t offset);

  const SafetensorsFile& file_;
  std::optional<ListedFileCheck> check_;  // nullopt if there is no checksum
  int64_t verified_ = 0;                  // how many bytes of the file are in the checksum
  std::vector<std::byte> skipped_;        // buffer for bytes that are read for the checksum only
};

// Runs load(), which reads `tensors`, and finishes them. Where it throws a UserError, and a file is damaged, that is
// what is said: a tensor that a damaged header lacks is no news.
template <typename Tensors, typename Load>
void load_verified(Tensors& tensors, const Load& load) {
  try {
    load();
  } catch (const UserError&) {
    tensors.finish();
    throw;
  }
  tensors.finish();
}

}  // namespace shoehorn
