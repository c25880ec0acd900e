// The flags of benchmarks that measure settings in turns (lab/rounds.h).
#pragma once

#include <vector>

#include "arguments/command_options.h"
#include "lab/rounds.h"

namespace shoehorn {

// --repeats, --max_repeats, --median_error and --max_seconds, with the defaults of `limits`.
std::vector<ArgumentSpec> round_rows(const RoundLimits& limits);

// What the flags say. --repeats alone says exactly how many processes there are. UserError for limits that leave none.
RoundLimits round_limits(const CommandOptions& given);

}  // namespace shoehorn
