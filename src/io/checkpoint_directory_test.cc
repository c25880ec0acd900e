#include "io/checkpoint_directory.h"

#include <chrono>
#include <nlohmann/json.hpp>

#include "io/dead_process_testing.h"
#include "io/json_file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

fs::path write_checkpoint(const fs::path& output_dir, int64_t step, std::string_view content) {
  StagedDirectory staged(output_dir, step);
  write_text_atomic(staged.path() / "state.json", content);
  fs::create_directory(staged.path() / "below");
  write_text_atomic(staged.path() / "below/empty", "");
  write_text_atomic(staged.path() / "large", std::string(5000, 'x'));
  return staged.commit();
}

std::vector<std::string> names_of(const std::vector<fs::path>& paths) {
  std::vector<std::string> names;
  for (const fs::path& path : paths) names.push_back(path.filename().string());
  return names;
}

using Names = std::vector<std::string>;

TEST(StagedDirectory, AppearsWhole) {
  const TestDirectory directory;
  const fs::path output = directory.path() / "made/as/needed";
  {
    const StagedDirectory abandoned(output, 3);
    write_text_atomic(abandoned.path() / "x", "x");
    EXPECT_EQ(list_directory(output).size(), 1U);
    message_of<InternalError>([&] { StagedDirectory again(output, 3); });
  }
  EXPECT_TRUE(list_directory(output).empty());
  const fs::path path = write_checkpoint(output, 3, "{}");
  EXPECT_EQ(path, output / "checkpoint-3");
  EXPECT_EQ(checkpoint_defect(path), "");
  EXPECT_EQ(list_directory(path), (Names{"below", "large", "shoehorn_manifest.json", "state.json"}));
}

TEST(StagedDirectory, ReplacesACheckpointOfThatName) {
  const TestDirectory directory;
  write_checkpoint(directory.path(), 7, "old");
  write_text_atomic(directory.path() / "checkpoint-7/only-old", "x");
  write_checkpoint(directory.path(), 7, "new");
  EXPECT_EQ(list_directory(directory.path()), Names{"checkpoint-7"});
  EXPECT_EQ(read_text_file(directory.path() / "checkpoint-7/state.json"), "new");
  EXPECT_FALSE(fs::exists(directory.path() / "checkpoint-7/only-old"));
  directory.write("checkpoint-8", "a file of somebody");
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { write_checkpoint(directory.path(), 8, "x"); }), "checkpoint-8"));
  EXPECT_EQ(read_text_file(directory.path() / "checkpoint-8"), "a file of somebody");
}

TEST(StagedDirectory, RefusesLinks) {
  const TestDirectory directory;
  StagedDirectory staged(directory.path(), 1);
  fs::create_symlink("/etc/hostname", staged.path() / "link");
  message_of<UserError>([&] { staged.commit(); });
}

TEST(RemoveCheckpoints, LeavesEverythingElse) {
  const TestDirectory directory;
  for (const int64_t step : {5, 10}) write_checkpoint(directory.path(), step, "content");
  fs::remove(directory.path() / "checkpoint-10/shoehorn_manifest.json");
  directory.write("checkpoint-7", "a file");
  directory.write("model.safetensors", "x");
  EXPECT_EQ(names_of(remove_checkpoints(directory.path())), (Names{"checkpoint-5", "checkpoint-10"}));
  EXPECT_EQ(list_directory(directory.path()), (Names{"checkpoint-7", "model.safetensors"}));
  EXPECT_TRUE(remove_checkpoints(directory.path() / "absent").empty());
}

TEST(LatestCheckpoint, IsTheHighestNumberThatIsComplete) {
  const TestDirectory directory;
  EXPECT_FALSE(latest_checkpoint(directory.path()).path.has_value());
  EXPECT_FALSE(latest_checkpoint(directory.path() / "absent").path.has_value());
  for (const int64_t step : {9, 10, 100, 20, 30, 40, 50}) write_checkpoint(directory.path(), step, "content");
  for (const char* other : {"checkpoint-", "checkpoint-1000x", "xcheckpoint-1000", "checkpoint--1000",
                            "checkpoint-99999999999999999999"}) {
    fs::create_directory(directory.path() / other);
  }
  directory.write("checkpoint-2000", "a file");
  EXPECT_EQ(latest_checkpoint(directory.path()).step, 100);
  EXPECT_TRUE(latest_checkpoint(directory.path()).skipped.empty());
  EXPECT_EQ(names_of(list_checkpoints(directory.path())).front(), "checkpoint-9");

  fs::remove(directory.path() / "checkpoint-100/shoehorn_manifest.json");
  directory.write("checkpoint-50/state.json", "Content");
  fs::resize_file(directory.path() / "checkpoint-40/large", 10);
  fs::remove(directory.path() / "checkpoint-30/below/empty");
  directory.write("checkpoint-20/shoehorn_manifest.json", "{\"files\":");
  const LatestCheckpoint latest = latest_checkpoint(directory.path());
  EXPECT_EQ(latest.path, directory.path() / "checkpoint-10");
  EXPECT_EQ(latest.step, 10);
  ASSERT_EQ(latest.skipped.size(), 5U);
  EXPECT_EQ(latest.skipped[0].path, directory.path() / "checkpoint-100");
  EXPECT_TRUE(contains(latest.skipped[0].reason, "shoehorn_manifest.json: expected a manifest, got none"));
  EXPECT_TRUE(contains(latest.skipped[1].reason, "state.json: expected the checksum xxh128"));
  EXPECT_TRUE(contains(latest.skipped[2].reason, "large: expected 5000 bytes, got 10"));
  EXPECT_TRUE(contains(latest.skipped[3].reason, "below/empty: expected a file of 0 bytes, got none"));
  EXPECT_TRUE(contains(latest.skipped[4].reason, "expected JSON"));
}

