#include "train/data_description.h"

#include <gtest/gtest.h>

#include "io/test_directory.h"

namespace shoehorn {
namespace {

std::vector<TokenizedExample> one_token_each(std::span<const TextExample> texts) {
  return std::vector<TokenizedExample>(texts.size(), {.input_ids = {1}, .token_type_ids = {}});
}

std::string description_of(const std::string& name, const std::string& content,
                           const LoadOptions& options = {}) {
  const TestDirectory directory;
  const LoadedDataset loaded = load_dataset(directory.write(name, content), one_token_each, options);
  return describe_columns(loaded, loaded.dataset, class_counts(loaded.dataset, loaded.labels));
}

TEST(DataDescription, ColumnsAndClasses) {
  LoadOptions options;
  options.columns.label_column_name = "target";
  EXPECT_EQ(description_of("a.csv", "id,premise,hypothesis,target\n1,a,b,same\n2,c,d,different\n3,e,f,same\n",
                           options),
            "text: premise, hypothesis; label: target; classes: different 1, same 2\n");
  EXPECT_EQ(shown_class("1"), "\"1\"") << "a number follows";
  EXPECT_EQ(shown_class("-1.5"), "\"-1.5\"");
  EXPECT_EQ(shown_class("pos "), "\"pos \"");
  EXPECT_EQ(shown_class("yes, no"), "\"yes, no\"");
  EXPECT_EQ(shown_class(""), "\"\"");
  EXPECT_EQ(shown_class("LABEL_1"), "LABEL_1");
  EXPECT_EQ(shown_class("très bon"), "très bon");
  EXPECT_EQ(shown_class("好"), "好");
  EXPECT_EQ(
      description_of("a.jsonl",
                     "{\"text\": \"a\", \"label\": [\"x\", \"y\"]}\n{\"text\": \"b\", \"label\": [\"y\"]}\n"),
      "text: text; label: label; classes: x 1, y 2\n");
  options.columns.label_column_name = "a,b";
  EXPECT_EQ(description_of("a.csv", "text,a,b\nt,0,1\nu,0,1\n", options),
            "text: text; labels: a, b; classes: a 0, b 2\n");
  EXPECT_EQ(description_of("a.csv", "text,label\nt,0.5\nu,-12.25\n"),
            "text: text; label: label; values: -12.25 to 0.5\n");
  EXPECT_EQ(description_of("a.csv", "text,label\nt,0.5\n", {.read_labels = false}), "text: text\n");
}

TEST(DataDescription, ManyClassesAreShortened) {
  std::string csv = "text,label\n";
  for (int label = 0; label < 12; ++label) {
    for (int i = 0; i < 1000 + label * 100; ++i) csv += fmt::format("t,class {}\n", label);
  }
  EXPECT_EQ(
      description_of("a.csv", csv),
      "text: text; label: label; 12 classes: class 11 2,100, class 10 2,000, class 9 1,900, …, class 0 1,000\n");
}

TEST(DataDescription, NamesOfFilesAreMadeHarmless) {
  EXPECT_TRUE(contains(description_of("a.csv", "te\x1bxt,label\nt,a\nu,b\n"), "te\\x1bxt"));
}

// Of classes and of numbers; whoever is told may end it.
TEST(DataDescription, LabelsThatAreReadAreTold) {
  struct Ended {};
  constexpr size_t kSamples = 20000;
  const Dataset::Rows ids(kSamples, {1});
  const Dataset classes =
      Dataset::from_columns({{"input_ids", ids}, {"labels", std::vector<int64_t>(kSamples, 1)}});
  const Dataset values =
      Dataset::from_columns({{"input_ids", ids}, {"labels", Dataset::ValueRows(kSamples, {0.5F})}});
  const LabelMap names{.names = {"down", "up"}};
  for (const Dataset& samples : {classes, values}) {
    LoadedDataset loaded{.dataset = samples, .labels = names, .label_columns = {"label"}};
    if (samples.label_kind() == LabelKind::kValue)
      loaded.labels = {.problem = ProblemType::kRegression, .names = {}};
    std::vector<int64_t> told;
    const auto describe = [&](const LabelProgress& on_progress) {
      describe_columns(loaded, samples, class_counts(samples, loaded.labels, on_progress), on_progress);
    };
    describe([&](int64_t done, int64_t all) {
      told.push_back(done);
      EXPECT_EQ(all, int64_t{kSamples});
    });
    EXPECT_EQ(told, (std::vector<int64_t>{8192, 16384, kSamples})) << "each label is read once";
    EXPECT_THROW(describe([](int64_t, int64_t) { throw Ended(); }), Ended);
  }
}

TEST(DataDescription, AnUnevenSplitIsNoticed) {
  const LabelMap labels{.names = {"down", "up"}};
  EXPECT_EQ(describe_uneven_split(labels, {1, 2}, {1, 1}), "");
  EXPECT_EQ(describe_uneven_split(labels, {}, {}), "") << "numbers";
  EXPECT_TRUE(contains(describe_uneven_split(labels, {0, 2}, {3, 0}),
                       "class 'down' has 0 samples to train on and 3 to evaluate on"));
  EXPECT_TRUE(contains(describe_uneven_split(labels, {1, 2}, {2, 0}),
                       "class 'up' has 2 samples to train on and 0 to evaluate on"));
}

}  // namespace
}  // namespace shoehorn
