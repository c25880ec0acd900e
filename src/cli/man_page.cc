#include "cli/man_page.h"

#include <fmt/format.h>

#include <set>

#include "base/utf8.h"
#include "cli/command_list.h"
#include "cli/completion_words.h"
#include "cli/version.h"

namespace shoehorn {

namespace {

// Characters with a meaning in roff, and those beyond ASCII.
std::string roff_escaped(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const int32_t point = decode_utf8(text, at);
    if (point >= 0x80) {
      result += fmt::format("\\[u{:04X}]", point);
    } else if (point == '\\') {
      result += "\\e";
    } else if (point == '-') {
      result += "\\-";
    } else {
      result += static_cast<char>(point);
    }
  }
  // A line that begins with one of these would be a request.
  if (!result.empty() && (result[0] == '.' || result[0] == '\'')) result.insert(0, "\\&");
  return result;
}

// Lines as they stand.
std::string verbatim(const std::string& text) {
  std::string result = ".nf\n";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = roff_escaped(std::string_view(text).substr(begin, end - begin));
    result += (line.empty() ? ".sp" : line) + "\n";
    begin = end + 1;
  }
  return result + ".fi\n";
}

std::string flag_entry(const ArgumentSpec& row, std::string_view note, std::string_view text) {
  const std::string_view value = value_word(row);
  return fmt::format(".TP\n.B \\-\\-{}{}\n{}{}\n", roff_escaped(row.name),
                     value.empty() ? "" : fmt::format(" \\fI{}\\fR", roff_escaped(value)),
                     note.empty() ? "" : fmt::format("({}) ", roff_escaped(note)), roff_escaped(text));
}

std::vector<std::string_view> names_of_readers(const ArgumentSpec& row, int commands) {
  ArgumentSpec read = row;
  read.read_by = row.read_by & commands;
  std::vector<std::string_view> names;
  for (const Command reader : kCommands) {
    if (command_reads(reader, read)) names.push_back(command_name(reader));
  }
  return names;
}

// What the flag does, and what it does in commands where that is something else.
std::string text_of_all_commands(const ArgumentSpec& row) {
  std::string text = flag_text(row, {});
  for (const HelpElsewhere& other : row.help_elsewhere)
    text += fmt::format(". In {}: {}", fmt::join(names_of_readers(row, other.commands), ", "), other.text);
  return text;
}

std::string command_sections() {
  std::string text;
  for (const CommandEntry& entry : command_list()) {
    const CommandHelp help = entry.help();
    text += fmt::format(".SS shoehorn {}\n{}", roff_escaped(entry.name), verbatim(help.introduction));
    for (const ArgumentSpec& row : help.own_rows) text += flag_entry(row, "", flag_text(row, help.table));
    if (!help.remarks.empty()) text += ".PP\n" + verbatim(help.remarks);
  }
  return text;
}

// The table's rows by group, each with the commands in which it has an effect.
std::string shared_flags() {
  std::string text;
  std::string_view title;
  std::set<std::string_view> written;
  // Between them they take all.
  for (const Command command : {Command::kTrain, Command::kPredict, Command::kEnv}) {
    const CommandHelp help{.name = "", .introduction = "", .table = command};
    for (const ArgumentSpec* row : rows_of(help)) {
      if (row->status != ArgumentStatus::kSupported || !written.insert(row->name).second) continue;
      if (group_title(row->group) != title)
        text += fmt::format(".SS {}\n", roff_escaped(group_title(row->group)));
      title = group_title(row->group);
      const std::vector<std::string_view> readers = names_of_readers(*row, kReadByAll);
      text += flag_entry(
          *row, readers.size() == kCommands.size() ? "" : fmt::format("{}", fmt::join(readers, ", ")),
          text_of_all_commands(*row));
    }
  }
  return text;
}

}  // namespace

std::string man_page() {
  std::string synopsis;
  for (const CommandEntry& entry : command_list())
    synopsis +=
        fmt::format(".TP\n.B shoehorn {}\n{}\n", roff_escaped(entry.name), roff_escaped(entry.summary));
  return fmt::format(
      ".\\\" Made by `shoehorn man`.\n.TH SHOEHORN 1 \"{}\" \"shoehorn {}\" \"User Commands\"\n"
      ".SH NAME\nshoehorn \\- train transformers on a CPU, with the memory of a run planned to the byte\n"
      ".SH SYNOPSIS\n.B shoehorn\n.I COMMAND\n.RI [ FLAGS ]\n.PP\n.B shoehorn help\n.RI [ COMMAND \" [\" all | WORD ]]\n"
      ".PP\n.B shoehorn \\-\\-version\n.RB [ \\-\\-json ]\n"
      ".SH DESCRIPTION\n"
      "Takes a Hugging Face model directory and the flags of the Hugging Face Trainer, and writes a Hugging Face model\n"
      "directory. Before training starts, the whole step is written down as a program, and the place of every byte of it\n"
      "is planned; a run that does not fit is refused before anything is allocated.\n"
      ".SH COMMANDS\n{}"
      ".SH FLAGS OF COMMANDS\n{}"
      ".SH FLAGS OF RUNS\nIn parentheses: the commands in which a flag has an effect, where it has none in others.\n"
      "Booleans are given as \\-\\-name, \\-\\-no_name or \\-\\-name true|false; \\(aq\\-\\(aq may stand for "
      "\\(aq_\\(aq.\n{}"
      ".SH EXIT STATUS\n"
      ".TP\n0\ndone\n.TP\n1\nfailed\n.TP\n2\nthe command line, a file or the memory does not allow it\n"
      ".TP\n130, 143, 129, 141\nstopped by SIGINT (Ctrl\\-C), SIGTERM, SIGHUP or SIGPIPE\n"
      ".SH ENVIRONMENT\n"
      ".TP\n.B OMP_NUM_THREADS\nthe number of threads\n"
      ".TP\n.B NO_COLOR\nno colours and no bold text on a terminal\n"
      ".TP\n.B COLUMNS\nthe width of the terminal\n",
      commit_date(), roff_escaped(program_version()), synopsis, command_sections(), shared_flags());
}

}  // namespace shoehorn
