#include "data/labels.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "base/format.h"
#include "data/similar_labels.h"

namespace shoehorn {
namespace {

constexpr std::array<std::pair<ProblemType, std::string_view>, 3> kProblems = {
    {{ProblemType::kSingleLabel, "single_label_classification"},
     {ProblemType::kMultiLabel, "multi_label_classification"},
     {ProblemType::kRegression, "regression"}}};

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
std::string canonical_label(std::string_view text, CellKind kind, bool integers) {
  return integers && kind == CellKind::kInteger ? std::to_string(parse_number<int64_t>(text))
                                                : std::string(text);
}

// What pandas, and so run_glue, reads as no value.
bool is_word_for_nothing(std::string_view text) {
  static constexpr std::array<std::string_view, 14> kWords = {"nan",  "NaN",  "-nan", "-NaN",    "null",
                                                              "NULL", "NA",   "N/A",  "n/a",     "<NA>",
                                                              "#NA",  "#N/A", "None", "#N/A N/A"};
  return std::find(kWords.begin(), kWords.end(), text) != kWords.end();
}

// A number that no loss can be computed from: a word for infinity, or 1e999.
bool is_infinite_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return end == text.data() + text.size() && (error == std::errc::result_out_of_range || std::isinf(value));
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\v\f") == std::string_view::npos;
}

bool is_negative_integer(std::string_view text, CellKind kind) {
  return kind == CellKind::kInteger && parse_number<int64_t>(text) < 0;
}

// 1 or 0 of a flag, in the ways of people and of pandas; nothing for another text.
std::optional<bool> parse_flag(std::string_view text, CellKind kind) {
  if (kind == CellKind::kInteger && parse_number<int64_t>(text) == 0) return false;
  if (kind == CellKind::kInteger && parse_number<int64_t>(text) == 1) return true;
  if (kind != CellKind::kString) return std::nullopt;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  if (text == "true" || text == "True" || text == "TRUE") return true;
  return std::nullopt;
}

const Column& column_of(const Table& table, int64_t column) {
  return table.columns[static_cast<size_t>(column)];
}

const std::string& name_of(const Table& table, int64_t column) {
  return table.column_names[static_cast<size_t>(column)];
}

struct Cell {
  int64_t row = 0;
  int64_t column = 0;
};

[[noreturn]] void missing_label(const Table& table, Cell cell) {
  const Column& column = column_of(table, cell.column);
  const CellKind kind = column.kind(cell.row);
  throw user_error(
      "[{}] expected a label in column '{}', got {}; remove the row or give it a label{}",
      table.place(cell.row), name_of(table, cell.column),
      kind == CellKind::kNull ? "none"
                              : fmt::format("'{}'", shorten(column.text(cell.row), kShownLabelBytes)),
      is_negative_integer(column.text(cell.row), kind)
          ? " (a negative number stands for none, as in GLUE's files; write classes as 0, 1, … or as words)"
          : "");
}

[[noreturn]] void infinite_label(const Table& table, Cell cell) {
  throw user_error(
      "[{}] expected a finite number as label in column '{}', got '{}'; remove the row or correct it",
      table.place(cell.row), name_of(table, cell.column),
      shorten(column_of(table, cell.column).text(cell.row), kShownLabelBytes));
}

// Calls visit(text, kind, cell) for each label of the columns: those of a list one by one.
template <typename Visit>
void for_each_label(const Table& table, const std::vector<int64_t>& columns, const Visit& visit) {
  for (const int64_t number : columns) {
    const Column& column = column_of(table, number);
    for (int64_t row = 0; row < column.size(); ++row) {
      if (column.kind(row) != CellKind::kList) {
        visit(column.text(row), column.kind(row), Cell{row, number});
        continue;
      }
      for (const ListElement& element : list_elements(column.text(row)))
        visit(element.text, element.kind, Cell{row, number});
    }
  }
}

// What the labels of a file look like.
struct LabelForms {
  bool has_list = false;
  bool has_integer = false;
  bool are_flags = true;  // each is 0, 1, true or false
  // The first of its kind.
  std::optional<Cell> real, word, word_for_nothing, infinity, negative;

