#include "data/data_files.h"

#include <filesystem>

#include "data/data_format.h"
#include "data/test_support.h"

namespace shoehorn {
namespace {

namespace fs = std::filesystem;
using Paths = std::vector<fs::path>;

class DataFilesTest : public testing::Test {
 protected:
  // The names that are found, below the directory.
  std::vector<std::string> found(const std::string& names) const {
    std::vector<std::string> relative;
    for (const fs::path& path : find_data_files("--train_file", names).paths())
      relative.push_back(path.lexically_relative(directory_.path()));
    return relative;
  }
  std::string refusal(const std::string& names) const {
    return message_of<UserError>([&] { find_data_files("--train_file", names); });
  }
  std::string at(const std::string& name) const { return (directory_.path() / name).string(); }

  const TestDirectory directory_;
};

TEST_F(DataFilesTest, ListsAndPatterns) {
  for (const char* name :
       {"b.csv", "a.csv", "B.csv", "a10.csv", "a2.csv", "x.tsv", ".hidden.csv", "deep/er.csv/z.csv"})
    directory_.write(name, "text\na\n");
  EXPECT_EQ(found(at("b.csv")), (std::vector<std::string>{"b.csv"}));
  EXPECT_EQ(found(at("b.csv") + "," + at("a.csv")), (std::vector<std::string>{"b.csv", "a.csv"}));
  EXPECT_EQ(found(at("*.csv")), (std::vector<std::string>{"B.csv", "a.csv", "a10.csv", "a2.csv", "b.csv"}));
  EXPECT_EQ(found(at("a?.csv") + "," + at("[bx].*")), (std::vector<std::string>{"a2.csv", "b.csv", "x.tsv"}));
  EXPECT_EQ(found(at("d*/*/*")), (std::vector<std::string>{"deep/er.csv/z.csv"}));
  // What is not there is for the reader to say.
  EXPECT_EQ(found(at("absent.csv")), (std::vector<std::string>{"absent.csv"}));
  EXPECT_EQ(find_data_files("--test_file", "-").paths(), Paths{"-"});
}

TEST_F(DataFilesTest, SetsAreWhatStandsBetweenCommas) {
  for (const char* name : {"a1.csv", "a2.csv", "b.csv"}) directory_.write(name, "text\na\n");
  const std::vector<DataFiles> sets = find_data_file_sets("--train_file", at("a*.csv") + "," + at("b.csv"));
  ASSERT_EQ(sets.size(), 2U);
  EXPECT_EQ(sets[0].paths(), (Paths{at("a1.csv"), at("a2.csv")}));
  EXPECT_EQ(sets[1].paths(), (Paths{at("b.csv")}));
}

TEST_F(DataFilesTest, NamesThatHoldCommasOrPatternsAreFilesWhereThereAreSuch) {
  directory_.write("a,b.csv", "");
  directory_.write("[1].csv", "");
  directory_.write("1.csv", "");
  EXPECT_EQ(found(at("a,b.csv")), (std::vector<std::string>{"a,b.csv"}));
  EXPECT_EQ(found(at("[1].csv")), (std::vector<std::string>{"[1].csv"}));
  EXPECT_EQ(found(at("1.csv") + "," + at("[1].csv")), (std::vector<std::string>{"1.csv", "[1].csv"}));
}

TEST_F(DataFilesTest, Refusals) {
  directory_.write("data/a.csv", "");
  directory_.write("data/b.csv", "");
  EXPECT_EQ(refusal(at("data/*.tsv")), "[--train_file] expected files of the pattern '" + at("data/*.tsv") +
                                           "', got none; check the path");
  EXPECT_TRUE(contains(refusal(at("d*")), "got none")) << "directories are no files";
  EXPECT_EQ(refusal(at("data")), "[--train_file] expected a file, got the directory '" + at("data") +
                                     "'; name its files, as in '" + at("data/*.csv") + "'");
  EXPECT_TRUE(contains(refusal(at("data/a.csv") + "," + at("data")), "got the directory"));
  EXPECT_TRUE(
      contains(refusal(at("data/*.csv") + "," + at("data/b.csv")), "expected every file once, got '"));
  EXPECT_TRUE(contains(refusal("-,-"), "got '-' twice"));
  for (const std::string names : {"", "a.csv,", ",a.csv", "a.csv,,b.csv"})
    EXPECT_TRUE(contains(refusal(names), "[--train_file] expected files with one comma between two"))
        << names;
}

TEST_F(DataFilesTest, NamesForPeople) {
  EXPECT_EQ(DataFiles("a.csv").name(), "a.csv");
  EXPECT_EQ(DataFiles(Paths{"a", "b", "c"}).name(), "a, b, c");
  EXPECT_EQ(DataFiles(Paths{"a", "b", "c", "d"}).name(), "a, b and 2 more");
  EXPECT_EQ(DataFiles("-").name(), "standard input");
}

TEST(DataFormats, ByName) {
  EXPECT_EQ(data_format_of("a/train.CSV"), DataFormat::kCommas);
  EXPECT_EQ(data_format_of("train.tsv.gz"), DataFormat::kTabs);
  EXPECT_EQ(data_format_of("train.txt.zst"), DataFormat::kText);
  EXPECT_EQ(data_format_of("train.jsonl.GZ"), DataFormat::kObjects);
  EXPECT_EQ(data_format_of("train.json"), DataFormat::kObjects);
  for (const char* name : {"a/train.CSV", "train.tsv.gz", "train.jsonl.GZ", "train.json"})
    EXPECT_TRUE(is_named_as_table(name)) << name;
  for (const char* name : {"train.txt.zst", "train.log", "csv", "-"})
    EXPECT_FALSE(is_named_as_table(name)) << name;
}

// Refused by name, with a command that works.
TEST(DataFormats, OtherFormatsAreConverted) {
  const TestDirectory directory;
  // Of a file of this name, without its directory.
  const auto refusal = [&](const char* name) {
    const fs::path file = directory.write(name, "x");
    std::string message = message_of<UserError>([&] { data_format_of(file); });
    const std::string folder = directory.path().string() + "/";
    for (size_t at = 0; (at = message.find(folder)) != std::string::npos;) message.erase(at, folder.size());
    return message;
  };
  EXPECT_EQ(
      refusal("train.parquet"),
      "[train.parquet] expected csv, tsv, txt or JSON lines, got a Parquet file; convert it: python3 -c "
      "\"import pandas; pandas.read_parquet('train.parquet').to_json('train.jsonl', orient='records', "
      "lines=True)\"");
  EXPECT_TRUE(contains(refusal("a.xlsx"),
                       "got a spreadsheet; convert it: python3 -c \"import pandas; "
                       "pandas.read_excel('a.xlsx')"));
  EXPECT_TRUE(contains(refusal("a.arrow"), "datasets.Dataset.from_file('a.arrow').to_json('a.jsonl')"));
  EXPECT_TRUE(contains(refusal("a.csv.xz"), "xz -dc 'a.csv.xz' | gzip > 'a.csv.gz'"));
  EXPECT_TRUE(contains(refusal("a.bin"), "expected a file named .csv, .tsv, .txt, .json or .jsonl"));
  EXPECT_TRUE(contains(refusal("train"), "got ''"));
  EXPECT_TRUE(contains(refusal("train.gz"), "expected a file named"));
}

TEST(DataFormats, AFileThatIsNotThereIsNotOfAnotherFormat) {
  for (const char* name : {"absent.parquet", "absent.bin", "absent"}) {
    EXPECT_TRUE(contains(message_of<UserError>([&] { data_format_of(name); }),
                         "expected a file, got nothing of that name"))
        << name;
  }
}

TEST(DataFormats, OfStandardInputByItsBeginning) {
  EXPECT_EQ(table_format_of_bytes("text,label\na\tb\tc,1\n"), DataFormat::kCommas);
  EXPECT_EQ(table_format_of_bytes("text\tlabel\na,b,1\n"), DataFormat::kTabs);
  EXPECT_EQ(table_format_of_bytes("\n {\"text\": 1}"), DataFormat::kObjects);
  EXPECT_EQ(table_format_of_bytes("[{"), DataFormat::kObjects);
  EXPECT_EQ(table_format_of_bytes("text\nx\n"), DataFormat::kCommas);
  EXPECT_EQ(table_format_of_bytes(""), DataFormat::kCommas);
}

}  // namespace
}  // namespace shoehorn
