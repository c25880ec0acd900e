// Data that do not fit into memory are refused as soon as they do not, with a way out that is one; nothing is reserved, and the
// process takes no more than it may.
#include <nlohmann/json.hpp>
#include <random>

#include "cli_support.h"
#include "io/json_file.h"

namespace shoehorn {
namespace {

using namespace shoehorn::test_support;
namespace fs = std::filesystem;

// What is read and tokenized at a time, and measured late.
constexpr int64_t kSlackBytes = 24 * kMebibyte;

class CliDataMemory : public CliTest {
 protected:
  // `words` are refused by a budget of which their data take more than is left, with the way out that they then go; `file`
  // names the data, whose tokens alone take `token_bytes`: more than what a run holds besides and has not got while it reads.
  void expect_refused_as_it_is_read(std::vector<std::string> words, const std::string& file,
                                    int64_t token_bytes) const {
    std::vector<std::string> cached = words;
    cached.insert(cached.end(), {"--dataset_cache", path("cache")});
    const ProgramRun written = run(cached);
    ASSERT_EQ(written.exit_code, 0) << written.error;
    const int64_t budget = planned_bytes(cached) + token_bytes / 8;
    for (std::vector<std::string>* some : {&words, &cached})
      some->insert(some->end(), {"--memory_budget", std::to_string(budget)});
    remove_path(output());
    const ProgramRun refused = expect_failure(
        words, 2,
        {file, "expected texts and tokens that fit into memory", "texts, and nothing left of --memory_budget",
         "--dataset_cache DIR keeps tokens in files"});
    EXPECT_TRUE(written_files().empty());
    expect_peak_below(refused, budget + kSlackBytes, "refused as soon as nothing was left");
    const ProgramRun fits = run(cached);
    EXPECT_EQ(fits.exit_code, 0) << fits.error;
  }
  // Of the process, as `plan` says with the words of `train`.
  int64_t planned_bytes(std::vector<std::string> words) const {
    words[0] = "plan";
    words.push_back("--json");
    const ProgramRun planned = run(words);
    EXPECT_EQ(planned.exit_code, 0) << planned.error;
    return parse_json(planned.output, "output")["process_peak_bytes"].get<int64_t>();
  }
  std::vector<std::string> written_files() const {
    return fs::exists(output()) ? written() : std::vector<std::string>();
  }
};

TEST_F(CliDataMemory, TextsThatAreHeldAreRefusedAsTheyAreRead) {
  if (!measures_memory()) return;
  constexpr int64_t kRows = 160'000;
  std::string rows;
  for (int64_t row = 0; row < kRows; ++row) {
    rows += R"({"text": ")";
    for (int word = 0; word < 100; ++word) rows += (row + word) % 7 == 0 ? "glea " : "stat ";
    rows += row % 2 == 0 ? "\", \"label\": \"up\"}\n" : "\", \"label\": \"down\"}\n";
  }
  directory_.write("rows.jsonl", rows);
  expect_refused_as_it_is_read(
      train_words({"--train_file", path("rows.jsonl"), "--save_strategy", "no", "--overwrite_output_dir"}),
      "rows.jsonl", kRows * 100 * 4);
}

TEST_F(CliDataMemory, TokensOfALanguageModelAreRefusedAsTheyAreMade) {
  if (!measures_memory()) return;
  ASSERT_EQ(run({"tokenizer", "train", "--output_dir", path("tokenizer"), "--vocab_size", "270",
                 directory_.write("few.txt", "a cat sat here and there\n").string()})
                .exit_code,
            0);
  std::mt19937_64 random(7);
  std::string texts;
  for (int line = 0; line < 80'000; ++line) {
    for (int word = 0; word < 12; ++word) texts += std::to_string(random()) + " ";
    texts += "\n";
  }
  directory_.write("corpus.txt", texts);
  expect_refused_as_it_is_read(
      {"train", "--model_type", "gpt2", "--config_overrides",
       "n_layer=1,n_head=1,n_embd=8,n_positions=32,vocab_size=270", "--tokenizer_name", path("tokenizer"),
       "--train_file", path("corpus.txt"), "--max_steps", "2", "--save_strategy", "no", "--do_eval", "false",
       "--overwrite_output_dir", "--output_dir", output()},
      "corpus.txt", std::ssize(texts) * 4);
}

// Far more than the address space that the process has, on no disk.
TEST_F(CliDataMemory, ATableThatCannotFitIsNotRead) {
  if (kIsSanitized) GTEST_SKIP() << "a sanitizer takes all addresses";
  const fs::path table = directory_.write("table.csv", "text,label\n");
  fs::resize_file(table, uintmax_t{1} << 40);
  expect_failure(train_words({"--train_file", table}), 2,
                 {"table.csv", "1.00 TiB", "ulimit -v", "nothing was read", "--dataset_cache DIR"},
                 {.address_space_bytes = 2048 * kMebibyte});
  EXPECT_TRUE(written_files().empty());
}

// A plan of them is shown, as that of any run that does not fit.
TEST_F(CliDataMemory, APlanSaysThatTheyDoNotFit) {
  std::string rows = "text,label\n";
  for (int row = 0; row < 40'000; ++row) {
    for (int word = 0; word < 60; ++word) rows += "stat ";
    rows += row % 2 == 0 ? ",up\n" : ",down\n";
  }
  directory_.write("train.csv", rows);
  std::vector<std::string> words = train_words({"--memory_budget", "1MiB", "--json"});
  words[0] = "plan";
  const ProgramRun planned = run(words);
  EXPECT_FALSE(parse_json(planned.output, "output")["fits"].get<bool>()) << planned.error;
}

}  // namespace
}  // namespace shoehorn
