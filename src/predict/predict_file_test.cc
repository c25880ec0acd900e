// Predictions of files: what is written does not depend on how many rows are held at once, and is what an evaluation of
// the same rows gives.
#include "predict/predict_file.h"

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <sstream>

#include "base/error.h"
#include "base/error_testing.h"
#include "data/load_dataset.h"
#include "exec/backend/thread_count.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "models/bert.h"
#include "ranks/process_ranks_testing.h"
#include "train/text_data.h"
#include "train/trainer.h"

namespace shoehorn {
namespace {

using nlohmann::json;
using test_support::run_in_processes;

constexpr int64_t kRows = 53;

class PredictFileTest : public testing::Test {
 protected:
  PredictFileTest() : tokenizer_(Tokenizer::load(golden("tokenizer_small"))) {
    BertConfig config;
    config.vocab_size = tokenizer_->vocab_size();
    config.hidden_size = 16;
    config.num_hidden_layers = 1;
    config.num_attention_heads = 2;
    config.intermediate_size = 32;
    config.max_position_embeddings = 32;
    config.labels = {.names = {"down", "up"}};
    Dataset any = Dataset::random_tokens({.count = 1, .length = 4, .vocab_begin = 5, .vocab_end = 20});
    const BertForSequenceClassification fresh(config);
    Trainer(fresh, {}, {}, std::move(any), {}).save_model(directory_.path() / "model");
    model_.emplace(BertForSequenceClassification::from_pretrained(directory_.path() / "model"));
    directory_.write("texts.csv", csv("label", [](int64_t row) { return row % 3 == 0 ? "up" : "down"; }));
    args_.test_file = directory_.path() / "texts.csv";
    args_.max_seq_length = 24;
    args_.per_device_eval_batch_size = 4;
  }

  template <typename Label>
  static std::string csv(const std::string& label_column, const Label& label) {
    static const std::vector<std::string> words = {"stat", "cest", "hust", "chai", "glea", "prea"};
    std::mt19937 random(5);
    std::string text = "key,text," + label_column + "\n";
    for (int64_t row = 0; row < kRows; ++row) {
      text += "k" + std::to_string(row) + ",";
      for (size_t words_left = 1 + random() % 20; words_left > 0; --words_left)
        text += words[random() % words.size()] + " ";
      text += "," + std::string(label(row)) + "\n";
    }
    return text;
  }

  struct Outcome {
    PredictedFile file;
    std::string text;
    std::vector<std::string> notices;
  };

  Outcome predict(int64_t rows_at_once = 512, PredictionFormat format = PredictionFormat::kJsonLines) const {
    Outcome outcome;
    const std::filesystem::path path = directory_.path() / "predictions";
    PredictionOutput output(path);
    PredictFileOptions options{.rows_at_once = rows_at_once};
    options.predictor.on_line = [&](const std::string& line) { outcome.notices.push_back(line); };
    outcome.file = predict_file(*model_, args_, *tokenizer_, format, &output, options);
    EXPECT_FALSE(std::filesystem::exists(path)) << "before it is finished";
    output.finish();
    outcome.text = read_text_file(path);
    std::filesystem::remove(path);
    return outcome;
  }

  static std::vector<json> lines_of(const std::string& text) {
    std::vector<json> lines;
    std::istringstream stream(text);
    for (std::string line; std::getline(stream, line);) lines.push_back(parse_json(line, "line"));
    return lines;
  }

