#include "cli/notice_printer.h"

#include "cli/terminal_lines.h"

namespace shoehorn {

std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args) {
  return notice_printer(args, args.json ? stderr : stdout);
}

std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args, std::FILE* file) {
  if (args.log_level == "error" || args.log_level == "critical") return {};
  return [file](const std::string& line) { print_line(file, line); };
}

}  // namespace shoehorn
