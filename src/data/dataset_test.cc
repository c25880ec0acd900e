#include "data/dataset.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/batch.h"
#include "data/load_dataset.h"
#include "data/test_support.h"

namespace shoehorn {
namespace {

using Rows = Dataset::Rows;

std::string error_of(const Dataset::NamedColumns& columns) {
  return message_of<UserError>([&] { Dataset::from_columns(columns); });
}

TEST(Dataset, FromColumns) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}, {8}}},
                                                 {"token_type_ids", Rows{{0, 0, 1}, {0}}},
                                                 {"labels", std::vector<int64_t>{1, -100}}});
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.token_count(), 4);
  EXPECT_EQ(dataset.max_length(), 3);
  EXPECT_EQ(dataset.lengths(), (std::vector<int32_t>{3, 1}));
  EXPECT_EQ(dataset.input_ids(0), (std::vector<int32_t>{5, 6, 7}));
  EXPECT_EQ(dataset.input_ids(1), (std::vector<int32_t>{8}));
  EXPECT_EQ(dataset.token_type_ids(0), (std::vector<int32_t>{0, 0, 1}));
  EXPECT_EQ(dataset.label_kind(), LabelKind::kClass);
  EXPECT_EQ(dataset.class_label(0), 1);
  EXPECT_EQ(dataset.target_items(0), 1);
  EXPECT_EQ(dataset.target_items(1), 0);
  EXPECT_EQ(dataset.memory_bytes(), 3 * 8 + 4 * 4 + 4 * 1 + 2 * 4);
}

// Ids, token types, labels, and where samples end: each of them is content, and so is their order.
TEST(Dataset, ContentHash) {
  const auto hash = [](const Rows& ids, const Rows& types, const std::vector<int64_t>& labels) {
    return Dataset::from_columns({{"input_ids", ids}, {"token_type_ids", types}, {"labels", labels}})
        .content_hash();
  };
  const Rows ids = {{5, 6, 7}, {8}};
  const Rows types = {{0, 0, 1}, {0}};
  const std::string content = hash(ids, types, {1, 0});
  EXPECT_EQ(hash(ids, types, {1, 0}), content);
  EXPECT_NE(hash({{5, 6, 9}, {8}}, types, {1, 0}), content);
  EXPECT_NE(hash({{8}, {5, 6, 7}}, {{0}, {0, 0, 1}}, {0, 1}), content);
  EXPECT_NE(hash({{5, 6}, {7, 8}}, {{0, 0}, {1, 0}}, {1, 0}), content);
  EXPECT_NE(hash(ids, {{0, 1, 1}, {0}}, {1, 0}), content);
  EXPECT_NE(hash(ids, {{0, 0, 0}, {0}}, {1, 0}), content);
  EXPECT_NE(hash(ids, types, {1, -100}), content);
  EXPECT_NE(Dataset::from_columns({{"input_ids", ids}, {"token_type_ids", types}}).content_hash(), content);
}

TEST(Dataset, TokenTypesThatAreAllZeroTakeNoMemory) {
  const Dataset dataset =
      Dataset::from_columns({{"input_ids", Rows{{5, 6}, {8}}}, {"token_type_ids", Rows{{0, 0}, {0}}}});
  EXPECT_FALSE(dataset.facts().has_token_types);
  EXPECT_EQ(dataset.label_kind(), LabelKind::kNone);
  EXPECT_EQ(dataset.target_items(0), 0);
  const Dataset late =
      Dataset::from_columns({{"input_ids", Rows{{5, 6}, {8}}}, {"token_type_ids", Rows{{0, 0}, {1}}}});
  EXPECT_EQ(late.token_type_ids(0), (std::vector<int32_t>{0, 0}));
  EXPECT_EQ(late.token_type_ids(1), (std::vector<int32_t>{1}));
}

TEST(Dataset, MaskedTokensAreDropped) {
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6, 0}, {8, 9, 10}}},
                                                 {"attention_mask", Rows{{1, 1, 0}, {1, 1, 1}}},
                                                 {"labels", Rows{{3, -100, -100}, {-100, 4, 5}}}});
  EXPECT_EQ(dataset.lengths(), (std::vector<int32_t>{2, 3}));
  EXPECT_EQ(dataset.label_kind(), LabelKind::kToken);
  EXPECT_EQ(dataset.token_labels(0), (std::vector<int32_t>{3, -100}));
  EXPECT_EQ(dataset.token_labels(1), (std::vector<int32_t>{-100, 4, 5}));
  EXPECT_EQ(dataset.target_items(0), 1);
  EXPECT_EQ(dataset.target_items(1), 2);
}

