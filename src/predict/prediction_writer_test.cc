// Files of predictions: which fields they have, and that readers find in them what was written.
#include "predict/prediction_writer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/error_testing.h"
#include "io/json_file.h"
#include "io/test_directory.h"
#include "tasks/make_task.h"

namespace shoehorn {
namespace {

using nlohmann::json;

std::shared_ptr<const Task> task_of(ProblemType problem, std::vector<std::string> names) {
  return make_task({.problem = problem, .names = std::move(names)});
}

struct Row {
  std::string id = {};
  std::vector<std::string> texts = {};
  std::vector<float> outputs = {};
};

std::string text_of(PredictionFormat format, const Task& task, const PredictionFields& fields,
                    const std::vector<Row>& rows, CellKind id_kind = CellKind::kString) {
  const auto writer = make_prediction_writer(format, task, fields);
  std::string text;
  writer->append_header(text);
  int64_t index = 0;
  for (const Row& row : rows) {
    const std::vector<std::string_view> texts(row.texts.begin(), row.texts.end());
    writer->append_row(
        {.index = index++, .id = row.id, .id_kind = id_kind, .texts = texts, .outputs = row.outputs}, text);
  }
  return text;
}

const float kThird = std::log(3.0F);

TEST(PredictionFormat, ByTheName) {
  EXPECT_EQ(prediction_format_of("a/b.JSONL"), PredictionFormat::kJsonLines);
  EXPECT_EQ(prediction_format_of("b.json"), PredictionFormat::kJsonLines);
  EXPECT_EQ(prediction_format_of("b.csv"), PredictionFormat::kCsv);
  EXPECT_EQ(prediction_format_of("b.tsv"), PredictionFormat::kTsv);
  EXPECT_EQ(prediction_format_of("-"), PredictionFormat::kJsonLines);
  EXPECT_EQ(prediction_format_of("-", "csv"), PredictionFormat::kCsv);
  EXPECT_EQ(prediction_format_of("labels.txt", "tsv"), PredictionFormat::kTsv);
  for (const char* name : {"labels.txt", "labels", "labels.csv.gz"})
    EXPECT_TRUE(contains(message_of<UserError>([&] { prediction_format_of(name); }), "[--output_file]"));
}

TEST(PredictionWriter, ClassesByName) {
  const auto task = task_of(ProblemType::kSingleLabel, {"up", "down"});
  const std::vector<Row> rows = {{.outputs = {kThird, 0}}, {.outputs = {-1, 1}}};
  const std::string lines = text_of(PredictionFormat::kJsonLines, *task, {}, rows);
  const json first = parse_json(lines.substr(0, lines.find('\n')), "line");
  EXPECT_EQ(first["index"], 0);
  EXPECT_EQ(first["label"], "up");
  EXPECT_EQ(first.size(), 3U);
  EXPECT_NEAR(first["scores"]["up"].get<double>(), 0.75, 1e-7);
  EXPECT_NEAR(first["scores"]["down"].get<double>(), 0.25, 1e-7);
  EXPECT_LT(lines.find("\"up\": 0."), lines.find("\"down\": 0.")) << "in the model's order";

  const std::string table = text_of(PredictionFormat::kCsv, *task, {.logits = true}, rows);
  EXPECT_TRUE(table.starts_with("index,label,score_up,score_down,logit_up,logit_down\n0,up,0.7")) << table;
  EXPECT_TRUE(contains(table, "\n1,down,0.119202922022117")) << table;
  EXPECT_TRUE(table.ends_with(",-1.0,1.0\n")) << table;
}

TEST(PredictionWriter, TheBestClassesOnly) {
  const auto task = task_of(ProblemType::kSingleLabel, {"a", "b", "c"});
  const std::vector<Row> rows = {{.outputs = {0, 2, 1}}, {.outputs = {5, 5, -5}}};
  const std::string lines = text_of(PredictionFormat::kJsonLines, *task, {.top_k = 2, .logits = true}, rows);
  EXPECT_TRUE(contains(lines, R"("logits": {"b": 2.0, "c": 1.0})")) << lines;
  EXPECT_TRUE(contains(lines, R"("logits": {"a": 5.0, "b": 5.0})")) << "of equals the first: " << lines;
  const std::string table = text_of(PredictionFormat::kTsv, *task, {.top_k = 2, .logits = true}, rows);
  EXPECT_TRUE(table.starts_with(
      "index\tlabel\tclass_1\tscore_1\tlogit_1\tclass_2\tscore_2\tlogit_2\n0\tb\tb\t0.66524"))
      << table;
  EXPECT_TRUE(contains(text_of(PredictionFormat::kCsv, *task, {.top_k = 9}, rows), "class_3,score_3\n"))
      << "all there are";
  const auto numbers = task_of(ProblemType::kRegression, {"x"});
  EXPECT_TRUE(contains(
      message_of<UserError>([&] { make_prediction_writer(PredictionFormat::kCsv, *numbers, {.top_k = 1}); }),
      "[--top_k]"));
}

TEST(PredictionWriter, SeveralClassesAndNumbers) {
  const auto several = task_of(ProblemType::kMultiLabel, {"a", "b,c"});
  const std::vector<Row> rows = {{.outputs = {1, 2}}, {.outputs = {-1, -1}}};
  const std::string lines = text_of(PredictionFormat::kJsonLines, *several, {}, rows);
  EXPECT_TRUE(contains(lines, R"("labels": ["a", "b,c"], "scores": {"a": 0.73)")) << lines;
  EXPECT_TRUE(contains(lines, R"("labels": [], "scores")")) << lines;
  const std::string table = text_of(PredictionFormat::kCsv, *several, {}, rows);
  EXPECT_TRUE(table.starts_with("index,labels,score_a,\"score_b,c\"\n0,\"[\"\"a\"\", \"\"b,c\"\"]\",0.73"))
      << table;

  const auto one = task_of(ProblemType::kRegression, {"x"});
  const std::vector<Row> number = {{.outputs = {0.1F}},
                                   {.outputs = {std::numeric_limits<float>::quiet_NaN()}}};
  EXPECT_EQ(text_of(PredictionFormat::kCsv, *one, {.logits = true}, number),
            "index,value\n0,0.10000000149011612\n1,NaN\n");
  const auto two = task_of(ProblemType::kRegression, {"x", "y"});
  EXPECT_EQ(text_of(PredictionFormat::kCsv, *two, {}, {{.outputs = {1, -2}}}),
            "index,value_x,value_y\n0,1.0,-2.0\n");
  EXPECT_EQ(text_of(PredictionFormat::kJsonLines, *two, {}, {{.outputs = {1, -2}}}),
            "{\"index\": 0, \"values\": {\"x\": 1.0, \"y\": -2.0}}\n");
}

TEST(PredictionWriter, IdsAndTextsAreCopied) {
  const auto task = task_of(ProblemType::kRegression, {"x"});
  const PredictionFields fields{.id_column = "key", .text_columns = {"first", "second, \"quoted\""}};
  const std::string awkward = "a \"b\",\tc\\d\r\ne\nü";
  const std::vector<Row> rows = {{"007", {awkward, ""}, {1}}, {"", {" spaces ", ","}, {2}}};

  const TestDirectory directory;
  const std::string csv = text_of(PredictionFormat::kCsv, *task, fields, rows);
  const Table table = read_table(directory.write("p.csv", csv));
  ASSERT_EQ(table.column_names, (std::vector<std::string>{"key", "first", "second, \"quoted\"", "value"}));
  ASSERT_EQ(table.rows(), 2);
  for (int64_t row = 0; row < 2; ++row) {
    const Row& expected = rows[static_cast<size_t>(row)];
    EXPECT_EQ(table.columns[0].text(row), expected.id);
    EXPECT_EQ(table.columns[1].text(row), expected.texts[0]);
    EXPECT_EQ(table.columns[2].text(row), expected.texts[1]);
  }

  const std::string tsv = text_of(PredictionFormat::kTsv, *task, fields, rows);
  EXPECT_TRUE(contains(tsv, "007\ta \"b\",\\tc\\\\d\\r\\ne\\nü\t\t1.0\n")) << tsv;
  EXPECT_EQ(read_table(directory.write("p.tsv", tsv)).rows(), 2) << "a row is a line";

  const std::string lines = text_of(PredictionFormat::kJsonLines, *task, fields, rows);
  const json first = parse_json(lines.substr(0, lines.find('\n')), "line");
  EXPECT_EQ(first["key"], "007");
  EXPECT_EQ(first["first"], awkward);
  // Of a JSON file ids keep their types.
  EXPECT_TRUE(text_of(PredictionFormat::kJsonLines, *task, fields, {{"7", {"", ""}, {1}}}, CellKind::kInteger)
                  .starts_with("{\"key\": 7,"));
  EXPECT_TRUE(text_of(PredictionFormat::kJsonLines, *task, fields, {{"", {"", ""}, {1}}}, CellKind::kNull)
                  .starts_with("{\"key\": null,"));
}

TEST(PredictionWriter, FieldsHaveDifferentNames) {
  const auto task = task_of(ProblemType::kSingleLabel, {"x", "other", "other"});
  const std::string table = text_of(PredictionFormat::kCsv, *task, {}, {});
  EXPECT_EQ(table, "index,label,score_x,score_other (1),score_other (2)\n");
  for (const PredictionFormat format : {PredictionFormat::kCsv, PredictionFormat::kJsonLines}) {
    const std::string message =
        message_of<UserError>([&] { make_prediction_writer(format, *task, {.text_columns = {"label"}}); });
    EXPECT_TRUE(contains(message, "got 'label' twice")) << message;
  }
}

}  // namespace
}  // namespace shoehorn
