#include "arguments/help_writer.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace shoehorn {
namespace {

// The least width of the second column.
constexpr size_t kLeastText = 36;
// Of what is said of a flag below it.
constexpr size_t kIndentBelow = 6;

std::string_view kind_word(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kFlag:
      return "";
    case ArgumentKind::kInteger:
      return "N";
    case ArgumentKind::kNumber:
      return "X";
    case ArgumentKind::kText:
      return "TEXT";
    case ArgumentKind::kList:
      return "A,B";
    case ArgumentKind::kBytes:
      return "BYTES";
    case ArgumentKind::kKwargs:
      return "K=V";
    case ArgumentKind::kFromField:
      break;
  }
  CHECK(false, "kind {}", static_cast<int>(kind));
}

std::string flag_column(const ArgumentSpec& row) {
  const std::string_view value = value_word(row);
  return fmt::format("  --{}{}{}", row.name, value.empty() ? "" : " ", value);
}

}  // namespace

std::string_view value_word(const ArgumentSpec& row) {
  return row.value.empty() ? kind_word(row.kind) : row.value;
}

std::string flag_text(const ArgumentSpec& row, std::optional<Command> command) {
  if (row.status == ArgumentStatus::kElsewhere) return fmt::format("of {}", row.why);
  std::string text(help_in(command, row));
  if (row.status != ArgumentStatus::kSupported) {
    text +=
        fmt::format("{}{}: {}", text.empty() ? "" : "; ",
                    row.status == ArgumentStatus::kRefused ? "refused" : "not in this version yet", row.why);
  }
  std::vector<std::string_view> choices;
  for (const ArgumentChoice& choice : row.choices) {
    if (choice.why.empty()) choices.push_back(choice.value);
  }
  if (choices.size() > 1) text += fmt::format("; one of {}", fmt::join(choices, ", "));
  const std::string standard = argument_to_text(row.standard);
  if (standard != "nothing" && standard != "false") text += fmt::format(" (default {})", standard);
  if (!row.aliases.empty()) text += fmt::format(" [also --{}]", fmt::join(row.aliases, ", --"));
  return text;
}

void HelpWriter::align(const std::vector<const ArgumentSpec*>& rows) {
  indent_ = 0;
  for (const ArgumentSpec* row : rows) indent_ = std::max(indent_, flag_column(*row).size() + 2);
  if (indent_ + kLeastText > static_cast<size_t>(style_.columns)) indent_ = kIndentBelow;
}

void HelpWriter::append_heading(std::string_view heading) {
  text_ += fmt::format("{}{}{}:{}\n", text_.empty() ? "" : "\n", style_.bold ? "\x1b[1m" : "", heading,
                       style_.bold ? "\x1b[0m" : "");
}

void HelpWriter::append_paragraph(std::string_view words) {
  if (!text_.empty()) text_ += '\n';
  append_wrapped(0, 0, words);
}

void HelpWriter::append_indented(std::string_view words) {
  text_ += "  ";
  append_wrapped(2, 2, words);
}

void HelpWriter::append_flag(const ArgumentSpec& row, std::string_view note) {
  const std::string text = flag_text(row, command_);
  const std::string words = note.empty() ? text : fmt::format("({}) {}", note, text);
  std::string line = flag_column(row);
  if (line.size() + 2 > indent_) {
    text_ += line + '\n';
    line.clear();
  }
  line.resize(indent_, ' ');
  text_ += line;
  append_wrapped(indent_, indent_, words);
}

// Appends words to the last line, which already holds `column` characters; further lines start at `indent`.
void HelpWriter::append_wrapped(size_t column, size_t indent, std::string_view words) {
  const auto width = static_cast<size_t>(style_.columns);
  bool first = true;
  while (!words.empty()) {
    const size_t space = words.find(' ');
    const std::string_view word = words.substr(0, space);
    const auto characters = static_cast<size_t>(count_code_points(word));
    if (!first && column + 1 + characters > width) {
      text_ += '\n';
      text_.append(indent, ' ');
      column = indent;
    } else if (!first) {
      text_ += ' ';
      ++column;
    }
    text_ += word;
    column += characters;
    first = false;
    words.remove_prefix(space == std::string_view::npos ? words.size() : space + 1);
  }
  text_ += '\n';
}

}  // namespace shoehorn