  const TestDirectory directory_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<BertForSequenceClassification> model_;
  TrainingArguments args_;
};

TEST_F(PredictFileTest, PartsChangeNoBit) {
  args_.id_column = "key";
  args_.write_texts = args_.logits = true;
  args_.text_column_names = {"text"};
  const Outcome whole = predict();
  EXPECT_EQ(whole.file.rows, kRows);
  const std::vector<json> lines = lines_of(whole.text);
  ASSERT_EQ(lines.size(), static_cast<size_t>(kRows));
  for (size_t row = 0; row < lines.size(); ++row) EXPECT_EQ(lines[row]["key"], "k" + std::to_string(row));
  for (const int64_t rows_at_once : {1, 8, 52}) {
    const Outcome parts = predict(rows_at_once);
    EXPECT_EQ(parts.text, whole.text) << rows_at_once;
    for (const char* metric : {"predict_loss", "predict_accuracy", "predict_f1"})
      EXPECT_EQ(parts.file.metrics.at(metric), whole.file.metrics.at(metric)) << metric;
  }
}

TEST_F(PredictFileTest, MetricsAreThoseOfAnEvaluation) {
  args_.text_column_names = {"text"};
  const LabelMap labels = model_->task().label_map();
  LoadOptions load = load_options_of(args_);
  load.labels = &labels;
  Dataset data = load_dataset(args_.test_file, *tokenizer_, args_.max_seq_length, load).dataset;
  Trainer trainer(*model_, args_, {}, std::move(data));
  const Metrics evaluated = trainer.evaluate();
  const Metrics predicted = predict(8).file.metrics;
  int64_t compared = 0;
  for (const auto& [name, value] : evaluated) {
    if (name.ends_with("_runtime") || name.ends_with("_per_second")) continue;
    EXPECT_EQ(predicted.at("predict_" + name.substr(5)), value) << name;
    ++compared;
  }
  EXPECT_GE(compared, 3);
  EXPECT_EQ(metric_number(predicted.at("predict_samples")), static_cast<double>(kRows));
}

TEST_F(PredictFileTest, IdsAreNoTexts) {
  const std::string named = [&] {
    args_.text_column_names = {"text"};
    return predict().text;
  }();
  args_.text_column_names.clear();
  const std::string guessed = predict().text;
  EXPECT_NE(guessed, named) << "key and text are a pair";
  args_.id_column = "key";
  std::vector<json> with_ids = lines_of(predict().text);
  std::vector<json> without = lines_of(named);
  for (size_t row = 0; row < without.size(); ++row)
    EXPECT_EQ(with_ids[row]["scores"], without[row]["scores"]);
  args_.id_column = "kye";
  EXPECT_TRUE(contains(message_of<UserError>([&] { predict(); }), "did you mean 'key'?"));
}

TEST_F(PredictFileTest, LabelsMayBeAbsentOrOthers) {
  args_.text_column_names = {"text"};
  const std::string scored = predict().text;
  const auto with_labels = [&](const std::string& column, const auto& label) {
    directory_.write("texts.csv", csv(column, label));
    return predict(8);
  };
  const Outcome absent = with_labels("kind", [](int64_t) { return "up"; });
  EXPECT_FALSE(absent.file.is_scored);
  EXPECT_TRUE(absent.notices.empty() || !contains(absent.notices.back(), "no metrics"));
  EXPECT_EQ(absent.text, scored) << "labels change no prediction";
  EXPECT_FALSE(absent.file.metrics.contains("predict_loss"));
  EXPECT_TRUE(absent.file.metrics.contains("predict_runtime"));

  // The published test files of GLUE have -1 for each.
  const Outcome none = with_labels("label", [](int64_t) { return "-1"; });
  EXPECT_FALSE(none.file.is_scored);
  const Outcome others = with_labels("label", [](int64_t row) { return row == 30 ? "sideways" : "up"; });
  EXPECT_EQ(others.file.rows, kRows);
  EXPECT_FALSE(others.file.metrics.contains("predict_accuracy"));
  ASSERT_FALSE(others.notices.empty());
  EXPECT_TRUE(contains(others.notices.back(), "no metrics")) << others.notices.back();
  EXPECT_TRUE(contains(others.notices.back(), "texts.csv:32")) << others.notices.back();
  EXPECT_TRUE(contains(others.notices.back(), "sideways")) << others.notices.back();
  args_.label_column_name = "label";
  EXPECT_TRUE(contains(message_of<UserError>([&] { predict(8); }), "sideways"))
      << "the user named the column";

  // Numbers of the classes, and where they are mixed with names.
  const Outcome ids = with_labels("label", [](int64_t row) { return row % 3 == 0 ? "1" : "0"; });
  EXPECT_TRUE(ids.file.labels_are_ids);
  EXPECT_TRUE(ids.file.is_scored);
  EXPECT_EQ(ids.text, scored);
  EXPECT_THROW(with_labels("label", [](int64_t row) { return row < 40 ? "1" : "up"; }), UserError);
  EXPECT_THROW(with_labels("label", [](int64_t row) { return row < 40 ? "up" : "1"; }), UserError);
}

TEST_F(PredictFileTest, EnoughRows) {
  args_.text_column_names = {"text"};
  const std::string all = predict().text;
  for (const int64_t wanted : {1, 8, 10, 100}) {
    args_.max_predict_samples = wanted;
    const Outcome some = predict(8);
    EXPECT_EQ(some.file.rows, std::min(wanted, kRows));
    // Another last batch rounds in another way.
    EXPECT_EQ(lines_of(some.text).size(), static_cast<size_t>(std::min(wanted, kRows)));
    EXPECT_EQ(metric_number(some.file.metrics.at("predict_samples")),
              static_cast<double>(std::min(wanted, kRows)));
    if (wanted % 4 == 0) {
      EXPECT_TRUE(all.starts_with(some.text)) << wanted;
    }
  }
}

// One thread a rank: those of a pool stay behind in the process that forks.
class PredictFileOnRanks : public PredictFileTest {
 protected:
  PredictFileOnRanks() { use_threads(1); }
  ~PredictFileOnRanks() override { use_threads(threads_); }

