#include "data/labels.h"

#include "base/error.h"
#include "data/test_support.h"

namespace shoehorn {
namespace {

Table json_lines(std::string_view content) {
  const TestDirectory directory;
  return read_table(directory.write("t.jsonl", content));
}

LabelMap model_of(std::vector<std::string> names, ProblemType problem = ProblemType::kSingleLabel) {
  return {.problem = problem, .names = std::move(names)};
}

TEST(Labels, IntegersInNumericOrder) {
  const Table table = csv("t,label\na,10\nb,2\nc,002\nd,0\n");
  const LabelMap map = find_labels(table, {1});
  EXPECT_EQ(map.problem, ProblemType::kSingleLabel);
  EXPECT_EQ(map.names, (std::vector<std::string>{"0", "2", "10"}));
  EXPECT_EQ(class_labels(table, {1}, map), (std::vector<int32_t>{2, 1, 1, 0}));
  EXPECT_EQ(map.num_labels(), 3);
}

// As of a trained model, which has the names alone.
TEST(Labels, IntegersByTheNamesOfAModel) {
  const LabelMap map{.names = {"-1", "2", "10"}};
  EXPECT_EQ(class_labels(csv("t,label\na,10\nb,+2\nc,002\nd,-01\n"), {1}, map),
            (std::vector<int32_t>{2, 1, 1, 0}));
}

TEST(Labels, StringsInTheOrderOfTheirBytes) {
  const Table table = csv("t,label\na,neutral\nb,Entail\nc,10\nd,9\n");
  const LabelMap map = find_labels(table, {1});
  EXPECT_EQ(map.names, (std::vector<std::string>{"10", "9", "Entail", "neutral"}));
  EXPECT_EQ(class_labels(table, {1}, map), (std::vector<int32_t>{3, 2, 0, 1}));
}

TEST(Labels, FloatsAreRegression) {
  const Table table = csv("t,label\na,-1\nb,2.5\nc,-3e-1\n");
  const LabelMap map = find_labels(table, {1});
  EXPECT_EQ(map.problem, ProblemType::kRegression);
  EXPECT_EQ(map.num_labels(), 1);
  EXPECT_EQ(value_labels(table, {1}, map), (std::vector<float>{-1.0F, 2.5F, -0.3F}));
  EXPECT_TRUE(contains(message_of<UserError>([&] { value_labels(csv("t,label\na,1.5\nb,x\n"), {1}, map); }),
                       "t.csv:3]"));
}

TEST(Labels, UnseenAndMissing) {
  const LabelMap map = find_labels(csv("t,label\na,yes\nb,no\n"), {1});
  const std::string unseen =
      message_of<UserError>([&] { class_labels(csv("t,label\na,yes\nb,maybe\n"), {1}, map); });
  EXPECT_TRUE(contains(unseen, "t.csv:3] expected a label of the training set (no, yes), got 'maybe'"));
  EXPECT_TRUE(contains(message_of<UserError>([] { find_labels(csv("t,label\na,yes\nb,\n"), {1}); }),
                       "t.csv:3] expected a label"));
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { class_labels(csv("t,label\na,\n"), {1}, map); }), "t.csv:2]"));
}

