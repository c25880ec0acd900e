// The results of `bench batch` as tables, text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/batch_sizes.h"
#include "lab/text_table.h"

namespace shoehorn {

// The parts of the result, for each way of showing it.
std::string batch_sizes_title(const BatchSizesResult& result);
TextTable batch_sizes_table(const BatchSizesResult& result);
// The model's sizes and the tokens per batch, compared with the multiples for this run.
TextTable batch_sizes_multiples(const BatchSizesResult& result);
// The best batch, why some were not measured, and which sizes suit this hardware.
std::vector<std::string> batch_sizes_remarks(const BatchSizesResult& result);

std::string format_batch_sizes(const BatchSizesResult& result);
nlohmann::ordered_json to_json(const BatchSizesResult& result);

}  // namespace shoehorn
