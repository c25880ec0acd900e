// `train --fit` on several ranks: the first one searches, in a process of its own, and all train with what it finds. So no rank
// holds anything of the search, and what runs is what the flags that are printed run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arguments/argument_table.h"

namespace shoehorn {

// The run that is asked for. `words`: the flags of `train --fit`, without --fit. UserError for flags that are wrong.
ParsedArguments parse_run_to_fit(const std::vector<std::string>& words, int64_t ranks);

// The flags of train, `words` without those of the search and with those that it found: the fastest plan of so many ranks that fits the
// rank which may take least. Opens the ranks (rank_of_process.h); all call it with the same words. The others sleep while the first
// one searches, however long that takes, and runs the best plans as ranks of their own (--verify), unless given where all ranks are of
// one host that has a processor for each of their threads. UserError, on the first rank alone, if nothing fits; on all for --verify
// elsewhere. Stopped.
std::vector<std::string> find_fit_on_ranks(const std::vector<std::string>& words);

}  // namespace shoehorn
