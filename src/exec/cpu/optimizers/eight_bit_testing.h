// The codes, scales and weights that bitsandbytes computes: tests/golden/optimizer_8bit_make.py.
#pragma once

#include "exec/cpu/optimizers/optimizer_8bit.h"
#include "exec/cpu/optimizers/optimizer_testing.h"

namespace shoehorn::cpu::test_support {

inline const nlohmann::json& golden_8bit() {
  static const nlohmann::json golden = [] {
    return read_json(SHOEHORN_SOURCE_DIR "/tests/golden/optimizer_8bit.json");
  }();
  return golden;
}

inline std::vector<float> floats_in(const nlohmann::json& bits) {
  std::vector<float> values;
  for (const auto& number : bits) values.push_back(std::bit_cast<float>(number.get<uint32_t>()));
  return values;
}

inline std::string hex(const std::vector<uint8_t>& codes) {
  std::string digits;
  for (const uint8_t code : codes) {
    for (const int digit : {code >> 4, code & 15}) digits += "0123456789abcdef"[digit];
  }
  return digits;
}

// The 8-bit states of a tensor, all zero: no moment and no scale.
struct EightBitMoments {
  explicit EightBitMoments(int64_t count) {
    for (size_t i = 0; i < 2; ++i) {
      codes[i].resize(static_cast<size_t>(count));
      scales[i].resize(static_cast<size_t>((count + kStateBlock - 1) / kStateBlock));
    }
  }
  // Gives the first `kept` states to a tensor, from element `from` on, which begins a block.
  void lend(EightBitTensor& tensor, size_t kept, int64_t from = 0) {
    for (size_t i = 0; i < kept; ++i) {
      tensor.codes[i] = codes[i].data() + from;
      tensor.scales[i] = scales[i].data() + from / kStateBlock;
    }
  }
  bool operator==(const EightBitMoments&) const = default;

  std::array<std::vector<uint8_t>, 2> codes;
  std::array<std::vector<float>, 2> scales;
};

}  // namespace shoehorn::cpu::test_support
