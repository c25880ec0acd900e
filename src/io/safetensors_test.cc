#include "io/safetensors.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <thread>

#include "io/float_convert.h"
#include "io/json_file.h"
#include "io/safetensors_writer.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;

// A file with this JSON as header and `data_bytes` bytes of data, byte i being i.
std::string file_of(std::string_view json, int64_t data_bytes) {
  const uint64_t length = json.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += json;
  for (int64_t i = 0; i < data_bytes; ++i) bytes += static_cast<char>(i);
  return bytes;
}

std::string tensor_json(std::string_view name, std::string_view dtype, std::string_view shape,
                        std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{}]}})", name, dtype, shape,
                     offsets);
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(SafetensorsFile, ReadsInPlace) {
  const TestDirectory directory;
  const auto path = directory.write("m.safetensors", file_of("{" + tensor_json("b", "U8", "3", "4,7") + "," +
                                                                 tensor_json("a", "F32", "1", "0,4") + "}  ",
                                                             7));
  const SafetensorsFile file = SafetensorsFile::open(path);
  ASSERT_EQ(file.tensors().size(), 2);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensor("b").bytes, 3);
  EXPECT_EQ(file.find("c"), nullptr);
  std::array<uint8_t, 3> b{};
  file.read_into("b", std::as_writable_bytes(std::span(b)));
  EXPECT_EQ(b, (std::array<uint8_t, 3>{4, 5, 6}));
  std::array<uint8_t, 2> part{};
  file.read_range("b", 1, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, (std::array<uint8_t, 2>{5, 6}));
  EXPECT_TRUE(contains(
      message_of<UserError>([&] { file.read_range("b", 2, std::as_writable_bytes(std::span(part))); }),
      "at offset 2"));
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { file.read_into("b", std::as_writable_bytes(std::span(part))); }),
               "U8 of shape [3]"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { (void)file.tensor("bb"); }), "is it"));
}

struct BadHeader {
  std::string json;
  int64_t data_bytes;
  std::string expected;
};

