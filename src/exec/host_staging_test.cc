#include "exec/host_staging.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace shoehorn {
namespace {

TEST(HostStagingTest, GivesRoomBackInTheOrderOfBlocks) {
  std::vector<std::byte> memory(256);
  HostStaging staging{std::span(memory)};
  EXPECT_EQ(staging.room(), 256);
  const std::span<std::byte> first = staging.take(65);
  EXPECT_EQ(first.size(), 65U);
  EXPECT_EQ(staging.room(), 128);
  const std::span<std::byte> second = staging.take(128);
  EXPECT_EQ(second.data(), memory.data() + 128) << "aligned to 64 bytes";
  EXPECT_THROW(staging.take(1), InternalError);
  staging.give_back(second);
  EXPECT_EQ(staging.room(), 128);
  staging.give_back(first);
  EXPECT_EQ(staging.room(), 256);
}

// What lies before something that is still taken is not handed out again.
TEST(HostStagingTest, KeepsWhatIsGivenBackOutOfItsTurn) {
  std::vector<std::byte> memory(256);
  HostStaging staging{std::span(memory)};
  const std::span<std::byte> first = staging.take(64);
  const std::span<std::byte> second = staging.take(64);
  staging.give_back(first);
  EXPECT_EQ(staging.take(64).data(), second.data() + 64);
}

TEST(HostStagingTest, IsPlannedWhereTheHostDoesNotReachTheDevice) {
  StateTable state;
  EXPECT_FALSE(add_host_staging(state, {.device_is_host = true}, 100).valid());
  const StorageId staging = add_host_staging(state, {.device_is_host = false}, 100);
  ASSERT_TRUE(staging.valid());
  EXPECT_EQ(state.storage(staging).type.bytes(), 100);
  EXPECT_EQ(state.storage(staging).space, AddressSpace::kPinnedHost);
}

}  // namespace
}  // namespace shoehorn
