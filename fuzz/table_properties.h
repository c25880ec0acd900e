// What the readers of .csv, .tsv and .jsonl files share: a table that is written in its format and read again
// has the same names and cells.
#pragma once

#include <string>
#include <string_view>

#include "data/table.h"

namespace shoehorn::fuzz {

// Reads `input` as a file of this extension. Checks that what `write` makes of the table reads back, and
// loads the file as a data set with labels, as training does.
void read_table_of(std::string_view extension, std::string_view input, std::string (*write)(const Table&));

}  // namespace shoehorn::fuzz