TEST(SafetensorsFile, RefusesMalformedHeaders) {
  const auto one = [](std::string_view dtype, std::string_view shape, std::string_view offsets) {
    return "{" + tensor_json("t", dtype, shape, offsets) + "}";
  };
  const std::string many_ones(3000, ' ');
  const std::vector<BadHeader> cases = {
      {"", 0, "got nothing"},
      {"[]", 0, "expected a JSON object"},
      {" {}", 0, "expected a JSON object"},
      {"{", 0, "expected JSON"},
      {"{} x", 0, "expected JSON"},
      {std::string("{}\0{", 4), 0, "NUL"},
      {"{\"\xff\":1}", 0, "expected JSON"},
      {R"({"t":1})", 0, "tensor 't'] expected an object, got the number 1"},
      {R"({"t":[]})", 0, "expected an object, got an array"},
      {R"({"t":null})", 0, "got null"},
      {R"({"a\u0000b":null})", 0, "tensor 'a\\x00b'] expected an object"},
      {R"({"t":{}})", 0, "got no dtype"},
      {R"({"t":{"dtype":"F32","shape":[]}})", 4, "got no data_offsets"},
      {R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4, "got no shape"},
      {R"({"t":{"dtype":"F32","dtype":"F32"}})", 0, "'dtype' twice"},
      {R"({"t":{"kind":"F32"}})", 0, "'kind'"},
      {R"({"t":{"dtype":7}})", 0, "a string as dtype, got the number 7"},
      {R"({"t":{"dtype":["F32"]}})", 0, "got an array"},
      {R"({"t":{"shape":"1"}})", 0, "an array as shape"},
      {R"({"t":{"shape":{"a":1}}})", 0, "got an object"},
      {R"({"t":{"shape":[[1]]}})", 0, "got an array"},
      {R"({"__metadata__":{"a":1}})", 0, "expected a string for 'a', got the number 1"},
      {R"({"__metadata__":{"a":{}}})", 0, "got an object"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "'a' twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "got it twice"},
      {"{" + tensor_json("t", "U8", "1", "0,1") + "," + tensor_json("t", "U8", "1", "1,2") + "}", 2,
       "got it twice"},
      {one("F32", "1", "0,4"), 3, "within the 3 bytes of data"},
      {one("F32", "1", "0,4"), 5, "1 bytes belong to no tensor"},
      {one("F33", "1", "0,4"), 4, "'F33'"},
      {one("F8_E4M3", "4", "0,4"), 4, "'F8_E4M3'"},
      {one("F32", "-1", "0,4"), 4, "dims from 0 to 2^63 - 1, got the number -1"},
      {one("F32", "1.0", "0,4"), 4, "got the number 1.0"},
      {one("F32", "1e0", "0,4"), 4, "got the number 1e0"},
      {one("F32", "true", "0,4"), 4, "got true"},
      {one("F32", "9223372036854775808", "0,4"), 4, "got 9223372036854775808"},
      {one("F32", "99999999999999999999999", "0,4"), 4, "got the number 99999999999999999999999"},
      {one("F32", "4294967296,4294967296", "0,0"), 0, "fit in 63 bits"},
      {one("F64", "2305843009213693952", "0,0"), 0, "fit in 63 bits"},
      {one("F32", "2", "0,4"), 4, "expected 8 bytes for F32 of shape [2], got data_offsets [0, 4]"},
      {one("F32", "0", "0,4"), 4, "expected 0 bytes"},
      {one("F32", "1", "4,0"), 4, "begin first"},
      {one("F32", "1", "-4,0"), 4, "data_offsets from 0"},
      {one("F32", "1", "0"), 4, "got 1 numbers"},
      {one("F32", "1", "0,4,4"), 4, "a third number"},
      {one("U8", "1", "1,2"), 2, "a hole"},
      {"{" + tensor_json("a", "U8", "2", "0,2") + "," + tensor_json("b", "U8", "2", "3,5") + "}", 5,
       "tensor 'b'] expected data from byte 2 on, where the tensor before it ends, got byte 3, which leaves "
       "a hole"},
      {"{" + tensor_json("a", "U8", "2", "0,2") + "," + tensor_json("b", "U8", "2", "1,3") + "}", 3,
       "an overlap"},
      {"{" + tensor_json("a", "U8", "2", "0,2") + "," + tensor_json("b", "U8", "2", "0,2") + "}", 2,
       "an overlap"},
      {"{" + tensor_json("a", "U8", "4", "0,4") + "," + tensor_json("b", "U8", "0", "2,2") + "}", 4,
       "an overlap"},
      {R"({"a":)" + std::string(100000, '[') + "}", 0, "got an array"},
      {R"({"a":)" + std::string(100000, '{') + "}", 0, "expected JSON"},
  };
  const TestDirectory directory;
  for (const BadHeader& bad : cases) {
    const auto path = directory.write("bad.safetensors", file_of(bad.json, bad.data_bytes));
    const std::string message = message_of<UserError>([&] { SafetensorsFile::open(path); });
    EXPECT_TRUE(contains(message, "bad.safetensors")) << bad.json.substr(0, 200);
    EXPECT_TRUE(contains(message, bad.expected)) << bad.json.substr(0, 200);
    EXPECT_TRUE(contains(message, "expected")) << bad.json.substr(0, 200);
    EXPECT_LT(message.size(), 1000);
  }
}

TEST(SafetensorsFile, RefusesBrokenFiles) {
  const TestDirectory directory;
  const auto refusal = [&](std::string_view bytes) {
    const auto path = directory.write("bad.safetensors", bytes);
    return message_of<UserError>([&] { SafetensorsFile::open(path); });
  };
  EXPECT_TRUE(contains(refusal(""), "expected at least 8 bytes, got 0"));
  EXPECT_TRUE(contains(refusal("1234567"), "got 7"));
  EXPECT_TRUE(
      contains(refusal(std::string("\x10\0\0\0\0\0\0\0{}", 10)), "expected 16 bytes of header, got 2"));
  EXPECT_TRUE(contains(refusal(std::string("\1\xe1\xf5\5\0\0\0\0{}", 10)),
                       "at most 100000000 bytes, got a length field of 100000001"));
  EXPECT_TRUE(contains(refusal(std::string(8, '\xff') + "{}"), "18446744073709551615"));
  EXPECT_TRUE(contains(refusal("version https://git-lfs.github.com/spec/v1\n"), "git lfs pull"));
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { SafetensorsFile::open(directory.path() / "absent"); }), "absent"));
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { SafetensorsFile::open(directory.path()); }), "got a directory"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { SafetensorsFile::open("/dev/null"); }), "device"));
  // Every prefix of a good file is refused.
  const std::string good = file_of("{" + tensor_json("a", "F32", "2", "0,8") + "}", 8);
  for (size_t length = 0; length < good.size(); ++length) refusal(std::string_view(good).substr(0, length));
  // A file cut short after it was opened.
  const auto path = directory.write("good.safetensors", good);
  const SafetensorsFile file = SafetensorsFile::open(path);
  fs::resize_file(path, good.size() - 4);
  std::array<std::byte, 8> data{};
  EXPECT_TRUE(contains(message_of<SystemError>([&] { file.read_into("a", data); }), "changed"));
}