TEST(LatestCheckpoint, OnlyThoseBelowANumber) {
  const TestDirectory directory;
  for (const int64_t step : {9, 10}) write_checkpoint(directory.path(), step, "content");
  EXPECT_EQ(latest_checkpoint(directory.path(), 10).step, 9);
  EXPECT_FALSE(latest_checkpoint(directory.path(), 9).path.has_value());
}

TEST(RecoverCheckpoints, RemovesWhatTheDeadLeftAndNothingElse) {
  const TestDirectory directory;
  const pid_t dead = dead_process();
  const StagedDirectory living(directory.path(), 5);
  const AtomicFile open_file(directory.path() / "open");
  write_checkpoint(directory.path(), 1, "x");
  const Names kept_before = list_directory(directory.path());
  const Names ours = {fmt::format(".tmp-checkpoint-2-{}", dead), fmt::format(".trash-checkpoint-3-{}", dead),
                      fmt::format(".old-checkpoint-1-{}", dead),
                      fmt::format(".tmp-checkpoint-4-{}", getpid())};
  for (const std::string& name : ours) directory.write(name + "/file", "x");
  directory.write(fmt::format(".config.json.tmp-{}-0", dead), "x");
  directory.write(fmt::format(".config.json.tmp-{}-77", getpid()), "x");
  const Names others = {fmt::format(".tmp-checkpoint-2-{}", getppid()),
                        ".tmp-checkpoint-2-99999999999",
                        fmt::format(".tmp-checkpoint-x-{}", dead),
                        fmt::format("tmp-checkpoint-2-{}", dead),
                        ".tmp-checkpoint-2",
                        ".tmp-",
                        fmt::format(".tmp-other-{}", dead)};
  for (const std::string& name : others) directory.write(name + "/file", "x");

  const RecoveredCheckpoints recovered = recover_checkpoints(directory.path());
  EXPECT_EQ(recovered.removed.size(), 6U);
  EXPECT_TRUE(recovered.restored.empty());
  Names expected = kept_before;
  expected.insert(expected.end(), others.begin(), others.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(list_directory(directory.path()), expected);
  EXPECT_TRUE(recover_checkpoints(directory.path()).removed.empty());
  EXPECT_TRUE(recover_checkpoints(directory.path() / "absent").removed.empty());
}

TEST(RecoverCheckpoints, UndoesAReplacementCutShort) {
  const TestDirectory directory;
  const pid_t dead = dead_process();
  write_checkpoint(directory.path(), 6, "old");
  fs::rename(directory.path() / "checkpoint-6", directory.path() / fmt::format(".old-checkpoint-6-{}", dead));
  directory.write(fmt::format(".tmp-checkpoint-6-{}/state.json", dead), "new");
  const RecoveredCheckpoints recovered = recover_checkpoints(directory.path());
  EXPECT_EQ(names_of(recovered.restored), Names{"checkpoint-6"});
  EXPECT_EQ(list_directory(directory.path()), Names{"checkpoint-6"});
  EXPECT_EQ(read_text_file(*latest_checkpoint(directory.path()).path / "state.json"), "old");
}

class Rotation : public testing::Test {
 protected:
  Rotation() {
    for (int64_t step = 1; step <= 5; ++step) write_checkpoint(path(), step * 5, "x");
  }
  const fs::path& path() const { return directory_.path(); }
  Names rotate(int64_t limit, const fs::path& best) {
    rotate_checkpoints(path(), limit, best);
    return list_directory(path());
  }

 private:
  TestDirectory directory_;
};

TEST_F(Rotation, NoLimitDeletesNothing) {
  EXPECT_EQ(rotate(0, "").size(), 5U);
  EXPECT_EQ(rotate(-1, "").size(), 5U);
  EXPECT_EQ(rotate(5, "").size(), 5U);
}

TEST_F(Rotation, OldestGoFirstByNumber) {
  EXPECT_EQ(names_of(rotate_checkpoints(path(), 2, "")),
            (Names{"checkpoint-5", "checkpoint-10", "checkpoint-15"}));
  EXPECT_EQ(list_directory(path()), (Names{"checkpoint-20", "checkpoint-25"}));
}

TEST_F(Rotation, BestAndNewestStay) {
  EXPECT_EQ(rotate(1, path() / "checkpoint-10/."), (Names{"checkpoint-10", "checkpoint-25"}));
  EXPECT_EQ(rotate(1, path() / "checkpoint-absent"), Names{"checkpoint-25"});
}

TEST_F(Rotation, TheNewestCompleteOneStays) {
  fs::remove(path() / "checkpoint-25/state.json");
  fs::remove(path() / "checkpoint-20/state.json");
  EXPECT_EQ(rotate(1, "").front(), "checkpoint-15");
}

TEST_F(Rotation, TheOneWrittenLastStays) {
  using namespace std::chrono_literals;
  fs::last_write_time(path() / "checkpoint-10", fs::last_write_time(path() / "checkpoint-25") + 5s);
  EXPECT_EQ(rotate(1, ""), (Names{"checkpoint-10", "checkpoint-25"}));
}

}  // namespace
}  // namespace shoehorn
