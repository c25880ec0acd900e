#include "data/text_columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace shoehorn {
namespace {

constexpr std::array<std::string_view, 3> kLabelNames = {"label", "labels", "Quality"};
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kTextNames = {
    {{"sentence1", "sentence2"}, {"#1 String", "#2 String"}}};

int64_t named_column(const Table& table, const std::string& name, std::string_view flag) {
  const int64_t column = table.find_column(name);
  if (column >= 0) return column;
  const std::string nearest = nearest_name(name, table.column_names);
  throw user_error("[{}] expected a column of {}, got '{}'; {}it has: {}", flag, table.source, name,
                   nearest.empty() ? "" : fmt::format("did you mean '{}'? ", nearest),
                   fmt::join(table.column_names, ", "));
}

bool has_text(const Column& column) {
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) == CellKind::kString) return true;
  }
  return false;
}

template <typename T>
T parse_number(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '+')) text.remove_prefix(1);
  T value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  return names;
}

bool is_integer(const std::string& name) {
  return std::to_string(parse_number<int64_t>(name)) == name;
}

// The form in which equal labels are equal strings: "01" and "1" are one integer.
std::string canonical_label(const Column& column, int64_t row, bool integers) {
  return integers && column.kind(row) == CellKind::kInteger
             ? std::to_string(parse_number<int64_t>(column.text(row)))
             : std::string(column.text(row));
}

// What pandas, and so run_glue, reads as no value.
bool is_word_for_nothing(std::string_view text) {
  static constexpr std::array<std::string_view, 14> kWords = {"nan",  "NaN",  "-nan", "-NaN",    "null",
                                                              "NULL", "NA",   "N/A",  "n/a",     "<NA>",
                                                              "#NA",  "#N/A", "None", "#N/A N/A"};
  return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

bool is_negative_integer(const Column& column, int64_t row) {
  return column.kind(row) == CellKind::kInteger && parse_number<int64_t>(column.text(row)) < 0;
}

[[noreturn]] void missing_label(const Table& table, int64_t label_column, int64_t row) {
  const Column& column = table.columns[static_cast<size_t>(label_column)];
  throw user_error(
      "[{}] expected a label in column '{}', got {}; remove the row or give it a label{}", table.place(row),
      table.column_names[static_cast<size_t>(label_column)],
      column.kind(row) == CellKind::kNull ? "none" : fmt::format("'{}'", column.text(row)),
      is_negative_integer(column, row)
          ? " (a negative number stands for none, as in GLUE's files; write classes as 0, 1, … or as words)"
          : "");
}

// Text or ids in place of classes: a label for every row, or nearly.
void check_are_classes(const Table& table, int64_t label_column, const std::vector<std::string>& names) {
  constexpr size_t kManyClasses = 256;
  constexpr size_t kShownBytes = 60;
  if (names.size() <= kManyClasses || static_cast<int64_t>(names.size()) * 2 <= table.rows()) return;
  throw user_error(
      "[{}] expected classes in column '{}', got {} different labels in {} rows, such as '{}'; is it a column of "
      "text or of numbers of rows? name the right one with label_column_name",
      table.source, table.column_names[static_cast<size_t>(label_column)], names.size(), table.rows(),
      shorten(names.front(), kShownBytes));
}

// Classes of the map by their names. `twice` gets the names that several classes have.
std::unordered_map<std::string, int32_t> ids_by_name(const LabelMap& map,
                                                     std::unordered_map<std::string, int32_t>& twice) {
  std::unordered_map<std::string, int32_t> ids;
  for (size_t i = 0; i < map.names.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    if (!ids.emplace(map.names[i], id).second) twice.emplace(map.names[i], id);
  }
  return ids;
}

[[noreturn]] void unknown_label(const Table& table, int64_t row, std::string_view label,
                                const LabelMap& map) {
  constexpr size_t kShown = 20;
  constexpr size_t kShownBytes = 60;
  std::vector<std::string> shown;
  for (size_t i = 0; i < std::min(kShown, map.names.size()); ++i)
    shown.push_back(shorten(map.names[i], kShownBytes));
  throw user_error("[{}] expected a label of the {} ({}{}), got '{}'; it was never seen in training",
                   table.place(row), map.takes_ids ? "model" : "training set", fmt::join(shown, ", "),
                   map.names.size() > kShown ? ", …" : "", shorten(label, kShownBytes));
}

std::vector<int32_t> labels_by_id(const Table& table, int64_t label_column, const LabelMap& map) {
  const Column& column = table.columns[static_cast<size_t>(label_column)];
  std::vector<int32_t> labels;
  labels.reserve(static_cast<size_t>(column.size()));
  for (int64_t row = 0; row < column.size(); ++row) {
    if (is_negative_integer(column, row)) missing_label(table, label_column, row);
    const auto id = parse_number<int64_t>(column.text(row));
    if (id >= map.num_labels()) {
      throw user_error("[{}] expected the number of one of the model's {} classes, from 0 on, got {}",
                       table.place(row), map.num_labels(), id);
    }
    labels.push_back(static_cast<int32_t>(id));
  }
  return labels;
}

}  // namespace