TEST(FloatConvert, EveryHalfAndBfloat16) {
  std::vector<uint16_t> all(65536);
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<uint16_t>(i);
  std::vector<float> from_half(all.size());
  std::vector<float> from_bfloat(all.size());
  std::vector<bfloat16> copied(all.size());
  const auto source = std::as_bytes(std::span(all));
  convert_elements(DType::kF16, source, std::span(from_half));
  convert_elements(DType::kBF16, source, std::span(from_bfloat));
  convert_elements(DType::kBF16, source, std::span(copied));
  for (size_t i = 0; i < all.size(); ++i) {
    const int exponent = (static_cast<int>(i) >> 10) & 31;
    const int mantissa = static_cast<int>(i) & 1023;
    const double sign = i >= 32768 ? -1.0 : 1.0;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(from_half[i]), mantissa != 0);
      if (mantissa == 0) {
        EXPECT_EQ(from_half[i], sign * std::numeric_limits<float>::infinity());
      }
    } else {
      const double expected =
          sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
      EXPECT_EQ(from_half[i], expected) << i;
      EXPECT_EQ(std::signbit(from_half[i]), i >= 32768);
    }
    EXPECT_EQ(std::bit_cast<uint32_t>(from_bfloat[i]), static_cast<uint32_t>(i) << 16);
    EXPECT_TRUE(std::isnan(from_bfloat[i]) || copied[i].bits == i);
  }
}

TEST(SafetensorsFile, ConvertsThroughAnyStaging) {
  const TestDirectory directory;
  constexpr int64_t kCount = 10007;  // odd: no staging size divides it
  std::vector<double> values(kCount);
  for (int64_t i = 0; i < kCount; ++i)
    values[static_cast<size_t>(i)] =
        std::ldexp(1.0 + i * 0x1p-14, static_cast<int>(i % 41) - 20) * (i % 3 == 0 ? -1 : 1);
  std::vector<float> floats(values.begin(), values.end());
  std::vector<bfloat16> bfloats;
  bfloats.reserve(kCount);
  for (const float value : floats) bfloats.push_back(to_bfloat16(value));
  SafetensorsWriter writer(directory.path() / "m.safetensors", {{"f64", DType::kF64, {kCount}},
                                                                {"f32", DType::kF32, {kCount}},
                                                                {"bf16", DType::kBF16, {kCount}},
                                                                {"i32", DType::kI32, {1}}});
  writer.append("f64", std::as_bytes(std::span(values)));
  writer.append("f32", std::as_bytes(std::span(floats)));
  writer.append("bf16", std::as_bytes(std::span(bfloats)));
  writer.append("i32", bytes_of("1234"));
  writer.commit();
  const SafetensorsFile file = SafetensorsFile::open(directory.path() / "m.safetensors");
  for (const size_t staging_bytes : {size_t{4096}, size_t{4097}, size_t{5003}, size_t{1} << 20}) {
    std::vector<std::byte> memory(staging_bytes + 1);
    const std::span<std::byte> staging = std::span(memory).subspan(1);  // unaligned
    for (const char* name : {"f64", "f32", "bf16"}) {
      std::vector<float> out(kCount);
      std::vector<bfloat16> rounded(kCount);
      file.read_converted(name, std::span(out), staging);
      file.read_converted(name, std::span(rounded), staging);
      for (size_t i = 0; i < kCount; ++i) {
        EXPECT_EQ(out[i], std::string_view(name) == "bf16" ? to_float(bfloats[i]) : floats[i]);
        EXPECT_EQ(rounded[i].bits, bfloats[i].bits);
      }
    }
  }
  std::vector<float> out(kCount);
  std::vector<std::byte> staging(4096);
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { file.read_converted("i32", std::span(out).first(1), staging); }),
               "got I32"));
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { file.read_converted("f64", std::span(out).first(9), staging); }),
               "expected 9 elements, got 10007"));
  message_of<InternalError>(
      [&] { file.read_converted("f64", std::span(out), std::span(staging).first(4095)); });
}

