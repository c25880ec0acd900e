#include "data/texts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "data/test_support.h"
#include "io/compress_testing.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using Ints = std::vector<int32_t>;
using Strings = std::vector<std::string>;

// A token a byte.
std::vector<TokenizedExample> tokens_of_bytes(std::span<const TextExample> texts) {
  std::vector<TokenizedExample> tokenized;
  for (const TextExample& text : texts) {
    EXPECT_FALSE(text.has_pair);
    tokenized.emplace_back();
    for (const char c : text.text) tokenized.back().input_ids.push_back(static_cast<unsigned char>(c));
  }
  return tokenized;
}

class Texts : public testing::Test {
 protected:
  Strings read(const fs::path& path, const TextOptions& options = {}, int64_t rows = 2) const {
    Strings all;
    read_texts(path, options, rows, [&](std::span<const std::string_view> texts) {
      EXPECT_LE(std::ssize(texts), rows);
      all.insert(all.end(), texts.begin(), texts.end());
    });
    return all;
  }
  Strings lines(std::string_view bytes, const TextOptions& options = {}) const {
    return read(directory_.write("a.txt", bytes), options);
  }
  std::string refusal(const fs::path& path, const TextOptions& options = {}) const {
    return message_of<UserError>([&] { load_texts(path, tokens_of_bytes, options); });
  }

  std::string path(const char* name) const { return (directory_.path() / name).string(); }

  TestDirectory directory_;
};

// As Python reads a file of text: CRLF and CR are LF.
TEST_F(Texts, ALineIsAText) {
  EXPECT_EQ(lines("one\ntwo\n\nthree"), (Strings{"one\n", "two\n", "\n", "three"}));
  EXPECT_EQ(lines("one\r\ntwo\r\n\r\nthree\r\n"), (Strings{"one\n", "two\n", "\n", "three\n"}));
  EXPECT_EQ(lines("one\rtwo\r\r\nthree\r"), (Strings{"one\n", "two\n", "\n", "three\n"}));
  EXPECT_EQ(lines("\xef\xbb\xbfone\ttwo, \"three\n"), (Strings{"one\ttwo, \"three\n"}));
  EXPECT_EQ(lines("\n"), (Strings{"\n"}));
  const TextOptions cut{.keep_linebreaks = false};
  EXPECT_EQ(lines("one\ntwo\r\n\nthree\rfour", cut), (Strings{"one", "two", "", "three", "four"}));
  EXPECT_EQ(lines("one\r", cut), (Strings{"one"}));
  EXPECT_EQ(read(directory_.write("A.TXT", "one\n")), (Strings{"one\n"})) << "any case";
}

// A line's end does not depend on where the reader's buffer does.
TEST_F(Texts, LongLines) {
  std::string bytes;
  Strings expected;
  for (size_t i = 0; i < 40; ++i) {
    expected.push_back(std::string(i * 997, static_cast<char>('a' + i % 26)) + "\n");
    bytes += expected.back();
    if (i % 3 == 1) bytes.insert(bytes.size() - 1, "\r");
  }
  EXPECT_TRUE(lines(bytes) == expected);
}

// What is not read may be of any shape, or missing: corpora are written so.
TEST_F(Texts, OfObjectsThatDiffer) {
  const std::string rows =
      "{\"meta\": {\"set\": \"web\", \"text\": \"no\", \"at\": [1, {\"a\": []}]}, \"text\": \"one\"}\n"
      "{\"text\": \"two\", \"url\": \"u\", \"deep\": [[1], {\"text\": 2}]}\n"
      "{\"tags\": [], \"text\": \"three\", \"meta\": null}\n";
  EXPECT_EQ(read(directory_.write("a.jsonl", rows)), (Strings{"one", "two", "three"}));
  std::string array = rows;
  std::ranges::replace(array, '\n', ',');
  array.back() = ']';
  EXPECT_EQ(read(directory_.write("b.json", "[" + array)), (Strings{"one", "two", "three"}));
  const fs::path both = directory_.write("c.jsonl", "{\"text\": \"four\", \"other\": {}}\n");
  Strings all;
  read_texts(
      find_data_files("f", path("a.jsonl") + "," + both.string()), {}, 9,
      [&](std::span<const std::string_view> texts) { all.insert(all.end(), texts.begin(), texts.end()); });
  EXPECT_EQ(all, (Strings{"one", "two", "three", "four"}));
  for (const auto& [row, found] : {std::pair{"{\"text\": {\"a\": 1}}", "an object"},
                                   {"{\"text\": [[\"a\"]]}", "an object"},
                                   {"{\"text\": [\"a\"]}", "a list"},
                                   {"{\"other\": 1}", "a row without this key"}}) {
    const std::string refused =
        refusal(directory_.write("d.jsonl", "{\"text\": \"one\"}\n" + std::string(row) + "\n"));
    EXPECT_NE(refused.find("d.jsonl:2] expected a text in column 'text', got " + std::string(found)),
              std::string::npos)
        << refused;
  }
}

