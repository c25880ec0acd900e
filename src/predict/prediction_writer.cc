#include "predict/prediction_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "io/json_file.h"

namespace shoehorn {

namespace {

using Json = nlohmann::ordered_json;

// The names, with the number behind one that several classes have.
std::vector<std::string> distinct_names(const std::vector<std::string>& names) {
  std::unordered_map<std::string_view, int64_t> counts;
  for (const std::string& name : names) ++counts[name];
  std::unordered_set<std::string> taken;
  for (const auto& [name, count] : counts) {
    if (count == 1) taken.emplace(name);
  }
  std::vector<std::string> distinct = names;
  for (size_t i = 0; i < names.size(); ++i) {
    if (counts.at(names[i]) == 1) continue;
    while (!taken.insert(distinct[i]).second || distinct[i] == names[i])
      distinct[i] += fmt::format(" ({})", i);
  }
  return distinct;
}

std::string json_text(const Json& value) {
  return format_json(value,
                     {.indent = -1, .sort_keys = false, .ensure_ascii = false, .final_newline = false});
}

// What both kinds of format share: the fields' names, and what a row has for them.
class FieldWriter : public PredictionWriter {
 protected:
  FieldWriter(const Task& task, PredictionFields fields)
      : task_(task),
        fields_(std::move(fields)),
        form_(task.prediction_form()),
        names_(task.label_map().names),
        distinct_(distinct_names(names_)) {
    if (form_ == PredictionForm::kValues && fields_.top_k > 0)
      throw user_error("[--top_k] expected a model of classes, got one of numbers; leave --top_k out");
  }

  // UserError if two are the same.
  static void check_distinct(const std::vector<std::string>& names) {
    std::unordered_set<std::string_view> seen;
    for (const std::string& name : names) {
      if (seen.insert(name).second) continue;
      throw user_error(
          "[--output_file] expected fields of different names, got '{}' twice; rename the column of the test file",
          name);
    }
  }

  std::string id_name() const { return fields_.id_column.empty() ? "index" : fields_.id_column; }
  bool has_logits() const { return fields_.logits && form_ != PredictionForm::kValues; }
  bool is_ranked() const { return fields_.top_k > 0; }
  size_t ranks() const { return std::min(static_cast<size_t>(fields_.top_k), names_.size()); }

  // The classes whose scores are written, in their order. Of equal scores the first class comes first.
  std::vector<size_t> written_classes(std::span<const double> scores) const {
    std::vector<size_t> order(scores.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (!is_ranked()) return order;
    const auto is_better = [&](size_t a, size_t b) {
      if (scores[a] != scores[b]) return scores[a] > scores[b];
      return a < b;
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<int64_t>(ranks()), order.end(), is_better);
    order.resize(ranks());
    return order;
  }

  const Task& task_;
  PredictionFields fields_;
  PredictionForm form_;
  const std::vector<std::string>& names_;
  std::vector<std::string> distinct_;
};

class JsonLinesWriter final : public FieldWriter {
 public:
  JsonLinesWriter(const Task& task, PredictionFields fields) : FieldWriter(task, std::move(fields)) {
    std::vector<std::string> names = {id_name()};
    names.insert(names.end(), fields_.text_columns.begin(), fields_.text_columns.end());
    switch (form_) {
      case PredictionForm::kClass:
        names.insert(names.end(), {"label", "scores"});
        break;
      case PredictionForm::kClasses:
        names.insert(names.end(), {"labels", "scores"});
        break;
      case PredictionForm::kValues:
        names.emplace_back(names_.size() == 1 ? "value" : "values");
        break;
    }
    if (has_logits()) names.emplace_back("logits");
    check_distinct(names);
  }

  void append_header(std::string& /*text*/) const override {}

  void append_row(const PredictedRow& row, std::string& text) const override {
    Json line = Json::object();
    line[id_name()] = id_of(row);
    for (size_t i = 0; i < fields_.text_columns.size(); ++i) line[fields_.text_columns[i]] = row.texts[i];
    const Prediction prediction = task_.prediction(row.outputs);
    const std::vector<size_t> classes = written_classes(prediction.scores);
    if (form_ == PredictionForm::kClass) {
      line["label"] = names_[static_cast<size_t>(prediction.classes[0])];
    } else if (form_ == PredictionForm::kClasses) {
      Json& labels = line["labels"] = Json::array();
      for (const int64_t label : prediction.classes) labels.push_back(names_[static_cast<size_t>(label)]);
    }
    if (form_ == PredictionForm::kValues && names_.size() == 1) {
      line["value"] = prediction.scores[0];
    } else {
      line[form_ == PredictionForm::kValues ? "values" : "scores"] =
          by_name(classes, [&](size_t i) { return prediction.scores[i]; });
    }
    if (has_logits())
      line["logits"] = by_name(classes, [&](size_t i) { return static_cast<double>(row.outputs[i]); });
    text += json_text(line);
    text += '\n';
  }