 private:
  int threads_ = thread_count().threads;
};

// Each runs every second batch, or every third; the first writes what one process would.
TEST_F(PredictFileOnRanks, PredictsAsOneProcessDoes) {
  const std::string expected = predict(8).text;
  for (const int32_t size : {2, 3}) {
    const std::vector<std::string> texts =
        run_in_processes(size, [&](const std::shared_ptr<Communicator>& ranks) {
          const std::filesystem::path path = directory_.path() / fmt::format("of_{}", size);
          std::optional<PredictionOutput> output;
          if (ranks->is_main()) output.emplace(path);
          PredictFileOptions options{.rows_at_once = 8};
          options.predictor.ranks = ranks;
          predict_file(*model_, args_, *tokenizer_, PredictionFormat::kJsonLines, output ? &*output : nullptr,
                       options);
          if (output) output->finish();
          return ranks->is_main() ? read_text_file(path) : std::string();
        });
    EXPECT_EQ(texts[0], expected) << size;
  }
}

TEST_F(PredictFileOnRanks, RefusesOtherRows) {
  const std::string rows = read_text_file(args_.test_file);
  for (const char* host : {"host_0", "host_1"}) std::filesystem::create_directory(directory_.path() / host);
  directory_.write("host_0/rows.csv", rows);
  directory_.write("host_1/rows.csv", rows + "k99,stat cest,up\n");
  args_.test_file = "rows.csv";
  for (const std::string& said :
       run_in_processes(2, [&](const std::shared_ptr<Communicator>& ranks) -> std::string {
         std::filesystem::current_path(directory_.path() / (ranks->is_main() ? "host_0" : "host_1"));
         PredictFileOptions options;
         options.predictor.ranks = ranks;
         return message_of<UserError>(
             [&] { predict_file(*model_, args_, *tokenizer_, PredictionFormat::kCsv, nullptr, options); });
       }))
    EXPECT_EQ(
        said,
        "[ranks] expected the rows to predict to be the same on all ranks, got another on rank 1 than on rank 0");
}

// Parts of 6 rows would be batches of 4 and 2.
TEST_F(PredictFileTest, PartsAreWholeBatches) {
  args_.text_column_names = {"text"};
  std::vector<int64_t> rows;
  PredictionOutput output(directory_.path() / "p");
  predict_file(*model_, args_, *tokenizer_, PredictionFormat::kCsv, &output,
               {.on_progress = [&](const PredictFileProgress& progress) { rows.push_back(progress.rows); },
                .rows_at_once = 6});
  ASSERT_EQ(rows.size(), static_cast<size_t>((kRows + 3) / 4));
  EXPECT_EQ(rows.front(), 4);
  EXPECT_EQ(rows.back(), kRows);
  EXPECT_TRUE(std::ranges::is_sorted(rows));
}

}  // namespace
}  // namespace shoehorn
