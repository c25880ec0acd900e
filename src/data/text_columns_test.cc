#include "data/text_columns.h"

#include "base/error.h"
#include "data/test_support.h"

namespace shoehorn {
namespace {

TEST(TextColumns, RulesOfRunGlue) {
  TextColumns columns = find_text_columns(csv("sentence2,label,x,sentence1\na,1,b,c\n"));
  EXPECT_EQ(columns.text, 3);
  EXPECT_EQ(columns.pair, 0);
  EXPECT_EQ(columns.labels, (std::vector<int64_t>{1}));
  columns = find_text_columns(csv("premise,hypothesis,more,labels\na,b,c,1\n"));
  EXPECT_EQ(columns.text, 0);
  EXPECT_EQ(columns.pair, 1);
  EXPECT_EQ(columns.labels, (std::vector<int64_t>{3}));
  columns = find_text_columns(csv("label,sentence1\n1,a\n"));
  EXPECT_EQ(columns.text, 1);
  EXPECT_EQ(columns.pair, -1);
  EXPECT_EQ(find_text_columns(csv("text\nhello\n")).labels, (std::vector<int64_t>{}));
}

TEST(TextColumns, NumbersAreNoText) {
  const TextColumns columns = find_text_columns(csv(",idx,text,label\n0,5,a,1\n1,6,b,0\n"));
  EXPECT_EQ(columns.text, 2);
  EXPECT_EQ(columns.pair, -1);
}

TEST(TextColumns, Mrpc) {
  const TextColumns columns = find_text_columns(csv("Quality,#1 ID,#2 ID,#1 String,#2 String\n1,2,3,a,b\n"));
  EXPECT_EQ(columns.labels, (std::vector<int64_t>{0}));
  EXPECT_EQ(columns.text, 3);
  EXPECT_EQ(columns.pair, 4);
}

TEST(TextColumns, NamedOnes) {
  const Table table = csv("a,b,label,year\nx,y,1,1999\n");
  TextColumns columns =
      find_text_columns(table, {.text_column_names = {"year", "a"}, .label_column_name = "b"});
  EXPECT_EQ(columns.text, 3);
  EXPECT_EQ(columns.pair, 0);
  EXPECT_EQ(columns.labels, (std::vector<int64_t>{1}));
  columns = find_text_columns(table, {.text_column_names = {"label"}, .label_column_name = ""});
  EXPECT_EQ(columns.text, 2);
  EXPECT_EQ(columns.labels, (std::vector<int64_t>{}));
  columns = find_text_columns(table, {.text_column_names = {}, .label_column_name = "a"});
  EXPECT_EQ(columns.text, 1);
}

TEST(TextColumns, SeveralColumnsOfLabels) {
  const Table table = csv("toxic,text,insult,threat\n1,x,0,1\n");
  const TextColumns columns = find_text_columns(table, {.label_column_name = "threat,toxic"});
  EXPECT_EQ(columns.labels, (std::vector<int64_t>{3, 0}));
  EXPECT_EQ(columns.text, 1);
  EXPECT_EQ(columns.pair, -1);
  // A column whose name holds a comma is one column.
  EXPECT_EQ(find_text_columns(csv("text,\"a,b\"\nx,1\n"), {.label_column_name = "a,b"}).labels,
            (std::vector<int64_t>{1}));
  const auto error = [&](const char* names) {
    return message_of<UserError>([&] { find_text_columns(table, {.label_column_name = names}); });
  };
  EXPECT_TRUE(contains(error("toxic,insults"), "got 'insults'; did you mean 'insult'?"));
  EXPECT_TRUE(contains(error("toxic,insult,toxic"), "got 'toxic' twice"));
}

TEST(TextColumns, Errors) {
  const Table table = csv("text,label\nx,1\n");
  const auto error = [&](ColumnOptions options) {
    return message_of<UserError>([&] { find_text_columns(table, options); });
  };
  const std::string absent = error({.text_column_names = {"txt"}, .label_column_name = ""});
  EXPECT_TRUE(contains(absent, "[text_column_names]"));
  EXPECT_TRUE(contains(absent, "did you mean 'text'?"));
  EXPECT_TRUE(contains(absent, "it has: text, label"));
  EXPECT_TRUE(contains(error({.text_column_names = {}, .label_column_name = "l"}), "[label_column_name]"));
  EXPECT_TRUE(contains(error({.text_column_names = {"a", "b", "c"}, .label_column_name = ""}), "got 3"));
  EXPECT_TRUE(
      contains(error({.text_column_names = {"text", "text"}, .label_column_name = ""}), "'text' twice"));
  EXPECT_TRUE(contains(error({.text_column_names = {"label"}, .label_column_name = "label"}), "for both"));
  EXPECT_TRUE(contains(message_of<UserError>([] { find_text_columns(csv("id,label\n1,2\n")); }),
                       "expected a column of text"));
}

TEST(TextColumns, AnIdIsNeitherTextNorLabel) {
  const Table table = csv("key,text,pair,label\nx,a,b,1\n");
  const TextColumns found = find_text_columns(table, {.id_column_name = "key"});
  EXPECT_EQ(found.id, 0);
  EXPECT_EQ(found.text, 1);
  EXPECT_EQ(found.pair, 2);
  EXPECT_EQ(find_text_columns(table).text, 0);
  const auto error = [&](ColumnOptions options) {
    return message_of<UserError>([&] { find_text_columns(table, options); });
  };
  EXPECT_TRUE(contains(error({.id_column_name = "kay"}), "[id_column] expected a column of"));
  EXPECT_TRUE(
      contains(error({.id_column_name = "label"}), "another column than those of labels, got 'label'"));
  EXPECT_TRUE(contains(error({.text_column_names = {"text"}, .id_column_name = "text"}),
                       "another column than those of texts, got 'text'"));
}

}  // namespace
}  // namespace shoehorn
