// `shoehorn tokenizer`: texts to ids and back.
#include <fmt/ranges.h>

#include "cli_support.h"
#include "tokenize/tokenizer.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;

class CliTokenizer : public CliTest {
 protected:
  std::string output_of(const std::vector<std::string>& words) const {
    const ProgramRun done = run(words);
    EXPECT_EQ(done.exit_code, 0) << done.error;
    return done.output;
  }
};

TEST_F(CliTokenizer, EncodesEachLineAndDecodesItAgain) {
  directory_.write("texts.txt", "the ferry\n\nleaves the harbour");
  const auto tokenizer = Tokenizer::load(model());
  std::string expected;
  for (const char* line : {"the ferry", "", "leaves the harbour"})
    expected += fmt::format("[{}]\n", fmt::join(tokenizer->encode(line).input_ids, ", "));
  const std::string ids = output_of({"tokenizer", "encode", model(), path("texts.txt")});
  EXPECT_EQ(ids, expected);
  directory_.write("ids.txt", ids);
  EXPECT_EQ(output_of({"tokenizer", "decode", model(), path("ids.txt")}),
            "the ferry\n\nleaves the harbour\n");
  EXPECT_EQ(output_of({"tokenizer", "decode", model(), path("ids.txt"), "--keep_special_tokens"}),
            "[CLS] the ferry [SEP]\n[CLS] [SEP]\n[CLS] leaves the harbour [SEP]\n");
}

// With a tokenizer of bytes, which would show those of line ends and of a byte order mark.
TEST_F(CliTokenizer, ALineIsWhatTrainingReadsAsOne) {
  const std::string bytes = golden("language_small").string();
  const auto tokenizer = Tokenizer::load(bytes);
  std::string expected;
  for (const char* line : {"the ferry", "", "leaves", "the harbour"})
    expected += fmt::format("[{}]\n", fmt::join(tokenizer->encode(line).input_ids, ", "));
  const std::string text = "\xef\xbb\xbfthe ferry\r\n\nleaves\rthe harbour\r\n";
  directory_.write("texts.txt", text);
  EXPECT_EQ(output_of({"tokenizer", "encode", bytes, path("texts.txt")}), expected);
  directory_.write("table.csv", text);
  EXPECT_EQ(output_of({"tokenizer", "encode", bytes, path("table.csv")}), expected)
      << "texts are lines, whatever the file's name is";
  directory_.write("empty.txt", "");
  EXPECT_EQ(output_of({"tokenizer", "encode", bytes, path("empty.txt")}), "");
  directory_.write("ids.txt", "\xef\xbb\xbf[2]\r\n[2, 3]\r\n");
  directory_.write("plain_ids.txt", "[2]\n[2, 3]\n");
  EXPECT_EQ(output_of({"tokenizer", "decode", bytes, path("ids.txt")}),
            output_of({"tokenizer", "decode", bytes, path("plain_ids.txt")}));
}

TEST_F(CliTokenizer, JsonTextsAndOffsets) {
  directory_.write("texts.txt", "\"the\\n ferry\"\n");
  const std::string output =
      output_of({"tokenizer", "encode", model(), path("texts.txt"), "--json_lines", "--offsets"});
  EXPECT_NE(output.find(R"("offsets": [[0, 0], [0, 3], [5, 10], [0, 0]]})"), std::string::npos) << output;
  EXPECT_EQ(output_of({"tokenizer", "encode", "--json_lines", "--offsets", "--num_threads", "1", model(),
                       path("texts.txt")}),
            output);
  EXPECT_NE(output_of({"tokenizer", "--help"}).find("shoehorn tokenizer decode DIR FILE"), std::string::npos);
}

TEST_F(CliTokenizer, Refusals) {
  directory_.write("texts.txt", "the ferry\n");
  expect_failure({"tokenizer"}, 2, {"encode, decode or train", "got nothing"});
  expect_failure({"tokenizer", "encod", model(), path("texts.txt")}, 2, {"'encod'", "did you mean encode?"});
  expect_failure({"tokenizer", "encode", model()}, 2, {"a directory and a file", "got 1"});
  expect_failure({"tokenizer", "encode", model(), path("texts.txt"), "--keep_special_tokens"}, 2,
                 {"--offsets", "'--keep_special_tokens'"});
  expect_failure({"tokenizer", "encode", path("absent"), path("texts.txt")}, 2, {"absent", "tokenizer.json"});
  expect_failure({"tokenizer", "encode", model(), path("absent.txt")}, 2, {"absent.txt"});
  expect_failure({"tokenizer", "encode", model(), path("texts.txt"), "--json_lines"}, 2, {"texts.txt:1"});
  expect_failure({"tokenizer", "decode", model(), path("texts.txt"), "--offset"}, 2,
                 {"did you mean --offsets?"});
  directory_.write("ids.txt", "[2, 3]\n[2, -3]\n");
  expect_failure({"tokenizer", "decode", model(), path("ids.txt")}, 2, {"ids.txt:2", "token ids"});
  directory_.write("ids.txt", "[2]\n[99999]\n");
  expect_failure({"tokenizer", "decode", model(), path("ids.txt")}, 2,
                 {"ids.txt:2", "token ids", "got 99999"});
}

}  // namespace
}  // namespace shoehorn
