#include "arguments/help_search.h"

#include <algorithm>
#include <cctype>

#include "base/format.h"

namespace shoehorn {
namespace {

// "batchsize" of "batch_size".
std::string without_dashes(std::string text) {
  std::erase(text, '_');
  return text;
}

// Where the word stands in a row; less is nearer.
enum class Place : uint8_t { kName, kPartOfName, kText, kNowhere };

std::string normalized(std::string_view text) {
  std::string lower(text);
  for (char& character : lower) {
    if (character == '-' || character == ' ') character = '_';
    character = static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  return lower;
}

std::vector<std::string_view> names_of(const ArgumentSpec& row) {
  std::vector<std::string_view> names = {row.name};
  names.insert(names.end(), row.aliases.begin(), row.aliases.end());
  return names;
}

Place place_of(const ArgumentSpec& row, const std::string& word, std::optional<Command> command) {
  const std::vector<std::string_view> names = names_of(row);
  const auto any = [](const auto& list, const auto& holds) {
    return std::any_of(list.begin(), list.end(), holds);
  };
  const auto has = [&word](std::string_view text) {
    return normalized(text).find(word) != std::string::npos;
  };
  if (any(names, [&](std::string_view name) { return name == word; })) return Place::kName;
  const std::string run_together = without_dashes(word);
  if (any(names, [&](std::string_view name) {
        return without_dashes(normalized(name)).find(run_together) != std::string::npos;
      }))
    return Place::kPartOfName;
  if (has(help_in(command, row)) || has(row.why)) return Place::kText;
  if (any(row.choices, [&](const ArgumentChoice& choice) { return has(choice.value); })) return Place::kText;
  return Place::kNowhere;
}

std::vector<std::string> near_names(const CommandHelp& help, const std::string& word) {
  constexpr size_t kMost = 5;
  constexpr int64_t kFarthest = 4;
  std::vector<std::pair<int64_t, std::string>> near;
  for (const ArgumentSpec* row : rows_of(help)) {
    if (row->status != ArgumentStatus::kSupported) continue;
    int64_t distance = kFarthest;
    for (const std::string_view name : names_of(*row)) {
      distance = std::min(distance, edit_distance(word, name, kFarthest));
      // As "batchsize" in per_device_train_batch_size, part by part.
      for (size_t at = name.find('_'); at != std::string_view::npos; at = name.find('_', at + 1))
        distance = std::min(distance, 1 + edit_distance(word, name.substr(at + 1), kFarthest));
    }
    if (distance < std::min<int64_t>(kFarthest, std::ssize(word))) near.emplace_back(distance, row->name);
  }
  std::stable_sort(near.begin(), near.end(),
                   [](const auto& left, const auto& right) { return left.first < right.first; });
  std::vector<std::string> names;
  for (size_t i = 0; i < std::min(kMost, near.size()); ++i) names.push_back(near[i].second);
  return names;
}

}  // namespace

FoundFlags search_flags(const CommandHelp& help, std::string_view word) {
  const std::string wanted = normalized(word);
  FoundFlags found;
  for (const Place place : {Place::kName, Place::kPartOfName, Place::kText}) {
    for (const ArgumentSpec* row : rows_of(help)) {
      if (place_of(*row, wanted, help.table) == place) found.rows.push_back(row);
    }
  }
  for (const ArgumentSpec& row : argument_table()) {
    if (help.table && command_takes(*help.table, row)) continue;
    if (row.status == ArgumentStatus::kSupported && place_of(row, wanted, help.table) <= Place::kPartOfName)
      found.of_other_commands.push_back(&row);
  }
  const std::vector<const ArgumentSpec*> all = rows_of(help);
  std::erase_if(found.of_other_commands, [&all](const ArgumentSpec* row) {
    return std::any_of(all.begin(), all.end(),
                       [row](const ArgumentSpec* own) { return own->name == row->name; });
  });
  if (found.rows.empty()) found.near_names = near_names(help, wanted);
  return found;
}

}  // namespace shoehorn
