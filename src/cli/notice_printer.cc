#include "cli/notice_printer.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>

#include "cli/terminal_lines.h"

namespace shoehorn {

namespace {

bool is_quiet(const TrainingArguments& args) {
  return args.log_level == "error" || args.log_level == "critical";
}

std::FILE* text_file(const TrainingArguments& args) {
  return args.json ? stderr : stdout;
}

}  // namespace

std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args) {
  if (is_quiet(args)) return {};
  return [text = text_file(args)](const std::string& line) { print_line(text, line); };
}

void print_text(const TrainingArguments& args, const std::string& text) {
  if (is_quiet(args)) return;
  fmt::print(text_file(args), "{}", text);
  std::fflush(text_file(args));
}

ProgressOptions progress_options(const TrainingArguments& args) {
  ProgressOptions options = detect_terminal(stderr, std::cerr);
  if (is_quiet(args) || args.disable_tqdm.value_or(false)) options.stream = nullptr;
  options.on_log_line = notice_printer(args);
  return options;
}

}  // namespace shoehorn
