// CRC-32 (IEEE 802.3, reflected polynomial 0xEDB88320): the checksum of zip, gzip and PNG.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace shoehorn {

// The CRC of a byte sequence that continues with `data`, where `crc` is the CRC of what came before (0 at the
// start). Thread-safe.
uint32_t crc32(std::span<const std::byte> data, uint32_t crc = 0);

}  // namespace shoehorn
