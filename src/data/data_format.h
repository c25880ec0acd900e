// What a data file holds, by its name: that of a compressed file is read without its .gz or .zst. Of standard input
// ("-") the first bytes say it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace shoehorn {

enum class DataFormat : uint8_t {
  kCommas,   // .csv
  kTabs,     // .tsv
  kText,     // .txt: lines; a table with tabs where a table is wanted and the first line has one
  kObjects,  // .json .jsonl
};

// UserError for another name; where it is that of a format which can be converted, the error says how.
DataFormat data_format_of(const std::filesystem::path& path);

// Whether the name is one of a table whose format is known by it: not of .txt, standard input or any other file.
bool is_named_as_table(const std::filesystem::path& path);

// The format of a table that begins so: JSON where the first character is { or [, else tabs where the first line has
// more of them than commas.
DataFormat table_format_of_bytes(std::string_view beginning);

}  // namespace shoehorn
