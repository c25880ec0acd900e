#include "cli/notice_printer.h"

#include <cstdio>

#include "cli/terminal_lines.h"

namespace shoehorn {

std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args) {
  if (args.log_level == "error" || args.log_level == "critical") return {};
  return [text = args.json ? stderr : stdout](const std::string& line) { print_line(text, line); };
}

}  // namespace shoehorn
