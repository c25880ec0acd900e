// The results of `bench ladder` as tables, text and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "lab/ladder.h"
#include "lab/text_table.h"

namespace shoehorn {

// The parts of the table, for each way of showing it. Columns are as in the guides: setting, samples per
// second, memory in MiB; then the forecast, time and memory relative to the first measured rung, the time to
// the end of the first step, and, if the Trainer ran, its columns and the ratio.
TextTable ladder_table(const LadderResult& result);

// How far the steps of each rung spread, and how well its median is known.
TextTable ladder_spreads(const LadderResult& result);

// The memory of each rung at the guides' three stages: the process, with weights, at the peak of training.
TextTable ladder_stages(const LadderResult& result);

// The flags of each rung.
TextTable ladder_flags(const LadderResult& result);

// The title: what was run, and on which machine.
std::string ladder_title(const LadderResult& result);

// What the columns mean, which type multiplied fp16 and bf16, and which rungs were not requested.
std::vector<std::string> ladder_remarks(const LadderResult& result);

// Why a rung was not measured; or what the Trainer ran instead of the rung.
struct LadderNote {
  std::string setting;
  std::string who;  // "shoehorn", "huggingface"
  std::string text;
};
std::vector<LadderNote> ladder_notes(const LadderResult& result);

// All of it as text, with the flags of each rung.
std::string format_ladder(const LadderResult& result);
nlohmann::ordered_json to_json(const LadderResult& result);

}  // namespace shoehorn