TEST(SafetensorsFile, ReadsOnManyThreads) {
  const TestDirectory directory;
  std::string data(100003, '\0');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7);
  SafetensorsWriter writer(directory.path() / "m.safetensors", {{"x", DType::kU8, {100003}}});
  writer.append("x", bytes_of(data));
  writer.commit();
  const SafetensorsFile file = SafetensorsFile::open(directory.path() / "m.safetensors");
  std::vector<std::string> results(4, std::string(data.size(), '\0'));
  std::vector<std::thread> threads;
  threads.reserve(results.size());
  for (std::string& result : results)
    threads.emplace_back([&] { file.read_into("x", std::as_writable_bytes(std::span(result))); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& result : results) EXPECT_EQ(result, data);
}

TEST(SafetensorsGolden, ReadsWhatPythonWroteAndWritesTheSameBytes) {
  const SafetensorsFile file = SafetensorsFile::open(golden("io_dtypes.safetensors"));
  EXPECT_EQ(file.metadata(), kPyTorchMetadata);
  EXPECT_EQ(file.tensors().size(), 13);
  std::vector<std::byte> staging(4096);
  for (const char* name : {"f32", "bf16", "f16", "f64"}) {
    EXPECT_EQ(file.tensor(name).shape, (std::vector<int64_t>{2, 3}));
    std::array<float, 6> values{};
    file.read_converted(name, std::span(values), staging);
    EXPECT_EQ(values, (std::array<float, 6>{-2, -1, 0, 1, 2, 3})) << name;
  }
  const auto check = [&]<typename T>(const char* name, DType dtype, std::array<T, 6> expected) {
    std::array<T, 6> values{};
    EXPECT_EQ(file.tensor(name).dtype, dtype);
    file.read_into(name, std::as_writable_bytes(std::span(values)));
    EXPECT_EQ(values, expected) << name;
  };
  check("i8", DType::kI8, std::array<int8_t, 6>{-2, -1, 0, 1, 2, 3});
  check("i16", DType::kI16, std::array<int16_t, 6>{-2, -1, 0, 1, 2, 3});
  check("i32", DType::kI32, std::array<int32_t, 6>{-2, -1, 0, 1, 2, 3});
  check("i64", DType::kI64, std::array<int64_t, 6>{-2, -1, 0, 1, 2, 3});
  check("u8", DType::kU8, std::array<uint8_t, 6>{0, 1, 2, 3, 4, 5});
  check("bool", DType::kBool, std::array<uint8_t, 6>{1, 0, 1, 0, 1, 0});
  EXPECT_EQ(file.tensor("empty").bytes, 0);
  EXPECT_TRUE(file.tensor("scalar").shape.empty());
  EXPECT_NE(file.find("quote\" slash\\ tab\t é 漢 \x7f"), nullptr);

  const TestDirectory directory;
  std::vector<TensorSpec> specs;
  for (const TensorEntry& entry : file.tensors()) specs.push_back({entry.name, entry.dtype, entry.shape});
  std::reverse(specs.begin(), specs.end());
  sort_as_hugging_face(specs);
  SafetensorsWriter writer(directory.path() / "same.safetensors", specs);
  for (const TensorSpec& spec : specs) {
    std::vector<std::byte> data(static_cast<size_t>(tensor_bytes(spec)));
    file.read_into(spec.name, data);
    writer.append(spec.name, data);
  }
  writer.commit();
  EXPECT_EQ(read_text_file(directory.path() / "same.safetensors"),
            read_text_file(golden("io_dtypes.safetensors")));
}

