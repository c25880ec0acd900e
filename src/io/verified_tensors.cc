#include "io/verified_tensors.h"

#include <algorithm>

namespace shoehorn {

namespace {

// As large as a cache, so that the checksum reads the bytes from there.
constexpr int64_t kVerifiedPieceBytes = int64_t{1} << 18;

}  // namespace

VerifiedTensors::VerifiedTensors(const SafetensorsFile& file) : file_(file) {
  if (std::optional<ListedFile> listed = find_listed(file.path()))
    check_.emplace(file.path(), file.contents().bytes(), std::move(*listed));
}

void VerifiedTensors::verify_up_to(int64_t offset) {
  while (check_ && verified_ < offset) {
    skipped_.resize(static_cast<size_t>(kVerifiedPieceBytes));
    const auto piece =
        std::span(skipped_).first(static_cast<size_t>(std::min(kVerifiedPieceBytes, offset - verified_)));
    file_.contents().read_at(verified_, piece);
    check_->update(piece);
    verified_ += static_cast<int64_t>(piece.size());
  }
}

void VerifiedTensors::read_into(std::string_view name, std::span<std::byte> destination) {
  file_.check_bytes(name, destination.size());
  for (size_t at = 0; at < destination.size(); at += static_cast<size_t>(kVerifiedPieceBytes)) {
    const auto piece =
        destination.subspan(at, std::min(static_cast<size_t>(kVerifiedPieceBytes), destination.size() - at));
    read_range(name, static_cast<int64_t>(at), piece);
  }
}

void VerifiedTensors::read_range(std::string_view name, int64_t offset, std::span<std::byte> destination) {
  const int64_t begin = tensor(name).file_offset + offset;
  verify_up_to(begin);
  file_.read_range(name, offset, destination);
  if (!check_ || begin != verified_) return;
  check_->update(destination);
  verified_ += static_cast<int64_t>(destination.size());
}

void VerifiedTensors::finish() {
  if (!check_) return;
  verify_up_to(file_.contents().bytes());
  check_->finish();
}

}  // namespace shoehorn
