// log.jsonl, what --report_to jsonl writes: a JSON object a line, each with its "step".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shoehorn {

// The lines of `text` up to `step`. A last line without its end, which a stopped run leaves, is left out.
// UserError, "[`source`:line] …", for a line that is something else.
std::string lines_up_to_step(std::string_view text, int64_t step, const std::string& source);

}  // namespace shoehorn
