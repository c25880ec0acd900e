// Where a command's result goes. By default: a table on standard output. With --json FILE: also JSON to that
// file. With --json alone, or --json -: only JSON, on standard output.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "arguments/argument_table.h"

namespace shoehorn {

// The row of the flag --json for such a command.
ArgumentSpec result_json_row();
// The row of --report, for commands that can also draw the table.
ArgumentSpec result_report_row();

// Checks before the work that the file can be written; "" and "-" mean no file. SystemError, UserError.
void prepare_result_file(const std::string& file);

// Writes the result so far of a long command to the file, if there is one. SystemError.
void write_result_file(const std::string& json_file, const nlohmann::ordered_json& json);

// Prints the table, then writes the file. SystemError if that fails.
void write_result(const std::string& json_file, const nlohmann::ordered_json& json, const std::string& table);

}  // namespace shoehorn
