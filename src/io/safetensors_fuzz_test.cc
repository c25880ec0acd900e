// Seeded mutations of a valid file: each must be refused with a UserError or parse into tensors that lie
// inside the data.
#include <random>

#include "io/safetensors.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

constexpr std::string_view kHeader =
    R"({"__metadata__":{"format":"pt"},"a.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
    R"("b\u00e9":{"dtype":"BF16","shape":[4],"data_offsets":[24,32]},"c":{"dtype":"I64","shape":[],"data_offsets":[32,40]},)"
    R"("d":{"dtype":"U8","shape":[0,7],"data_offsets":[40,40]}})";
constexpr int64_t kDataBytes = 40;

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    for (int64_t edits = 1 + below(4); edits > 0; --edits) edit(text);
    return text;
  }

  int64_t below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }

 private:
  void edit(std::string& text) {
    static const std::vector<std::string> kTokens = {"0",
                                                     "-1",
                                                     "9223372036854775807",
                                                     "18446744073709551616",
                                                     "1e9",
                                                     "NaN",
                                                     "null",
                                                     "true",
                                                     "{",
                                                     "}",
                                                     "[",
                                                     "]",
                                                     "\"",
                                                     ",",
                                                     ":",
                                                     "\\",
                                                     "\\u0000",
                                                     "\\ud800",
                                                     "[[",
                                                     "{}",
                                                     "F16",
                                                     "F64",
                                                     "BOOL",
                                                     "__metadata__",
                                                     "\"dtype\"",
                                                     "\"shape\":[1]",
                                                     "\xff",
                                                     " ",
                                                     "24",
                                                     "40"};
    const auto at = [&] { return static_cast<size_t>(below(static_cast<int64_t>(text.size()) + 1)); };
    const size_t place = at();
    switch (below(6)) {
      case 0:
        if (place < text.size()) text[place] = static_cast<char>(below(256));
        return;
      case 1:
        text.erase(place, static_cast<size_t>(below(12)));
        return;
      case 2:
        text.insert(place, kTokens[static_cast<size_t>(below(static_cast<int64_t>(kTokens.size())))]);
        return;
      case 3:
        text.insert(place, text.substr(at(), static_cast<size_t>(below(60))));
        return;
      case 4:
        // A digit for a digit keeps the JSON whole and reaches the checks behind it.
        if (const size_t digit = text.find_first_of("0123456789", place); digit != std::string::npos)
          text[digit] = static_cast<char>('0' + below(10));
        return;
      default:
        text.replace(place, static_cast<size_t>(below(4)),
                     kTokens[static_cast<size_t>(below(static_cast<int64_t>(kTokens.size())))]);
    }
  }

  std::mt19937_64 random_;
};

TEST(SafetensorsFuzz, MutatedHeadersAreRefusedOrConsistent) {
  Mutator mutator(20240607);
  int64_t parsed = 0;
  int64_t refused = 0;
  for (int i = 0; i < 30000; ++i) {
    const std::string text = mutator.mutate(std::string(kHeader));
    try {
      const SafetensorsHeader header = parse_safetensors_header(text, kDataBytes, "fuzz");
      int64_t at = kSafetensorsLengthBytes + static_cast<int64_t>(text.size());
      for (const TensorEntry& tensor : header.tensors) {
        ASSERT_EQ(tensor.file_offset, at) << text;
        ASSERT_EQ(tensor.bytes, tensor_bytes({tensor.name, tensor.dtype, tensor.shape})) << text;
        at += tensor.bytes;
      }
      ASSERT_EQ(at - kSafetensorsLengthBytes - static_cast<int64_t>(text.size()), kDataBytes) << text;
      ++parsed;
    } catch (const UserError& error) {
      ASSERT_TRUE(contains(error.what(), "expected")) << text;
      ++refused;
    }
  }
  EXPECT_GT(parsed, 100);
  EXPECT_GT(refused, 10000);
}

TEST(SafetensorsFuzz, MutatedFilesAreRefusedOrReadable) {
  const TestDirectory directory;
  Mutator mutator(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text = std::string(kHeader);
    if (mutator.below(2) == 0) text = mutator.mutate(text);
    uint64_t length = text.size();
    if (mutator.below(2) == 0) length ^= uint64_t{1} << mutator.below(64);
    std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes += text + std::string(static_cast<size_t>(kDataBytes), 'x');
    if (mutator.below(3) == 0)
      bytes.resize(static_cast<size_t>(mutator.below(static_cast<int64_t>(bytes.size()) + 20)));
    const auto path = directory.write("fuzz.safetensors", bytes);
    try {
      const SafetensorsFile file = SafetensorsFile::open(path);
      for (const TensorEntry& tensor : file.tensors()) {
        std::vector<std::byte> data(static_cast<size_t>(tensor.bytes));
        file.read_into(tensor.name, data);
      }
    } catch (const UserError&) {
      continue;
    }
  }
}

}  // namespace
}  // namespace shoehorn
