#include "data/table.h"

#include <sys/stat.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "base/utf8.h"
#include "data/test_support.h"
#include "io/compress_testing.h"

namespace shoehorn {
namespace {

using Cells = std::vector<std::vector<std::string>>;

Cells cells_of(const Table& table) {
  Cells cells;
  for (int64_t row = 0; row < table.rows(); ++row) {
    auto& texts = cells.emplace_back();
    for (const Column& column : table.columns) texts.emplace_back(column.text(row));
  }
  return cells;
}

Table read(const std::string& name, std::string_view content, const TableOptions& options = {}) {
  const TestDirectory directory;
  return read_table(directory.write(name, content), options);
}

std::string error_of(const std::string& name, std::string_view content, const TableOptions& options = {}) {
  return message_of<UserError>([&] { read(name, content, options); });
}

TEST(Csv, QuotesLineEndsAndByteOrderMark) {
  const Table table =
      read("a.csv", "\xef\xbb\xbflabel,text\r\n1,\"a, \"\"b\"\"\r\nc\"\r\n\r\n2,pl\"ain\r\n3,\"\"");
  EXPECT_EQ(table.column_names, (std::vector<std::string>{"label", "text"}));
  EXPECT_EQ(cells_of(table), (Cells{{"1", "a, \"b\"\r\nc"}, {"2", "pl\"ain"}, {"3", ""}}));
  EXPECT_EQ(table.row_lines, (std::vector<int64_t>{2, 5, 6}));
  EXPECT_EQ(table.columns[0].kind(0), CellKind::kInteger);
  EXPECT_EQ(table.columns[1].kind(0), CellKind::kString);
  EXPECT_EQ(table.columns[1].kind(2), CellKind::kNull);
  EXPECT_EQ(table.find_column("text"), 1);
  EXPECT_EQ(table.find_column("Text"), -1);
  EXPECT_GT(table.memory_bytes(), 0);
}

TEST(Csv, EmptyFieldsAndUnnamedIndex) {
  const Table table = read("a.CSV", ",text,label\n0,,x\n1,b,\n");
  EXPECT_EQ(table.column_names[0], "Unnamed: 0");
  EXPECT_EQ(cells_of(table), (Cells{{"0", "", "x"}, {"1", "b", ""}}));
}

TEST(Csv, WhatPythonWritesComesBack) {
  for (const auto& golden : read_golden("text", "tables")) {
    const Table table = read("a.csv", golden["csv"].get<std::string>());
    EXPECT_EQ(cells_of(table), golden["rows"].get<Cells>()) << golden["csv"];
  }
}

// Each column is compared with each where names are looked for in a list.
TEST(Csv, ManyColumns) {
  std::string names = "c0";
  std::string cells = "x";
  for (int i = 1; i < 200'000; ++i) {
    names += fmt::format(",c{}", i);
    cells += ",x";
  }
  EXPECT_EQ(read("a.csv", names + "\n" + cells + "\n").columns.size(), 200'000U);
  EXPECT_TRUE(contains(error_of("a.csv", names + ",c7\n" + cells + ",x\n"), "'c7' twice"));
}

TEST(Csv, Errors) {
  EXPECT_TRUE(contains(error_of("a.csv", ""), "got an empty file"));
  EXPECT_TRUE(contains(error_of("a.csv", "\n\n"), "got an empty file"));
  EXPECT_TRUE(contains(error_of("a.csv", "a,b\n"), "expected rows after the header"));
  EXPECT_TRUE(contains(error_of("a.csv", "a,b,a\n1,2,3\n"), "'a' twice"));
  const auto ragged = error_of("a.csv", "a,b\n1,2\n\n1,2,3\n");
  EXPECT_TRUE(contains(ragged, "a.csv:4]"));
  EXPECT_TRUE(contains(ragged, "expected 2 fields as in the header, got 3"));
  EXPECT_TRUE(contains(error_of("a.csv", "a,b\n1\n"), "a.csv:2] expected 2 fields as in the header, got 1"));
  EXPECT_TRUE(contains(error_of("a.csv", "a,b\n1,\"x\ny\n"), "a.csv:2] expected a closing quote"));
  EXPECT_TRUE(contains(error_of("a.csv", "a,b\n1,\"x\ny\"z\n"), "a.csv:3] expected a delimiter"));
  EXPECT_TRUE(contains(error_of("a.csv", "a\n" + std::string(1000, 'x') + "\n", {.max_record_bytes = 999}),
                       "a.csv:2]"));
  EXPECT_TRUE(
      contains(error_of("a.csv", "a\n\"" + std::string(1000, '\n'), {.max_record_bytes = 99}), "size limit"));
  EXPECT_TRUE(contains(error_of("a.csv",
                                "\xff\xfe"
                                "a\0"),
                       "UTF-16"));
  EXPECT_TRUE(contains(error_of("a.parquet", "x"), "got a Parquet file"));
  EXPECT_TRUE(
      contains(message_of<UserError>([] { read_table("/nonexistent/a.csv"); }), "got nothing of that name"));
  const TestDirectory directory;
  std::filesystem::create_directory(directory.path() / "d.csv");
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { read_table(directory.path() / "d.csv"); }), "got a directory"));
  ASSERT_EQ(mkfifo((directory.path() / "pipe.jsonl").c_str(), 0600), 0);
  EXPECT_TRUE(contains(message_of<UserError>([&] { read_table(directory.path() / "pipe.jsonl"); }),
                       "got a pipe or device"));
}

