#include "data/text_columns.h"

#include "base/error.h"
#include "data/test_support.h"

namespace shoehorn {
namespace {

Table csv(std::string_view content) {
  const TestDirectory directory;
  return read_table(directory.write("t.csv", content));
}

TEST(TextColumns, RulesOfRunGlue) {
  TextColumns columns = find_text_columns(csv("sentence2,label,x,sentence1\na,1,b,c\n"));
  EXPECT_EQ(columns.text, 3);
  EXPECT_EQ(columns.pair, 0);
  EXPECT_EQ(columns.label, 1);
  columns = find_text_columns(csv("premise,hypothesis,more,labels\na,b,c,1\n"));
  EXPECT_EQ(columns.text, 0);
  EXPECT_EQ(columns.pair, 1);
  EXPECT_EQ(columns.label, 3);
  columns = find_text_columns(csv("label,sentence1\n1,a\n"));
  EXPECT_EQ(columns.text, 1);
  EXPECT_EQ(columns.pair, -1);
  EXPECT_EQ(find_text_columns(csv("text\nhello\n")).label, -1);
}

TEST(TextColumns, NumbersAreNoText) {
  const TextColumns columns = find_text_columns(csv(",idx,text,label\n0,5,a,1\n1,6,b,0\n"));
  EXPECT_EQ(columns.text, 2);
  EXPECT_EQ(columns.pair, -1);
}

TEST(TextColumns, Mrpc) {
  const TextColumns columns = find_text_columns(csv("Quality,#1 ID,#2 ID,#1 String,#2 String\n1,2,3,a,b\n"));
  EXPECT_EQ(columns.label, 0);
  EXPECT_EQ(columns.text, 3);
  EXPECT_EQ(columns.pair, 4);
}

TEST(TextColumns, NamedOnes) {
  const Table table = csv("a,b,label,year\nx,y,1,1999\n");
  TextColumns columns =
      find_text_columns(table, {.text_column_names = {"year", "a"}, .label_column_name = "b"});
  EXPECT_EQ(columns.text, 3);
  EXPECT_EQ(columns.pair, 0);
  EXPECT_EQ(columns.label, 1);
  columns = find_text_columns(table, {.text_column_names = {"label"}, .label_column_name = ""});
  EXPECT_EQ(columns.text, 2);
  EXPECT_EQ(columns.label, -1);
  columns = find_text_columns(table, {.text_column_names = {}, .label_column_name = "a"});
  EXPECT_EQ(columns.text, 1);
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
  EXPECT_TRUE(contains(error({.text_column_names = {"label"}, .label_column_name = "label"}), "for both"));
  EXPECT_TRUE(contains(message_of<UserError>([] { find_text_columns(csv("id,label\n1,2\n")); }),
                       "expected a column of text"));
}

TEST(Labels, IntegersInNumericOrder) {
  const Table table = csv("t,label\na,10\nb,2\nc,002\nd,0\n");
  const LabelMap map = find_labels(table, 1);
  EXPECT_FALSE(map.is_regression);
  EXPECT_EQ(map.names, (std::vector<std::string>{"0", "2", "10"}));
  EXPECT_EQ(class_labels(table, 1, map), (std::vector<int32_t>{2, 1, 1, 0}));
  EXPECT_EQ(map.num_labels(), 3);
}

// As of a trained model, which has the names alone.
TEST(Labels, IntegersByTheNamesOfAModel) {
  const LabelMap map{.names = {"-1", "2", "10"}};
  EXPECT_EQ(class_labels(csv("t,label\na,10\nb,+2\nc,002\nd,-01\n"), 1, map),
            (std::vector<int32_t>{2, 1, 1, 0}));
}

TEST(Labels, StringsInTheOrderOfTheirBytes) {
  const Table table = csv("t,label\na,neutral\nb,Entail\nc,10\nd,9\n");
  const LabelMap map = find_labels(table, 1);
  EXPECT_EQ(map.names, (std::vector<std::string>{"10", "9", "Entail", "neutral"}));
  EXPECT_EQ(class_labels(table, 1, map), (std::vector<int32_t>{3, 2, 0, 1}));
}

TEST(Labels, FloatsAreRegression) {
  const Table table = csv("t,label\na,-1\nb,2.5\nc,-3e-1\n");
  const LabelMap map = find_labels(table, 1);
  EXPECT_TRUE(map.is_regression);
  EXPECT_EQ(map.num_labels(), 1);
  EXPECT_EQ(value_labels(table, 1), (std::vector<float>{-1.0F, 2.5F, -0.3F}));
  EXPECT_TRUE(
      contains(message_of<UserError>([] { value_labels(csv("t,label\na,1.5\nb,x\n"), 1); }), "t.csv:3]"));
}

TEST(Labels, UnseenAndMissing) {
  const LabelMap map = find_labels(csv("t,label\na,yes\nb,no\n"), 1);
  const std::string unseen =
      message_of<UserError>([&] { class_labels(csv("t,label\na,yes\nb,maybe\n"), 1, map); });
  EXPECT_TRUE(contains(unseen, "t.csv:3] expected a label of the training set (no, yes), got 'maybe'"));
  EXPECT_TRUE(contains(message_of<UserError>([] { find_labels(csv("t,label\na,yes\nb,\n"), 1); }),
                       "t.csv:3] expected a label"));
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { class_labels(csv("t,label\na,\n"), 1, map); }), "t.csv:2]"));
}

