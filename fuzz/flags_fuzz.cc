// A command line (arguments/argument_table.h, arguments/command_options.h). The first byte of an input is the
// command, each line after it a word.
#include "arguments/argument_table.h"
#include "arguments/command_options.h"
#include "base/error.h"
#include "fuzz/argument_properties.h"
#include "fuzz/reader.h"

namespace shoehorn::fuzz {
namespace {

const std::vector<ArgumentSpec>& rows_of_a_command() {
  static const std::vector<ArgumentSpec> rows = {
      {.name = "repeats", .kind = ArgumentKind::kInteger, .standard = int64_t{1}},
      {.name = "quick", .kind = ArgumentKind::kFlag, .standard = false},
      {.name = "rungs", .kind = ArgumentKind::kList, .standard = std::vector<std::string>{}},
      {.name = "share", .kind = ArgumentKind::kNumber, .standard = 0.5},
      {.name = "budget", .kind = ArgumentKind::kBytes, .standard = int64_t{0}},
      {.name = "against",
       .kind = ArgumentKind::kText,
       .standard = std::string(),
       .choices = {{"huggingface"}}}};
  return rows;
}

void fuzz_flags(std::string_view input) {
  if (input.empty()) return;
  const auto command = static_cast<Command>(static_cast<uint8_t>(input[0]) % 6);
  std::vector<std::string> words;
  for (std::string_view rest = input.substr(1); !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    words.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  const CommandOptions options = parse_options(rows_of_a_command(), words, OtherWords::kTableFlags);
  CHECK(options.rest.size() <= words.size(), "words appear from nowhere");
  const ParsedArguments parsed = parse_arguments(command, words);
  check_arguments(parsed.arguments);
}

const Registration kFlagsReader("flags", fuzz_flags);

}  // namespace
}  // namespace shoehorn::fuzz