  bool are_numbers() const { return !word && (has_integer || real); }
};

LabelForms forms_of(const Table& table, const std::vector<int64_t>& columns) {
  LabelForms forms;
  const auto note = [](std::optional<Cell>& first, Cell cell) {
    if (!first) first = cell;
  };
  for (const int64_t number : columns) {
    const Column& column = column_of(table, number);
    for (int64_t row = 0; row < column.size(); ++row) forms.has_list |= column.kind(row) == CellKind::kList;
  }
  for_each_label(table, columns, [&](std::string_view text, CellKind kind, Cell cell) {
    if (kind == CellKind::kNull || (kind == CellKind::kString && is_blank(text))) missing_label(table, cell);
    if (is_negative_integer(text, kind)) note(forms.negative, cell);
    forms.has_integer |= kind == CellKind::kInteger;
    forms.are_flags &= parse_flag(text, kind).has_value();
    if (kind == CellKind::kReal) note(forms.real, cell);
    if (kind == CellKind::kString) {
      note(is_word_for_nothing(text)  ? forms.word_for_nothing
           : is_infinite_number(text) ? forms.infinity
                                      : forms.word,
           cell);
    }
  });
  if (forms.are_numbers() && forms.word_for_nothing) missing_label(table, *forms.word_for_nothing);
  if (forms.are_numbers() && forms.infinity) infinite_label(table, *forms.infinity);
  if (!forms.are_numbers() && !forms.word)
    forms.word = forms.infinity ? forms.infinity : forms.word_for_nothing;
  return forms;
}

std::string shown_cell(const Table& table, const std::optional<Cell>& cell) {
  if (!cell) return {};
  return fmt::format(", such as '{}' in {}",
                     shorten(column_of(table, cell->column).text(cell->row), kShownLabelBytes),
                     table.place(cell->row));
}

// The likeliest first.
std::vector<ProblemType> possible_problems(const LabelForms& forms, size_t columns) {
  if (forms.has_list)
    return columns == 1 ? std::vector{ProblemType::kMultiLabel} : std::vector<ProblemType>{};
  if (columns > 1 && forms.are_flags && forms.word) return {ProblemType::kMultiLabel};
  if (columns > 1 && forms.are_flags) return {ProblemType::kMultiLabel, ProblemType::kRegression};
  if (columns > 1) return forms.word ? std::vector<ProblemType>{} : std::vector{ProblemType::kRegression};
  if (forms.word) return {ProblemType::kSingleLabel};
  if (forms.real) return {ProblemType::kRegression};
  return {ProblemType::kSingleLabel, ProblemType::kRegression};
}

std::string_view labels_needed(ProblemType problem) {
  switch (problem) {
    case ProblemType::kSingleLabel:
      return "a column of words or of whole numbers";
    case ProblemType::kMultiLabel:
      return "a column of lists or several of 0 and 1 (label_column_name a,b,c)";
    case ProblemType::kRegression:
      return "numbers";
  }
  return "";
}

std::string labels_found(const Table& table, const LabelForms& forms, size_t columns) {
  if (forms.has_list) return "lists";
  if (forms.word) return "words" + shown_cell(table, forms.word);
  if (columns > 1) return fmt::format("{} columns of numbers{}", columns, shown_cell(table, forms.real));
  return (forms.real ? "fractions" : "whole numbers") + shown_cell(table, forms.real);
}

ProblemType choose_problem(const Table& table, const LabelForms& forms, size_t columns,
                           const FindLabelsOptions& options) {
  const std::vector<ProblemType> possible = possible_problems(forms, columns);
  const auto can_be = [&](ProblemType problem) {
    return std::find(possible.begin(), possible.end(), problem) != possible.end();
  };
  if (possible.empty()) {
    throw user_error(
        "[{}] expected numbers in {} columns of labels, got {}{}; one column alone may have words or lists",
        table.source, columns, forms.has_list ? "lists" : "words", shown_cell(table, forms.word));
  }
  if (options.problem && !can_be(*options.problem)) {
    throw user_error("[{}] expected labels of {} (problem_type), {}, got {}", table.source,
                     problem_type_name(*options.problem), labels_needed(*options.problem),
                     labels_found(table, forms, columns));
  }
  if (options.problem) return *options.problem;
  if (options.model != nullptr && can_be(options.model->problem)) return options.model->problem;
  return possible.front();
}

// Text or ids in place of classes: a label for every row, or nearly.
void check_are_classes(const Table& table, int64_t column, const std::vector<std::string>& names) {
  constexpr size_t kManyClasses = 256;
  if (names.size() <= kManyClasses || static_cast<int64_t>(names.size()) * 2 <= table.rows()) return;
  throw user_error(
      "[{}] expected classes in column '{}', got {} different labels in {} rows, such as '{}'; is it a column of "
      "text or of numbers of rows? name the right one with label_column_name",
      table.source, name_of(table, column), names.size(), table.rows(),
      shorten(names.front(), kShownLabelBytes));
}

// The distinct labels of a column, in their order.
std::vector<std::string> classes_of(const Table& table, int64_t column, const LabelForms& forms) {
  if (forms.negative) missing_label(table, *forms.negative);
  if (forms.real && !forms.word) {
    throw user_error("[{}] expected names or whole numbers of classes in the lists of column '{}', got {}",
                     table.place(forms.real->row), name_of(table, column),
                     shorten(column_of(table, column).text(forms.real->row), kShownLabelBytes));
  }
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  const bool are_integers = forms.are_numbers() && !forms.real;
  for_each_label(table, {column}, [&](std::string_view text, CellKind kind, Cell) {
    std::string label = canonical_label(text, kind, are_integers);
    if (seen.insert(label).second) names.push_back(std::move(label));
  });
  if (are_integers) {
    std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
      return parse_number<int64_t>(a) < parse_number<int64_t>(b);
    });
  } else {
    std::sort(names.begin(), names.end());
  }
  if (names.empty()) {
    throw user_error("[{}] expected a class in one of the lists of column '{}' at least, got none",
                     table.source, name_of(table, column));
  }
  check_are_classes(table, column, names);
  return names;
}