TEST(Labels, NegativeNumbersAndWordsForNothingAreMissing) {
  const auto error_of = [](const std::string& content) {
    return message_of<UserError>([&] { find_labels(csv(content), {1}); });
  };
  const std::string negative = error_of("t,label\na,0\nb,-1\nc,1\n");
  EXPECT_TRUE(contains(negative, "t.csv:3] expected a label in column 'label', got '-1'"));
  EXPECT_TRUE(contains(negative, "GLUE"));
  EXPECT_TRUE(contains(error_of("t,label\na,up\nb,-100\n"), "t.csv:3]"));
  EXPECT_TRUE(contains(error_of("t,label\na,0\nb,NaN\nc,1\n"),
                       "t.csv:3] expected a label in column 'label', got 'NaN'"));
  for (const char* blank : {" ", "\t", "   "}) {
    EXPECT_TRUE(contains(error_of(fmt::format("t,label\na,0\nb,{}\nc,1\n", blank)),
                         fmt::format("t.csv:3] expected a label in column 'label', got '{}'", blank)));
    EXPECT_TRUE(contains(error_of(fmt::format("t,label\na,up\nb,{}\nc,down\n", blank)), "t.csv:3]"));
  }
  for (const char* infinite : {"inf", "-inf", "+Inf", "Infinity", "1e999"}) {
    const std::string expected =
        fmt::format("t.csv:3] expected a finite number as label in column 'label', got '{}'", infinite);
    EXPECT_TRUE(contains(error_of(fmt::format("t,label\na,0\nb,{}\nc,1\n", infinite)), expected));
    EXPECT_TRUE(contains(error_of(fmt::format("t,label\na,0.5\nb,{}\nc,1.5\n", infinite)), expected));
  }
  // Among words they are words.
  EXPECT_EQ(find_labels(csv("t,label\na,inf\nb,fin\n"), {1}).names, (std::vector<std::string>{"fin", "inf"}));
  EXPECT_TRUE(contains(error_of("t,label\na,0.5\nb,null\n"), "t.csv:3]"));
  EXPECT_EQ(find_labels(csv("t,label\na,None\nb,Some\n"), {1}).names,
            (std::vector<std::string>{"None", "Some"}));
  // Of a model that has such a class it is the class, of another it is none.
  EXPECT_EQ(class_labels(csv("t,label\na,-1\n"), {1}, {.names = {"-1", "0"}}), (std::vector<int32_t>{0}));
  EXPECT_TRUE(contains(
      message_of<UserError>([] { class_labels(csv("t,label\na,-1\n"), {1}, {.names = {"0", "1"}}); }),
      "t.csv:2] expected a label"));
}

TEST(Labels, BooleansAreClasses) {
  EXPECT_EQ(find_labels(csv("t,label\na,True\nb,False\n"), {1}).names,
            (std::vector<std::string>{"False", "True"}));
}

// The classifier of a model that is trained on keeps the meaning of its rows.
TEST(Labels, TheModelsOwnClassesKeepTheirOrder) {
  const Table table = csv("t,label\na,neg\nb,pos\n");
  const auto names_with = [](const Table& labels, std::vector<std::string> names) {
    const LabelMap model = model_of(std::move(names));
    return find_labels(labels, {1}, {.model = &model}).names;
  };
  EXPECT_EQ(names_with(table, {"pos", "neg"}), (std::vector<std::string>{"pos", "neg"}));
  EXPECT_EQ(names_with(table, {"pos", "neg", "other"}), (std::vector<std::string>{"neg", "pos"}));
  EXPECT_EQ(names_with(table, {"LABEL_0", "LABEL_1"}), (std::vector<std::string>{"neg", "pos"}));
}

TEST(Labels, NumbersAreIdsOfAModelWithoutNumbersAsNames) {
  const LabelMap model{.names = {"LABEL_0", "LABEL_1"}, .takes_ids = true};
  const Table numbers = csv("t,label\na,1\nb,0\nc,01\n");
  EXPECT_TRUE(labels_are_ids(numbers, {1}, model));
  EXPECT_EQ(class_labels(numbers, {1}, model), (std::vector<int32_t>{1, 0, 1}));
  const Table names = csv("t,label\na,LABEL_1\nb,LABEL_0\n");
  EXPECT_FALSE(labels_are_ids(names, {1}, model));
  EXPECT_EQ(class_labels(names, {1}, model), (std::vector<int32_t>{1, 0}));
  const auto error_of = [](const char* content, const LabelMap& map) {
    return message_of<UserError>([&] { class_labels(csv(content), {1}, map); });
  };
  EXPECT_TRUE(contains(error_of("t,label\na,1\nb,2\n", model),
                       "t.csv:3] expected the number of one of the model's 2"));
  EXPECT_TRUE(contains(error_of("t,label\na,1\nb,-1\n", model), "t.csv:3] expected a label"));
  EXPECT_TRUE(contains(error_of("t,label\na,1\nb,up\n", model), "got '1'"));
  // Where classes are numbers, 1 is the class of this name. A training file's classes have no other numbers.
  EXPECT_EQ(class_labels(csv("t,label\na,2\n"), {1}, {.names = {"2", "1"}, .takes_ids = true}),
            (std::vector<int32_t>{0}));
  EXPECT_TRUE(contains(error_of("t,label\na,1\n", {.names = {"down", "up"}}),
                       "expected a label of the training set"));
}

