#include "data/similar_labels.h"

#include "data/test_support.h"

namespace shoehorn {
namespace {

std::vector<std::string> notices_of(const std::string& name, const std::string& content) {
  const TestDirectory directory;
  const Table table = read_table(directory.write(name, content));
  const std::vector<int64_t> columns = {table.find_column("label")};
  std::vector<std::string> notices = similar_label_notices(table, columns, find_labels(table, columns));
  for (std::string& notice : notices) {
    for (size_t at = 0; (at = notice.find(directory.path().string())) != std::string::npos;)
      notice.erase(at, directory.path().string().size() + 1);
  }
  return notices;
}

TEST(SimilarLabels, Folded) {
  EXPECT_EQ(folded_label(" Very  Good\t"), "very good");
  EXPECT_EQ(folded_label("\u00c4 b"), "\u00c4 b") << "only the letters A-Z";
  EXPECT_EQ(folded_label(" "), "");
  EXPECT_EQ(similar_label("Positive ", {"negative", "positive"}), "positive");
  EXPECT_EQ(similar_label("positive", {"negative", "positive"}), "");
}

TEST(SimilarLabels, AreNoticedWithTheirRows) {
  EXPECT_EQ(notices_of("a.csv", "text,label\na,positive\nb,negative\nc,positive \nd,positive\ne,Negative\n"),
            (std::vector<std::string>{
                "classes differ only in spaces or case: 'Negative' (1 row, the first at a.csv:6) "
                "and 'negative' (1 row, the first at a.csv:3); if they are one, correct the file",
                "classes differ only in spaces or case: 'positive' (2 rows, the first at "
                "a.csv:2) and 'positive ' (1 row, the first at a.csv:4); if they are one, "
                "correct the file"}));
  EXPECT_EQ(
      notices_of("a.jsonl",
                 "{\"text\": \"a\", \"label\": [\"x\", \"y\"]}\n{\"text\": \"b\", \"label\": [\"X\"]}\n"),
      (std::vector<std::string>{
          "classes differ only in spaces or case: 'X' (1 row, the first at a.jsonl:2) and "
          "'x' (1 row, the first at a.jsonl:1); if they are one, correct the file"}));
}

TEST(SimilarLabels, OthersAreNot) {
  EXPECT_TRUE(notices_of("a.csv", "text,label\na,up\nb,down\n").empty());
  EXPECT_TRUE(notices_of("a.csv", "text,label\na,1\nb,01\nc,0\n").empty()) << "one class";
  EXPECT_TRUE(notices_of("a.csv", "text,label\na,1.5\nb,1.50\n").empty()) << "values";
}

TEST(SimilarLabels, AFractionAmongWholeNumbersIsNoticed) {
  EXPECT_EQ(
      notices_of("a.csv", "text,label\na,1\nb,0\nc,1.0\nd,0\n"),
      (std::vector<std::string>{"labels are values, not classes, since 1 of 4 is no whole number: '1.0' at "
                                "a.csv:4; if they are classes, correct the file"}));
  EXPECT_TRUE(notices_of("a.csv", "text,label\na,1\nb,0.5\n").empty());
}

// Of a file that is evaluated on.
TEST(SimilarLabels, AreNamedWhereALabelIsUnknown) {
  const TestDirectory directory;
  const Table table = read_table(directory.write("a.csv", "text,label\na,up\nb,Up \nc,UP\n"));
  const std::string error =
      message_of<UserError>([&] { class_labels(table, {1}, {.names = {"down", "up"}}); });
  EXPECT_TRUE(contains(error, "a.csv:3]")) << error;
  EXPECT_TRUE(contains(error, "got 'Up '; 'up' differs only in spaces or case")) << error;
}

}  // namespace
}  // namespace shoehorn
