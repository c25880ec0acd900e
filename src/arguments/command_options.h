// Flags that belong to one command only, as --rungs to bench ladder: rows of the same form as the table's
// (argument_table.h), without a member of TrainingArguments behind them. They are read, checked and explained
// as those are.
//
//   const std::vector<ArgumentSpec> rows = {{.name = "repeats", .kind = ArgumentKind::kInteger,
//                                            .standard = int64_t{1}, .help = "processes a rung"}};
//   const CommandOptions options = parse_options(rows, words);
//   options.integer("repeats");
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arguments/argument_table.h"

namespace shoehorn {

// A value for each row: as given, else its standard. Asking for another name or kind is a bug.
class CommandOptions {
 public:
  explicit CommandOptions(const std::vector<ArgumentSpec>& rows);

  void set(std::string_view name, ArgumentValue value);
  bool is_given(std::string_view name) const;

  bool flag(std::string_view name) const { return std::get<bool>(value(name)); }
  int64_t integer(std::string_view name) const { return std::get<int64_t>(value(name)); }
  // UserError below `least`; `why` ends its message.
  int64_t integer_at_least(std::string_view name, int64_t least, std::string_view why = "") const;
  const std::string& text(std::string_view name) const { return std::get<std::string>(value(name)); }
  const std::vector<std::string>& list(std::string_view name) const {
    return std::get<std::vector<std::string>>(value(name));
  }

  bool help = false;              // --help or -h: nothing else was looked at
  std::vector<std::string> rest;  // words of other flags, in their order; see UnknownFlags

 private:
  const ArgumentValue& value(std::string_view name) const;

  std::map<std::string, ArgumentValue, std::less<>> values_;
  std::vector<std::string> given_;
};

// What becomes of a flag that is none of the rows.
enum class UnknownFlags : uint8_t { kRefuse, kKeep };

// Every row states its kind, and its standard where it has one. The last of a repeated flag counts. UserError
// naming the flag.
CommandOptions parse_options(const std::vector<ArgumentSpec>& rows, const std::vector<std::string>& words,
                             UnknownFlags unknown = UnknownFlags::kRefuse);

// A line a row, as help_text() has them.
std::string options_help(const std::vector<ArgumentSpec>& rows);

}  // namespace shoehorn