TEST(Labels, NameOfTwoClassesIsRefusedWhereItIsUsed) {
  const LabelMap map{.names = {"other", "up", "other"}, .takes_ids = true};
  EXPECT_EQ(class_labels(csv("t,label\na,up\n"), {1}, map), (std::vector<int32_t>{1}));
  EXPECT_TRUE(contains(message_of<UserError>([&] { class_labels(csv("t,label\na,other\n"), {1}, map); }),
                       "got 'other', the name of classes 0 and 2"));
}

TEST(Labels, TextAndNumbersOfRowsAreNoClasses) {
  const auto rows = [](int64_t count, int64_t classes, const char* word) {
    std::string content = "t,label\n";
    for (int64_t i = 0; i < count; ++i) content += fmt::format("a,{}{}\n", word, i % classes);
    return csv(content);
  };
  for (const char* word : {"text", ""}) {
    EXPECT_TRUE(contains(message_of<UserError>([&] { find_labels(rows(600, 301, word), {1}); }),
                         "301 different labels in 600 rows"));
    EXPECT_EQ(find_labels(rows(600, 300, word), {1}).num_labels(), 300) << "two rows each";
    EXPECT_EQ(find_labels(rows(256, 256, word), {1}).num_labels(), 256) << "a small file";
  }
}

TEST(Labels, WholeNumbersAreARegressionWhereSomebodySaysSo) {
  const Table table = csv("t,label\na,3\nb,1\n");
  EXPECT_EQ(find_labels(table, {1}, {.problem = ProblemType::kRegression}).problem, ProblemType::kRegression);
  const LabelMap model = model_of({"score"}, ProblemType::kRegression);
  const LabelMap map = find_labels(table, {1}, {.model = &model});
  EXPECT_EQ(map.problem, ProblemType::kRegression);
  EXPECT_EQ(map.names, (std::vector<std::string>{"score"}));
  EXPECT_EQ(value_labels(table, {1}, map), (std::vector<float>{3, 1}));
  EXPECT_EQ(find_labels(table, {1}, {.problem = ProblemType::kSingleLabel, .model = &model}).problem,
            ProblemType::kSingleLabel);
}

TEST(Labels, TheProblemThatIsAskedForHasToFit) {
  const auto error_of = [](const char* content, ProblemType problem) {
    return message_of<UserError>([&] { find_labels(csv(content), {1}, {.problem = problem}); });
  };
  EXPECT_TRUE(contains(error_of("t,label\na,up\nb,down\n", ProblemType::kRegression),
                       "regression (problem_type), numbers, got words, such as 'up' in"));
  EXPECT_TRUE(contains(error_of("t,label\na,1.0\nb,0.0\n", ProblemType::kSingleLabel),
                       "a column of words or of whole numbers, got fractions, such as '1.0' in"));
  EXPECT_TRUE(
      contains(error_of("t,label\na,1\nb,0\n", ProblemType::kMultiLabel),
               "a column of lists or several of 0 and 1 (label_column_name a,b,c), got whole numbers"));
}

TEST(Labels, ListsAreSeveralClasses) {
  const Table table = json_lines(
      "{\"t\": \"a\", \"label\": [\"red\", \"blue\"]}\n{\"t\": \"b\", \"label\": []}\n"
      "{\"t\": \"c\", \"label\": [\"green\"]}\n{\"t\": \"d\", \"label\": \"red\"}\n");
  const LabelMap map = find_labels(table, {1});
  EXPECT_EQ(map.problem, ProblemType::kMultiLabel);
  EXPECT_EQ(map.names, (std::vector<std::string>{"blue", "green", "red"}));
  EXPECT_EQ(value_labels(table, {1}, map), (std::vector<float>{1, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 1}));
  const LabelMap model = model_of({"red", "green", "blue"}, ProblemType::kMultiLabel);
  EXPECT_EQ(find_labels(table, {1}, {.model = &model}).names, model.names);

  const Table numbers = json_lines("{\"t\": \"a\", \"label\": [10, 2]}\n{\"t\": \"b\", \"label\": [2]}\n");
  EXPECT_EQ(find_labels(numbers, {1}).names, (std::vector<std::string>{"2", "10"}));
  const LabelMap ids{.problem = ProblemType::kMultiLabel, .names = {"x", "y", "z"}, .takes_ids = true};
  const Table by_id = json_lines("{\"t\": \"a\", \"label\": [2, 0]}\n");
  EXPECT_TRUE(labels_are_ids(by_id, {1}, ids));
  EXPECT_EQ(value_labels(by_id, {1}, ids), (std::vector<float>{1, 0, 1}));
  const auto error_of = [&](const char* content, const LabelMap& labels) {
    return message_of<UserError>([&] { value_labels(json_lines(content), {1}, labels); });
  };
  EXPECT_TRUE(
      contains(error_of("{\"t\": \"a\", \"label\": [\"pink\"]}\n", map), "t.jsonl:1] expected a label of"));
  EXPECT_TRUE(contains(error_of("{\"t\": \"a\", \"label\": null}\n", map), "t.jsonl:1] expected a label in"));
  EXPECT_TRUE(contains(error_of("{\"t\": \"a\", \"label\": [3]}\n", ids), "one of the model's 3 classes"));
  EXPECT_TRUE(contains(
      message_of<UserError>([] { find_labels(json_lines("{\"t\": \"a\", \"label\": [0.5, 1.0]}\n"), {1}); }),
      "expected names or whole numbers of classes"));
  EXPECT_TRUE(contains(message_of<UserError>([&] { class_labels(table, {1}, model_of({"red", "blue"})); }),
                       "expected one class as label, for single_label_classification, got the list"));
}

