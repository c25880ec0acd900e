// Lines of a run for people, on a terminal that may close before the run ends: what cannot be shown any more must not
// keep a stopped run from saving.
#pragma once

#include <cstdio>
#include <string>

namespace shoehorn {

// Writes a line and flushes it. SystemError if that fails, except on a terminal that is gone: then nothing is shown.
void print_line(std::FILE* file, const std::string& line);

// Leads standard output and standard error into nothing, where their terminal is gone. Call it before printing in a
// process that SIGHUP stopped.
void leave_closed_terminal();

}  // namespace shoehorn
