// What the tests of this room share.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace shoehorn {

// tests/golden/data_<name>.json, which data_make.py beside it writes.
inline nlohmann::json read_golden(const std::string& name) {
  const std::string path = std::string(SHOEHORN_SOURCE_DIR) + "/tests/golden/data_" + name + ".json";
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  return nlohmann::json::parse(file);
}

// One part of it, which a loop may run over: it is a value of its own, and not empty.
inline nlohmann::json read_golden(const std::string& name, const std::string& part) {
  nlohmann::json value = read_golden(name)[part];
  EXPECT_FALSE(value.empty()) << name << ": " << part;
  return value;
}

// A directory of this test alone, removed with it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "shoehorn_data_XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  std::filesystem::path write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path_ / name;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The message of the Error that `action` throws; empty, and a failure, if it throws none.
template <typename Error, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no such error thrown";
  return "";
}

inline void expect_contains(const std::string& text, std::string_view part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << text << "' lacks '" << part << "'";
}

}  // namespace shoehorn
