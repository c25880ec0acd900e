// Help from the table.
#include <algorithm>
#include <array>

#include "arguments/argument_table.h"
#include "arguments/command_options.h"
#include "base/error.h"

namespace shoehorn {
namespace {

constexpr size_t kWidth = 100;

constexpr std::array kGroups = {
    ArgumentGroup::kGeneral,     ArgumentGroup::kModel,       ArgumentGroup::kData,
    ArgumentGroup::kOutput,      ArgumentGroup::kPrediction,  ArgumentGroup::kBatch,
    ArgumentGroup::kPrecision,   ArgumentGroup::kMemory,      ArgumentGroup::kAdapters,
    ArgumentGroup::kOptimizer,   ArgumentGroup::kDataLoading, ArgumentGroup::kSaving,
    ArgumentGroup::kEvaluation,  ArgumentGroup::kLogging,     ArgumentGroup::kDebugging,
    ArgumentGroup::kDistributed, ArgumentGroup::kHub,         ArgumentGroup::kMachine};

std::string_view kind_word(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kFlag:
      return "";
    case ArgumentKind::kInteger:
      return " N";
    case ArgumentKind::kNumber:
      return " X";
    case ArgumentKind::kText:
      return " TEXT";
    case ArgumentKind::kList:
      return " A,B";
    case ArgumentKind::kBytes:
      return " BYTES";
    case ArgumentKind::kKwargs:
      return " K=V";
    case ArgumentKind::kFromField:
      break;
  }
  CHECK(false, "kind {}", static_cast<int>(kind));
}

// Appends words to `text`, whose last line already holds `column` characters; further lines start at
// `indent`.
void append_wrapped(std::string& text, size_t column, size_t indent, std::string_view words) {
  bool first = true;
  while (!words.empty()) {
    const size_t space = words.find(' ');
    const std::string_view word = words.substr(0, space);
    if (!first && column + 1 + word.size() > kWidth) {
      text += '\n';
      text.append(indent, ' ');
      column = indent;
    } else if (!first) {
      text += ' ';
      ++column;
    }
    text += word;
    column += word.size();
    first = false;
    words.remove_prefix(space == std::string_view::npos ? words.size() : space + 1);
  }
  text += '\n';
}

std::string flag_column(const ArgumentSpec& spec) {
  return fmt::format("  --{}{}", spec.name, kind_word(spec.kind));
}

std::string flag_text(const ArgumentSpec& spec) {
  std::string text(spec.help);
  std::vector<std::string_view> choices;
  for (const ArgumentChoice& choice : spec.choices) {
    if (choice.why.empty()) choices.push_back(choice.value);
  }
  if (choices.size() > 1) text += fmt::format("; one of {}", fmt::join(choices, ", "));
  const std::string standard = argument_to_text(spec.standard);
  if (standard != "nothing" && standard != "false") text += fmt::format(" (default {})", standard);
  if (!spec.aliases.empty()) text += fmt::format(" [also --{}]", fmt::join(spec.aliases, ", --"));
  return text;
}

void append_flag(std::string& text, const ArgumentSpec& spec, size_t indent) {
  std::string line = flag_column(spec);
  line.resize(std::max(line.size() + 2, indent), ' ');
  append_wrapped(text += line, line.size(), indent, flag_text(spec));
}

}  // namespace

std::string options_help(const std::vector<ArgumentSpec>& rows) {
  size_t indent = 0;
  for (const ArgumentSpec& row : rows) indent = std::max(indent, flag_column(row).size() + 2);
  std::string text;
  for (const ArgumentSpec& row : rows) append_flag(text, row, indent);
  return text;
}

std::string help_text(Command command) {
  size_t indent = 0;
  for (const ArgumentSpec& spec : argument_table()) {
    const bool shown = spec.status == ArgumentStatus::kSupported && command_reads(command, spec);
    if (shown) indent = std::max(indent, flag_column(spec).size() + 2);
  }
  std::string text;
  std::vector<std::string_view> not_yet;
  std::vector<std::string_view> not_read;
  for (const ArgumentGroup group : kGroups) {
    bool titled = false;
    for (const ArgumentSpec& spec : argument_table()) {
      if (spec.group != group || !command_takes(command, spec)) continue;
      if (spec.status != ArgumentStatus::kSupported) {
        not_yet.push_back(spec.name);
        continue;
      }
      if (!command_reads(command, spec)) {
        not_read.push_back(spec.name);
        continue;
      }
      if (!titled) text += fmt::format("{}{}:\n", text.empty() ? "" : "\n", group_title(group));
      titled = true;
      append_flag(text, spec, indent);
    }
  }
  text += "\nBooleans are given as --name, --no_name or --name true|false; '-' may stand for '_'.\n";
  if (!not_read.empty()) {
    text += "\nAccepted, so that a command line of train can be given as it is, and without effect here:\n  ";
    append_wrapped(text, 2, 2, fmt::format("{}", fmt::join(not_read, " ")));
  }
  if (not_yet.empty()) return text;
  text += "\nKnown, and refused unless they have their default:\n  ";
  append_wrapped(text, 2, 2, fmt::format("{}", fmt::join(not_yet, " ")));
  return text;
}

}  // namespace shoehorn