TEST(Dataset, ValueLabels) {
  const Dataset dataset =
      Dataset::from_columns({{"input_ids", Rows{{5}, {8}}}, {"label", std::vector<double>{0.5, -2.0}}});
  EXPECT_EQ(dataset.label_kind(), LabelKind::kValue);
  EXPECT_EQ(dataset.label_shape(), (LabelShape{LabelKind::kValue, 1}));
  EXPECT_EQ(dataset.value_labels(1), (std::vector<float>{-2}));
  EXPECT_EQ(dataset.target_items(1), 1);
  const Dataset floats =
      Dataset::from_columns({{"input_ids", Rows{{5}}}, {"labels", std::vector<float>{0.25F}}});
  EXPECT_EQ(floats.value_labels(0), (std::vector<float>{0.25F}));
  const Dataset rows = Dataset::from_columns(
      {{"input_ids", Rows{{5}, {8}}}, {"labels", Dataset::ValueRows{{1, 0, 1}, {0, 1, 0}}}});
  EXPECT_EQ(rows.label_shape(), (LabelShape{LabelKind::kValue, 3}));
  EXPECT_EQ(rows.value_labels(1), (std::vector<float>{0, 1, 0}));
  EXPECT_EQ(rows.target_items(1), 1) << "a sample is one target, whatever its values";
  EXPECT_TRUE(contains(message_of<UserError>([] {
                         Dataset::from_columns(
                             {{"input_ids", Rows{{5}, {8}}}, {"labels", Dataset::ValueRows{{1, 0}, {1}}}});
                       }),
                       "[labels] expected 2 values in row 1"));
}

TEST(Dataset, TokensOfADecoder) {
  const Rows labels = {{11, -100, 12}, {13}};
  EXPECT_EQ(shift_tokens_right(labels, 0, 2), (Rows{{2, 11, 0}, {2}}));
  const Dataset dataset = Dataset::from_columns({{"input_ids", Rows{{5, 6}, {7}}},
                                                 {"decoder_input_ids", shift_tokens_right(labels, 0, 2)},
                                                 {"labels", labels}});
  EXPECT_EQ(dataset.label_kind(), LabelKind::kDecoderToken);
  EXPECT_EQ(dataset.length(0), 2);
  EXPECT_EQ(dataset.length(0, TokenStream::kDecoder), 3);
  EXPECT_EQ(dataset.max_length(TokenStream::kDecoder), 3);
  EXPECT_EQ(dataset.token_count(TokenStream::kDecoder), 4);
  EXPECT_EQ(dataset.decoder_input_ids(0), (std::vector<int32_t>{2, 11, 0}));
  EXPECT_EQ(dataset.token_labels(0), (std::vector<int32_t>{11, -100, 12}));
  EXPECT_EQ(dataset.target_items(0), 2);
  // Padding of a collator is dropped.
  const Dataset padded = Dataset::from_columns({{"input_ids", Rows{{5, 6}, {7, 0}}},
                                                {"attention_mask", Rows{{1, 1}, {1, 0}}},
                                                {"decoder_input_ids", Rows{{2, 11, 0}, {2, 0, 0}}},
                                                {"decoder_attention_mask", Rows{{1, 1, 1}, {1, 0, 0}}},
                                                {"labels", Rows{{11, -100, 12}, {13, -100, -100}}}});
  EXPECT_EQ(padded.content_hash(), dataset.content_hash());
  const Dataset same = Dataset::alike(int64_t{1} << 40, 3, {LabelKind::kDecoderToken}, 2);
  EXPECT_EQ(same.token_count(TokenStream::kDecoder), int64_t{1} << 41);
  EXPECT_EQ(same.target_items(12345), 2);
}

