#include "cli/score_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "base/plural.h"
#include "base/utf8.h"
#include "lab/text_table.h"
#include "train/class_weights.h"
#include "train/progress.h"

namespace shoehorn {

namespace {

constexpr size_t kMostNameBytes = 40;
constexpr size_t kMostHeadingBytes = 14;
constexpr std::string_view kBold = "\033[1m";
constexpr std::string_view kPlain = "\033[0m";

std::string shown(const std::string& name, size_t most_bytes) {
  return printable(shorten(name, most_bytes), 2 * most_bytes);
}

size_t width_of(const std::string& text) {
  return static_cast<size_t>(count_code_points(text));
}

std::string to_the_right(const std::string& text, size_t width) {
  return std::string(width - std::min(width, width_of(text)), ' ') + text;
}

std::string four_digits(double value) {
  return fmt::format("{:.4f}", value);
}

std::string format_classes(const std::vector<ClassMetrics>& classes) {
  std::vector<std::vector<std::string>> rows;
  for (const ClassMetrics& of : classes) {
    rows.push_back({shown(of.name, kMostNameBytes), four_digits(of.precision), four_digits(of.recall),
                    four_digits(of.f1), std::to_string(of.support)});
  }
  return format_table({{"class"}, {"precision", true}, {"recall", true}, {"f1", true}, {"support", true}},
                      rows);
}

// The lines of the matrix with these names over its columns; none if one is wider than a line.
std::string format_matrix(const ConfusionMatrix& confusion, const std::vector<std::string>& rows,
                          const std::vector<std::string>& columns, const ScoreTextOptions& options) {
  size_t name_width = 0;
  size_t cell_width = 0;
  for (const std::string& name : rows) name_width = std::max(name_width, width_of(name));
  for (const std::string& name : columns) cell_width = std::max(cell_width, width_of(name));
  for (const int64_t count : confusion.counts)
    cell_width = std::max(cell_width, std::to_string(count).size());
  if (2 + name_width + columns.size() * (2 + cell_width) > options.width) return {};
  std::string text = std::string(2 + name_width, ' ');
  for (const std::string& name : columns) text += "  " + to_the_right(name, cell_width);
  text += '\n';
  for (size_t label = 0; label < rows.size(); ++label) {
    text += "  " + rows[label] + std::string(name_width - width_of(rows[label]), ' ');
    for (size_t prediction = 0; prediction < columns.size(); ++prediction) {
      const std::string cell = to_the_right(std::to_string(confusion.at(label, prediction)), cell_width);
      const bool is_bold = options.bold && label == prediction;
      text += is_bold ? fmt::format("  {}{}{}", kBold, cell, kPlain) : "  " + cell;
    }
    text += '\n';
  }
  return text;
}

// With the classes' names over the columns or, where there is no room, with their numbers.
std::string format_confusion(const ConfusionMatrix& confusion, const ScoreTextOptions& options) {
  std::vector<std::string> rows, headings, numbered, numbers;
  for (const std::string& name : confusion.names) {
    rows.push_back(shown(name, kMostNameBytes));
    headings.push_back(shown(name, kMostHeadingBytes));
    numbers.push_back(std::to_string(numbers.size() + 1));
    numbered.push_back(fmt::format("{} {}", to_the_right(numbers.back(), 3), rows.back()));
  }
  std::string lines = format_matrix(confusion, rows, headings, options);
  if (lines.empty()) lines = format_matrix(confusion, numbered, numbers, options);
  if (lines.empty()) {
    return fmt::format(
        "***** confusion matrix *****\n  {} classes are too many for its width of {}; the results in --output_dir have it\n",
        rows.size(), plural(options.width, "column"));
  }
  return "***** confusion matrix: a row for each label, a column for each prediction *****\n" + lines;
}

}  // namespace

ScoreTextOptions score_text_options() {
  const ProgressOptions terminal = detect_terminal(stdout, std::cout);
  return {.width = static_cast<size_t>(std::max<int64_t>(1, terminal.columns())), .bold = terminal.color};
}

std::string format_details(const ScoreDetails& details, const ScoreTextOptions& options) {
  if (details.classes.empty()) return {};
  const ScoreDetails shown = details.without_absent_classes();
  const size_t absent = details.classes.size() - shown.classes.size();
  std::string text = "***** classes *****\n" + format_classes(shown.classes);
  if (absent > 0) {
    text += fmt::format("  and {}, which no sample has as its label and no prediction names\n",
                        plural(static_cast<int64_t>(absent), "other class"));
  }
  if (shown.confusion) text += format_confusion(*shown.confusion, options);
  return text;
}

std::string shown_class_weights(const Trainer& trainer) {
  return format_class_weights(trainer.session().options().step.class_weights, trainer.label_names());
}

}  // namespace shoehorn