TEST(SafetensorsGolden, ShardsAsTransformersDoes) {
  const SafetensorsModel model = SafetensorsModel::open(golden("io_sharded"));
  std::vector<TensorSpec> specs;
  for (const char* name : {"w5", "w4", "w3", "w2", "w1", "w0"}) {
    const TensorEntry& entry = model.tensor(name);
    specs.push_back({entry.name, entry.dtype, entry.shape});
  }
  EXPECT_EQ(model.names(), (std::vector<std::string>{"w0", "w1", "w2", "w3", "w4", "w5"}));
  const TestDirectory directory;
  SafetensorsModelWriter writer(directory.path(), specs, 100);
  std::array<std::byte, 8> staging{};
  for (const TensorSpec& spec : writer.order()) {
    writer.append_filled(spec.name, staging, [&](int64_t offset, std::span<std::byte> chunk) {
      model.read_range(spec.name, offset, chunk);
    });
  }
  EXPECT_FALSE(fs::exists(directory.path() / writer.shards()[0].file_name)) << "named before it is complete";
  writer.commit();
  std::vector<std::string> names = list_directory(directory.path());
  names.push_back("config.json");
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, list_directory(golden("io_sharded")));
  for (const std::string& name : list_directory(directory.path())) {
    EXPECT_EQ(read_text_file(directory.path() / name), read_text_file(golden("io_sharded") / name)) << name;
  }
}

class ShardedCopy : public testing::Test {
 protected:
  ShardedCopy() {
    fs::copy(golden("io_sharded"), directory_.path() / "m", fs::copy_options::recursive);
    index_ = read_json(model() / "model.safetensors.index.json");
  }
  fs::path model() const { return directory_.path() / "m"; }
  std::string refusal() {
    write_json_atomic(model() / "model.safetensors.index.json", index_);
    return message_of<UserError>([&] { SafetensorsModel::open(model()); });
  }

  TestDirectory directory_;
  nlohmann::json index_;
};

TEST_F(ShardedCopy, RefusesAMissingShard) {
  const std::string shard = index_["weight_map"]["w0"];
  fs::remove(model() / shard);
  EXPECT_TRUE(contains(refusal(), shard));
}

TEST_F(ShardedCopy, RefusesAMapThatLies) {
  const nlohmann::json good = index_;
  const std::string other = good["weight_map"]["w5"] == good["weight_map"]["w4"] ? good["weight_map"]["w3"]
                                                                                 : good["weight_map"]["w4"];
  index_["weight_map"]["w5"] = other;
  EXPECT_TRUE(contains(refusal(), "'w5'"));
  index_ = good;
  // Every shard is still named: only the tensor's own place tells.
  const std::string shard = good["weight_map"]["w0"];
  ASSERT_EQ(good["weight_map"]["w1"], shard);
  ASSERT_NE(shard, other);
  index_["weight_map"]["w0"] = other;
  EXPECT_TRUE(contains(refusal(), "tensor 'w0'] expected it in " + other + ", got it in " + shard));
  index_ = good;
  index_["weight_map"]["ghost"] = other;
  EXPECT_TRUE(contains(refusal(), "tensor 'ghost'] expected it in " + other + ", got none"));
  index_ = good;
  index_["weight_map"].erase("w1");
  EXPECT_TRUE(contains(refusal(), "tensor 'w1'] expected it in no shard"));
  index_["weight_map"]["w3"] = "../m/" + other;
  EXPECT_TRUE(contains(refusal(), "of this directory"));
  index_["weight_map"]["w3"] = std::string(5000, 'x') + ".safetensors";
  EXPECT_TRUE(contains(refusal(), "xxx"));
  index_["weight_map"]["w3"] = 3;
  EXPECT_TRUE(contains(refusal(), "number"));
  index_["weight_map"] = nlohmann::json::object();
  EXPECT_TRUE(contains(refusal(), "weight_map"));
  index_ = nlohmann::json::array();
  EXPECT_TRUE(contains(refusal(), "weight_map"));
}