 private:
  Json id_of(const PredictedRow& row) const {
    if (fields_.id_column.empty()) return row.index;
    if (row.id_kind == CellKind::kNull) return nullptr;
    if (row.id_kind == CellKind::kString) return row.id;
    return Json::parse(row.id);
  }

  template <typename Number>
  Json by_name(const std::vector<size_t>& classes, const Number& number) const {
    Json object = Json::object();
    for (const size_t i : classes) object.push_back({distinct_[i], number(i)});
    return object;
  }
};

class DelimitedWriter final : public FieldWriter {
 public:
  DelimitedWriter(const Task& task, PredictionFields fields, PredictionFormat format)
      : FieldWriter(task, std::move(fields)), is_csv_(format == PredictionFormat::kCsv) {
    columns_.push_back(id_name());
    columns_.insert(columns_.end(), fields_.text_columns.begin(), fields_.text_columns.end());
    if (form_ == PredictionForm::kClass) columns_.emplace_back("label");
    if (form_ == PredictionForm::kClasses) columns_.emplace_back("labels");
    if (is_ranked()) {
      for (size_t rank = 1; rank <= ranks(); ++rank) {
        columns_.push_back(fmt::format("class_{}", rank));
        columns_.push_back(fmt::format("score_{}", rank));
        if (has_logits()) columns_.push_back(fmt::format("logit_{}", rank));
      }
    } else if (form_ == PredictionForm::kValues && names_.size() == 1) {
      columns_.emplace_back("value");
    } else {
      for (const std::string& name : distinct_)
        columns_.push_back((form_ == PredictionForm::kValues ? "value_" : "score_") + name);
      if (has_logits()) {
        for (const std::string& name : distinct_) columns_.push_back("logit_" + name);
      }
    }
    check_distinct(columns_);
  }

  void append_header(std::string& text) const override {
    for (const std::string& column : columns_) append_field(column, text);
    end_row(text);
  }

  void append_row(const PredictedRow& row, std::string& text) const override {
    append_field(fields_.id_column.empty() ? std::to_string(row.index) : row.id, text);
    for (size_t i = 0; i < fields_.text_columns.size(); ++i) append_field(row.texts[i], text);
    const Prediction prediction = task_.prediction(row.outputs);
    if (form_ == PredictionForm::kClass) {
      append_field(names_[static_cast<size_t>(prediction.classes[0])], text);
    } else if (form_ == PredictionForm::kClasses) {
      Json labels = Json::array();
      for (const int64_t label : prediction.classes) labels.push_back(names_[static_cast<size_t>(label)]);
      append_field(json_text(labels), text);
    }
    const std::vector<size_t> classes = written_classes(prediction.scores);
    for (const size_t i : classes) {
      if (is_ranked()) append_field(names_[i], text);
      append_field(format_python_float(prediction.scores[i]), text);
      if (is_ranked() && has_logits()) append_field(format_python_float(row.outputs[i]), text);
    }
    if (!is_ranked() && has_logits()) {
      for (const size_t i : classes) append_field(format_python_float(row.outputs[i]), text);
    }
    end_row(text);
  }

 private:
  // With the delimiter behind it, which end_row() takes away from the last one.
  void append_field(std::string_view field, std::string& text) const {
    if (is_csv_) {
      append_quoted(field, text);
    } else {
      append_escaped(field, text);
    }
    text += is_csv_ ? ',' : '\t';
  }

  static void end_row(std::string& text) { text.back() = '\n'; }

  static void append_quoted(std::string_view field, std::string& text) {
    if (field.find_first_of(",\"\r\n") == std::string_view::npos) {
      text += field;
      return;
    }
    text += '"';
    for (const char c : field) {
      if (c == '"') text += '"';
      text += c;
    }
    text += '"';
  }

  static void append_escaped(std::string_view field, std::string& text) {
    for (const char c : field) {
      switch (c) {
        case '\t':
          text += "\\t";
          break;
        case '\n':
          text += "\\n";
          break;
        case '\r':
          text += "\\r";
          break;
        case '\\':
          text += "\\\\";
          break;
        default:
          text += c;
      }
    }
  }

  bool is_csv_;
  std::vector<std::string> columns_;
};

}  // namespace

std::unique_ptr<PredictionWriter> make_prediction_writer(PredictionFormat format, const Task& task,
                                                         PredictionFields fields) {
  if (format == PredictionFormat::kJsonLines)
    return std::make_unique<JsonLinesWriter>(task, std::move(fields));
  return std::make_unique<DelimitedWriter>(task, std::move(fields), format);
}

}  // namespace shoehorn
