#include "passes/pipeline.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "io/test_directory.h"
#include "passes/passes_testing.h"

namespace shoehorn {
namespace {

template <typename Error>
std::string dump_failure(const std::filesystem::path& directory) {
  StepOptions options;
  options.dump_directory = directory.string();
  return message_of<Error>([&] { test_support::build(options); });
}

TEST(DumpProgram, SaysWhyItCannotWrite) {
  const TestDirectory directory;
  const auto file = directory.write("file", "x");
  const std::string under_a_file = dump_failure<UserError>(file / "dump");
  EXPECT_TRUE(contains(under_a_file, file.string()));
  EXPECT_TRUE(contains(under_a_file, "expected a directory, got a file"));
  // A directory that has the name of the first file.
  directory.write("taken/00-capture.train_step.txt/x", "x");
  const std::string taken = dump_failure<SystemError>(directory.path() / "taken");
  EXPECT_TRUE(contains(taken, "00-capture.train_step.txt"));
  EXPECT_TRUE(contains(taken, "Is a directory"));
}

}  // namespace
}  // namespace shoehorn