std::vector<std::string> column_names(const Table& table, const std::vector<int64_t>& columns) {
  std::vector<std::string> names;
  for (const int64_t column : columns) names.push_back(name_of(table, column));
  return names;
}

// A label's text to the number of its class.
class ClassFinder {
 public:
  ClassFinder(const Table& table, const std::vector<int64_t>& columns, const LabelMap& map)
      : table_(table),
        map_(map),
        are_ids_(labels_are_ids(table, columns, map)),
        are_integers_(std::all_of(map.names.begin(), map.names.end(), is_integer)) {
    for (size_t i = 0; i < map.names.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      if (!ids_.emplace(map.names[i], id).second) twice_.emplace(map.names[i], id);
    }
  }

  int32_t find(std::string_view text, CellKind kind, Cell cell) const {
    if (kind == CellKind::kNull) missing_label(table_, cell);
    if (are_ids_) return id_of(text, kind, cell);
    const std::string label = canonical_label(text, kind, are_integers_);
    const auto found = ids_.find(label);
    if (found == ids_.end() && is_negative_integer(text, kind)) missing_label(table_, cell);
    if (found == ids_.end()) unknown(text, cell);
    if (const auto second = twice_.find(label); second != twice_.end()) {
      throw user_error(
          "[{}] expected a label that names one class of the model, got '{}', the name of classes {} and {}; "
          "give them different names in id2label of its config.json",
          table_.place(cell.row), label, found->second, second->second);
    }
    return found->second;
  }

