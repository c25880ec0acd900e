#include "io/json_file.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "io/test_directory.h"

namespace shoehorn {
namespace {

using nlohmann::json;

TEST(JsonFile, WritesWhatPythonWrites) {
  EXPECT_EQ(format_json(read_json(golden("io_python.json"))), read_text_file(golden("io_python.json")));
  const JsonFormat unicode{.indent = 4, .sort_keys = true, .ensure_ascii = false, .final_newline = false};
  EXPECT_EQ(format_json(read_json(golden("io_python_unicode.json")), unicode),
            read_text_file(golden("io_python_unicode.json")));
}

TEST(JsonFile, PythonFloats) {
  for (const auto& [value, text] : std::vector<std::pair<double, std::string>>{{0.0, "0.0"},
                                                                               {-0.0, "-0.0"},
                                                                               {1.0, "1.0"},
                                                                               {5e-5, "5e-05"},
                                                                               {1e-4, "0.0001"},
                                                                               {1.5e-7, "1.5e-07"},
                                                                               {1e15, "1000000000000000.0"},
                                                                               {1e16, "1e+16"},
                                                                               {1.25e100, "1.25e+100"},
                                                                               {-123.456, "-123.456"},
                                                                               {0.1, "0.1"},
                                                                               {5e-324, "5e-324"},
                                                                               {1e22, "1e+22"}}) {
    EXPECT_EQ(format_python_float(value), text);
  }
}

TEST(JsonFile, OneLineAndUnsortedKeys) {
  const nlohmann::ordered_json value = {{"b", {1, 2}}, {"a", nlohmann::ordered_json::object()}};
  EXPECT_EQ(format_json(value, {.indent = -1, .sort_keys = false, .final_newline = false}),
            R"({"b": [1, 2], "a": {}})");
  EXPECT_EQ(format_json(value, {.indent = -1, .final_newline = false}), R"({"a": {}, "b": [1, 2]})");
}

TEST(JsonFile, LastOfEqualKeysWins) {
  EXPECT_EQ(parse_json(R"({"a": 1, "a": 2})", "x"), nlohmann::json({{"a", 2}}));
}

TEST(JsonFile, NonFiniteNumbersOnlyOutsideStrings) {
  const nlohmann::json value = parse_json(R"({"x": [NaN, -Infinity, Infinity, "NaN", "\"NaN", -1]})", "x");
  EXPECT_TRUE(std::isnan(value["x"][0].get<double>()));
  EXPECT_EQ(value["x"][1], -HUGE_VAL);
  EXPECT_EQ(value["x"][2], HUGE_VAL);
  EXPECT_EQ(value["x"][3], "NaN");
  EXPECT_EQ(value["x"][4], "\"NaN");
  for (const char* bad : {"{NaN: 1}", "NaNs", "-NaN", "nan", "infinity", "[NaN NaN]"})
    message_of<UserError>([&] { parse_json(bad, "x"); });
}

TEST(JsonFile, WholeNumbersFitIn63Bits) {
  EXPECT_EQ(whole_number(INT64_MIN), INT64_MIN);
  EXPECT_EQ(whole_number(uint64_t{INT64_MAX}), INT64_MAX);
  EXPECT_EQ(whole_number(uint64_t{INT64_MAX} + 1), std::nullopt);
  EXPECT_EQ(whole_number(1.0), std::nullopt);
  EXPECT_EQ(whole_number("1"), std::nullopt);
}

TEST(JsonFile, NamesLineAndColumn) {
  const TestDirectory directory;
  const auto refusal = [&](std::string_view text) {
    const auto path = directory.write("bad.json", text);
    return message_of<UserError>([&] { read_json(path); });
  };
  EXPECT_TRUE(contains(refusal("{\n  \"a\": 1,\n  \"b\" 2\n}"), "bad.json:3:7] expected JSON"));
  EXPECT_TRUE(contains(refusal("{\"a\": NaN, \"b\" 2}"), "bad.json:1:16] expected JSON"));
  EXPECT_TRUE(contains(refusal(""), "bad.json:1:1]"));
  EXPECT_TRUE(contains(refusal("{\"a\": 1"), ":1:8]"));
  EXPECT_TRUE(contains(refusal("1 2"), ":1:3]"));
  EXPECT_TRUE(contains(refusal(std::string_view("{}\0x", 4)), "NUL"));
  EXPECT_TRUE(contains(refusal("\"\xff\""), "UTF-8"));
  EXPECT_TRUE(contains(refusal(std::string(100000, '[')), "nesting"));
  EXPECT_TRUE(contains(refusal("[1e999]"), "expected JSON"));
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { read_json(directory.path() / "absent.json"); }), "absent.json"));
}

TEST(JsonFile, RefusesToWriteWhatIsNotUtf8) {
  for (const char* bad : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "a\x80"}) {
    message_of<UserError>([&] { format_json(nlohmann::json(bad)); });
  }
}

TEST(JsonFile, ReplacesTheFileWhole) {
  const TestDirectory directory;
  const auto path = directory.write("state.json", "old");
  write_json_atomic(path, nlohmann::json{{"epoch", 1.0}});
  EXPECT_EQ(read_text_file(path), "{\n  \"epoch\": 1.0\n}\n");
  message_of<UserError>([&] { write_json_atomic(path, nlohmann::json("\xff")); });
  EXPECT_EQ(list_directory(directory.path()), std::vector<std::string>{"state.json"});
}

TEST(JsonFile, FilterSaysWhatIsKept) {
  std::vector<std::string> keys;
  const json kept = parse_json(R"({"a": {"b": 1}, "c": [2, 3]})", "x",
                               [&](int depth, JsonEvent event, const json& element) {
                                 if (event == JsonEvent::kKey) keys.push_back(element.get<std::string>());
                                 return !(event == JsonEvent::kKey && depth == 2);
                               });
  EXPECT_EQ(keys, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(kept, json::parse(R"({"a": {}, "c": [2, 3]})"));
}

// What one reader refuses, all do: there is no other parser of whole files.
TEST(JsonFile, HostileTexts) {
  const auto error_of = [](std::string_view text) {
    return message_of<UserError>([&] { parse_json(text, "x.json"); });
  };
  EXPECT_TRUE(contains(error_of(std::string_view("{\"a\": 1}\0garbage", 16)),
                       "x.json:1:9] expected JSON, got a NUL"));
  EXPECT_TRUE(contains(error_of("{\"a\": 1} {"), "x.json:1:"));
  EXPECT_TRUE(contains(error_of(std::string(100'000, '[')), "nesting deeper than"));
  EXPECT_TRUE(contains(error_of("\"\\ud800\""), "x.json:1:"));
  EXPECT_TRUE(contains(error_of("1e999"), "x.json"));
  EXPECT_TRUE(contains(error_of("\xff\xfe{\0}\0"), "x.json:1:1"));
  EXPECT_EQ(parse_json("\xef\xbb\xbf{}", "x"), json::object()) << "a byte order mark is skipped";
  EXPECT_TRUE(parse_json("123456789012345678901234567890", "x").is_number_float());
}

}  // namespace
}  // namespace shoehorn