TEST(Dataset, ADecodersColumnsAreChecked) {
  const Rows ids = {{1, 2}, {3}};
  EXPECT_TRUE(
      contains(error_of({{"input_ids", ids}, {"decoder_input_id", ids}}), "mean 'decoder_input_ids'?"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"decoder_input_ids", Rows{{1}}}}), "expected 2 rows"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"decoder_input_ids", Rows{{1}, {}}}}),
                       "[decoder_input_ids] expected at least one token a sample, got none in sample 1"));
  EXPECT_TRUE(
      contains(error_of({{"input_ids", ids}, {"decoder_input_ids", Rows{{1}, {-7}}}}), "got -7 in row 1"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"decoder_attention_mask", ids}}),
                       "expected decoder_input_ids with it"));
  EXPECT_TRUE(contains(
      error_of({{"input_ids", ids}, {"decoder_input_ids", Rows{{1}, {2}}}, {"labels", Rows{{1, 2}, {3}}}}),
      "[labels] expected 1 elements in row 0, as decoder_input_ids has, got 2"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids},
                                 {"decoder_input_ids", Rows{{1, 2}, {3}}},
                                 {"decoder_attention_mask", Rows{{1, 0}, {1}}},
                                 {"labels", Rows{{1, 2}, {3}}}}),
                       "-100 where decoder_attention_mask is 0"));
}

// Positions that begin again are another document.
TEST(Dataset, DocumentsOfASample) {
  const Rows ids = {{1, 2, 3}, {4, 5}};
  const Rows positions = {{0, 1, 0}, {0, 1}};
  const Rows labels = {{1, 1, 1}, {1, 1}};
  const Dataset dataset =
      Dataset::from_columns({{"input_ids", ids}, {"position_ids", positions}, {"labels", labels}});
  EXPECT_EQ(dataset.facts().most_documents, 2);
  EXPECT_EQ(dataset.facts().longest_document, 2);
  EXPECT_EQ(dataset.max_length(), 3);
  EXPECT_EQ(dataset.source().document_count(0), 2);
  EXPECT_EQ(dataset.source().document_length(0, 1), 1);
  EXPECT_EQ(dataset.source().document_count(1), 1);
  EXPECT_EQ(dataset.source().document_length(1, 0), 2);
  const Dataset late = Dataset::from_columns(
      {{"input_ids", Rows{{4, 5}, {1, 2, 3}}}, {"position_ids", Rows{{0, 1}, {0, 1, 0}}}});
  EXPECT_EQ(late.source().document_count(0), 1);
  EXPECT_EQ(late.source().document_count(1), 2);
  const auto hash = [&](const Rows& of) {
    return Dataset::from_columns({{"input_ids", ids}, {"position_ids", of}, {"labels", labels}})
        .content_hash();
  };
  const std::string one_each = Dataset::from_columns({{"input_ids", ids}, {"labels", labels}}).content_hash();
  EXPECT_NE(hash(positions), one_each);
  EXPECT_NE(hash(positions), hash({{0, 0, 1}, {0, 1}}));
  EXPECT_EQ(hash({{0, 1, 2}, {0, 1}}), one_each);
  const auto refused = [&](Rows of) {
    return error_of({{"input_ids", ids}, {"position_ids", std::move(of)}});
  };
  EXPECT_TRUE(contains(refused({{0, 1, 2}, {1, 2}}), "[position_ids] expected 0 in row 1"));
  EXPECT_TRUE(contains(refused({{0, 1, 3}, {0, 1}}), "[position_ids] expected 2 in row 0"));
  EXPECT_TRUE(contains(refused({{0, 1}, {0, 1}}), "expected 3 elements in row 0"));
  EXPECT_TRUE(contains(
      error_of({{"input_ids", ids}, {"position_ids", positions}, {"labels", std::vector<int64_t>{1, 0}}}),
      "with labels of samples, got 2"));
  EXPECT_TRUE(contains(
      error_of({{"input_ids", ids}, {"position_ids", positions}, {"decoder_input_ids", Rows{{1}, {2}}}}),
      "with decoder_input_ids, got 2"));
}

// Checkpoints of earlier versions keep it.
TEST(Dataset, TheHashOfEarlierDataStays) {
  EXPECT_EQ(Dataset::from_columns({{"input_ids", Rows{{5, 6, 7}, {8}}},
                                   {"token_type_ids", Rows{{0, 0, 1}, {0}}},
                                   {"labels", std::vector<int64_t>{1, 0}}})
                .content_hash(),
            "c4fb127e445497c227e38e6f0f3f3976");
  EXPECT_EQ(
      Dataset::from_columns({{"input_ids", Rows{{5}, {8, 9}}}, {"labels", std::vector<double>{0.5, -2}}})
          .content_hash(),
      "a8d51a62921a4e7f79a7206371d2ae3e");
}