 private:
  int32_t id_of(std::string_view text, CellKind kind, Cell cell) const {
    if (is_negative_integer(text, kind)) missing_label(table_, cell);
    const auto id = parse_number<int64_t>(text);
    if (id >= map_.num_labels()) {
      throw user_error("[{}] expected the number of one of the model's {} classes, from 0 on, got {}",
                       table_.place(cell.row), map_.num_labels(), id);
    }
    return static_cast<int32_t>(id);
  }

  [[noreturn]] void unknown(std::string_view label, Cell cell) const {
    constexpr size_t kShown = 20;
    std::vector<std::string> shown;
    for (size_t i = 0; i < std::min(kShown, map_.names.size()); ++i)
      shown.push_back(shorten(map_.names[i], kShownLabelBytes));
    const std::string similar = similar_label(label, map_.names);
    throw user_error("[{}] expected a label of the {} ({}{}), got '{}'; {}", table_.place(cell.row),
                     map_.takes_ids ? "model" : "training set", fmt::join(shown, ", "),
                     map_.names.size() > kShown ? ", …" : "", shorten(label, kShownLabelBytes),
                     similar.empty() ? "it was never seen in training"
                                     : fmt::format("'{}' differs only in spaces or case",
                                                   shorten(similar, kShownLabelBytes)));
  }

  const Table& table_;
  const LabelMap& map_;
  bool are_ids_;
  bool are_integers_;
  std::unordered_map<std::string, int32_t> ids_;
  std::unordered_map<std::string, int32_t> twice_;  // names of several classes
};

// The columns in the order of the map's names; where it has none of its own, as they are.
std::vector<int64_t> columns_by_name(const Table& table, const std::vector<int64_t>& columns,
                                     const LabelMap& map) {
  const auto refuse = [&] {
    throw user_error(
        "[{}] expected a column of labels for each of {}, got {}; name them with label_column_name",
        table.source, fmt::join(map.names, ", "), fmt::join(column_names(table, columns), ", "));
  };
  if (columns.size() != map.names.size()) refuse();
  if (columns.size() == 1 || map.names == default_labels(map.num_labels())) return columns;
  std::vector<int64_t> ordered;
  for (const std::string& name : map.names) {
    const auto found = std::find_if(columns.begin(), columns.end(),
                                    [&](int64_t column) { return name_of(table, column) == name; });
    if (found == columns.end()) refuse();
    ordered.push_back(*found);
  }
  return ordered;
}

float number_in(const Table& table, Cell cell) {
  const Column& column = column_of(table, cell.column);
  const CellKind kind = column.kind(cell.row);
  if (kind == CellKind::kNull) missing_label(table, cell);
  if (kind != CellKind::kInteger && kind != CellKind::kReal) {
    throw user_error("[{}] expected a number as label in column '{}', for a regression, got '{}'",
                     table.place(cell.row), name_of(table, cell.column),
                     shorten(column.text(cell.row), kShownLabelBytes));
  }
  return static_cast<float>(parse_number<double>(column.text(cell.row)));
}

float flag_in(const Table& table, Cell cell) {
  const Column& column = column_of(table, cell.column);
  if (column.kind(cell.row) == CellKind::kNull) missing_label(table, cell);
  const std::optional<bool> flag = parse_flag(column.text(cell.row), column.kind(cell.row));
  if (!flag) {
    throw user_error("[{}] expected 0 or 1 in column '{}', whether the text is of this class, got '{}'",
                     table.place(cell.row), name_of(table, cell.column),
                     shorten(column.text(cell.row), kShownLabelBytes));
  }
  return *flag ? 1.0F : 0.0F;
}

}  // namespace

std::string_view problem_type_name(ProblemType problem) {
  for (const auto& [one, name] : kProblems) {
    if (one == problem) return name;
  }
  return "unknown";
}

std::optional<ProblemType> find_problem_type(std::string_view name) {
  for (const auto& [problem, known] : kProblems) {
    if (known == name) return problem;
  }
  return std::nullopt;
}

