#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "cli/completion.h"
#include "cli/completion_words.h"

namespace shoehorn {

namespace {

// Before the flags' values; @COMMANDS@ and the cases come between.
constexpr const char* kBegin =
    R"(# Completion of shoehorn's command lines in bash. Made by `shoehorn completion bash`.

_shoehorn_value() {
  case $1 in
)";

constexpr const char* kMiddle = R"(    *) return 1 ;;
  esac
  return 0
}

_shoehorn_flags() {
  case $1 in
)";

constexpr const char* kEnd = R"bash(  esac
}

_shoehorn() {
  local current=${COMP_WORDS[COMP_CWORD]} before=
  COMPREPLY=()
  if ((COMP_CWORD > 1)); then before=${COMP_WORDS[COMP_CWORD - 1]}; fi
  # --flag=value is three words to bash.
  if [[ $current == "=" ]]; then
    current=
  elif [[ $before == "=" ]]; then
    before=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "@FIRST@" -- "$current"))
    return
  fi
  local command=${COMP_WORDS[1]}
  case $command in
@GROUPS@  esac
  if [[ $before == --help || $before == -h ]]; then
    COMPREPLY=($(compgen -W "all" -- "$current"))
    return
  fi
  if [[ $before == --* && $current != --* ]] && _shoehorn_value "$before" "$current"; then return; fi
  if [[ $current == --no_* ]]; then
    COMPREPLY=($(compgen -P --no_ -W "$(_shoehorn_flags "$command" booleans)" -- "${current#--no_}"))
  elif [[ $current == -* || -z $current ]]; then
    COMPREPLY=($(compgen -W "$(_shoehorn_flags "$command" flags)" -- "$current"))
  else
    compopt -o filenames 2> /dev/null
    COMPREPLY=($(compgen -f -- "$current"))
  fi
}

complete -F _shoehorn shoehorn
)bash";

std::string bash_value_action(const ArgumentSpec& row) {
  switch (value_place(row)) {
    case ValuePlace::kFile:
      return R"(compopt -o filenames 2> /dev/null; COMPREPLY=($(compgen -f -- "$2")))";
    case ValuePlace::kDirectory:
      return R"(compopt -o filenames 2> /dev/null; COMPREPLY=($(compgen -d -- "$2")))";
    case ValuePlace::kChoice: {
      const std::string choices = fmt::format("{}", fmt::join(supported_choices(row), " "));
      if (row.kind != ArgumentKind::kList)
        return fmt::format(R"(COMPREPLY=($(compgen -W "{}" -- "$2")))", choices);
      // The last one behind the commas.
      return fmt::format(R"(COMPREPLY=($(compgen -P "${{2%"${{2##*,}}"}}" -W "{}" -- "${{2##*,}}")))",
                         choices);
    }
    default:
      return "COMPREPLY=()";
  }
}

std::string replaced(std::string text, const std::string& mark, const std::string& with) {
  text.replace(text.find(mark), mark.size(), with);
  return text;
}

// bench) …: the words that may follow, and the name of the command with both.
std::string group_cases() {
  std::map<std::string, std::string> cases;
  for (const CommandEntry& entry : command_list()) {
    const std::string first(entry.name.substr(0, entry.name.find(' ')));
    std::vector<std::string> second = commands_in_group(first);
    for (const std::string_view word : entry.words) second.emplace_back(word);
    if (second.empty() || cases.contains(first)) continue;
    cases[first] = fmt::format(
        "    {0})\n      if ((COMP_CWORD == 2)); then\n        COMPREPLY=($(compgen -W \"{1} --help\" -- \"$current\"))\n"
        "        return\n      fi\n      command=\"{0} ${{COMP_WORDS[2]}}\"\n      ;;\n",
        first, fmt::join(second, " "));
  }
  std::string text;
  for (const auto& [first, one] : cases) text += one;
  return text;
}

}  // namespace

std::string bash_completion() {
  std::map<std::string, std::string> values;  // by what is done, the flags
  std::map<std::string, bool> known;
  std::string flags;
  for (const CommandEntry& entry : command_list()) {
    std::vector<std::string> names;
    std::vector<std::string> booleans;
    for (const ArgumentSpec& row : offered_rows(entry)) {
      names.push_back(fmt::format("--{}", row.name));
      if (value_place(row) == ValuePlace::kNone) {
        booleans.emplace_back(row.name);
        continue;
      }
      if (!known.emplace(row.name, true).second) continue;
      std::string& pattern = values[bash_value_action(row)];
      pattern += fmt::format("{}--{}", pattern.empty() ? "" : " | ", row.name);
      for (const std::string_view alias : row.aliases) pattern += fmt::format(" | --{}", alias);
    }
    names.emplace_back("--help");
    flags += fmt::format("    \"{}\") if [[ $2 == flags ]]; then echo \"{}\"; else echo \"{}\"; fi ;;\n",
                         entry.name, fmt::join(names, " "), fmt::join(booleans, " "));
  }
  std::string text = kBegin;
  for (const auto& [action, pattern] : values) text += fmt::format("    {}) {} ;;\n", pattern, action);
  text += kMiddle + flags;
  text += replaced(replaced(kEnd, "@FIRST@", fmt::format("{}", fmt::join(first_words(), " "))), "@GROUPS@",
                   group_cases());
  return text;
}

}  // namespace shoehorn
