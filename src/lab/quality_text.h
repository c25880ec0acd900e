// The results of `bench quality` as tables, text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/quality.h"
#include "lab/text_table.h"

namespace shoehorn {

// The parts of the table, for each way of showing it.
TextTable quality_table(const QualityResults& results);
TextTable quality_flags(const QualityResults& results);
std::string quality_title(const QualityResults& results);
// The rule for "loses accuracy", the reference's spread, what rungs are promised to equal, and why some were
// not measured.
std::vector<std::string> quality_remarks(const QualityResults& results);

std::string format_quality(const QualityResults& results);
nlohmann::ordered_json to_json(const QualityResults& results);

}  // namespace shoehorn