TEST(Txt, IsATextALineUnlessItsFirstLineHasATab) {
  const Table lines = read("a.txt", "Hello, \"world\"\n\n42\r\nlast");
  EXPECT_EQ(lines.column_names, (std::vector<std::string>{"text"}));
  EXPECT_EQ(cells_of(lines), (Cells{{"Hello, \"world\""}, {""}, {"42"}, {"last"}}));
  EXPECT_EQ(lines.columns[0].kind(1), CellKind::kNull);
  EXPECT_EQ(lines.columns[0].kind(2), CellKind::kString) << "no number";
  EXPECT_EQ(lines.row_lines, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(cells_of(read("a.txt", "\ntext\tlabel\nx\t1\n")), (Cells{{"x", "1"}}));
  EXPECT_EQ(cells_of(read("a.csv", "x\ty\n", {.format = DataFormat::kText})), (Cells{{"x\ty"}}));
  EXPECT_TRUE(contains(error_of("a.txt", ""), "a.txt] expected lines of text, got an empty file"));
}

TEST(Tsv, QuotesAreLiteral) {
  const Table table = read("a.tsv", "q\tt\n1\t\"He said\n0\tsaid \"no\"\n");
  EXPECT_EQ(cells_of(table), (Cells{{"1", "\"He said"}, {"0", "said \"no\""}}));
  EXPECT_TRUE(contains(error_of("a.txt", "a\tb\n1\t2\t3\n"), "expected 2 fields"));
}

TEST(Tsv, Mrpc) {
  const std::string path = std::string(SHOEHORN_SHARED_DIR) + "/data/mrpc/msr_paraphrase_train.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "needs " << path;
  const Table table = read_table(path);
  EXPECT_EQ(table.column_names,
            (std::vector<std::string>{"Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"}));
  EXPECT_EQ(table.rows(), 4076);
  EXPECT_EQ(table.row_lines.back(), 4077);
  EXPECT_EQ(table.invalid_utf8, 0);
}

TEST(JsonRows, Lines) {
  const Table table = read("a.jsonl",
                           "{\"t\": \"a\\nb\", \"n\": 3, \"r\": 2.50, \"b\": true, \"z\": null}\n"
                           "  \n{\"z\": null, \"b\": false, \"t\": \"\\u00e9\", \"r\": -1e3, \"n\": -4}\r\n");
  EXPECT_EQ(table.column_names, (std::vector<std::string>{"t", "n", "r", "b", "z"}));
  EXPECT_EQ(cells_of(table), (Cells{{"a\nb", "3", "2.50", "true", ""}, {"é", "-4", "-1e3", "false", ""}}));
  EXPECT_EQ(table.columns[1].kind(0), CellKind::kInteger);
  EXPECT_EQ(table.columns[2].kind(1), CellKind::kReal);
  EXPECT_EQ(table.columns[3].kind(0), CellKind::kString);
  EXPECT_EQ(table.columns[4].kind(0), CellKind::kNull);
  EXPECT_EQ(table.row_lines, (std::vector<int64_t>{1, 3}));
}

TEST(JsonRows, Array) {
  const Table table =
      read("a.json", "\n[{\"t\": \"a\", \"l\": \"1\"},\n {\"t\": \"b\",\n  \"l\": \"0\"}\n]\n");
  EXPECT_EQ(cells_of(table), (Cells{{"a", "1"}, {"b", "0"}}));
  EXPECT_EQ(table.columns[1].kind(0), CellKind::kString);
  EXPECT_EQ(table.row_lines, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(read("a.json", "[{\"t\":\"a\"},{\"t\":\"b\"}]").rows(), 2);
}

TEST(JsonRows, Lists) {
  const Table table = read("a.jsonl",
                           "{\"t\": [\"a\\\"b\", 3, -2.5, true, null, 18446744073709551615], \"n\": 1}\n"
                           "{\"t\": [], \"n\": [\"\u00e9\"]}\n");
  EXPECT_EQ(table.columns[0].kind(0), CellKind::kList);
  EXPECT_EQ(table.columns[1].kind(0), CellKind::kInteger);
  EXPECT_EQ(table.columns[1].kind(1), CellKind::kList);
  const std::vector<ListElement> elements = list_elements(table.columns[0].text(0));
  const std::vector<std::pair<std::string, CellKind>> expected = {
      {"a\"b", CellKind::kString}, {"3", CellKind::kInteger}, {"-2.5", CellKind::kReal},
      {"true", CellKind::kString}, {"", CellKind::kNull},     {"18446744073709551615", CellKind::kReal}};
  ASSERT_EQ(elements.size(), expected.size());
  for (size_t i = 0; i < elements.size(); ++i) {
    EXPECT_EQ(elements[i].text, expected[i].first);
    EXPECT_EQ(elements[i].kind, expected[i].second) << elements[i].text;
  }
  EXPECT_TRUE(list_elements(table.columns[0].text(1)).empty());
  EXPECT_EQ(list_elements(table.columns[1].text(1))[0].text, "\u00e9");
}

TEST(JsonRows, Errors) {
  EXPECT_TRUE(contains(error_of("a.json", " \n"), "empty file"));
  EXPECT_TRUE(contains(error_of("a.json", "[]"), "empty array"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": 1}\n{\"a\": }\n"),
                       "a.json:2] expected one JSON object, got malformed JSON"));
  EXPECT_TRUE(contains(error_of("a.json", "[{\"a\": 1},\n{\"a\": 2}\n"), "a.json:"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": 1} {\"a\": 2}"), "malformed"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"data\": [{\"a\": 1}]}"),
                       "expected a text, number or boolean in a list, got an object under 'data'"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": [1, [2]]}"), "got an array under 'a'"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": {\"b\": 1}}"), "got an object under 'a'"));
  EXPECT_TRUE(contains(error_of("a.json", "[[1]]"), "expected an object, got an array"));
  EXPECT_TRUE(contains(error_of("a.json", "3"), "got a bare value"));
  EXPECT_TRUE(contains(error_of("a.json", "{}"), "empty one"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": 1, \"a\": 2}"), "'a' twice"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": 1}\n{\"a\": 1, \"a\": 2}"), "'a' twice"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": 1}\n{\"b\": 1}"),
                       "a.json:2] expected the keys of the first object (a)"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": 1, \"b\": 2}\n{\"b\": 1}"),
                       "expected 2 keys as in the first object, got 1: 'a'"));
  EXPECT_TRUE(contains(error_of("a.json", std::string(100000, '[')), "a.json:1]"));
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": 1e999}"), "a.json:1]"));
  EXPECT_FALSE(contains(error_of("a.json", "{\"a\": 1e999}"), "json.exception"));
  const std::string nul(1, '\0');
  EXPECT_TRUE(contains(error_of("a.json", "{\"a\": 1}\n{\"a\": 2}" + nul + "{\"a\": 3}"),
                       "a.json:2] expected JSON, got a NUL"));
  EXPECT_TRUE(contains(error_of("a.json", "[{\"a\": 1},\n{\"a\": 2}" + nul + "]"),
                       "a.json:2] expected JSON, got a NUL"));
}

