// Where a command's result goes. By default: a table on standard output. With --json: JSON in its place. With
// --json_file FILE: the table, and JSON in that file.
#pragma once

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
                                    UnknownFlags unknown = UnknownFlags::kRefuse);

// "-" with --json, the file of --json_file, or "".
std::string json_file_of(const CommandOptions& options);

// Checks before the work that the file can be written; "" and "-" mean no file. SystemError, UserError.
void prepare_result_file(const std::string& file);

// Writes the result so far of a long command to the file, if there is one. SystemError.
void write_result_file(const std::string& json_file, const nlohmann::ordered_json& json);

// Prints the table, or JSON for "-", then writes the file. SystemError if that fails.
void write_result(const std::string& json_file, const nlohmann::ordered_json& json, const std::string& table);

}  // namespace shoehorn
