#include "data/text_columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <unordered_map>
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

bool is_integer(const std::string& name) {
  return std::to_string(parse_number<int64_t>(name)) == name;
}

// The form in which equal labels are equal strings: "01" and "1" are one integer.
std::string canonical_label(const Column& column, int64_t row, bool integers) {
  return integers && column.kind(row) == CellKind::kInteger
             ? std::to_string(parse_number<int64_t>(column.text(row)))
             : std::string(column.text(row));
}

[[noreturn]] void missing_label(const Table& table, int64_t label_column, int64_t row) {
  throw user_error("[{}] expected a label in column '{}', got none; remove the row or give it a label",
                   table.place(row), table.column_names[static_cast<size_t>(label_column)]);
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

LabelMap find_labels(const Table& table, int64_t label_column) {
  const Column& column = table.columns[static_cast<size_t>(label_column)];
  bool any_string = false;
  bool any_real = false;
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) == CellKind::kNull) missing_label(table, label_column, row);
    any_string |= column.kind(row) == CellKind::kString;
    any_real |= column.kind(row) == CellKind::kReal;
  }
  LabelMap map;
  map.is_regression = any_real && !any_string;
  if (map.is_regression) return map;

  const bool are_integers = !any_string && !any_real;
  std::unordered_map<std::string, bool> seen;
  for (int64_t row = 0; row < column.size(); ++row) {
    std::string label = canonical_label(column, row, are_integers);
    if (seen.emplace(label, true).second) map.names.push_back(std::move(label));
  }
  if (are_integers) {
    std::sort(map.names.begin(), map.names.end(), [](const std::string& a, const std::string& b) {
      return parse_number<int64_t>(a) < parse_number<int64_t>(b);
    });
  } else {
    std::sort(map.names.begin(), map.names.end());
  }
  return map;
}

std::vector<int32_t> class_labels(const Table& table, int64_t label_column, const LabelMap& map) {
  CHECK(!map.is_regression, "classes of a regression");
  const Column& column = table.columns[static_cast<size_t>(label_column)];
  std::unordered_map<std::string, int32_t> ids;
  for (const std::string& name : map.names) ids.emplace(name, static_cast<int32_t>(ids.size()));
  std::vector<int32_t> labels;
  labels.reserve(static_cast<size_t>(column.size()));
  const bool are_integers = std::all_of(map.names.begin(), map.names.end(), is_integer);
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) == CellKind::kNull) missing_label(table, label_column, row);
    const auto found = ids.find(canonical_label(column, row, are_integers));
    if (found == ids.end()) {
      constexpr size_t kShown = 20;
      throw user_error(
          "[{}] expected a label of the training set ({}{}), got '{}'; it was never seen in training",
          table.place(row),
          fmt::join(map.names.begin(),
                    map.names.begin() + static_cast<int64_t>(std::min(kShown, map.names.size())), ", "),
          map.names.size() > kShown ? ", …" : "", column.text(row));
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
