// CRC-32 (IEEE 802.3, reflected polynomial 0xEDB88320): the checksum of zip, gzip and PNG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoehorn {

// Checksum of `data` appended to bytes whose checksum is `crc` (0 to begin). Thread-safe.
uint32_t crc32(std::span<const std::byte> data, uint32_t crc = 0);

}  // namespace shoehorn
