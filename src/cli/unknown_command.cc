#include "cli/unknown_command.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/format.h"
#include "cli/command_list.h"

namespace shoehorn {

namespace {

// The first words of commands, each once, sorted.
std::vector<std::string> sorted_first_words() {
  std::vector<std::string> names;
  for (const CommandEntry& entry : command_list()) {
    const std::string first(entry.name.substr(0, entry.name.find(' ')));
    if (std::find(names.begin(), names.end(), first) == names.end()) names.push_back(first);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

void throw_unknown_command(const std::vector<std::string>& words) {
  const std::string first = words.empty() ? "" : words[0];
  const std::vector<std::string> in_group = commands_in_group(first);
  const std::vector<std::string> names = in_group.empty() ? sorted_first_words() : in_group;
  const std::string name = in_group.empty() ? first : words.size() > 1 ? words[1] : "";
  std::vector<std::string> suggested = names;
  if (name.starts_with('-')) suggested = {"--help", "--version"};
  throw user_error("[{}] expected one of the commands {}, got {}{}", in_group.empty() ? "shoehorn" : first,
                   fmt::join(names, ", "), name.empty() ? "nothing" : fmt::format("'{}'", name),
                   did_you_mean(nearest_name(name, suggested)));
}

}  // namespace shoehorn