TEST(Labels, SeveralColumnsOfFlagsAreSeveralClasses) {
  const Table table = csv("t,toxic,insult\na,1,0\nb,0,0\nc,1,1\n");
  const LabelMap map = find_labels(table, {1, 2});
  EXPECT_EQ(map.problem, ProblemType::kMultiLabel);
  EXPECT_EQ(map.names, (std::vector<std::string>{"toxic", "insult"}));
  EXPECT_EQ(value_labels(table, {1, 2}, map), (std::vector<float>{1, 0, 0, 0, 1, 1}));
  // A model's classes are found by the names of the columns; classes without names, by their places.
  EXPECT_EQ(value_labels(table, {1, 2}, model_of({"insult", "toxic"}, ProblemType::kMultiLabel)),
            (std::vector<float>{0, 1, 0, 0, 1, 1}));
  EXPECT_EQ(value_labels(table, {2, 1}, model_of(default_labels(2), ProblemType::kMultiLabel)),
            (std::vector<float>{0, 1, 0, 0, 1, 1}));
  EXPECT_TRUE(contains(message_of<UserError>([&] {
                         value_labels(table, {1, 2},
                                      model_of({"insult", "threat"}, ProblemType::kMultiLabel));
                       }),
                       "expected a column of labels for each of insult, threat, got toxic, insult"));
  EXPECT_EQ(find_labels(csv("t,a,b\nx,True,False\n"), {1, 2}).problem, ProblemType::kMultiLabel);
  EXPECT_TRUE(
      contains(message_of<UserError>([&] { value_labels(csv("t,toxic,insult\na,1,2\n"), {1, 2}, map); }),
               "t.csv:2] expected 0 or 1 in column 'insult'"));
  EXPECT_TRUE(contains(message_of<UserError>([] { find_labels(csv("t,a,b\nx,1,up\n"), {1, 2}); }),
                       "expected numbers in 2 columns of labels, got words, such as 'up' in"));
  EXPECT_TRUE(contains(message_of<UserError>([] { find_labels(csv("t,a,b\nx,1,\n"), {1, 2}); }),
                       "expected a label in column 'b', got none"));
}

TEST(Labels, SeveralColumnsOfNumbersAreARegression) {
  const Table table = csv("t,joy,anger\na,0.5,-1\nb,2,0\n");
  const LabelMap map = find_labels(table, {1, 2});
  EXPECT_EQ(map.problem, ProblemType::kRegression);
  EXPECT_EQ(map.names, (std::vector<std::string>{"joy", "anger"}));
  EXPECT_EQ(value_labels(table, {1, 2}, map), (std::vector<float>{0.5F, -1, 2, 0}));
}

TEST(ProblemType, Names) {
  for (const auto problem : {ProblemType::kSingleLabel, ProblemType::kMultiLabel, ProblemType::kRegression})
    EXPECT_EQ(find_problem_type(problem_type_name(problem)), problem);
  EXPECT_EQ(find_problem_type("classification"), std::nullopt);
}

}  // namespace
}  // namespace shoehorn
