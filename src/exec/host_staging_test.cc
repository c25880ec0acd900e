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

// Pieces for copies follow one another from the end, so that one is not waited for before it must be.
TEST(HostStagingTest, PiecesForCopiesFollowOneAnother) {
  std::vector<std::byte> memory(256);
  HostStaging staging{std::span(memory)};
  const auto offset_of = [&](std::span<std::byte> piece) { return piece.data() - memory.data(); };
  const std::span<std::byte> view = staging.take(64);
  EXPECT_EQ(offset_of(staging.take_for_copy(4)), 192);
  EXPECT_EQ(offset_of(staging.take_for_copy(65)), 64);
  EXPECT_EQ(offset_of(staging.take_for_copy(4)), 192) << "begins again, behind what is taken";
  EXPECT_TRUE(staging.take_for_copy(193).empty()) << "no room";
  staging.give_back(view);
  EXPECT_EQ(staging.take_for_copy(193).size(), 193U);
}

// Counts the waits for events.
struct CountedEvent final : Event {
  explicit CountedEvent(int* count) : waits(count) {}
  void wait() const override { ++*waits; }
  int* waits;
};
struct NoStream final : Stream {
  void record(Event&) override {}
  void wait(const Event&) override {}
  void mark(double&) override {}
};

TEST(HostStagingTest, WaitsForACopyWhereItsPieceIsWantedAgain) {
  std::vector<std::byte> memory(256);
  int waits = 0;
  std::vector<std::unique_ptr<Event>> events;
  for (int i = 0; i < 2; ++i) events.push_back(std::make_unique<CountedEvent>(&waits));
  HostStaging staging(memory, std::move(events));
  NoStream stream;
  const std::span<std::byte> first = staging.take(64);
  const std::span<std::byte> second = staging.take(64);
  staging.copy_issued(first, stream);
  staging.copy_issued(second, stream);
  EXPECT_EQ(waits, 0);
  staging.wait_for_copies(second);
  EXPECT_EQ(waits, 1);
  staging.wait_for_copies(first);
  EXPECT_EQ(waits, 1) << "the copy before it on the stream is done too";
  staging.copy_issued(first, stream);
  staging.give_back(second);
  staging.give_back(first);
  EXPECT_EQ(staging.take(128).data(), memory.data());
  EXPECT_EQ(waits, 2) << "a piece that is handed out again";
  for (int i = 0; i < 3; ++i) staging.copy_issued(first, stream);
  EXPECT_EQ(waits, 3) << "more copies under way than events";
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
