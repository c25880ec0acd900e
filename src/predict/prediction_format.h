// The formats that files of predictions are written in, by name.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace shoehorn {

enum class PredictionFormat : uint8_t { kJsonLines, kCsv, kTsv };

// Whether the path of predictions stands for standard output: "-".
bool is_standard_output(const std::filesystem::path& path);

// `given` ("jsonl", "csv" or "tsv"; --output_file_format), or where it is empty what the file's name says: .jsonl and
// .json, .csv, .tsv; standard output is JSON lines. UserError for another name.
PredictionFormat prediction_format_of(const std::filesystem::path& path, const std::string& given = "");

}  // namespace shoehorn
