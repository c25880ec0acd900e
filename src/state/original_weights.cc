#include "state/original_weights.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "io/float_convert.h"

namespace shoehorn {

OriginalTensor::OriginalTensor(const OriginalWeights& originals, const std::string& name, const Slice& slice)
    : originals_(originals), name_(name), slice_(slice) {
  CHECK(originals.contents.contains(name), "{} was not read before", name);
}

void OriginalTensor::read_next(std::span<float> values) {
  const TensorEntry& entry = originals_.files.tensor(name_);
  const auto width = static_cast<size_t>(dtype_bytes(entry.dtype));
  // On the stack: saving during a run allocates nothing of size.
  std::array<std::byte, 32768> raw;
  const size_t most = raw.size() / width;
  for (size_t at = 0; at < values.size(); at += most) {
    const std::span<float> part = values.subspan(at, std::min(most, values.size() - at));
    const std::span<std::byte> bytes = std::span(raw).first(part.size() * width);
    originals_.files.read_slice(name_, slice_, read_, bytes);
    convert_elements(entry.dtype, bytes, part);
    read_ += static_cast<int64_t>(part.size());
  }
  content_.add(std::as_bytes(values));
  if (read_ < slice_.elements() || content_.hex() == originals_.contents.at(name_)) return;
  throw system_error(
      "[{}: {}] expected the weights that this run began with, got others: the file was changed while the run had it "
      "open; what was saved before is not touched",
      originals_.files.path().string(), name_);
}

}  // namespace shoehorn
