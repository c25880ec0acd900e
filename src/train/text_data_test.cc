#include "train/text_data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "io/file.h"
#include "io/test_directory.h"

namespace shoehorn {
namespace {

TEST(TextData, TokenizesAsTheTokenizerDoes) {
  const auto tokenizer = Tokenizer::load(golden("tokenizer_small"));
  const std::vector<TextExample> examples = {{"stat glea hust", "", false},
                                             {"cest", "trou vous that", true},
                                             {"", "", false},
                                             {"hust hust hust hust hust hust", "stat stat stat stat", true}};
  for (const int threads : {1, 2}) {
    const std::vector<TokenizedExample> tokenized = tokenize_with(*tokenizer, 8, threads)(examples);
    ASSERT_EQ(tokenized.size(), examples.size());
    for (size_t i = 0; i < examples.size(); ++i) {
      const Encoding expected = examples[i].has_pair
                                    ? tokenizer->encode(examples[i].text, examples[i].pair, 8)
                                    : tokenizer->encode(examples[i].text, 8);
      EXPECT_EQ(tokenized[i].input_ids, expected.input_ids) << i;
      EXPECT_EQ(tokenized[i].token_type_ids, expected.token_type_ids) << i;
      EXPECT_LE(tokenized[i].input_ids.size(), 8U);
    }
  }
}

TEST(TextData, LoadsAFileByATokenizer) {
  const TestDirectory directory;
  const auto tokenizer = Tokenizer::load(golden("tokenizer_small"));
  const LoadedDataset train = load_dataset(
      directory.write("train.csv", "text,label\nstat glea hust cest trou vous that,up\ncest,down\n"),
      *tokenizer, 6);
  EXPECT_EQ(train.labels.names, (std::vector<std::string>{"down", "up"}));
  ASSERT_EQ(train.dataset.size(), 2);
  EXPECT_TRUE(std::ranges::equal(train.dataset.input_ids(0),
                                 tokenizer->encode("stat glea hust cest trou vous that", 6).input_ids));
  EXPECT_TRUE(std::ranges::equal(train.dataset.input_ids(1), tokenizer->encode("cest").input_ids));
  EXPECT_EQ(train.dataset.max_length(), 6);
  const LoadedDataset validation = load_dataset(directory.write("dev.csv", "text,label\nstat,up\nstat,up\n"),
                                                *tokenizer, 6, {.max_samples = 1, .labels = &train.labels});
  ASSERT_EQ(validation.dataset.size(), 1);
  EXPECT_EQ(validation.dataset.class_label(0), 1);
}

// One rank has its tokens in memory; several keep them once for all, where the user's cache can be written.
TEST(TextData, SeveralRanksHaveACache) {
  const TestDirectory directory;
  setenv("XDG_CACHE_HOME", directory.path().c_str(), 1);
  const std::filesystem::path own = directory.path() / "shoehorn" / "data_sets";
  TrainingArguments args;
  EXPECT_EQ(dataset_cache_of(args), "");
  EXPECT_FALSE(path_exists(own));
  args.world_size = 2;
  EXPECT_EQ(dataset_cache_of(args), own);
  const DataFiles standard_input(std::filesystem::path("-"));
  const DataFiles file(directory.write("a.csv", "text,label\nstat,up\n"));
  EXPECT_EQ(cache_options_of(args, file, {}, 8).directory, own);
  EXPECT_EQ(cache_options_of(args, standard_input, {}, 8).directory, "") << "it is read once";
  args.dataset_cache = "named";
  EXPECT_EQ(dataset_cache_of(args), "named");
  EXPECT_EQ(cache_options_of(args, standard_input, {}, 8).directory, "named") << "refused when it is read";
  args.dataset_cache = "none";
  EXPECT_EQ(dataset_cache_of(args), "");
  args.dataset_cache = "";
  setenv("XDG_CACHE_HOME", "/proc", 1);
  EXPECT_EQ(dataset_cache_of(args), "") << "cannot be written";
  unsetenv("XDG_CACHE_HOME");
}

TEST(TextData, ColumnsComeFromTheArguments) {
  TrainingArguments args;
  EXPECT_TRUE(load_options_of(args).columns.text_column_names.empty());
  args.task_name = "qnli";
  EXPECT_EQ(load_options_of(args).columns.text_column_names,
            (std::vector<std::string>{"question", "sentence"}));
  args.text_column_names = {"body"};
  args.label_column_name = "kind";
  EXPECT_EQ(load_options_of(args).columns.text_column_names, std::vector<std::string>{"body"});
  EXPECT_EQ(load_options_of(args).columns.label_column_name, "kind");
  args.id_column = "key";
  EXPECT_EQ(load_options_of(args).columns.id_column_name, "key");
}

// As run_clm's split "train[:5%]": datasets.Split rounds so.
TEST(TextData, TheBeginningIsEvaluatedOn) {
  TrainingArguments args;
  EXPECT_EQ(samples_to_evaluate_on(args, 1000, 0), 0);
  EXPECT_EQ(samples_to_evaluate_on(args, 1000, 5), 50);
  args.validation_split_percentage = 5;
  EXPECT_EQ(samples_to_evaluate_on(args, 50, 0), 2) << "2.5";
  EXPECT_EQ(samples_to_evaluate_on(args, 70, 0), 4) << "3.5";
  EXPECT_EQ(samples_to_evaluate_on(args, 51, 0), 3) << "2.55";
  args.validation_split_percentage = 0;
  EXPECT_EQ(samples_to_evaluate_on(args, 1000, 5), 0);
  args.validation_split_percentage = 10;
  args.validation_file = "dev.csv";
  EXPECT_EQ(samples_to_evaluate_on(args, 1000, 5), 0);
}

TEST(TextData, PartsOfADataSet) {
  const Dataset whole = Dataset::random_tokens({.count = 5, .length = 3});
  EXPECT_EQ(part_of(whole, 2, 4).size(), 2);
  EXPECT_EQ(part_of(whole, 2, 4).input_ids(1), whole.input_ids(3));
  EXPECT_EQ(part_of(whole, 0, 5).shared_source(), whole.shared_source());
  EXPECT_EQ(part_of(whole, 3, 3).size(), 0);
}

}  // namespace
}  // namespace shoehorn
