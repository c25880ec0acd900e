// Reading tensors with every byte of their file checksummed on the way, where the manifest of its directory has a
// checksum: nothing is read twice, and what is damaged is found before the weights are used.
//
//   VerifiedTensors tensors(file);
//   load_verified(tensors, [&] {
//     for (name, destination in the order of the file) tensors.read_into(name, destination);
//   });
//
// What is skipped in between is read for its checksum alone. A range that lies before one that was read already
// is read without being verified again. For one thread.
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
  // `file` outlives it. DamagedFile where the manifest is malformed or lists another size.
  explicit VerifiedTensors(const SafetensorsFile& file);

  const SafetensorsFile& file() const { return file_; }

  // As of SafetensorsFile.
  const TensorEntry& tensor(std::string_view name) const { return file_.tensor(name); }
  void read_into(std::string_view name, std::span<std::byte> destination);
  void read_range(std::string_view name, int64_t offset, std::span<std::byte> destination);

  // Reads what nobody asked for; DamagedFile if the file is not the one that was written.
  void finish();

 private:
  void verify_up_to(int64_t offset);

  const SafetensorsFile& file_;
  std::optional<ListedFileCheck> check_;  // none: there is no checksum
  int64_t verified_ = 0;                  // bytes of the file that are in the checksum
  std::vector<std::byte> skipped_;        // a piece of what is read for the checksum alone
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
