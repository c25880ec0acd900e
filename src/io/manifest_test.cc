#include "io/manifest.h"

#include <nlohmann/json.hpp>

#include "io/checkpoint_directory.h"
#include "io/json_file.h"
#include "io/safetensors_writer.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Of "abc", as xxh128sum prints it.
constexpr const char* kChecksumOfAbc = "06b05ab6733a618578af5f94892f3950";

void write_tensors(const fs::path& path, float value) {
  SafetensorsWriter writer(path, {{"w", DType::kF32, {3}}});
  const std::vector<float> values(3, value);
  writer.append("w", std::as_bytes(std::span(values)));
  writer.commit();
}

fs::path write_checkpoint(const fs::path& output_dir) {
  StagedDirectory staged(output_dir, 1);
  write_text_atomic(staged.path() / "state.json", "abc");
  write_tensors(staged.path() / "model.safetensors", 1);
  fs::create_directory(staged.path() / "below");
  std::ofstream(staged.path() / "below/foreign") << "abc";  // not by AtomicFile
  return staged.commit();
}

TEST(Manifest, HasTheChecksumOfEveryFile) {
  const TestDirectory directory;
  const fs::path path = write_checkpoint(directory.path());
  const json files = read_json(path / kManifestName)["files"];
  EXPECT_EQ(files.size(), 3U);
  EXPECT_EQ(files["state.json"], (json{{"bytes", 3}, {"xxh128", kChecksumOfAbc}}));
  EXPECT_EQ(files["below/foreign"], files["state.json"]);
  EXPECT_TRUE(has_checksum(path / "model.safetensors"));
  EXPECT_FALSE(has_checksum(path / "absent"));
  EXPECT_FALSE(has_checksum(directory.path() / "absent"));
}

TEST(Manifest, EveryFlippedBitIsFound) {
  const TestDirectory directory;
  const fs::path path = write_checkpoint(directory.path());
  for (const char* name : {"state.json", "model.safetensors", "below/foreign", "shoehorn_manifest.json"}) {
    const auto bits = static_cast<int64_t>(fs::file_size(path / name)) * 8;
    for (int64_t bit = 0; bit < bits; ++bit) {
      flip_bit(path / name, bit);
      const std::string defect = checkpoint_defect(path, VerifiedFiles::kAll);
      EXPECT_TRUE(name == kManifestName ? !defect.empty() : defect.starts_with(name)) << name << " " << bit;
      flip_bit(path / name, bit);
    }
  }
  EXPECT_EQ(checkpoint_defect(path, VerifiedFiles::kAll), "");
}

TEST(Manifest, TensorsAreLeftToWhoLoadsThem) {
  const TestDirectory directory;
  const fs::path path = write_checkpoint(directory.path());
  flip_bit(path / "model.safetensors",
           static_cast<int64_t>(fs::file_size(path / "model.safetensors")) * 8 - 1);
  EXPECT_EQ(checkpoint_defect(path), "");
  EXPECT_TRUE(contains(checkpoint_defect(path, VerifiedFiles::kAll),
                       "model.safetensors: expected the checksum xxh128"));
  fs::resize_file(path / "model.safetensors", 7);
  EXPECT_TRUE(contains(checkpoint_defect(path), "model.safetensors: expected"));
}

// What the bytes were meant to be counts, not what lies on the disk when the manifest is written.
TEST(Manifest, ChecksumsAreThoseOfWhatWasWritten) {
  const TestDirectory directory;
  StagedDirectory staged(directory.path(), 1);
  write_text_atomic(staged.path() / "state.json", "abc");
  flip_bit(staged.path() / "state.json", 0);
  EXPECT_TRUE(contains(checkpoint_defect(staged.commit()), "state.json: expected the checksum"));
}

TEST(Manifest, OlderOnes) {
  const TestDirectory directory;
  directory.write("state.json", "123456789");
  directory.write("model.safetensors", "large");
  const auto defect_of = [&](const std::string& files) {
    directory.write(std::string(kManifestName), "{\"version\": 1, \"files\": " + files + "}");
    return checkpoint_defect(directory.path());
  };
  EXPECT_EQ(
      defect_of(R"({"state.json": {"bytes": 9, "crc32": "cbf43926"}, "model.safetensors": {"bytes": 5}})"),
      "");
  EXPECT_FALSE(has_checksum(directory.path() / "model.safetensors"));
  EXPECT_TRUE(contains(defect_of(R"({"state.json": {"bytes": 9, "crc32": "cbf43927"}})"),
                       "state.json: expected the checksum crc32 cbf43927, got cbf43926"));
}