TEST(SafetensorsWriter, ChecksTheOrderOfData) {
  const TestDirectory directory;
  const auto path = directory.path() / "m.safetensors";
  {
    SafetensorsWriter writer(path, {{"a", DType::kU8, {4}}, {"e", DType::kF32, {0}}, {"b", DType::kU8, {}}});
    EXPECT_EQ(writer.file_bytes(), safetensors_file_bytes(writer.tensors()));
    message_of<InternalError>([&] { writer.append("b", bytes_of("x")); });
    writer.append("a", bytes_of("12"));
    message_of<InternalError>([&] { writer.append("e", {}); });
    message_of<InternalError>([&] { writer.append("a", bytes_of("345")); });
    message_of<InternalError>([&] { writer.commit(); });
    writer.append("a", bytes_of("34"));
    writer.append("e", {});
    writer.append("b", bytes_of("5"));
    message_of<InternalError>([&] { writer.append("b", bytes_of("6")); });
    writer.commit();
    EXPECT_EQ(fs::file_size(path), static_cast<uintmax_t>(writer.file_bytes()));
  }
  std::string data(4, '\0');
  SafetensorsFile::open(path).read_into("a", std::as_writable_bytes(std::span(data)));
  EXPECT_EQ(data, "1234");
  {
    const SafetensorsWriter abandoned(directory.path() / "other.safetensors", {{"a", DType::kU8, {4}}});
  }
  EXPECT_EQ(list_directory(directory.path()), std::vector<std::string>{"m.safetensors"});
  message_of<InternalError>(
      [&] { SafetensorsWriter(path, {{"a", DType::kU8, {4}}, {"a", DType::kU8, {4}}}); });
  message_of<UserError>([&] { SafetensorsWriter(path, {{"\xff", DType::kU8, {4}}}); });
  message_of<UserError>(
      [&] { SafetensorsWriter(path, {{"a", DType::kU8, {int64_t{1} << 32, int64_t{1} << 32}}}); });
}

TEST(SafetensorsModelWriter, ReplacesEarlierWeights) {
  const TestDirectory directory;
  const std::vector<TensorSpec> specs = {
      {"a", DType::kU8, {4}}, {"b", DType::kU8, {4}}, {"c", DType::kU8, {4}}};
  for (const auto& [max_bytes, files] :
       std::vector<std::pair<int64_t, size_t>>{{100, 1}, {4, 4}, {8, 3}, {100, 1}, {1, 4}}) {
    SafetensorsModelWriter writer(directory.path(), specs, max_bytes);
    for (const TensorSpec& spec : writer.order())
      writer.append(spec.name, bytes_of(std::string(4, spec.name[0])));
    writer.commit();
    EXPECT_EQ(list_directory(directory.path()).size(), files) << max_bytes;
    const SafetensorsModel model = SafetensorsModel::open(directory.path());
    std::string c(4, '\0');
    model.read_into("c", std::as_writable_bytes(std::span(c)));
    EXPECT_EQ(c, "cccc");
  }
  message_of<UserError>([&] { split_into_shards(specs, 0); });
}

TEST(SplitIntoShards, FollowsHuggingFace) {
  const auto spec = [](std::string name, int64_t bytes) {
    return TensorSpec{std::move(name), DType::kU8, {bytes}};
  };
  // 12 has a shard of its own, which does not close the one that 4 is in.
  const auto shards = split_into_shards({spec("a", 4), spec("b", 12), spec("c", 6), spec("d", 1)}, 10);
  ASSERT_EQ(shards.size(), 3);
  EXPECT_EQ(shards[0].tensors[0].name, "b");
  EXPECT_EQ(shards[1].tensors.size(), 2);
  EXPECT_EQ(shards[2].tensors[0].name, "d");
  EXPECT_EQ(shards[2].file_name, "model-00003-of-00003.safetensors");
  EXPECT_EQ(split_into_shards({}, 10).size(), 1);
}

}  // namespace
}  // namespace shoehorn
