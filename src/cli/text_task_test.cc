#include "cli/text_task.h"

#include <gtest/gtest.h>

#include "io/compress_testing.h"
#include "io/test_directory.h"
#include "models/bert.h"

namespace shoehorn {
namespace {

// Of a small BERT with the tokenizer of tests/golden/tokenizer_small.
class TextTaskTest : public testing::Test {
 protected:
  TextTaskTest() {
    BertConfig config;
    config.vocab_size = 200;
    config.hidden_size = 8;
    config.num_hidden_layers = 1;
    config.num_attention_heads = 1;
    config.intermediate_size = 8;
    config.max_position_embeddings = 24;
    config.labels = classes(2);
    source_.model = std::make_unique<BertForSequenceClassification>(config);
    source_.tokenizer_name = golden("tokenizer_small");
    args_.disable_tqdm = true;
  }

  TextTask load() { return load_text_task(args_, source_, false); }
  std::string refusal() {
    return message_of<UserError>([&] { load(); });
  }
  // Rows [begin, end) of two classes in turns, of 1, 2, 3, … words.
  static std::string csv_of(int begin, int end) {
    std::string csv = "text,label\n";
    for (int i = begin; i < end; ++i) {
      for (int word = 0; word <= i; ++word) csv += word == 0 ? "stat" : " stat";
      csv += i % 2 == 0 ? ",up\n" : ",down\n";
    }
    return csv;
  }

  const TestDirectory directory_;
  ModelSource source_;
  TrainingArguments args_;
};

TEST(DatasetCacheHint, IsGivenWhereSeveralRanksWaitedForTexts) {
  EXPECT_EQ(hint_at_dataset_cache(1, 100), "");
  EXPECT_EQ(hint_at_dataset_cache(4, 2), "");
  EXPECT_EQ(hint_at_dataset_cache(4, 65),
            "dataset_cache: each of 4 ranks has tokenized all texts, in 1:05, and holds their tokens; with "
            "--dataset_cache DIR the first does it for all\n");
}

TEST_F(TextTaskTest, TheHeaderSaysWhatWasChosen) {
  args_.train_file = directory_.write("a.csv", csv_of(0, 5)).string() + "," +
                     directory_.write("b.csv.gz", gzip(csv_of(5, 9))).string();
  args_.validation_file = directory_.write("dev.csv", csv_of(0, 3));
  const TextTask task = load();
  EXPECT_EQ(task.summary,
            "9 training and 3 validation samples, 2 classes, longest 11 tokens\n"
            "text: text; label: label; classes: down 4, up 5\n");
  EXPECT_EQ(task.notices, "");
}

TEST_F(TextTaskTest, TheHeaderSaysHowManyTextsReachTheLimit) {
  args_.train_file = directory_.write("a.csv", csv_of(0, 9));
  args_.max_seq_length = 10;
  EXPECT_TRUE(
      contains(load().summary, "longest 10 tokens (max_seq_length, which 2 reach: longer texts are cut)\n"))
      << load().summary;
}

TEST_F(TextTaskTest, SlipsInLabelsAreNoticed) {
  args_.train_file = directory_.write("a.csv", "text,label\nstat,up\nstat,Up\nstat,down\n");
  EXPECT_TRUE(contains(load().notices, "classes differ only in spaces or case: 'Up' (1 row, the first at"));
}

// run_clm's train[:N%] and train[N%:].
TEST_F(TextTaskTest, TheBeginningOfTheTrainingFileIsEvaluatedOn) {
  args_.train_file = directory_.write("a.csv", csv_of(0, 20));
  EXPECT_EQ(load().validation.size(), 0) << "not by itself";
  args_.validation_split_percentage = 15;
  TextTask task = load();
  ASSERT_EQ(task.validation.size(), 3);
  ASSERT_EQ(task.train.size(), 17);
  EXPECT_EQ(task.validation.length(0), 1 + 2) << "the first row, between special tokens";
  EXPECT_EQ(task.validation.length(2), 3 + 2);
  EXPECT_EQ(task.train.length(0), 4 + 2);
  EXPECT_EQ(task.train.max_length(), 20 + 2);
  EXPECT_EQ(task.notices, "");
  EXPECT_TRUE(contains(task.summary, "17 training and 3 validation samples"));
  EXPECT_TRUE(contains(task.summary, "classes: down 9, up 8"));

  args_.max_train_samples = 5;
  args_.max_eval_samples = 2;
  task = load();
  EXPECT_EQ(task.validation.size(), 2);
  EXPECT_EQ(task.train.size(), 5);
  EXPECT_EQ(task.train.length(0), 4 + 2) << "cut after the split";

  args_.do_eval = false;
  task = load();
  EXPECT_EQ(task.validation.size(), 0);
  EXPECT_EQ(task.train.length(0), 4 + 2) << "split all the same";

  args_.do_eval = {};
  args_.validation_file = directory_.write("dev.csv", csv_of(0, 4));
  task = load();
  EXPECT_EQ(task.validation.size(), 2);
  EXPECT_EQ(task.train.length(0), 1 + 2) << "nothing is split";
}

TEST_F(TextTaskTest, ASplitOfASortedFileIsNoticed) {
  args_.train_file = directory_.write("a.csv", "text,label\nstat,up\nstat,up\nstat,up\nstat,down\n");
  args_.validation_split_percentage = 50;
  EXPECT_TRUE(contains(load().notices, "class 'down' has 1 sample to train on and 0 to evaluate on"));
}

TEST_F(TextTaskTest, OneClassOfASortedFileIsNothingToLearnFrom) {
  args_.train_file = directory_.write("a.csv", "text,label\nstat,up\nstat,up\nstat,down\n");
  args_.max_train_samples = 2;
  EXPECT_TRUE(contains(refusal(), "expected at least two different labels, got 1 in 2 samples"));
  EXPECT_TRUE(contains(refusal(), "if the file is sorted by its labels, shuffle its rows"));
  args_.max_train_samples = 3;
  EXPECT_EQ(load().text_columns, (std::vector<std::string>{"text"}));
}

TEST_F(TextTaskTest, ASplitHasTwoParts) {
  args_.train_file = directory_.write("a.csv", csv_of(0, 4));
  args_.validation_split_percentage = 5;
  EXPECT_TRUE(contains(refusal(), "got 4 and 0 of the 4 in "));
  args_.validation_split_percentage = 99;
  EXPECT_TRUE(contains(refusal(), "got 0 and 4 of the 4 in "));
}

TEST_F(TextTaskTest, ColumnsOfTheValidationFileAreThoseOfTheTrainingFileIfItHasThem) {
  args_.label_column_name = "mood";
  args_.text_column_names = {"said"};
  args_.train_file = directory_.write("a.csv", "said,mood\nstat,up\nstat,down\n");
  args_.validation_file = directory_.write("dev.csv", "other,mood,said\nx,up,stat\n");
  EXPECT_EQ(load().notices, "");
  args_.label_column_name.clear();
  args_.text_column_names.clear();
  args_.train_file = directory_.write("b.csv", "said,label\nstat,up\nstat,down\n");
  args_.validation_file = directory_.write("dev.csv", "other,label,said\nx,up,stat stat\n");
  const TextTask same = load();
  EXPECT_EQ(same.notices, "");
  EXPECT_EQ(same.validation.length(0), 2 + 2) << "of one text, as in the training";
  args_.validation_file = directory_.write("dev.csv", "other,labels\nstat,up\n");
  EXPECT_EQ(load().notices,
            args_.validation_file +
                ": text: other; label: labels; the training file has text: said; label: label\n");
}

}  // namespace
}  // namespace shoehorn
