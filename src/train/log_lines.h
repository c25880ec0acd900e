// log.jsonl, written by --report_to jsonl: one JSON object per line, each with its "step".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shoehorn {

// The lines of `text` up to `step`. An incomplete last line, as an interrupted run leaves it, is dropped.
// UserError "[`source`:line] …" for a line that is no such object.
std::string lines_up_to_step(std::string_view text, int64_t step, const std::string& source);

}  // namespace shoehorn