TEST(Labels, NegativeNumbersAndWordsForNothingAreMissing) {
  const auto error_of = [](const char* content) {
    return message_of<UserError>([&] { find_labels(csv(content), 1); });
  };
  const std::string negative = error_of("t,label\na,0\nb,-1\nc,1\n");
  EXPECT_TRUE(contains(negative, "t.csv:3] expected a label in column 'label', got '-1'"));
  EXPECT_TRUE(contains(negative, "GLUE"));
  EXPECT_TRUE(contains(error_of("t,label\na,up\nb,-100\n"), "t.csv:3]"));
  EXPECT_TRUE(contains(error_of("t,label\na,0\nb,NaN\nc,1\n"),
                       "t.csv:3] expected a label in column 'label', got 'NaN'"));
  EXPECT_TRUE(contains(error_of("t,label\na,0.5\nb,null\n"), "t.csv:3]"));
  EXPECT_EQ(find_labels(csv("t,label\na,None\nb,Some\n"), 1).names,
            (std::vector<std::string>{"None", "Some"}));
  // Of a model that has such a class it is the class, of another it is none.
  EXPECT_EQ(class_labels(csv("t,label\na,-1\n"), 1, {.names = {"-1", "0"}}), (std::vector<int32_t>{0}));
  EXPECT_TRUE(
      contains(message_of<UserError>([] { class_labels(csv("t,label\na,-1\n"), 1, {.names = {"0", "1"}}); }),
               "t.csv:2] expected a label"));
}

TEST(Labels, BooleansAreClasses) {
  EXPECT_EQ(find_labels(csv("t,label\na,True\nb,False\n"), 1).names,
            (std::vector<std::string>{"False", "True"}));
}

// The classifier of a model that is trained on keeps the meaning of its rows.
TEST(Labels, TheModelsOwnClassesKeepTheirOrder) {
  const Table table = csv("t,label\na,neg\nb,pos\n");
  EXPECT_EQ(find_labels(table, 1, {"pos", "neg"}).names, (std::vector<std::string>{"pos", "neg"}));
  EXPECT_EQ(find_labels(table, 1, {"pos", "neg", "other"}).names, (std::vector<std::string>{"neg", "pos"}));
  EXPECT_EQ(find_labels(table, 1, {"LABEL_0", "LABEL_1"}).names, (std::vector<std::string>{"neg", "pos"}));
}

TEST(Labels, NumbersAreIdsOfAModelWithoutNumbersAsNames) {
  const LabelMap model{.names = {"LABEL_0", "LABEL_1"}, .takes_ids = true};
  const Table numbers = csv("t,label\na,1\nb,0\nc,01\n");
  EXPECT_TRUE(labels_are_ids(numbers, 1, model));
  EXPECT_EQ(class_labels(numbers, 1, model), (std::vector<int32_t>{1, 0, 1}));
  const Table names = csv("t,label\na,LABEL_1\nb,LABEL_0\n");
  EXPECT_FALSE(labels_are_ids(names, 1, model));
  EXPECT_EQ(class_labels(names, 1, model), (std::vector<int32_t>{1, 0}));
  const auto error_of = [](const char* content, const LabelMap& map) {
    return message_of<UserError>([&] { class_labels(csv(content), 1, map); });
  };
  EXPECT_TRUE(contains(error_of("t,label\na,1\nb,2\n", model),
                       "t.csv:3] expected the number of one of the model's 2"));
  EXPECT_TRUE(contains(error_of("t,label\na,1\nb,-1\n", model), "t.csv:3] expected a label"));
  EXPECT_TRUE(contains(error_of("t,label\na,1\nb,up\n", model), "got '1'"));
  // Where classes are numbers, 1 is the class of this name. A training file's classes have no other numbers.
  EXPECT_EQ(class_labels(csv("t,label\na,2\n"), 1, {.names = {"2", "1"}, .takes_ids = true}),
            (std::vector<int32_t>{0}));
  EXPECT_TRUE(contains(error_of("t,label\na,1\n", {.names = {"down", "up"}}),
                       "expected a label of the training set"));
}

TEST(Labels, NameOfTwoClassesIsRefusedWhereItIsUsed) {
  const LabelMap map{.names = {"other", "up", "other"}, .takes_ids = true};
  EXPECT_EQ(class_labels(csv("t,label\na,up\n"), 1, map), (std::vector<int32_t>{1}));
  EXPECT_TRUE(contains(message_of<UserError>([&] { class_labels(csv("t,label\na,other\n"), 1, map); }),
                       "got 'other', the name of classes 0 and 2"));
}

TEST(Labels, TextAndNumbersOfRowsAreNoClasses) {
  const auto rows = [](int64_t count, int64_t classes, const char* word) {
    std::string content = "t,label\n";
    for (int64_t i = 0; i < count; ++i) content += fmt::format("a,{}{}\n", word, i % classes);
    return csv(content);
  };
  for (const char* word : {"text", ""}) {
    EXPECT_TRUE(contains(message_of<UserError>([&] { find_labels(rows(600, 301, word), 1); }),
                         "301 different labels in 600 rows"));
    EXPECT_EQ(find_labels(rows(600, 300, word), 1).num_labels(), 300) << "two rows each";
    EXPECT_EQ(find_labels(rows(256, 256, word), 1).num_labels(), 256) << "a small file";
  }
}

}  // namespace
}  // namespace shoehorn
