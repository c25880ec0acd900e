// Where a command's result goes. By default: a table on standard output. With --json: JSON in its place. With
// --json_file FILE: the table, and JSON in that file.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "arguments/command_options.h"

namespace shoehorn {

// The rows of these flags.
ArgumentSpec result_json_row();
ArgumentSpec result_json_file_row();
// The row of --report, for commands that can also draw the table.
ArgumentSpec result_report_row();

// parse_options of a command that has the rows of --json and --json_file. UserError also for a file behind --json, and
// for both flags.
CommandOptions parse_result_options(const std::vector<ArgumentSpec>& rows,
                                    const std::vector<std::string>& words,
                                    OtherWords kept = OtherWords::kNone);

// Checks before the work that the files of --json_file and --report can be written, where a command has these flags and
// they are given. SystemError, UserError.
void prepare_result_files(const CommandOptions& options);

// Writes the result so far of a long command to the file of --json_file, if it is given. SystemError.
void write_result_file(const CommandOptions& options, const nlohmann::ordered_json& json);
// Writes an HTML page to the file of --report, if it is given; `page` makes it. SystemError.
void write_report(const CommandOptions& options, const std::function<std::string()>& page);

// Prints the table, or JSON with --json, then writes the file. Below a table it says where the files are. SystemError if
// that fails.
void write_result(const CommandOptions& options, const nlohmann::ordered_json& json,
                  const std::string& table);

// Says where the files of --json_file and --report are, unless --json, where a command has it as its own, is given.
void say_result_files(const CommandOptions& options);

}  // namespace shoehorn