TEST(Utf8, CountsAndReplacesAsPythonDoes) {
  for (const auto& golden : read_golden("text", "utf8")) {
    const auto bytes = [](const std::string& hex) {
      std::string text;
      for (size_t i = 0; i < hex.size(); i += 2)
        text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
      return text;
    };
    const std::string source = bytes(golden[0]);
    const std::string expected = bytes(golden[1]);
    const std::string replaced = replace_invalid_utf8(source);
    EXPECT_EQ(replaced, expected) << golden[0];
    EXPECT_EQ(count_invalid_utf8(replaced), 0);
    EXPECT_EQ(count_invalid_utf8(source) == 0, source == expected);
  }
  EXPECT_EQ(count_invalid_utf8("12345678\xff"
                               "abcdefgh\xe4\xb8"
                               "xyz\xed\xa0\x80"),
            5);
}

// Names of columns and labels among them go into JSON, which has no other bytes.
TEST(Utf8, OtherBytesAreReplacedAndCounted) {
  const Table csv = read("a.csv",
                         "t\xfe\na\xff"
                         "b\n\"c\xff\n\xff\"\n");
  EXPECT_EQ(csv.column_names[0], "t\xef\xbf\xbd");
  EXPECT_EQ(csv.columns[0].text(0),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(csv.columns[0].text(1), "c\xef\xbf\xbd\n\xef\xbf\xbd");
  EXPECT_EQ(csv.invalid_utf8, 4);
  for (const char* content : {"{\"t\": \"a\xff"
                              "b\"}\n{\"t\": \"c\"}",
                              "[{\"t\": \"a\xff"
                              "b\"}]"}) {
    const Table json = read("a.json", content);
    EXPECT_EQ(json.columns[0].text(0),
              "a\xef\xbf\xbd"
              "b");
    EXPECT_EQ(json.invalid_utf8, 1);
  }
}

TEST(ClassifyField, Kinds) {
  for (const char* text : {"0", "-7", "+7", " 12 ", "007", "9223372036854775807"}) {
    EXPECT_EQ(classify_field(text), CellKind::kInteger) << text;
  }
  for (const char* text : {"1.0", "-.5", "1e3", "9223372036854775808", "+2.5"}) {
    EXPECT_EQ(classify_field(text), CellKind::kReal) << text;
  }
  for (const char* text :
       {"x", "1x", "--1", "+-1", " ", "inf", "nan", "-nan", "-inf", "1e999", "1 2", "0x10", "+", "-", "."}) {
    EXPECT_EQ(classify_field(text), CellKind::kString) << text;
  }
  EXPECT_EQ(classify_field(""), CellKind::kNull);
}

// Whatever the bytes: a table whose columns agree in size, or a UserError.
TEST(ReadTable, RandomBytesNeverCrash) {
  const TestDirectory directory;
  std::mt19937 engine(5);
  const std::string alphabet = "{}[]\",:\\\n\r\t ab01.-etrufalsn\xff\xc3\xa9";
  const std::vector<std::string> seeds = {"a,b\n1,\"x,y\"\n2,z\n", "a\tb\n1\tx\n",
                                          "{\"a\": 1, \"b\": \"x\"}\n{\"a\": 2, \"b\": \"y\"}\n",
                                          "[{\"a\": 1},\n{\"a\": 2}]\n"};
  int64_t parsed = 0;
  // One file under four names, so that each content meets every reader.
  const char* names[] = {"f.csv", "f.tsv", "f.json", "f.jsonl"};
  for (int i = 1; i < 4; ++i) std::filesystem::create_symlink(names[0], directory.path() / names[i]);
  for (int i = 0; i < 1200; ++i) {
    std::string content = i % 3 == 0 ? "" : seeds[engine() % seeds.size()];
    const size_t mutations = i % 3 == 0 ? engine() % 60 : engine() % 6;
    for (size_t m = 0; m < mutations; ++m) {
      const size_t at = engine() % (content.size() + 1);
      const char byte =
          engine() % 8 == 0 ? static_cast<char>(engine()) : alphabet[engine() % alphabet.size()];
      if (engine() % 3 == 0 && at < content.size()) {
        content.erase(at, 1 + engine() % 3);
      } else {
        content.insert(at, 1, byte);
      }
    }
    // Truncating the old file instead would have some file systems flush the new one to disk.
    std::filesystem::remove(directory.path() / names[0]);
    directory.write(names[0], content);
    for (const char* name : names) {
      const auto path = directory.path() / name;
      try {
        const Table table = read_table(path, {.max_record_bytes = 64});
        ++parsed;
        for (const Column& column : table.columns) ASSERT_EQ(column.size(), table.rows());
      } catch (const UserError& error) {
        ASSERT_TRUE(std::string_view(error.what()).starts_with("[" + path.string())) << error.what();
      }
    }
  }
  EXPECT_GT(parsed, 500);
}

TEST(CompressedTables, AreThoseOfTheirContent) {
  EXPECT_EQ(cells_of(read("a.csv.gz", gzip("\xef\xbb\xbftext,label\n\"a\nb\",1\n"))), (Cells{{"a\nb", "1"}}));
  EXPECT_EQ(cells_of(read("a.tsv.zst", zstandard("text\tlabel\n\"a\t1\n"))), (Cells{{"\"a", "1"}}));
  EXPECT_EQ(cells_of(read("a.JSONL.GZ", gzip("{\"text\": \"a\"}\n") + gzip("{\"text\": \"b\"}\n"))),
            (Cells{{"a"}, {"b"}}));
  const std::string error = error_of("a.csv.gz", gzip("a,b\n1,2\n1,2,3\n"));
  EXPECT_TRUE(contains(error, "a.csv.gz:3] expected 2 fields")) << error;
  EXPECT_TRUE(contains(error_of("a.csv", gzip("a,b\n1,2\n")), "name it a.csv.gz"));
  const std::string whole = gzip("text,label\none,1\ntwo,2\n");
  EXPECT_TRUE(contains(error_of("a.csv.gz", whole.substr(0, whole.size() - 4)),
                       "a.csv.gz] expected gzip up to its end"));
}

// A hundred kilobytes of file that stand for a hundred megabytes of one line.
TEST(CompressedTables, ALineOverTheLimitIsNotHeld) {
  const std::string bomb = "text,label\n" + std::string(size_t{100} << 20, 'a');
  for (const auto& [name, bytes] :
       {std::pair("a.csv.gz", gzip(bomb)), std::pair("a.csv.zst", zstandard(bomb))}) {
    ASSERT_LT(bytes.size(), 200'000U);
    EXPECT_TRUE(contains(error_of(name, bytes), ":2] expected a line of at most 67108864 bytes"));
    EXPECT_TRUE(contains(error_of(name, bytes, {.max_record_bytes = 1000}),
                         ":2] expected a line of at most 1000 bytes"));
  }
}

class SeveralFiles : public testing::Test {
 protected:
  Table read(const std::vector<std::filesystem::path>& files) const { return read_table(DataFiles(files)); }
  std::string refusal(const std::filesystem::path& other) const {
    return message_of<UserError>([&] { read({first_, other}); });
  }

  const TestDirectory directory_;
  const std::filesystem::path first_ = directory_.write("a.csv", "text,label\none,1\ntwo,2\n");
};

TEST_F(SeveralFiles, AreOneTable) {
  const auto second = directory_.write("b.tsv.gz", gzip("label\ttext\n3\tthree\n"));
  const auto third =
      directory_.write("c.jsonl", "\n{\"label\": 4, \"text\": \"four\"}\n{\"text\": null, \"label\": 5}\n");
  const Table table = read({first_, second, third});
  EXPECT_EQ(table.column_names, (std::vector<std::string>{"text", "label"}));
  EXPECT_EQ(cells_of(table), (Cells{{"one", "1"}, {"two", "2"}, {"three", "3"}, {"four", "4"}, {"", "5"}}));
  EXPECT_EQ(table.columns[1].kind(3), CellKind::kInteger);
  EXPECT_TRUE(table.place(1).ends_with("a.csv:3"));
  EXPECT_TRUE(table.place(2).ends_with("b.tsv.gz:2"));
  EXPECT_TRUE(table.place(4).ends_with("c.jsonl:3"));
  EXPECT_TRUE(contains(table.source, "a.csv, ") && contains(table.source, "c.jsonl")) << table.source;
}

// Pieces go on in the next file, and still know where each row is from.
TEST_F(SeveralFiles, InPieces) {
  const auto second = directory_.write("b.csv", "label,text\n3,three\n4,four\n5,\xff\n");
  const auto third = directory_.write("c.csv", "label,text\n6,six\n");
  std::vector<std::string> rows;
  std::vector<int64_t> sizes;
  const int64_t invalid =
      read_table_in_pieces(DataFiles({first_, second, third}), {}, 3, [&](const Table& piece) {
        sizes.push_back(piece.rows());
        for (int64_t row = 0; row < piece.rows(); ++row) {
          const std::string place = piece.place(row);
          rows.push_back(
              fmt::format("{} {}", place.substr(place.rfind('/') + 1), piece.columns[1].text(row)));
        }
      });
  EXPECT_EQ(sizes, (std::vector<int64_t>{3, 3}));
  EXPECT_EQ(rows, (std::vector<std::string>{"a.csv:2 1", "a.csv:3 2", "b.csv:2 3", "b.csv:3 4", "b.csv:4 5",
                                            "c.csv:2 6"}));
  EXPECT_EQ(invalid, 1);
}

TEST_F(SeveralFiles, HaveTheSameColumns) {
  const std::string missing = refusal(directory_.write("b.csv", "text\nthree\n"));
  EXPECT_TRUE(contains(missing, "b.csv:1] expected the columns of ") &&
              contains(missing, "a.csv (text, label)"))
      << missing;
  EXPECT_TRUE(contains(missing, "got none called 'label'")) << missing;
  EXPECT_TRUE(contains(refusal(directory_.write("b.csv", "text,label,id\na,b,c\n")),
                       "b.csv:1] expected the columns of"));
  EXPECT_TRUE(
      contains(refusal(directory_.write("b.csv", "text,label,id\na,b,c\n")), "got another one, 'id'"));
  EXPECT_TRUE(contains(refusal(directory_.write("b.csv", "text,text\na,b\n")),
                       "b.csv:1] expected every column once"));
  EXPECT_TRUE(contains(refusal(directory_.write("b.jsonl", "{\"text\": 1}\n")),
                       "b.jsonl:1] expected the columns of"));
  EXPECT_TRUE(
      contains(refusal(directory_.write("b.csv", "label,text\n1,2\n3\n")), "b.csv:3] expected 2 fields"));
  EXPECT_TRUE(
      contains(refusal(directory_.write("b.csv", "label,text\n")), "b.csv] expected rows after the header"));
  EXPECT_TRUE(
      contains(refusal(directory_.path() / "c.csv"), "c.csv] expected a file, got nothing of that name"));
}

TEST(OtherSeparators, AreErrorsWithTheRemedy) {
  const std::string semicolons = error_of("a.csv", "text;label\na, b;1\n");
  EXPECT_TRUE(
      contains(semicolons, "a.csv:1] expected commas between columns, as in its name, got ';': 'text;label'"))
      << semicolons;
  EXPECT_TRUE(contains(semicolons, "pandas.read_csv('") &&
              contains(semicolons, "a.csv', sep=';').to_csv('") &&
              contains(semicolons, "a.commas.csv', index=False)"))
      << semicolons;
  EXPECT_TRUE(contains(error_of("a.csv", "text\tlabel\na\t1\n"), "got tabs: 'text\tlabel'; name it .tsv"));
  EXPECT_TRUE(contains(error_of("a.csv", "a|b\n1|2\n"), "sep='|'"));
  EXPECT_TRUE(contains(error_of("a.tsv", "text,label\na,1\n"),
                       "expected tabs between columns, as in its name, got ','"));
  EXPECT_TRUE(contains(error_of("a.tsv", "text,label\na,1\n"), "name it .csv"));
  EXPECT_TRUE(contains(error_of("a.tsv", "text;label\na;1\n"), "a.commas.csv"));
}

TEST(OtherSeparators, MayBePartOfANameOrOfTexts) {
  EXPECT_EQ(read("a.csv", "\"text;label\"\na;1\n").column_names[0], "text;label");
  EXPECT_EQ(read("a.csv", "text;label\nno other\n").rows(), 1);
  EXPECT_EQ(read("a.csv", "text\na;b\n").rows(), 1);
  EXPECT_EQ(read("a.csv", "a;b,c;d\n1;2,3;4\n").columns.size(), 2U);
  EXPECT_EQ(read("a.tsv", "a,b\tc\n1,2\t3\n").columns.size(), 2U);
}

TEST(ReadTable, PiecesHaveALimitOfBytes) {
  const TestDirectory directory;
  std::string text = "text\n";
  for (const int64_t bytes : {10, 10, 10, 500, 10, 10, 10, 10, 10}) text += std::string(bytes, 'x') + "\n";
  const auto path = directory.write("t.csv", text);
  const auto sizes = [&](PieceLimits limits) {
    std::vector<int64_t> rows;
    read_table_in_pieces(path, {}, limits, [&](const Table& piece) { rows.push_back(piece.rows()); });
    return rows;
  };
  EXPECT_EQ(sizes(4), (std::vector<int64_t>{4, 4, 1}));
  PieceLimits limits = 100;
  limits.bytes = 25;
  EXPECT_EQ(sizes(limits), (std::vector<int64_t>{3, 1, 3, 2}));
  limits.row_multiple = 2;
  EXPECT_EQ(sizes(limits), (std::vector<int64_t>{4, 4, 1})) << "whole batches";
}

TEST(ReadTable, AFormatMayBeNamed) {
  const TestDirectory directory;
  const auto path = directory.write("rows", "a\tb,c\n1\t2,3\n");
  EXPECT_EQ(read_table(path, {.format = DataFormat::kTabs}).column_names,
            (std::vector<std::string>{"a", "b,c"}));
  EXPECT_EQ(read_table(path, {.format = DataFormat::kCommas}).column_names,
            (std::vector<std::string>{"a\tb", "c"}));
  EXPECT_THROW(read_table(path), UserError);
  EXPECT_FALSE(read_table(path, {.format = DataFormat::kTabs}).has_types);
  EXPECT_TRUE(read_table(directory.write("o", "{\"a\": 1}\n"), {.format = DataFormat::kObjects}).has_types);
}

}  // namespace
}  // namespace shoehorn