TEST(Dataset, Errors) {
  const Rows ids = {{1, 2}, {3}};
  const auto labels = [](std::vector<int64_t> values) { return values; };
  EXPECT_TRUE(contains(error_of({{"input_id", ids}}), "did you mean 'input_ids'?"));
  EXPECT_TRUE(contains(error_of({{"labels", labels({1})}}), "expected a column input_ids"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"input_ids", ids}}), "got two"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"labels", labels({1, 2})}, {"label", labels({1, 2})}}),
                       "got two"));
  EXPECT_TRUE(contains(error_of({{"input_ids", labels({1, 2})}}), "expected rows of integers"));
  EXPECT_TRUE(contains(error_of({{"input_ids", Rows{}}}), "at least one row"));
  EXPECT_TRUE(contains(error_of({{"input_ids", Rows{{1}, {}}}}), "got none in sample 1"));
  EXPECT_TRUE(contains(error_of({{"input_ids", Rows{{1}, {-1}}}}), "got -1 in row 1"));
  EXPECT_TRUE(contains(error_of({{"input_ids", Rows{{int64_t{1} << 31}}}}), "got 2147483648 in row 0"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"labels", labels({1})}}), "expected 2 rows"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"labels", labels({1, -1})}}), "got -1 in row 1"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"labels", Rows{{1, 2}, {3, 4}}}}),
                       "expected 1 elements in row 1"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"token_type_ids", Rows{{1, 2}}}}), "expected 2 rows"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"token_type_ids", Rows{{1}, {2}}}}),
                       "expected 2 elements in row 0"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"token_type_ids", Rows{{0, 256}, {2}}}}),
                       "got 256 in sample 0"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"attention_mask", Rows{{0, 1}, {1}}}}),
                       "ones and then zeros in row 0"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"attention_mask", Rows{{1, 2}, {1}}}}),
                       "ones and then zeros in row 0"));
  EXPECT_TRUE(contains(error_of({{"input_ids", ids}, {"attention_mask", Rows{{1, 1}, {0}}}}),
                       "got none in sample 1"));
  EXPECT_TRUE(contains(
      error_of({{"input_ids", ids}, {"attention_mask", Rows{{1, 0}, {1}}}, {"labels", Rows{{1, 2}, {1}}}}),
      "expected -100 where attention_mask is 0"));
}

TEST(Dataset, RandomTokens) {
  const Dataset dataset =
      Dataset::random_tokens({.count = 64, .length = 33, .vocab_begin = 100, .vocab_end = 110});
  EXPECT_EQ(dataset.size(), 64);
  EXPECT_EQ(dataset.token_count(), 64 * 33);
  std::vector<int64_t> seen(120);
  int64_t ones = 0;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    for (const int32_t id : dataset.input_ids(i)) ++seen.at(static_cast<size_t>(id));
    ones += dataset.class_label(i);
  }
  EXPECT_EQ(std::accumulate(seen.begin() + 100, seen.begin() + 110, int64_t{0}), 64 * 33);
  EXPECT_GT(*std::min_element(seen.begin() + 100, seen.begin() + 110), 120);
  EXPECT_GT(ones, 16);
  EXPECT_LT(ones, 48);
  const Dataset same =
      Dataset::random_tokens({.count = 64, .length = 33, .vocab_begin = 100, .vocab_end = 110});
  const Dataset other =
      Dataset::random_tokens({.count = 64, .length = 33, .vocab_begin = 100, .vocab_end = 110, .seed = 1});
  EXPECT_EQ(same.input_ids(63), dataset.input_ids(63));
  EXPECT_NE(other.input_ids(63), dataset.input_ids(63));
  EXPECT_NE(dataset.input_ids(0), dataset.input_ids(1));
  EXPECT_THROW(Dataset::random_tokens({.count = 0}), UserError);
  EXPECT_THROW(Dataset::random_tokens({.vocab_begin = 5, .vocab_end = 5}), UserError);
}