std::vector<std::string> default_labels(int64_t count) {
  std::vector<std::string> labels;
  for (int64_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
  return labels;
}

LabelMap classes(int64_t count) {
  return {.names = default_labels(count)};
}

LabelMap find_labels(const Table& table, const std::vector<int64_t>& columns,
                     const FindLabelsOptions& options) {
  CHECK(!columns.empty(), "no column of labels");
  const LabelForms forms = forms_of(table, columns);
  LabelMap map;
  map.problem = choose_problem(table, forms, columns.size(), options);
  if (columns.size() > 1) {
    map.names = column_names(table, columns);
  } else if (map.problem == ProblemType::kRegression) {
    map.names = default_labels(1);
  } else {
    map.names = classes_of(table, columns[0], forms);
  }
  if (options.model == nullptr || options.model->problem != map.problem) return map;
  const std::vector<std::string>& model_names = options.model->names;
  const bool is_one_value = map.problem == ProblemType::kRegression && columns.size() == 1;
  if (is_one_value ? model_names.size() == 1 : sorted(map.names) == sorted(model_names))
    map.names = model_names;
  return map;
}

bool labels_are_ids(const Table& table, const std::vector<int64_t>& columns, const LabelMap& map) {
  if (!map.takes_ids || map.problem == ProblemType::kRegression || columns.size() != 1 ||
      std::any_of(map.names.begin(), map.names.end(), is_integer)) {
    return false;
  }
  bool are_integers = true;
  for_each_label(table, columns,
                 [&](std::string_view, CellKind kind, Cell) { are_integers &= kind == CellKind::kInteger; });
  return are_integers;
}

std::vector<int32_t> class_labels(const Table& table, const std::vector<int64_t>& columns,
                                  const LabelMap& map) {
  CHECK(map.problem == ProblemType::kSingleLabel, "classes of {}", problem_type_name(map.problem));
  if (columns.size() != 1) {
    throw user_error("[{}] expected one column of labels, for {}, got {} ({})", table.source,
                     problem_type_name(map.problem), columns.size(),
                     fmt::join(column_names(table, columns), ", "));
  }
  const ClassFinder finder(table, columns, map);
  const Column& column = column_of(table, columns[0]);
  std::vector<int32_t> labels;
  labels.reserve(static_cast<size_t>(column.size()));
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) == CellKind::kList) {
      throw user_error("[{}] expected one class as label, for {}, got the list {}", table.place(row),
                       problem_type_name(map.problem), shorten(column.text(row), kShownLabelBytes));
    }
    labels.push_back(finder.find(column.text(row), column.kind(row), {row, columns[0]}));
  }
  return labels;
}

std::vector<float> value_labels(const Table& table, const std::vector<int64_t>& columns,
                                const LabelMap& map) {
  CHECK(map.problem != ProblemType::kSingleLabel, "values of {}", problem_type_name(map.problem));
  const auto width = static_cast<size_t>(map.num_labels());
  std::vector<float> values(static_cast<size_t>(table.rows()) * width);
  if (map.problem == ProblemType::kMultiLabel && columns.size() == 1) {
    const ClassFinder finder(table, columns, map);
    for_each_label(table, columns, [&](std::string_view text, CellKind kind, Cell cell) {
      const auto id = static_cast<size_t>(finder.find(text, kind, cell));
      values[static_cast<size_t>(cell.row) * width + id] = 1.0F;
    });
    return values;
  }
  const std::vector<int64_t> ordered = columns_by_name(table, columns, map);
  const auto read = map.problem == ProblemType::kMultiLabel ? flag_in : number_in;
  for (int64_t row = 0; row < table.rows(); ++row) {
    for (size_t i = 0; i < width; ++i)
      values[static_cast<size_t>(row) * width + i] = read(table, {row, ordered[i]});
  }
  return values;
}

}  // namespace shoehorn