TextColumns find_text_columns(const Table& table, const ColumnOptions& options) {
  TextColumns found;
  if (!options.label_column_name.empty()) {
    found.label = named_column(table, options.label_column_name, "label_column_name");
  }
  for (const std::string_view name : kLabelNames) {
    if (found.label < 0) found.label = table.find_column(name);
  }

  const std::vector<std::string>& names = options.text_column_names;
  if (!names.empty()) {
    if (names.size() > 2) {
      throw user_error("[text_column_names] expected one or two columns, got {} ({})", names.size(),
                       fmt::join(names, ", "));
    }
    found.text = named_column(table, names[0], "text_column_names");
    if (names.size() == 2) found.pair = named_column(table, names[1], "text_column_names");
    if (found.label == found.text || found.label == found.pair) {
      // A column that only looks like a label by its name is text if the user says so.
      if (!options.label_column_name.empty()) {
        throw user_error("[text_column_names] expected other columns than the label's, got '{}' for both",
                         options.label_column_name);
      }
      found.label = -1;
    }
    return found;
  }

  for (const auto& [text, pair] : kTextNames) {
    found.text = table.find_column(text);
    found.pair = table.find_column(pair);
    if (found.text >= 0 && found.pair >= 0 && found.text != found.label && found.pair != found.label)
      return found;
  }
  found.text = found.pair = -1;
  for (int64_t i = 0; i < static_cast<int64_t>(table.columns.size()) && found.pair < 0; ++i) {
    if (i == found.label || !has_text(table.columns[static_cast<size_t>(i)])) continue;
    (found.text < 0 ? found.text : found.pair) = i;
  }
  if (found.text < 0) {
    throw user_error(
        "[{}] expected a column of text beside the label, got columns: {}; name it with text_column_names",
        table.source, fmt::join(table.column_names, ", "));
  }
  return found;
}

LabelMap find_labels(const Table& table, int64_t label_column, const std::vector<std::string>& model_names) {
  const Column& column = table.columns[static_cast<size_t>(label_column)];
  bool any_string = false;
  bool any_integer = false;
  bool any_real = false;
  int64_t nothing_row = -1;
  int64_t negative_row = -1;
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) == CellKind::kNull) missing_label(table, label_column, row);
    if (negative_row < 0 && is_negative_integer(column, row)) negative_row = row;
    const bool is_nothing = column.kind(row) == CellKind::kString && is_word_for_nothing(column.text(row));
    if (is_nothing && nothing_row < 0) nothing_row = row;
    any_string |= column.kind(row) == CellKind::kString && !is_nothing;
    any_integer |= column.kind(row) == CellKind::kInteger;
    any_real |= column.kind(row) == CellKind::kReal;
  }
  const bool are_numbers = !any_string && (any_integer || any_real);
  if (are_numbers && nothing_row >= 0) missing_label(table, label_column, nothing_row);
  LabelMap map;
  map.is_regression = are_numbers && any_real;
  if (map.is_regression) return map;
  if (negative_row >= 0) missing_label(table, label_column, negative_row);

  std::unordered_set<std::string> seen;
  for (int64_t row = 0; row < column.size(); ++row) {
    std::string label = canonical_label(column, row, are_numbers);
    if (seen.insert(label).second) map.names.push_back(std::move(label));
  }
  if (are_numbers) {
    std::sort(map.names.begin(), map.names.end(), [](const std::string& a, const std::string& b) {
      return parse_number<int64_t>(a) < parse_number<int64_t>(b);
    });
  } else {
    std::sort(map.names.begin(), map.names.end());
  }
  check_are_classes(table, label_column, map.names);
  if (sorted(map.names) == sorted(model_names)) map.names = model_names;
  return map;
}

bool labels_are_ids(const Table& table, int64_t label_column, const LabelMap& map) {
  if (!map.takes_ids || std::any_of(map.names.begin(), map.names.end(), is_integer)) return false;
  const Column& column = table.columns[static_cast<size_t>(label_column)];
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) != CellKind::kInteger) return false;
  }
  return true;
}

std::vector<int32_t> class_labels(const Table& table, int64_t label_column, const LabelMap& map) {
  CHECK(!map.is_regression, "classes of a regression");
  if (labels_are_ids(table, label_column, map)) return labels_by_id(table, label_column, map);
  const Column& column = table.columns[static_cast<size_t>(label_column)];
  std::unordered_map<std::string, int32_t> twice;
  const std::unordered_map<std::string, int32_t> ids = ids_by_name(map, twice);
  std::vector<int32_t> labels;
  labels.reserve(static_cast<size_t>(column.size()));
  const bool are_integers = std::all_of(map.names.begin(), map.names.end(), is_integer);
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) == CellKind::kNull) missing_label(table, label_column, row);
    const std::string label = canonical_label(column, row, are_integers);
    const auto found = ids.find(label);
    if (found == ids.end() && is_negative_integer(column, row)) missing_label(table, label_column, row);
    if (found == ids.end()) unknown_label(table, row, column.text(row), map);
    if (const auto second = twice.find(label); second != twice.end()) {
      throw user_error(
          "[{}] expected a label that names one class of the model, got '{}', the name of classes {} and {}; "
          "give them different names in id2label of its config.json",
          table.place(row), label, found->second, second->second);
    }
    labels.push_back(found->second);
  }
  return labels;
}

std::vector<float> value_labels(const Table& table, int64_t label_column) {
  const Column& column = table.columns[static_cast<size_t>(label_column)];
  std::vector<float> labels;
  labels.reserve(static_cast<size_t>(column.size()));
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) == CellKind::kNull) missing_label(table, label_column, row);
    if (column.kind(row) == CellKind::kString) {
      throw user_error(
          "[{}] expected a number as label, since the training set's labels are numbers, got '{}'",
          table.place(row), column.text(row));
    }
    labels.push_back(static_cast<float>(parse_number<double>(column.text(row))));
  }
  return labels;
}

}  // namespace shoehorn