TEST(Manifest, MalformedOnesAreDefects) {
  const TestDirectory directory;
  directory.write("state.json", "abc");
  for (const char* manifest :
       {"", "[]", "{}", R"({"version":2,"files":{}})", R"({"version":1,"files":[]})",
        R"({"version":1,"files":{},"more":1})", R"({"version":1,"files":{"state.json":3}})",
        R"({"version":1,"files":{"state.json":{"bytes":"3"}}})", R"({"version":1,"files":{"state.json":{}}})",
        R"({"version":1,"files":{"../x":{"bytes":3}}})",
        R"({"version":1,"files":{"/etc/passwd":{"bytes":3}}})", R"({"version":1,"files":{"":{"bytes":3}}})",
        R"({"version":1,"files":{"state.json":{"bytes":3,"crc32":7}}})",
        R"({"version":1,"files":{"state.json":{"bytes":3,"md5":"7"}}})",
        R"({"version":1,"files":{"state.json":{"bytes":3,"xxh128":"06b05ab6733a618578af5f94892f3950"}}})"}) {
    directory.write(std::string(kManifestName), manifest);
    EXPECT_NE(checkpoint_defect(directory.path()), "") << manifest;
  }
}

class ManifestOfAModel : public testing::Test {
 protected:
  const fs::path& path() const { return directory_.path(); }
  void save(float value) const {
    ManifestUpdate manifest(path());
    write_tensors(path() / "model.safetensors", value);
    EXPECT_TRUE(contains(message_of<DamagedFile>([&] { has_checksum(path() / "model.safetensors"); }),
                         "whose saving was cut short; save it again"));
    write_text_atomic(path() / "config.json", "{}");
    manifest.commit();
  }
  const TestDirectory directory_;
};

TEST_F(ManifestOfAModel, ListsTheWeightsAlone) {
  save(1);
  EXPECT_TRUE(has_checksum(path() / "model.safetensors"));
  EXPECT_FALSE(has_checksum(path() / "config.json"));
  save(2);
  EXPECT_NO_THROW(verify_listed(path() / "model.safetensors"));
  write_tensors(path() / "model.safetensors", 1);
  const std::string message = message_of<DamagedFile>([&] { verify_listed(path() / "model.safetensors"); });
  EXPECT_TRUE(contains(message, "model.safetensors] expected the checksum xxh128"));
  EXPECT_TRUE(contains(message, "delete shoehorn_manifest.json"));
}

TEST_F(ManifestOfAModel, WhatElseWasListedStaysSo) {
  const fs::path checkpoint = write_checkpoint(path());
  ManifestUpdate manifest(checkpoint);
  write_tensors(checkpoint / "adapter_model.safetensors", 3);
  fs::remove(checkpoint / "model.safetensors");
  write_text_atomic(checkpoint / "state.json", "def");
  manifest.commit();
  EXPECT_EQ(checkpoint_defect(checkpoint, VerifiedFiles::kAll), "");
  EXPECT_TRUE(has_checksum(checkpoint / "adapter_model.safetensors"));
  EXPECT_TRUE(has_checksum(checkpoint / "state.json"));
}

// A full disk, for one: the old model is as good as before.
TEST_F(ManifestOfAModel, AFailureBeforeTheFirstFileLeavesTheOldOne) {
  save(1);
  {
    const ManifestUpdate manifest(path());
    AtomicFile unfinished(path() / "model.safetensors");
    unfinished.write(std::string_view("x"));
    unfinished.seal();
  }
  EXPECT_NO_THROW(verify_manifest(path(), VerifiedFiles::kAll));
}

TEST_F(ManifestOfAModel, ADamagedOneIsReplaced) {
  directory_.write(std::string(kManifestName), "{");
  save(1);
  EXPECT_NO_THROW(verify_manifest(path(), VerifiedFiles::kAll));
}

TEST(ChecksummedFiles, OnlyThoseBelowTheDirectory) {
  const TestDirectory directory;
  fs::create_directories(directory.path() / "a/b");
  fs::create_directories(directory.path() / "ab");
  const ChecksummedFiles checksums(directory.path() / "a/", FileSync::kEach);
  for (const char* name : {"a/x", "a/b/x", "ab/x", "x"}) write_text_atomic(directory.path() / name, "abc");
  ASSERT_EQ(checksums.files().size(), 2U);
  EXPECT_EQ(checksums.files().at("x").xxh128, kChecksumOfAbc);
  EXPECT_EQ(checksums.files().at("b/x").bytes, 3);
  EXPECT_FALSE(ChecksummedFiles::covers(directory.path() / "a"));
}

}  // namespace
}  // namespace shoehorn