// Whether a column has texts is not told by its first rows.
TEST_F(Texts, OfAColumnThatBeginsEmpty) {
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += "{\"text\": null}\n";
  rows += "{\"text\": \"one\"}\n";
  EXPECT_EQ(read(directory_.write("a.jsonl", rows)).back(), "one");
  std::string numbers;
  for (int i = 0; i < 20; ++i) numbers += "{\"text\": null}\n";
  numbers += "{\"text\": 1}\n{\"text\": 2}\n";
  EXPECT_NE(refusal(directory_.write("b.jsonl", numbers)).find("expected texts in column 'text'"),
            std::string::npos);
}

// Lines may be books: what is held of them at a time is bounded by bytes, too.
TEST_F(Texts, LongLinesComeFewAtATime) {
  const std::string book(3 << 20, 'a');
  std::string lines, rows;
  for (int i = 0; i < 12; ++i) {
    lines += book + "\n";
    rows += "{\"text\": \"" + book + "\"}\n";
  }
  for (const auto& [name, content] : {std::pair{"a.txt", lines}, {"a.jsonl", rows}}) {
    int64_t texts_in_all = 0;
    read_texts(directory_.write(name, content), {}, 512, [&](std::span<const std::string_view> texts) {
      EXPECT_LE(texts.size(), 3U) << name;
      texts_in_all += std::ssize(texts);
    });
    EXPECT_EQ(texts_in_all, 12) << name;
  }
}

TEST_F(Texts, OfAColumn) {
  const fs::path csv = directory_.write("a.csv", "id,text\n1,one\n2,\n3,three\n");
  EXPECT_EQ(read(csv), (Strings{"one", "", "three"})) << "the column text";
  EXPECT_EQ(read(csv, {.text_column = "id"}), (Strings{"1", "2", "3"}));
  EXPECT_EQ(
      read(directory_.write("a.jsonl", "{\"body\": \"one\\ntwo\", \"n\": 1}\n{\"body\": null, \"n\": 2}\n")),
      (Strings{"one\ntwo", ""}))
      << "the first column";
  EXPECT_EQ(read(directory_.write("a.tsv", "text\tn\n\"one\t1\n")), (Strings{"\"one"}));
  EXPECT_TRUE(contains(refusal(csv, {.text_column = "txt"}),
                       "[text_column_names] expected a column of " + csv.string() +
                           ", got 'txt'; did you mean 'text'? it has: id, text"));
  EXPECT_TRUE(
      contains(refusal(directory_.write("b.csv", "id,body\n1,one\n")),
               "b.csv] expected texts in column 'id', got none; name another one with text_column_names"));
  EXPECT_TRUE(contains(refusal(directory_.write("b.jsonl", "{\"text\": [\"a\"]}\n"), {.text_column = "text"}),
                       "b.jsonl:1] expected a text in column 'text', got a list"));
  EXPECT_TRUE(contains(refusal(directory_.write("b.txt", "one\n"), {.text_column = "text"}),
                       "[text_column_names] expected none for"));
}

