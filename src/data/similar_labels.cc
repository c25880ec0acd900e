#include "data/similar_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/format.h"

namespace shoehorn {
namespace {

struct Occurrences {
  int64_t count = 0;
  int64_t first_row = 0;
};

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

// Groups of two or more similar names, in the order of the names.
std::vector<std::vector<std::string>> similar_groups(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::string>> by_fold;
  for (const std::string& name : names) by_fold[folded_label(name)].push_back(name);
  std::vector<std::vector<std::string>> groups;
  for (auto& [fold, group] : by_fold) {
    if (group.size() > 1) groups.push_back(std::move(group));
  }
  return groups;
}

void count_label(std::unordered_map<std::string, Occurrences>& found, std::string_view label, int64_t row) {
  const auto place = found.find(std::string(label));
  if (place == found.end()) return;
  if (place->second.count++ == 0) place->second.first_row = row;
}

// With fewer whole numbers to each other one, the labels are ratings.
constexpr int64_t kWholeToOthers = 3;

// Where most labels are whole numbers, the ones that are not may be classes in another spelling.
std::vector<std::string> fraction_notices(const Table& table, int64_t number) {
  const Column& column = table.columns[static_cast<size_t>(number)];
  int64_t whole = 0;
  Occurrences others;
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) == CellKind::kInteger) ++whole;
    if (column.kind(row) == CellKind::kReal && others.count++ == 0) others.first_row = row;
  }
  if (others.count == 0 || whole < kWholeToOthers * others.count) return {};
  return {fmt::format(
      "labels are values, not classes, since {} of {} {} no whole number: '{}' at {}; if they are classes, "
      "correct the file",
      format_count(others.count), format_count(whole + others.count), others.count == 1 ? "is" : "are",
      printable(shorten(column.text(others.first_row), kShownLabelBytes), 200),
      table.place(others.first_row))};
}

}  // namespace

std::string folded_label(std::string_view label) {
  std::string folded;
  bool after_space = false;
  for (const char c : label) {
    if (is_space(c)) {
      after_space = true;
      continue;
    }
    if (after_space && !folded.empty()) folded += ' ';
    after_space = false;
    folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return folded;
}

std::string similar_label(std::string_view label, const std::vector<std::string>& names) {
  const std::string folded = folded_label(label);
  const auto found = std::ranges::find_if(
      names, [&](const std::string& name) { return name != label && folded_label(name) == folded; });
  return found == names.end() ? std::string() : *found;
}

std::vector<std::string> similar_label_notices(const Table& table, const std::vector<int64_t>& columns,
                                               const LabelMap& labels) {
  if (columns.size() != 1) return {};
  if (labels.problem == ProblemType::kRegression) return fraction_notices(table, columns[0]);
  const std::vector<std::vector<std::string>> groups = similar_groups(labels.names);
  if (groups.empty()) return {};
  std::unordered_map<std::string, Occurrences> found;
  for (const auto& group : groups) {
    for (const std::string& name : group) found[name] = {};
  }
  const Column& column = table.columns[static_cast<size_t>(columns[0])];
  for (int64_t row = 0; row < column.size(); ++row) {
    if (column.kind(row) != CellKind::kList) {
      count_label(found, column.text(row), row);
      continue;
    }
    for (const ListElement& element : list_elements(column.text(row))) count_label(found, element.text, row);
  }
  std::vector<std::string> notices;
  for (const auto& group : groups) {
    std::vector<std::string> shown;
    for (const std::string& name : group) {
      const Occurrences& occurrences = found[name];
      shown.push_back(fmt::format("'{}' ({} row{}, the first at {})",
                                  printable(shorten(name, kShownLabelBytes), 200),
                                  format_count(occurrences.count), occurrences.count == 1 ? "" : "s",
                                  table.place(occurrences.first_row)));
    }
    notices.push_back(
        fmt::format("classes differ only in spaces or case: {}; if they are one, correct the file",
                    fmt::join(shown, " and ")));
  }
  return notices;
}

}  // namespace shoehorn