// Stands for a tokenizer: one id a byte, 1 in front, 2 behind each text, second texts of type 1.
std::vector<TokenizedExample> tokenize_bytes(std::span<const TextExample> examples) {
  std::vector<TokenizedExample> encodings;
  for (const TextExample& example : examples) {
    TokenizedExample& encoding = encodings.emplace_back();
    encoding.input_ids.push_back(1);
    for (const char c : example.text) encoding.input_ids.push_back(static_cast<unsigned char>(c));
    encoding.input_ids.push_back(2);
    encoding.token_type_ids.resize(encoding.input_ids.size());
    if (!example.has_pair) continue;
    for (const char c : example.pair) encoding.input_ids.push_back(static_cast<unsigned char>(c));
    encoding.input_ids.push_back(2);
    encoding.token_type_ids.resize(encoding.input_ids.size(), 1);
  }
  return encodings;
}

TEST(LoadDataset, TextsPairsAndLabels) {
  const TestDirectory directory;
  const auto train_file =
      directory.write("train.csv", "sentence1,sentence2,label\na,bc,no\nd,,yes\n\xff,e,no\n");
  const LoadedDataset train = load_dataset(train_file, tokenize_bytes);
  EXPECT_EQ(train.dataset.size(), 3);
  EXPECT_EQ(train.dataset.input_ids(0), (std::vector<int32_t>{1, 'a', 2, 'b', 'c', 2}));
  EXPECT_EQ(train.dataset.token_type_ids(0), (std::vector<int32_t>{0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(train.dataset.input_ids(1), (std::vector<int32_t>{1, 'd', 2, 2}));
  EXPECT_EQ(train.labels.names, (std::vector<std::string>{"no", "yes"}));
  EXPECT_EQ(train.dataset.class_label(1), 1);
  EXPECT_EQ(train.empty_texts, 1);
  EXPECT_EQ(train.invalid_utf8, 1);

  // A validation file with one class only has the training file's ids.
  const auto validation_file = directory.write("validation.csv", "sentence1,sentence2,label\na,b,yes\n");
  const LoadedDataset validation = load_dataset(validation_file, tokenize_bytes, {.labels = &train.labels});
  EXPECT_EQ(validation.dataset.class_label(0), 1);
  const auto bad_file = directory.write("bad.csv", "sentence1,sentence2,label\na,b,maybe\n");
  EXPECT_TRUE(contains(
      message_of<UserError>([&] { load_dataset(bad_file, tokenize_bytes, {.labels = &train.labels}); }),
      "bad.csv:2]"));
  EXPECT_EQ(load_dataset(bad_file, tokenize_bytes, {.read_labels = false}).dataset.label_kind(),
            LabelKind::kNone);
}

TEST(LoadDataset, LabelsThatAreReadNeedAColumn) {
  const TestDirectory directory;
  const auto file = directory.write("plain.csv", "text,kind\na,x\nb,y\n");
  const std::string error = message_of<UserError>([&] { load_dataset(file, tokenize_bytes); });
  EXPECT_TRUE(contains(error, "got columns: text, kind; name it with label_column_name"));
  EXPECT_TRUE(contains(error, "plain.csv"));
  LoadOptions named;
  named.columns.label_column_name = "kind";
  EXPECT_EQ(load_dataset(file, tokenize_bytes, named).dataset.class_label(1), 1);
  EXPECT_EQ(load_dataset(file, tokenize_bytes, {.read_labels = false}).dataset.size(), 2);
}

TEST(LoadDataset, RegressionChunksAndMaxSamples) {
  const TestDirectory directory;
  std::string content = "text,label\n";
  for (int i = 0; i < 1300; ++i) content += fmt::format("t{},{}.5\n", i, i);
  const auto path = directory.write("a.csv", content);
  const LoadedDataset all = load_dataset(path, tokenize_bytes);
  EXPECT_EQ(all.labels.problem, ProblemType::kRegression);
  EXPECT_EQ(all.dataset.size(), 1300);
  EXPECT_EQ(all.dataset.value_labels(1299)[0], 1299.5F);
  EXPECT_EQ(all.dataset.input_ids(1299), (std::vector<int32_t>{1, 't', '1', '2', '9', '9', 2}));
  EXPECT_EQ(load_dataset(path, tokenize_bytes, {.max_samples = 7}).dataset.size(), 7);
  EXPECT_EQ(load_dataset(path, tokenize_bytes, {.max_samples = 5000}).dataset.size(), 1300);
}

TEST(LoadDataset, ListsAreLabelsAndNoTexts) {
  const TestDirectory directory;
  const auto path = directory.write("a.jsonl", "{\"text\": \"x\", \"tags\": [\"b\", \"a\"]}\n");
  LoadOptions options;
  options.columns.label_column_name = "tags";
  const LoadedDataset loaded = load_dataset(path, tokenize_bytes, options);
  EXPECT_EQ(loaded.labels.names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(loaded.dataset.value_labels(0), (std::vector<float>{1, 1}));
  options.columns = {.text_column_names = {"tags"}};
  options.read_labels = false;
  EXPECT_TRUE(contains(message_of<UserError>([&] { load_dataset(path, tokenize_bytes, options); }),
                       "a.jsonl:1] expected a text in column 'tags', got a list"));
}

TEST(LoadDataset, IdsAreNoTexts) {
  const TestDirectory directory;
  const auto path = directory.write("a.csv", "key,text,label\nq-1,x,1\n7,y,0\n,z,0\n");
  LoadOptions options;
  options.columns.id_column_name = "key";
  const LoadedDataset loaded = load_dataset(path, tokenize_bytes, options);
  EXPECT_EQ(loaded.text_columns, (std::vector<std::string>{"text"}));
  EXPECT_EQ(loaded.label_columns, (std::vector<std::string>{"label"}));
  EXPECT_EQ(loaded.dataset.input_ids(0), (std::vector<int32_t>{1, 'x', 2}));
}

TEST(LoadDataset, ErrorsNameTheFileOfSeveral) {
  const TestDirectory directory;
  const DataFiles files({directory.write("a.csv", "text,label\na,1\nb,0\n"),
                         directory.write("b.csv", "label,text\n1,c\n,d\n")});
  EXPECT_TRUE(contains(message_of<UserError>([&] { load_dataset(files, tokenize_bytes); }),
                       "b.csv:3] expected a label"));
  std::vector<std::string> shards;
  EXPECT_TRUE(contains(
      message_of<UserError>([&] { stream_dataset(files, tokenize_bytes, {}, directory.path(), shards); }),
      "b.csv:3] expected a label"));
}

TEST(Dataset, RandomValues) {
  const Dataset dataset =
      Dataset::random_tokens({.count = 200, .length = 1, .num_labels = 3, .label_kind = LabelKind::kValue});
  EXPECT_EQ(dataset.label_shape(), (LabelShape{LabelKind::kValue, 3}));
  std::vector<int64_t> ones(3);
  for (int64_t sample = 0; sample < 200; ++sample) {
    for (size_t i = 0; i < 3; ++i) {
      const float value = dataset.value_labels(sample)[i];
      EXPECT_TRUE(value == 0 || value == 1);
      ones[i] += value == 1 ? 1 : 0;
    }
  }
  // 100 of 200 fair draws, give or take six standard deviations of 7.
  for (const int64_t count : ones) EXPECT_NEAR(static_cast<double>(count), 100, 43);
}

// What a plan needs of a batch of millions, in the memory of one sample.
TEST(Dataset, AlikeSamplesAreKeptOnce) {
  const int64_t count = int64_t{1} << 40;
  const Dataset dataset = Dataset::alike(count, 3);
  EXPECT_EQ(dataset.size(), count);
  EXPECT_EQ(dataset.distinct_size(), 1);
  EXPECT_EQ(dataset.token_count(), 3 * count);
  EXPECT_EQ(dataset.max_length(), 3);
  EXPECT_EQ(dataset.length(count - 1), 3);
  EXPECT_EQ(dataset.input_ids(count - 1), (std::vector<int32_t>{0, 0, 0}));
  EXPECT_EQ(dataset.class_label(count - 1), 0);
  EXPECT_EQ(dataset.target_items(count - 1), 1);
  EXPECT_LT(dataset.memory_bytes(), 100);
  EXPECT_EQ(micro_batch_capacity(dataset, {.micro_batch_size = 1000}).tokens, 3008)
      << "up to a multiple of 16";
  const Dataset values = Dataset::alike(count, 3, {LabelKind::kValue, 4});
  EXPECT_EQ(values.value_labels(count - 1), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_THROW(Dataset::alike(0, 1), UserError);
  EXPECT_THROW(Dataset::alike(1, 0), UserError);
}

}  // namespace
}  // namespace shoehorn
