// Every committed input through its reader: seeds of the fuzzers, and what they once found.
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "fuzz/reader.h"
#include "io/file.h"

namespace shoehorn::fuzz {
namespace {

class Readers : public testing::TestWithParam<std::pair<const std::string, Reader>> {};

TEST_P(Readers, ReadOrRefuseEveryInputOfTheirCorpus) {
  const std::filesystem::path corpus = std::filesystem::path(SHOEHORN_FUZZ_CORPUS) / GetParam().first;
  int64_t accepted = 0;
  for (const std::string& name : list_directory(corpus)) {
    SCOPED_TRACE(name);
    const std::string input = read_text_file(corpus / name);
    EXPECT_NO_THROW(accepted += accepts(GetParam().second, input) ? 1 : 0);
    // Half a file is what a full disk or a broken download leaves.
    EXPECT_NO_THROW(accepts(GetParam().second, input.substr(0, input.size() / 2)));
  }
  EXPECT_GE(accepted, 1) << "no seed reaches what lies behind the first check";
}

INSTANTIATE_TEST_SUITE_P(All, Readers, testing::ValuesIn(readers().begin(), readers().end()),
                         [](const auto& info) { return info.param.first; });

// A corpus that belongs to no reader would never be replayed.
TEST(ReadersCorpus, HasADirectoryForEachReader) {
  std::vector<std::string> names;
  for (const auto& [name, reader] : readers()) names.push_back(name);
  EXPECT_EQ(list_directory(SHOEHORN_FUZZ_CORPUS), names);
}

TEST(ReadersContract, OnlyRefusalsAreCaught) {
  EXPECT_TRUE(accepts([](std::string_view) {}, ""));
  EXPECT_FALSE(accepts([](std::string_view) { throw UserError("[x] expected y, got z"); }, ""));
  EXPECT_FALSE(accepts([](std::string_view) { throw SystemError("[x] expected y, got z"); }, ""));
  EXPECT_THROW(accepts([](std::string_view) { throw InternalError("a bug"); }, ""), InternalError);
  EXPECT_THROW(accepts([](std::string_view) { throw std::out_of_range("a bug"); }, ""), std::out_of_range);
}

}  // namespace
}  // namespace shoehorn::fuzz
