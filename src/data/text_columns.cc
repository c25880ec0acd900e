#include "data/text_columns.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/format.h"

namespace shoehorn {
namespace {

constexpr std::array<std::string_view, 4> kLabelNames = {"label", "labels", "Quality", "score"};
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

bool is_empty(const Column& column) {
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) != CellKind::kNull && column.kind(row) != CellKind::kAbsent) return false;
  }
  return true;
}

std::vector<std::string> split_at_commas(const std::string& names) {
  std::vector<std::string> parts;
  std::istringstream stream(names);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

bool has_columns(const Table& table, const std::vector<std::string>& names) {
  return std::ranges::all_of(names, [&](const std::string& name) { return table.find_column(name) >= 0; });
}

bool has_label_columns(const Table& table, const std::string& names) {
  return table.find_column(names) >= 0 || has_columns(table, split_at_commas(names));
}

std::vector<int64_t> usual_label_columns(const Table& table) {
  for (const std::string_view name : kLabelNames) {
    if (const int64_t column = table.find_column(name); column >= 0) return {column};
  }
  return {};
}

std::vector<int64_t> named_label_columns(const Table& table, const std::string& names) {
  // A name may hold commas itself.
  if (const int64_t column = table.find_column(names); column >= 0) return {column};
  std::vector<int64_t> columns;
  for (const std::string& name : split_at_commas(names)) {
    const int64_t column = named_column(table, name, "label_column_name");
    if (std::find(columns.begin(), columns.end(), column) != columns.end())
      throw user_error("[label_column_name] expected each column once, got '{}' twice", name);
    columns.push_back(column);
  }
  return columns;
}

// The names of those that the user or a file beside this one gives; empty: the rules find them. `found`: labels and ids, which
// are no texts unless the user says so.
std::vector<std::string> text_columns_to_read(const Table& table, const ColumnOptions& options,
                                              const TextColumns& found) {
  if (!options.text_column_names.empty()) return options.text_column_names;
  const std::vector<std::string>& preferred = options.preferred_text_columns;
  const bool are_others = std::ranges::none_of(preferred, [&](const std::string& name) {
    const int64_t column = table.find_column(name);
    return column < 0 || column == found.id || found.is_label(column);
  });
  return are_others ? preferred : std::vector<std::string>();
}

void find_texts_by_rule(const Table& table, TextColumns& found) {
  for (const auto& [text, pair] : kTextNames) {
    found.text = table.find_column(text);
    found.pair = table.find_column(pair);
    if (found.text >= 0 && found.pair >= 0 && !found.is_label(found.text) && !found.is_label(found.pair))
      return;
  }
  found.text = found.pair = -1;
  for (int64_t i = 0; i < static_cast<int64_t>(table.columns.size()) && found.pair < 0; ++i) {
    if (found.is_label(i) || i == found.id || !has_text(table.columns[static_cast<size_t>(i)])) continue;
    (found.text < 0 ? found.text : found.pair) = i;
  }
}

void check_id_is_other(const Table& table, const TextColumns& found) {
  if (found.id < 0) return;
  const bool is_label = found.is_label(found.id);
  if (!is_label && found.id != found.text && found.id != found.pair) return;
  throw user_error(
      "[id_column] expected another column than those of {}, got '{}' for both; text_column_names and "
      "label_column_name name these",
      is_label ? "labels" : "texts", table.column_names[static_cast<size_t>(found.id)]);
}

}  // namespace

bool has_text(const Column& column) {
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) == CellKind::kString) return true;
  }
  return false;
}

std::vector<int64_t> find_label_columns(const Table& table, const ColumnOptions& options) {
  if (!options.label_column_name.empty()) return named_label_columns(table, options.label_column_name);
  const std::string& preferred = options.preferred_label_columns;
  if (!preferred.empty() && has_label_columns(table, preferred)) return named_label_columns(table, preferred);
  return usual_label_columns(table);
}

void check_are_texts(const Table& table, int64_t column) {
  const Column& texts = table.columns[static_cast<size_t>(column)];
  for (int64_t row = 0; row < texts.size(); ++row) {
    const CellKind kind = texts.kind(row);
    const std::string& name = table.column_names[static_cast<size_t>(column)];
    if (kind == CellKind::kAbsent)
      throw user_error("[{}] expected a text in column '{}', got a row without this key", table.place(row),
                       name);
    if (kind != CellKind::kList && kind != CellKind::kObject) continue;
    throw user_error("[{}] expected a text in column '{}', got {}; join its parts, or name another column",
                     table.place(row), name, kind == CellKind::kList ? "a list" : "an object");
  }
}

int64_t find_language_column(const Table& table, const std::string& name, const std::string& preferred) {
  if (!name.empty()) return named_column(table, name, "text_column_names");
  if (!preferred.empty() && table.find_column(preferred) >= 0) return table.find_column(preferred);
  const int64_t column = std::max<int64_t>(0, table.find_column("text"));
  const Column& cells = table.columns[static_cast<size_t>(column)];
  if (has_text(cells) || is_empty(cells)) return column;
  throw user_error(
      "[{}] expected texts in column '{}', got none; name another one with text_column_names: {}",
      table.source, table.column_names[static_cast<size_t>(column)], fmt::join(table.column_names, ", "));
}

TextColumns find_text_columns(const Table& table, const ColumnOptions& options) {
  TextColumns found;
  found.labels = find_label_columns(table, options);
  if (!options.id_column_name.empty()) found.id = named_column(table, options.id_column_name, "id_column");
  const auto is_label = [&](int64_t column) { return found.is_label(column); };
  const std::vector<std::string> names = text_columns_to_read(table, options, found);
  if (!names.empty()) {
    if (names.size() > 2) {
      throw user_error("[text_column_names] expected one or two columns, got {} ({})", names.size(),
                       fmt::join(names, ", "));
    }
    found.text = named_column(table, names[0], "text_column_names");
    if (names.size() == 2) found.pair = named_column(table, names[1], "text_column_names");
    if (found.text == found.pair) {
      throw user_error("[text_column_names] expected two columns for a pair of texts, got '{}' twice",
                       names[0]);
    }
    if (is_label(found.text) || is_label(found.pair)) {
      // A column that only looks like a label by its name is text if the user says so.
      if (!options.label_column_name.empty()) {
        throw user_error(
            "[text_column_names] expected other columns than the label's, got '{}' for both",
            table.column_names[static_cast<size_t>(is_label(found.text) ? found.text : found.pair)]);
      }
      found.labels.clear();
    }
    check_id_is_other(table, found);
    return found;
  }

  find_texts_by_rule(table, found);
  const auto found_texts = static_cast<size_t>(found.text >= 0) + static_cast<size_t>(found.pair >= 0);
  const std::vector<std::string>& preferred = options.preferred_text_columns;
  if (!preferred.empty() && found_texts != preferred.size()) {
    throw user_error(
        "[{}] expected the column{} '{}', as in the training, got columns: {}; text_column_names says which to read instead",
        table.source, preferred.size() == 1 ? "" : "s", fmt::join(preferred, "' and '"),
        fmt::join(table.column_names, ", "));
  }
  if (found.text < 0) {
    throw user_error(
        "[{}] expected a column of text beside the label, got columns: {}; name it with text_column_names",
        table.source, fmt::join(table.column_names, ", "));
  }
  check_id_is_other(table, found);
  return found;
}

}  // namespace shoehorn
