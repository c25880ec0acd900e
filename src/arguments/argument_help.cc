#include "arguments/argument_help.h"

#include <algorithm>
#include <array>

#include "arguments/help_search.h"
#include "arguments/help_writer.h"
#include "base/error.h"

namespace shoehorn {
namespace {

constexpr std::array kGroups = {
    ArgumentGroup::kGeneral,      ArgumentGroup::kModel,       ArgumentGroup::kData,
    ArgumentGroup::kOutput,       ArgumentGroup::kPrediction,  ArgumentGroup::kBatch,
    ArgumentGroup::kPrecision,    ArgumentGroup::kMemory,      ArgumentGroup::kAdapters,
    ArgumentGroup::kOptimizer,    ArgumentGroup::kDataLoading, ArgumentGroup::kSaving,
    ArgumentGroup::kEvaluation,   ArgumentGroup::kLogging,     ArgumentGroup::kDebugging,
    ArgumentGroup::kDistributed,  ArgumentGroup::kHub,         ArgumentGroup::kMachine,
    ArgumentGroup::kOtherTrainers};

// A command with so many flags shows them all at once.
constexpr size_t kFew = 42;

bool is_own(const CommandHelp& help, const ArgumentSpec& row) {
  return std::any_of(help.own_rows.begin(), help.own_rows.end(),
                     [&row](const ArgumentSpec& own) { return own.name == row.name; });
}

bool is_set(const CommandHelp& help, const ArgumentSpec& row) {
  return std::find(help.set_by_itself.begin(), help.set_by_itself.end(), row.name) !=
         help.set_by_itself.end();
}

using Rows = std::vector<const ArgumentSpec*>;

template <typename Holds>
Rows rows_where(const CommandHelp& help, const Holds& holds) {
  Rows rows = rows_of(help);
  std::erase_if(rows, [&](const ArgumentSpec* row) { return !holds(*row); });
  return rows;
}

// The command's own rows, then the others below their groups' titles.
void append_groups(HelpWriter& writer, const CommandHelp& help, const Rows& rows) {
  writer.align(rows);
  std::string_view title;
  for (const ArgumentSpec* row : rows) {
    const std::string_view group = is_own(help, *row) ? "Of this command" : group_title(row->group);
    if (group != title && !(title.empty() && !help.table)) writer.append_heading(group);
    title = group;
    writer.append_flag(*row);
  }
}

void append_names(HelpWriter& writer, std::string_view what, const Rows& rows) {
  if (rows.empty()) return;
  std::vector<std::string_view> names;
  for (const ArgumentSpec* row : rows) names.push_back(row->name);
  writer.append_paragraph(what);
  writer.append_indented(fmt::format("{}", fmt::join(names, " ")));
}

void append_begin(HelpWriter& writer, const CommandHelp& help) {
  writer.append_text(help.introduction);
  // Elsewhere the headings of groups stand apart.
  if (!help.table && !help.own_rows.empty()) writer.append_text("\n");
}

void append_end(HelpWriter& writer, const CommandHelp& help) {
  if (!help.remarks.empty()) writer.append_text("\n" + help.remarks);
}

std::string short_help(const CommandHelp& help, const HelpStyle& style) {
  HelpWriter writer(style, help.table);
  append_begin(writer, help);
  const Rows all = rows_where(help, [&](const ArgumentSpec& row) { return has_effect(help, row); });
  const bool shows_all = all.size() <= kFew;
  const Rows shown = rows_where(help, [&](const ArgumentSpec& row) {
    return has_effect(help, row) && (shows_all || row.is_common || is_own(help, row));
  });
  append_groups(writer, help, shown);
  append_end(writer, help);
  if (!help.table) return writer.text();
  writer.append_paragraph(
      "Booleans are given as --name, --no_name or --name true|false; '-' may stand for '_'.");
  const size_t more = all.size() - shown.size();
  writer.append_paragraph(fmt::format(
      "shoehorn {0} --help all shows {1}; shoehorn {0} --help WORD searches names and texts.", help.name,
      more == 0 ? "also what is accepted without effect" : fmt::format("{} more", more)));
  return writer.text();
}

std::string whole_help(const CommandHelp& help, const HelpStyle& style) {
  HelpWriter writer(style, help.table);
  append_begin(writer, help);
  const auto is_read = [&](const ArgumentSpec& row) {
    return row.status == ArgumentStatus::kSupported && (is_own(help, row) || command_reads(*help.table, row));
  };
  const auto is_lacking = [](const ArgumentSpec& row) {
    return row.status == ArgumentStatus::kNotYet || row.status == ArgumentStatus::kRefused;
  };
  append_groups(writer, help, rows_where(help, is_read));
  append_end(writer, help);
  if (!help.table) return writer.text();
  writer.append_paragraph(
      "Booleans are given as --name, --no_name or --name true|false; '-' may stand for '_'.");
  append_names(writer,
               "Accepted, so that a command line of train can be given as it is, and without effect here:",
               rows_where(help, [&](const ArgumentSpec& row) {
                 return row.status == ArgumentStatus::kSupported && !is_read(row);
               }));
  Rows set;
  for (const std::string& name : help.set_by_itself) set.push_back(find_argument(name));
  append_names(writer, "Refused, because the command sets them itself:", set);
  append_names(writer, "Known, and refused unless they have their default:", rows_where(help, is_lacking));
  append_names(
      writer, "Names of other trainers; --help NAME says what to give here:",
      rows_where(help, [](const ArgumentSpec& row) { return row.status == ArgumentStatus::kElsewhere; }));
  return writer.text();
}

std::string found_help(const CommandHelp& help, std::string_view word, const HelpStyle& style) {
  HelpWriter writer(style, help.table);
  const FoundFlags found = search_flags(help, word);
  if (found.rows.empty()) {
    writer.append_paragraph(fmt::format(
        "No flag of {} has '{}' in its name or text{}.", help.name, word,
        found.near_names.empty() ? ""
                                 : fmt::format("; near names: --{}", fmt::join(found.near_names, ", --"))));
  } else {
    writer.append_heading(fmt::format("Flags of {} with '{}'", help.name, word));
    writer.align(found.rows);
    for (const ArgumentSpec* row : found.rows) writer.append_flag(*row);
  }
  if (!found.of_other_commands.empty()) {
    writer.append_heading("Flags of other commands");
    writer.align(found.of_other_commands);
    for (const ArgumentSpec* row : found.of_other_commands)
      writer.append_flag(*row, commands_that_take(*row));
  }
  return writer.text();
}

}  // namespace

std::vector<const ArgumentSpec*> rows_of(const CommandHelp& help) {
  std::vector<const ArgumentSpec*> rows;
  for (const ArgumentSpec& row : help.own_rows) rows.push_back(&row);
  if (!help.table) return rows;
  for (const ArgumentGroup group : kGroups) {
    for (const ArgumentSpec& row : argument_table()) {
      if (row.group == group && command_takes(*help.table, row) && !is_own(help, row) && !is_set(help, row))
        rows.push_back(&row);
    }
  }
  return rows;
}

bool has_effect(const CommandHelp& help, const ArgumentSpec& row) {
  if (row.status != ArgumentStatus::kSupported || row.is_always_so) return false;
  return is_own(help, row) || command_reads(*help.table, row);
}

std::string format_help(const CommandHelp& help, std::string_view word, const HelpStyle& style) {
  if (word.empty()) return short_help(help, style);
  return word == "all" ? whole_help(help, style) : found_help(help, word, style);
}

std::optional<std::string> help_word_of(const std::vector<std::string>& words) {
  const auto at = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return word == "--help" || word == "-h" || word.starts_with("--help=");
  });
  if (at == words.end()) return std::nullopt;
  std::string word;
  if (const size_t equals = at->find('='); equals != std::string::npos) {
    word = at->substr(equals + 1);
  } else if (const auto next = at + 1; next != words.end()) {
    // A flag behind it begins a command line that --help was put before, unless nothing follows.
    if (!next->starts_with('-') || next + 1 == words.end()) word = *next;
  }
  word.erase(0, word.find_first_not_of('-'));
  return word;
}

}  // namespace shoehorn
