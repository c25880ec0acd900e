// What a run shows besides its result: notices, text for people, bars. With log_level error nothing of it appears.
#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include "arguments/argument_table.h"
#include "train/progress.h"

namespace shoehorn {

// A function that prints lines to standard output; with --json, to standard error, since the result is on
// standard output. Empty if log_level leaves notices out.
std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args);
// The same to `file`.
std::function<void(const std::string& line)> notice_printer(const TrainingArguments& args, std::FILE* file);

// Prints such text at once, to where notice_printer prints lines.
void print_text(const TrainingArguments& args, const std::string& text);
// The same to `file`.
void print_text(const TrainingArguments& args, const std::string& text, std::FILE* file);

// Prints what the command line's configurations say without effect.
void show_notices(const ParsedArguments& parsed, const TrainingArguments& args);

// Bars on standard error: none with disable_tqdm.
ProgressOptions progress_options(const TrainingArguments& args);

}  // namespace shoehorn
