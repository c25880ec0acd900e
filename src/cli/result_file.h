// Where a command's result goes: a table for people on standard output; with --json FILE the same as JSON
// into that file beside it; with --json alone, or --json -, nothing but JSON on standard output.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "arguments/argument_table.h"

namespace shoehorn {

// The row of --json for such a command.
ArgumentSpec result_json_row();
// That of --report, where the table is drawn too.
ArgumentSpec result_report_row();

// Finds out before the work whether a file can be written there; "" and "-" are none. SystemError, UserError.
void prepare_result_file(const std::string& file);

// Into the file, if it is one, and nothing else: what there is so far of a long command's result.
// SystemError.
void write_result_file(const std::string& json_file, const nlohmann::ordered_json& json);

// Throws SystemError where the file can't be written; the table is printed first.
void write_result(const std::string& json_file, const nlohmann::ordered_json& json, const std::string& table);

}  // namespace shoehorn
