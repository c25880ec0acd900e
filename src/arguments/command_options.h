// Flags of one command only, such as --rungs of bench ladder. They are rows of the table's form
// (argument_table.h), but without a member of TrainingArguments, and are parsed, checked and explained in the
// same way.
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

// The value of each row: as given, or the default. Asking for another name or kind is a bug.
class CommandOptions {
 public:
  explicit CommandOptions(const std::vector<ArgumentSpec>& rows);

  void set(std::string_view name, ArgumentValue value);
  bool is_given(std::string_view name) const;
  // The rows that were given, by name, with their values: " --allow rounding --reserve 1024". The same for other spellings.
  std::string given_text() const;

  bool flag(std::string_view name) const { return std::get<bool>(value(name)); }
  int64_t integer(std::string_view name) const { return std::get<int64_t>(value(name)); }
  // UserError if the value is less than `least`; `why` is appended to the message.
  int64_t integer_at_least(std::string_view name, int64_t least, std::string_view why = "") const;
  // The same of a number.
  double number_at_least(std::string_view name, double least) const;
  double number(std::string_view name) const { return std::get<double>(value(name)); }
  const std::string& text(std::string_view name) const { return std::get<std::string>(value(name)); }
  const std::vector<std::string>& list(std::string_view name) const {
    return std::get<std::vector<std::string>>(value(name));
  }

  std::vector<std::string> rest;  // other words, in order; see OtherWords

 private:
  const ArgumentValue& value(std::string_view name) const;

  std::map<std::string, ArgumentValue, std::less<>> values_;
  std::vector<std::string> given_;
};

// Words besides the rows' flags and their values that go into `rest`: none; words that are no flags, as files; flags of the
// table (argument_table.h) with their values; or from the first word that is no flag on all, another command's line.
enum class OtherWords : uint8_t { kNone, kWords, kTableFlags, kCommandLine };

// Every row states its kind, and its default if it has one. If a flag is repeated, the last value counts.
// UserError naming the flag, and the nearest there is of one that is unknown.
CommandOptions parse_options(const std::vector<ArgumentSpec>& rows, const std::vector<std::string>& words,
                             OtherWords kept = OtherWords::kNone);

}  // namespace shoehorn
