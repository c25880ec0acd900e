#include "base/content_hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "base/error.h"

namespace shoehorn {

struct ContentHash::State {
  State() : xxh3(XXH3_createState()) {
    CHECK(xxh3 != nullptr && XXH3_128bits_reset(xxh3) == XXH_OK, "no state of XXH3");
  }
  ~State() { XXH3_freeState(xxh3); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  XXH3_state_t* xxh3;
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) {}
ContentHash::~ContentHash() = default;

void ContentHash::add(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(state_->xxh3, bytes.data(), bytes.size());
}

std::string ContentHash::hex() const {
  const XXH128_hash_t digest = XXH3_128bits_digest(state_->xxh3);
  return fmt::format("{:016x}{:016x}", digest.high64, digest.low64);
}

}  // namespace shoehorn