TEST_F(Texts, BecomeSamples) {
  const fs::path path = directory_.write("a.csv", "text\nab\n\"\"\nc\xff\n");
  const LoadedTexts loaded = load_texts(path, tokens_of_bytes);
  ASSERT_EQ(loaded.texts.size(), 3);
  EXPECT_EQ(loaded.texts.label_kind(), LabelKind::kNone);
  EXPECT_EQ(loaded.texts.input_ids(0), (Ints{'a', 'b'}));
  EXPECT_EQ(loaded.texts.input_ids(1), (Ints{}));
  EXPECT_EQ(loaded.texts.input_ids(2), (Ints{'c', 0xef, 0xbf, 0xbd}));
  EXPECT_EQ(loaded.empty_texts, 1);
  EXPECT_EQ(loaded.invalid_utf8, 1);
  EXPECT_EQ(loaded.text_column, "text");
  const TextOptions ended{.end_token = 'b'};
  const LoadedTexts with_end = load_texts(path, tokens_of_bytes, ended);
  EXPECT_EQ(with_end.texts.input_ids(0), (Ints{'a', 'b'})) << "it was there";
  EXPECT_EQ(with_end.texts.input_ids(1), (Ints{'b'}));
  EXPECT_EQ(with_end.empty_texts, 0);
}

TEST_F(Texts, MoreThanAreTokenizedAtOnce) {
  std::string bytes;
  for (int i = 0; i < 1300; ++i) bytes += fmt::format("{}\n", i);
  int64_t told = 0;
  TextOptions options;
  options.on_progress = [&](int64_t texts) {
    EXPECT_GT(texts, told);
    told = texts;
  };
  const LoadedTexts loaded = load_texts(directory_.write("a.txt", bytes), tokens_of_bytes, options);
  ASSERT_EQ(loaded.texts.size(), 1300);
  EXPECT_EQ(loaded.texts.input_ids(1299), (Ints{'1', '2', '9', '9', '\n'}));
  EXPECT_EQ(told, 1300);
}

TEST_F(Texts, RefuseAFileWithoutAny) {
  EXPECT_TRUE(
      contains(refusal(directory_.write("a.txt", "")), "a.txt] expected lines of text, got an empty file"));
  EXPECT_TRUE(contains(refusal(directory_.write("a.txt", "\n\n"), {.keep_linebreaks = false}),
                       "a.txt] expected texts, got 2 without a single token"));
  EXPECT_TRUE(contains(refusal(directory_.write("a.csv", "text\n")), "expected rows after the header"));
  EXPECT_TRUE(contains(refusal(directory_.path() / "none.txt"), "none.txt"));
  EXPECT_TRUE(contains(refusal(directory_.write("a.md", "one\n")), "expected a file named .csv"));
}

TEST_F(Texts, CompressedAndSeveralFiles) {
  EXPECT_EQ(read(directory_.write("a.txt.gz", gzip("one\ntwo"))), (Strings{"one\n", "two"}));
  EXPECT_EQ(read(directory_.write("a.jsonl.zst", zstandard("{\"text\": \"one\"}\n"))), (Strings{"one"}));
  const DataFiles lines(
      {directory_.write("a.txt", "one\ntwo"), directory_.write("b.txt.gz", gzip("three\n"))});
  const DataFiles tables(
      {directory_.write("a.csv", "id,text\n1,one\n"), directory_.write("b.csv", "text,id\ntwo,2\n")});
  const auto read_all = [](const DataFiles& files) {
    Strings all;
    read_texts(files, {}, 2, [&](std::span<const std::string_view> texts) {
      all.insert(all.end(), texts.begin(), texts.end());
    });
    return all;
  };
  EXPECT_EQ(read_all(lines), (Strings{"one\n", "two", "three\n"}));
  EXPECT_EQ(read_all(tables), (Strings{"one", "two"}));
  const DataFiles both({lines.paths()[0], tables.paths()[0]});
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { read_all(both); }), "a.csv] expected lines of text, as in "));
  const DataFiles empty({lines.paths()[0], directory_.write("c.txt", "")});
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_all(empty); }), "c.txt] expected lines of text"));
}

}  // namespace
}  // namespace shoehorn
