#include "io/verified_tensors.h"

#include <numeric>

#include "io/safetensors_writer.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

// Three tensors, the second longer than a piece that is checksummed at once.
class VerifiedTensorsTest : public testing::Test {
 protected:
  VerifiedTensorsTest() {
    ManifestUpdate manifest(directory_.path());
    SafetensorsWriter writer(path(),
                             {{"a", DType::kF32, {5}}, {"b", DType::kF32, {kLong}}, {"c", DType::kU8, {3}}});
    for (const TensorSpec& spec : writer.tensors()) {
      std::vector<std::byte> bytes(static_cast<size_t>(tensor_bytes(spec)));
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 300);
      writer.append(spec.name, bytes);
    }
    writer.commit();
    manifest.commit();
  }

  fs::path path() const { return directory_.path() / "model.safetensors"; }

  int64_t bytes() const { return static_cast<int64_t>(fs::file_size(path())); }
  void flip(int64_t byte) const { flip_bit(path(), byte * 8 + 4); }

  // Reads the tensors of these names.
  void load(const std::vector<std::string>& names) const {
    const SafetensorsFile file = SafetensorsFile::open(path());
    VerifiedTensors tensors(file);
    load_verified(tensors, [&] {
      for (const std::string& name : names) {
        std::vector<std::byte> bytes(static_cast<size_t>(tensors.tensor(name).bytes));
        tensors.read_into(name, bytes);
        std::vector<std::byte> expected(bytes.size());
        file.read_into(name, expected);
        EXPECT_EQ(bytes, expected);
      }
    });
  }

  static constexpr int64_t kLong = 150'000;
  const TestDirectory directory_;
};

TEST_F(VerifiedTensorsTest, InAnyOrderAndInPart) {
  for (const std::vector<std::string>& names :
       {std::vector<std::string>{"a", "b", "c"}, {}, {"b"}, {"c"}, {"c", "b", "a"}, {"a", "a", "b", "b"}}) {
    EXPECT_NO_THROW(load(names));
  }
}

TEST_F(VerifiedTensorsTest, FlippedBitsAreFoundWhateverIsRead) {
  // The header, and each tensor's beginning, inside and end.
  std::vector<int64_t> places(static_cast<size_t>(bytes() - kLong * 4 - 23));
  std::iota(places.begin(), places.end(), int64_t{0});
  for (const int64_t from_end :
       {int64_t{1}, int64_t{3}, int64_t{4}, int64_t{100'000}, kLong * 4 + 3, kLong * 4 + 23})
    places.push_back(bytes() - from_end);
  for (const int64_t place : places) {
    flip(place);
    for (const std::vector<std::string>& names : {std::vector<std::string>{"a", "b", "c"}, {}, {"c", "b"}}) {
      const std::string message = message_of<DamagedFile>([&] { load(names); });
      EXPECT_TRUE(contains(message, "model.safetensors] expected the checksum")) << place;
    }
    flip(place);
  }
  EXPECT_NO_THROW(load({"a"}));
}

TEST_F(VerifiedTensorsTest, WithoutAManifestNothingIsVerified) {
  fs::remove(directory_.path() / kManifestName);
  flip(bytes() - 1);
  EXPECT_NO_THROW(load({"a", "b", "c"}));
}

// Damage is said before what follows from it, and the rest only where there is no damage.
TEST_F(VerifiedTensorsTest, ErrorsOfTheLoader) {
  message_of<UserError>([&] { load({"absent"}); });
  flip(bytes() - 1);
  message_of<DamagedFile>([&] { load({"absent"}); });
}

TEST_F(VerifiedTensorsTest, AnotherSizeIsFoundAtOnce) {
  std::ofstream(path(), std::ios::app) << "x";
  EXPECT_TRUE(contains(message_of<DamagedFile>([&] { load({}); }), "bytes, got"));
}

}  // namespace
}  // namespace shoehorn
