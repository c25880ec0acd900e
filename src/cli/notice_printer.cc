#include "cli/notice_printer.h"

#include <cstdio>
#include <iostream>

#include "cli/output_lines.h"

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
  return notice_printer(args, text_file(args));
}

std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args, std::FILE* file) {
  if (is_quiet(args)) return {};
  return [file](const std::string& line) { print_flushed(file, line + "\n"); };
}

void print_text(const TrainingArguments& args, const std::string& text) {
  print_text(args, text, text_file(args));
}

void print_text(const TrainingArguments& args, const std::string& text, std::FILE* file) {
  if (is_quiet(args)) return;
  print_flushed(file, text);
}

void show_notices(const ParsedArguments& parsed, const TrainingArguments& args) {
  for (const std::string& notice : parsed.notices) print_text(args, notice + "\n");
}

ProgressOptions progress_options(const TrainingArguments& args) {
  ProgressOptions options = detect_terminal(stderr, std::cerr);
  if (is_quiet(args) || args.disable_tqdm.value_or(false)) options.stream = nullptr;
  options.on_log_line = notice_printer(args);
  return options;
}

}  // namespace shoehorn
