#include "arguments/command_options.h"

#include <algorithm>
#include <utility>

#include "arguments/word_reader.h"
#include "base/error.h"
#include "base/format.h"

namespace shoehorn {

namespace {

// A row without a default has nothing in it.
bool is_of_kind(const ArgumentValue& standard, ArgumentKind kind) {
  if (std::holds_alternative<std::monostate>(standard)) return true;
  switch (kind) {
    case ArgumentKind::kFlag:
      return std::holds_alternative<bool>(standard);
    case ArgumentKind::kInteger:
    case ArgumentKind::kBytes:
      return std::holds_alternative<int64_t>(standard);
    case ArgumentKind::kNumber:
      return std::holds_alternative<double>(standard);
    case ArgumentKind::kText:
      return std::holds_alternative<std::string>(standard);
    case ArgumentKind::kList:
      return std::holds_alternative<std::vector<std::string>>(standard);
    case ArgumentKind::kKwargs:
    case ArgumentKind::kFromField:
      return true;
  }
  return false;
}

}  // namespace

CommandOptions::CommandOptions(const std::vector<ArgumentSpec>& rows) {
  for (const ArgumentSpec& row : rows) {
    CHECK(row.kind != ArgumentKind::kFromField, "--{} states no kind", row.name);
    CHECK(is_of_kind(row.standard, row.kind), "--{} has a default of another kind than its values", row.name);
    values_.emplace(row.name, row.standard);
  }
}

void CommandOptions::set(std::string_view name, ArgumentValue value) {
  values_.find(name)->second = std::move(value);
  given_.emplace_back(name);
}

bool CommandOptions::is_given(std::string_view name) const {
  return std::find(given_.begin(), given_.end(), name) != given_.end();
}

std::string CommandOptions::given_text() const {
  std::string text;
  for (const auto& [name, value] : values_) {
    if (is_given(name)) text += fmt::format(" --{} {}", name, argument_to_text(value));
  }
  return text;
}

int64_t CommandOptions::integer_at_least(std::string_view name, int64_t least, std::string_view why) const {
  const int64_t value = integer(name);
  if (value < least) throw user_error("[--{}] expected {} or more, got {}{}", name, least, value, why);
  return value;
}

double CommandOptions::number_at_least(std::string_view name, double least) const {
  const double value = number(name);
  if (!(value >= least)) throw user_error("[--{}] expected {} or more, got {}", name, least, value);
  return value;
}

const ArgumentValue& CommandOptions::value(std::string_view name) const {
  const auto found = values_.find(name);
  CHECK(found != values_.end(), "no row is named {}", name);
  return found->second;
}

CommandOptions parse_options(const std::vector<ArgumentSpec>& rows, const std::vector<std::string>& words,
                             OtherWords kept) {
  const bool has_table = kept == OtherWords::kTableFlags;
  CommandOptions options(rows);
  const auto find = [&rows](std::string_view name) -> const ArgumentSpec* {
    std::string key(name);
    std::replace(key.begin(), key.end(), '-', '_');
    for (const ArgumentSpec& row : rows) {
      const auto& aliases = row.aliases;
      if (row.name == key || std::find(aliases.begin(), aliases.end(), key) != aliases.end()) return &row;
    }
    return nullptr;
  };
  const auto suggest = [&](std::string_view name) -> std::string {
    if (has_table) return unknown_flag_hint(name, rows);
    const std::string nearest = nearest_name(name, names_of_rows(rows));
    return nearest.empty() ? "" : did_you_mean("--" + nearest);
  };
  const WordReader::Find find_in_table = [has_table](std::string_view name) {
    return has_table ? find_argument(name) : nullptr;
  };
  for (WordReader reader(words, find, suggest); !reader.at_end();) {
    const bool is_kept = reader.at_flag() ? reader.at_flag_of(find_in_table) && !reader.at_known_flag()
                                          : kept != OtherWords::kNone;
    if (is_kept && kept == OtherWords::kCommandLine) {
      while (!reader.at_end()) options.rest.push_back(reader.take_word());
    } else if (is_kept) {
      options.rest.push_back(reader.take_word());
    } else {
      const GivenFlag flag = reader.read_flag();
      const ArgumentValue value = argument_from_text(*flag.spec, flag.text, flag.source);
      check_argument(*flag.spec, value, flag.source);
      options.set(flag.spec->name, value);
    }
  }
  return options;
}

}  // namespace shoehorn
