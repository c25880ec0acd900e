// Shared by the tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "data/table.h"
#include "io/json_file.h"
#include "io/test_directory.h"

namespace shoehorn {

// tests/golden/data_<name>.json, which data_make.py beside it writes.
inline nlohmann::json read_golden(const std::string& name) {
  return read_json(golden("data_" + name + ".json"));
}

// One part of it, as a value that a loop may run over. Fails if it is empty.
inline nlohmann::json read_golden(const std::string& name, const std::string& part) {
  nlohmann::json value = read_golden(name)[part];
  EXPECT_FALSE(value.empty()) << name << ": " << part;
  return value;
}

// The table of a csv file.
inline Table csv(std::string_view content) {
  const TestDirectory directory;
  return read_table(directory.write("t.csv", content));
}

}  // namespace shoehorn
